"""A job and its executions, read back from the log."""

from __future__ import annotations

import math
from typing import cast

import msgspec

from ...events.codec import decode_or_none
from ...events.kinds import JobEvent, TrialScheduled
from ...events.log import EventLog
from ..errors import CommandRefused
from ..trial.load import load_trial
from . import state as job_state
from .config import config_of
from .plan import Execution, PlannedSlot, forget, plan_slot
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


async def load_execution(
    log: EventLog, job: JobState, scheduled: TrialScheduled, asking: list[str]
) -> Execution:
    """One try at a slot, as the log has it."""
    state = await load_trial(log, scheduled.trial)
    saved = state.workspace
    return Execution(
        scheduled=scheduled,
        state=state,
        abandoned=scheduled.trial in job.abandoned,
        pruned=saved is not None and saved.archive.blob in job.pruned,
        asking=asking,
    )


class JobPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What will be done about every slot of a job."""

    slots: list[PlannedSlot]
    executions: dict[str, list[Execution]]
    """By the slot's key. Of slots that are done with, only what they are called is kept."""
    images: dict[str, str]
    """The image digest that each task has run with, by the task's name."""
    judge_cost: float = 0.0
    """US dollars that model judges have cost, as far as it is known."""
    judge_models: dict[str, str] = {}
    """What each judging model called itself first, by the name that it is asked for by."""


async def plan(log: EventLog, job: JobState, only: str | None) -> JobPlan:
    """What a resume does with every slot of the job."""
    assert job.started is not None
    config = config_of(job.started)
    planned: list[PlannedSlot] = []
    executions: dict[str, list[Execution]] = {}
    images: dict[str, str] = {}
    costs: list[float] = []
    models: dict[str, str] = {}
    asking = {task.task: task.asking for task in job.started.tasks}
    for slot in job_state.slots(config, [task.task for task in job.started.tasks]):
        key = slot_key(slot)
        tries = [
            await load_execution(log, job, scheduled, asking[slot.task])
            for scheduled in job.executions.get(key, [])
        ]
        for execution in tries:
            costs.append(execution.state.judge_cost)
            for model, reported in execution.state.judge_models:
                models.setdefault(model, reported)
            sandbox = execution.state.sandbox
            if sandbox is not None and sandbox.image_digest is not None:
                images[slot.task] = sandbox.image_digest
        planned.append(plan_slot(slot, tries, only, cancelled=job.cancelled))
        executions[key] = tries
        if planned[-1].action in ("keep", "leave"):
            executions[key] = [forget(execution) for execution in tries]
    return JobPlan(
        slots=planned,
        executions=executions,
        images=images,
        judge_cost=math.fsum(costs),
        judge_models=models,
    )
