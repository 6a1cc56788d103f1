"""The folders of a job and of its executions, made so that two never share one."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from ...events.clock import Clock, Ids
from ...events.log import EventLog
from ..trial.record import stream_of as trial_stream
from .record import stream_of as job_stream

MAX_SUFFIX = 10_000


def job_names(clock: Clock) -> list[str]:
    """Names to try for a job that starts now: its time, then the time with a suffix."""
    moment = clock.now()
    name = f"{moment[:10]}__{moment[11:19].replace(':', '-')}"
    return [name, *(f"{name}-{n}" for n in range(2, MAX_SUFFIX))]


def claim(folder: Path) -> bool:
    """Make a folder that nobody had; False when it is there already."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


async def unused_trial(log: EventLog, ids: Ids, task: str) -> str:
    """A name for an execution that no stream of the log has."""
    while True:
        name = f"{task}__{ids.suffix()}"
        if (await log.head(trial_stream(name))).version == 0:
            return name


async def unused_job(log: EventLog, clock: Clock, jobs_folder: Path) -> str:
    """A job's name; its folder is made. A job whose folder was deleted keeps its name."""
    for name in job_names(clock):
        if (await log.head(job_stream(name))).version == 0 and await to_thread.run_sync(
            claim, jobs_folder / name
        ):
            return name
    raise RuntimeError("no free name for a job")
