"""Running tasks from Python."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread

from ..events.clock import RandomIds, SystemClock
from ..events.open import open_log
from .authoring.task import Task
from .environment import find_secrets
from .errors import ConfigError
from .hooks.mark import in_hook_process
from .hooks.pool import HookPool
from .job.api import JobResult, Services, run_job
from .job.config import JobConfig
from .job.episode_loading import pack_episode_task
from .job.episode_task import EpisodeTask
from .job.policies import PolicyAgent
from .job.report import Report, Watcher
from .projects.importing import importing
from .projects.script import write_project
from .sandbox.none import NoSandboxes


async def run(
    tasks: Task | Sequence[Task],
    agent: Any,
    *,
    name: str | None = None,
    attempts: int = 1,
    seed: int | None = None,
    concurrency: int = 8,
    jobs: str | Path = "jobs",
    watch: Watcher | None = None,
) -> JobResult:
    """Run tasks with a policy (a class or an async function), apps in this process.

    The log is ``trialog.db`` in the folder `jobs`, with the results beside it, as with
    ``trialog run``; `watch` is called with what happens. What the tasks need is kept in the log, so
    functions and classes must come from Python files. Raises ConfigError.

    ```python
    result = await trialog.run(task, Greedy, attempts=5)
    print(result.summary["pass_rate"])
    ```
    """
    if importing():
        raise ConfigError(
            "a file that a task's functions come from starts a job whenever it is imported; put "
            'what starts it under `if __name__ == "__main__":`'
        )
    if in_hook_process() or importing():
        raise ConfigError(
            "a file that a job imports starts a job itself; put the call of run() below "
            '`if __name__ == "__main__":`'
        )
    given = [tasks] if isinstance(tasks, Task) else list(tasks)
    called = name or getattr(agent, "__name__", type(agent).__name__).lower()
    packed = [await to_thread.run_sync(_pack, task, agent, called) for task in given]
    environ = dict(os.environ)
    folder = Path(jobs)
    async with open_log(folder / "trialog.db") as log, HookPool() as hooks:
        services = Services(
            log=log,
            log_id=log.log_id,
            backend=NoSandboxes(),
            clock=SystemClock(),
            ids=RandomIds(),
            jobs_folder=folder,
            environ=environ,
            secrets=find_secrets((), environ, {}),
            hooks=hooks,
            policies={called: PolicyAgent(called, agent)},
        )
        config = JobConfig(
            tasks=[task.name for task in given],
            agents=[called],
            attempts=attempts,
            seed=seed,
            concurrency=concurrency,
        )
        return await run_job(services, config, packed, watch or _ignore)


def _pack(task: Task, agent: Any, name: str) -> EpisodeTask:
    stored = agent if callable(agent) else None
    with tempfile.TemporaryDirectory(prefix="trialog-run-") as folder:
        found = write_project(task, Path(folder).resolve(), stored, agent_name=name)
        return pack_episode_task(found, list(found.agents.values()))


def _ignore(report: Report) -> None:
    """Nobody watches."""
