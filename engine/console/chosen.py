"""The tasks that a run is asked for, and the policies that act in those with an environment."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..agents.chat import CHAT
from ..errors import ConfigError
from ..job.config import JobConfig
from ..job.episode_loading import pack_episode_task
from ..job.episode_task import EpisodeTask
from ..job.policies import NOP, PolicyAgent
from ..projects.resolve import resolve_words
from ..projects.resources import ProjectAgent, ProjectTask
from ..tasks.model import Task

__all__ = ("Chosen", "choose_tasks")


class Chosen(NamedTuple):
    """What is to be run."""

    scripted: list[Task]
    episodes: list[EpisodeTask]
    policies: dict[str, PolicyAgent]


def choose_tasks(config: JobConfig, here: Path) -> Chosen:
    """Find tasks by the words of a configuration; blocks.

    Agents of environment tasks are those of the tasks' project. Raises ConfigError.
    """
    found = resolve_words(
        config.tasks, here, include=config.include, exclude=config.exclude, limit=config.limit
    )
    scripted = [task for task in found if isinstance(task, Task)]
    projected = [task for task in found if isinstance(task, ProjectTask)]
    agents: dict[str, ProjectAgent] = {}
    for task in projected:
        if config.in_process:
            _ = task.task  # what can't be imported is told before there is a job
        known = task.project.names("agent")
        for name in config.agents:
            if name == NOP.name or (name == CHAT and CHAT not in known):
                continue
            if name not in known:
                raise ConfigError(
                    f"{name!r} can't act in the environment of task {task.name}; agents that can: "
                    f"{', '.join(dict.fromkeys([*known, NOP.name, CHAT]))}",
                    key="--agent",
                )
            agent = agents.setdefault(name, task.project.agent(name))
            if agent.project.root != task.root:
                raise ConfigError(
                    f"two projects have an agent {name!r}, {agent.project.root} and {task.root}; "
                    "run their tasks as two jobs"
                )
    policies = {
        name: PolicyAgent(name, agent.policy(), version=agent.version, digest=agent.digest)
        for name, agent in agents.items()
    }
    episodes = [
        pack_episode_task(task, [a for a in agents.values() if a.project.root == task.root])
        for task in projected
    ]
    return Chosen(scripted, episodes, policies)
