"""A job and its executions, read back from the log."""

from __future__ import annotations

from typing import cast

import msgspec

from ...events.codec import decode_or_none
from ...events.kinds import JobEvent, TrialScheduled
from ...events.log import EventLog
from ..errors import CommandRefused
from ..trial.load import load_trial
from . import state as job_state
from .config import JobConfig
from .plan import Execution, PlannedSlot, plan_slot
from .record import stream_of as job_stream
from .state import JobState, slot_key


async def load_job(log: EventLog, job: str) -> JobState:
    """A job's state. Raises CommandRefused for one that the log does not have."""
    recorded = await log.read(job_stream(job))
    if not recorded:
        raise CommandRefused(f"the log has no job {job!r}; `trialog jobs` lists those it has")
    state = JobState()
    for event in recorded:
        decoded = decode_or_none(event)
        if decoded is None:
            state.version = event.version
        else:
            job_state.evolve(state, cast("JobEvent", decoded))
    return state


async def load_execution(log: EventLog, job: JobState, scheduled: TrialScheduled) -> Execution:
    """One try at a slot, as the log has it."""
    state = await load_trial(log, scheduled.trial)
    saved = state.workspace
    return Execution(
        scheduled=scheduled,
        state=state,
        abandoned=scheduled.trial in job.abandoned,
        pruned=saved is not None and saved.archive.blob in job.pruned,
    )


async def plan(
    log: EventLog, job: JobState, only: str | None
) -> tuple[list[PlannedSlot], dict[str, list[Execution]]]:
    """What a resume does with every slot of the job; and the executions by the slot's key."""
    assert job.started is not None
    config = msgspec.convert(job.started.config, JobConfig)
    planned: list[PlannedSlot] = []
    executions: dict[str, list[Execution]] = {}
    for slot in job_state.slots(config, [task.task for task in job.started.tasks]):
        key = slot_key(slot)
        executions[key] = [
            await load_execution(log, job, scheduled) for scheduled in job.executions.get(key, [])
        ]
        planned.append(plan_slot(slot, executions[key], only))
    return planned, executions
