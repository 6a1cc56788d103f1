"""The folders of a job and of its executions, made so that two never share one."""

from __future__ import annotations

from pathlib import Path

import anyio
from anyio import to_thread

from ...events.clock import Clock, Ids
from ...events.log import EventLog
from ..disk_hint import keep_apart
from ..trial.record import stream_of as trial_stream
from .record import stream_of as job_stream

MAX_SUFFIX = 10_000
NAMES_TOGETHER = 32
"""Names of trials that are looked for in the log at once."""


def job_names(clock: Clock) -> list[str]:
    """Names to try for a job that starts now: its time, then the time with a suffix."""
    moment = clock.now()
    name = f"{moment[:10]}__{moment[11:19].replace(':', '-')}"
    return [name, *(f"{name}-{n}" for n in range(2, MAX_SUFFIX))]


def claim(folder: Path) -> bool:
    """Make a folder that nobody had; False when it is there already."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    keep_apart(folder.parent)  # jobs are deleted whole
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


class TrialNames:
    """Names for executions that no stream of the log has, looked for a few at a time."""

    def __init__(self, log: EventLog, ids: Ids) -> None:
        self._log = log
        self._ids = ids
        self._unused: dict[str, list[str]] = {}
        self._looking = anyio.Lock()

    async def new(self, task: str) -> str:
        """A name for an execution of this task; it is given once."""
        unused = self._unused.setdefault(task, [])
        while not unused:
            async with self._looking:
                if not unused:
                    unused += await self._look(task)
        return unused.pop()

    async def _look(self, task: str) -> list[str]:
        names = list(dict.fromkeys(f"{task}__{self._ids.suffix()}" for _ in range(NAMES_TOGETHER)))
        heads = await self._log.heads([trial_stream(name) for name in names])
        return [name for name, head in zip(names, heads, strict=True) if head.version == 0]


async def unused_job(log: EventLog, clock: Clock, jobs_folder: Path) -> str:
    """A job's name; its folder is made. A job whose folder was deleted keeps its name."""
    for name in job_names(clock):
        if (await log.head(job_stream(name))).version == 0 and await to_thread.run_sync(
            claim, jobs_folder / name
        ):
            return name
    raise RuntimeError("no free name for a job")
