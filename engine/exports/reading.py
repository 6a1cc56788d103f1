"""Trials out of the log, one at a time, as exports need them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

import msgspec
from anyio import to_thread

from ...events.codec import decode
from ...events.errors import BlobAltered, BlobMissing, LogCorrupt
from ...events.kinds import TrialScheduled, TrialStarted
from ...events.log import EventLog
from ...events.values import BlobRef
from ...projections.regrades import by_weight
from ...projections.source import read_trial
from ...projections.trial import TrialView
from ..errors import CommandRefused
from ..job.load import load_job
from ..labels.asof import AsOf
from ..labels.current import JobTask, job_tasks
from ..labels.ledger import Ledger, ledger_of
from ..labels.trials import job_trials
from ..regrade.progress import finished_regrades
from .form import TrialRead

UNREADABLE = (LogCorrupt, BlobMissing, BlobAltered)
"""What can be wrong with one trial; the others can be read all the same."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What is read: of a job one execution of each slot, or one trial."""

    name: str
    job: str
    trials: list[TrialScheduled]
    regrades: list[str]
    """Ids of the job's finished ones, in order."""
    whole: bool
    """The job, not one of its trials."""


async def select_job(log: EventLog, job: str) -> Selection:
    """A job's trials that count. Raises CommandRefused for one that the log does not have."""
    found = await job_trials(log, job)
    regrades = [one.id for one in by_weight(await finished_regrades(log, job))]
    return Selection(name=job, job=job, trials=found.trials, regrades=regrades, whole=True)


async def select_trial(log: EventLog, trial: str) -> Selection:
    """One trial, whether it counts or not. Raises LogCorrupt."""
    first = decode((await log.read(f"trial/{trial}", limit=1))[0])
    if not isinstance(first, TrialStarted):
        raise LogCorrupt(f"stream 'trial/{trial}'", "it does not begin with a TrialStarted")
    scheduled = TrialScheduled(trial=trial, slot=first.slot, execution=first.execution)
    regrades: list[str] = []
    if (await log.head(f"job/{first.job}")).version:  # a reviewer's trial has no job
        regrades = [one.id for one in by_weight(await finished_regrades(log, first.job))]
    return Selection(name=trial, job=first.job, trials=[scheduled], regrades=regrades, whole=False)


async def tasks_of(log: EventLog, job: str) -> dict[str, JobTask | None]:
    """The job's tasks by name, as it took them; none where there is no such job."""
    try:
        started = (await load_job(log, job)).started
    except CommandRefused:
        return {}
    return await job_tasks(started.tasks, log.blobs) if started else {}


async def read_one(
    log: EventLog,
    trial: str,
    *,
    blobs: Callable[[TrialView], Iterable[BlobRef]],
    moment: AsOf | None = None,
    regrades: Sequence[str] = (),
    instructions: str = "",
) -> TrialRead | None:
    """A trial with the bytes of its `blobs`; None before its first event. Raises UNREADABLE.

    Its hash chain is checked: nobody trains on what was altered.
    """
    events = await read_trial(log, trial, verify=True)
    ledger: Ledger | None = await to_thread.run_sync(partial(ledger_of, events, moment))
    if ledger is None:
        return None
    return TrialRead(
        events=events,
        ledger=ledger,
        blobs={ref.blob: await log.blobs.get(ref) for ref in blobs(ledger.view)},
        # What once stood is the same for ever, whatever is regraded since.
        regrades=regrades if moment is None else (),
        instructions=instructions,
    )


async def each_stream(log: EventLog, selection: Selection) -> AsyncIterator[str]:
    """The streams of a selection: a job's own, then all its executions'."""
    if not selection.whole:
        yield f"trial/{selection.name}"
        return
    yield f"job/{selection.job}"
    for tries in (await load_job(log, selection.job)).executions.values():
        for one in tries:
            yield f"trial/{one.trial}"
