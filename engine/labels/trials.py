"""Which executions of a job count: of each slot the last that finished or waits for people, else
the last that may."""

from __future__ import annotations

import msgspec

from ...events.errors import LogCorrupt
from ...events.kinds import JobStarted, TrialScheduled
from ...events.log import EventLog
from ..job.load import load_job
from ..job.state import JobState
from ..trial.load import load_trial
from ..trial.state import Stage


class JobTrials(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and one execution of each of its slots that was begun."""

    started: JobStarted
    trials: list[TrialScheduled]
    """In the order in which their slots were first scheduled."""


async def job_trials(log: EventLog, job: str) -> JobTrials:
    """The executions that count. Raises CommandRefused for a job that the log does not have."""
    state = await load_job(log, job)
    assert state.started is not None
    return JobTrials(started=state.started, trials=await counting_trials(log, state))


async def counting_trials(log: EventLog, state: JobState) -> list[TrialScheduled]:
    """The same of a job whose state is known."""
    chosen: list[TrialScheduled] = []
    for tries in state.executions.values():
        living = [one for one in tries if one.trial not in state.abandoned]
        if len(living) > 1:
            living = await _counting(log, living) or living
        if living:
            chosen.append(living[-1])
    return chosen


async def _counting(log: EventLog, tries: list[TrialScheduled]) -> list[TrialScheduled]:
    for one in reversed(tries):
        try:
            state = await load_trial(log, one.trial)
        except LogCorrupt:  # it is named where it is read, and no earlier one takes its place
            return [one]
        if state.stage is Stage.FINISHED or state.awaiting:
            return [one]
    return []
