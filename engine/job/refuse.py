"""What a job refuses before anything of it is written: settings that it could not honour."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..errors import ConfigError, TaskError
from ..tasks.model import Task
from .config import JobConfig


def refuse_unsupported(
    config: JobConfig,
    tasks: Sequence[Task],
    *,
    episodes: Sequence[str] = (),
    policies: Collection[str] = (),
) -> None:
    """Raise ConfigError for the first setting or task that can't be run as it asks.

    `episodes` are the names of environment tasks, `policies` those of agents that act in them.
    """
    for agent in config.agents:
        if episodes and agent not in policies and agent != "nop":
            known = ", ".join(["nop", *sorted(policies)])
            raise ConfigError(
                f"{agent} can't act in the environment of task {episodes[0]}; agents that can: "
                f"{known}",
                key="--agent",
            )
        if tasks and agent in policies:
            raise ConfigError(
                f"{agent} is a policy for environments and can't work in the sandbox of task "
                f"{tasks[0].name}; run the two kinds of tasks as two jobs",
                key="--agent",
            )
    if not tasks and not episodes:
        raise ConfigError("no task is left to run; see --include, --exclude and --limit")
    for name, value in (
        ("-n", config.concurrency),
        ("-k", config.attempts),
        ("--verifiers", config.verifiers or 1),
        ("--workspace-cap-mb", config.workspace_cap_mb),
    ):
        if value < 1:
            raise ConfigError(f"expected 1 or more, found {value}", key=name)
    for task in tasks:
        _refuse_task(config, task)


def _refuse_task(config: JobConfig, task: Task) -> None:
    verifier = task.settings.verifier
    file = task.settings_file
    if verifier.sandbox_mode == "separate":
        raise TaskError(
            f"task {task.name} wants its verifier in a sandbox of its own, which this release "
            "does not do yet; it would be graded differently in the shared one",
            file=file,
            key="verifier.sandbox_mode",
        )
    if verifier.keep_processes:
        raise TaskError(
            f"task {task.name} is graded on a service that the agent leaves running, which this "
            "release does not do yet; every process of the agent's is ended before grading",
            file=file,
            key="verifier.keep_processes",
        )
    if task.settings.verifiers:
        raise TaskError(
            f"task {task.name} lists judges or people beside its script "
            f"({', '.join(task.settings.verifiers)}), which this release does not do yet",
            file=file,
            key="verifiers",
        )
    if "oracle" in config.agents and task.solution is None:
        raise TaskError(
            f"task {task.name} has no reference solution (oracle/solve.sh or solution/solve.sh), "
            "which the oracle agent runs; use another agent, or --exclude the task",
            file=task.path,
        )
