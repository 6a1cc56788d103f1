"""Ending a job as cancelled, whether another process runs it or nobody does."""

from __future__ import annotations

import getpass
import os
from contextlib import suppress

import anyio

from ...events.errors import LogCorrupt
from ...events.kinds import JobCancelled
from ...projections.writer import JobFiles
from ..errors import JobLocked
from ..trial.decide import Cancel
from ..trial.load import load_trial
from ..trial.record import TrialRecord
from ..trial.state import Stage
from .finish import finish_job
from .load import load_job
from .lock import own
from .record import JobRecord
from .refuse import refuse_imported
from .services import Services

OWNER_SEC = 120.0
"""For the process that runs the job to end its trials."""
LOOK_SEC = 0.1


async def cancel_job(services: Services, job: str, reason: str | None = None) -> int:
    """End what has not finished as cancelled; gives the number of executions that were ended.

    A process that runs the job is told through the log and ends its trials itself; this waits for
    it. Raises CommandRefused for a job that is not there, JobLocked when its owner does not end it.
    """
    log = services.log
    before = await _unfinished(services, job)
    state = await load_job(log, job)
    assert state.started is not None
    refuse_imported(state.started, "cancelled")
    if state.finished and not before:
        return 0
    record = JobRecord(log, job, clock=services.clock, ids=services.ids, version=state.version)
    await record.tell(JobCancelled(reason=reason, author=_author()))
    with anyio.move_on_after(OWNER_SEC):
        while True:
            try:
                async with own(services.jobs_folder, job):
                    await _end_all(services, job)
                    return len(before)
            except JobLocked:
                await anyio.sleep(LOOK_SEC)
    async with own(services.jobs_folder, job):  # raises JobLocked, which names the owner
        return len(before)


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"uid {os.getuid()}"


async def _unfinished(services: Services, job: str) -> list[str]:
    state = await load_job(services.log, job)
    names = [e.trial for tries in state.executions.values() for e in tries]
    found: list[str] = []
    for name in names:
        if name in state.abandoned:
            continue
        with suppress(LogCorrupt):  # what can't be read is left alone
            if (await load_trial(services.log, name)).stage is not Stage.FINISHED:
                found.append(name)
    return found


async def _end_all(services: Services, job: str) -> None:
    state = await load_job(services.log, job)
    assert state.started is not None
    files = JobFiles(services.log, job, services.jobs_folder / state.started.folder, verify=True)
    for name in await _unfinished(services, job):
        trial = TrialRecord(
            services.log, name, clock=services.clock, ids=services.ids,
            state=await load_trial(services.log, name),
        )  # fmt: skip
        ticket = trial.tell(Cancel())
        if ticket is not None:
            await ticket
        await files.write_trial(name)
    if not state.finished:
        record = JobRecord(
            services.log, job, clock=services.clock, ids=services.ids, version=state.version
        )
        names = [e.trial for tries in state.executions.values() for e in tries]
        await finish_job(services.log, record, names, None)
    await files.write_summary()
