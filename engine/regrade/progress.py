"""How far a job's regrades are, read back from the log."""

from __future__ import annotations

from typing import cast

import msgspec

from ...events.checking import ChainCheck
from ...events.codec import decode_or_none
from ...events.kinds import JobEvent, RegradeFinished, RegradePlanned, RegradeSkipped
from ...events.log import EventLog
from ...events.pages import each_event
from ...projections.regrades import Regrade, RegradesFold
from ..errors import CommandRefused
from ..job import state as job_state
from ..job.record import stream_of
from ..job.state import JobState


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its regrades."""

    state: JobState
    unfinished: Regrade | None
    """The last one, where it was cut off."""
    cause: str
    """The id of the event that planned the last one; empty where there is none."""
    ids: frozenset[str]
    """Of all regrades, finished or not."""
    finished: frozenset[str]
    regrades: list[Regrade]
    """Those that are finished, in order."""


async def load_progress(log: EventLog, job: str) -> Progress:
    """A job's regrades. Raises CommandRefused for a job that the log does not have.

    Raises LogCorrupt where the job's own stream is not what was appended: what it says of tasks
    and trials can't be believed.
    """
    state, regrades = JobState(), RegradesFold()
    chain = ChainCheck(stream_of(job))
    cause = ""
    ids: set[str] = set()
    async for event in each_event(log, stream_of(job)):
        chain.follow((event,))
        decoded = decode_or_none(event)
        if decoded is None:
            state.version = event.version
            continue
        job_state.evolve(state, cast("JobEvent", decoded))
        if isinstance(decoded, RegradePlanned | RegradeSkipped | RegradeFinished):
            regrades.take(event, decoded)
        if isinstance(decoded, RegradePlanned):
            cause = event.id
            ids.add(decoded.regrade_id)
    if not state.version:
        raise CommandRefused(f"the log has no job {job!r}; `trialog jobs` lists those it has")
    return Progress(
        state=state,
        unfinished=regrades.unfinished,
        cause=cause,
        ids=frozenset(ids),
        finished=frozenset(one.id for one in regrades.finished),
        regrades=regrades.finished,
    )


KINDS = frozenset(kind.__name__ for kind in (RegradePlanned, RegradeSkipped, RegradeFinished))


async def finished_regrades(log: EventLog, job: str) -> list[Regrade]:
    """A job's finished regrades in order."""
    return (await all_regrades(log, job)).finished


async def all_regrades(log: EventLog, job: str) -> RegradesFold:
    """A job's regrades; nothing else of the job is decoded."""
    regrades = RegradesFold()
    async for event in each_event(log, stream_of(job)):
        if event.kind in KINDS:
            decoded = decode_or_none(event)
            if isinstance(decoded, RegradePlanned | RegradeSkipped | RegradeFinished):
                regrades.take(event, decoded)
    return regrades
