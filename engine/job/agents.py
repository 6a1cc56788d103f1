"""The agents of a job, as the job took them: programs into the blob store, and back out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import zstandard
from anyio import to_thread

from ...events.kinds import JobStarted
from ...events.kinds.job import AgentSnapshot
from ...events.log import BlobStore
from ..agents import Agent, InstalledAgent, agent_by_name, agent_from_snapshot, agent_name
from ..agents.chat import ChatAgent
from ..projects.project import projects_around
from ..redact import Redactor
from .config import JobConfig
from .episode_task import EpisodeTask
from .policies import PolicyAgent

MOST_NAMED = 3
"""Models or rows of parameters that a notice names."""


def spelled_alike(config: JobConfig) -> JobConfig:
    """The configuration with each agent under the one spelling of its name."""
    names = dict.fromkeys(agent_name(agent) for agent in config.agents)
    return msgspec.structs.replace(config, agents=list(names))


async def load_agents(config: JobConfig) -> dict[str, Agent]:
    """The agents by their names in the configuration; programs are read from their files.

    A project's agents are known by their names around its tasks, and where the command is given.
    Raises ConfigError for one that can't be used.
    """

    def load() -> dict[str, Agent]:
        projects = projects_around(config.tasks)
        return {name: agent_by_name(name, projects) for name in config.agents}

    return await to_thread.run_sync(load)


async def take_agents(agents: Mapping[str, Agent], blobs: BlobStore) -> list[AgentSnapshot]:
    """Snapshots of the agents, with their programs in the blob store."""
    return [
        AgentSnapshot(
            agent=name,
            name=agent.name,
            digest=agent.digest,
            program=None if agent.program is None else await blobs.put(agent.program),
        )
        for name, agent in agents.items()
    ]


async def open_agents(started: JobStarted, config: JobConfig, blobs: BlobStore) -> dict[str, Agent]:
    """The agents as the job took them, whatever has become of their files.

    A job of an older log recorded no programs: its agents are read from their files again. Raises
    ConfigError where that fails.
    """
    taken = {snapshot.agent: snapshot for snapshot in started.agents}
    agents: dict[str, Agent] = {}
    for name in config.agents:
        agents[name] = await taken_agent(name, taken.get(name), blobs)
    return agents


async def taken_agent(name: str, snapshot: AgentSnapshot | None, blobs: BlobStore) -> Agent:
    """One agent as it was taken; without a snapshot, as its files are now."""
    if snapshot is None:
        return await to_thread.run_sync(agent_by_name, name)
    program = None if snapshot.program is None else await blobs.get(snapshot.program)
    return await to_thread.run_sync(agent_from_snapshot, snapshot.name, program, snapshot.digest)


async def secrets_in_programs(agents: Mapping[str, Agent], redactor: Redactor) -> list[str]:
    """A notice for each program that holds a secret: its bytes are kept as they are."""
    return [
        f"{name}: its program holds the value of a secret, and the log keeps the program as it is; "
        "take it out, and give it by --agent-env"
        for name, agent in agents.items()
        if await to_thread.run_sync(_holds_secret, agent, redactor)
    ]


def _holds_secret(agent: Agent, redactor: Redactor) -> bool:
    if agent.program is None:
        return False
    if isinstance(agent, InstalledAgent | ChatAgent):
        with zstandard.ZstdDecompressor().stream_reader(agent.program) as plain:
            return redactor.finds(plain.read())
    return redactor.finds(agent.program)


def unused_settings(config: JobConfig, agents: Mapping[str, Agent | PolicyAgent]) -> Iterator[str]:
    """A notice for each agent to which the matrix's models and parameters make no difference."""
    lists = {"model": config.models, "parameters": [_shown(row) for row in config.parameters]}
    given = {kind: rows for kind, rows in lists.items() if rows}
    if not given:
        return
    what = " and no ".join(given)
    among = " or ".join(_named(rows) for rows in given.values() if len(rows) > 1)
    for name, agent in agents.items():
        if agent.takes_settings:
            continue
        if among:
            yield f"{name} uses no {what}: its trials with {among} are alike"
        else:
            alone = " and ".join(rows[0] for rows in given.values())
            yield f"{name} uses no {what}: {alone} makes no difference to its trials"


def unheld_costs(
    config: JobConfig, policies: Mapping[str, PolicyAgent], tasks: Iterable[EpisodeTask]
) -> Iterator[str]:
    """A notice for each agent that an environment's cost limit does not hold for."""
    capped = next((t.view.name for t in tasks if t.environment.max_cost is not None), None)
    for name in config.agents if capped is not None else ():
        policy = policies.get(name)
        if policy is not None and policy.own is None:
            yield (
                f"{name}: nobody sees what its model calls cost, so the max_cost of task "
                f"{capped}'s environment does not hold for it"
            )


def _named(rows: list[str]) -> str:
    if len(rows) > MOST_NAMED:
        return f"{', '.join(rows[:MOST_NAMED])}, … ({len(rows)})"
    return f"{', '.join(rows[:-1])} and {rows[-1]}"


def _shown(row: Mapping[str, object]) -> str:
    shown = " ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in row.items())
    return shown if len(shown) <= 80 else shown[:79] + "…"
