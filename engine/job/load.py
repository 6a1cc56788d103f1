"""A job and its executions, read back from the log."""

from __future__ import annotations

import math
from typing import cast

import msgspec

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.errors import BlobAltered, LogCorrupt
from ...events.kinds import JobEvent, TrialScheduled
from ...events.log import EventLog
from ...events.pages import each_event
from ...projections.source import JobSource
from ..errors import CommandRefused
from ..trial.load import load_trial, state_of
from ..trial.record import stream_of as trial_stream
from ..trial.state import TrialState
from ..trial.work import find_saved_work
from . import state as job_state
from .config import config_of
from .plan import Execution, PlannedSlot, forget, plan_slot
from .record import stream_of as job_stream
from .state import JobState, slot_key


async def load_job(log: EventLog, job: str) -> JobState:
    """A job's state. Raises CommandRefused for one that the log does not have."""
    state = JobState()
    async for event in each_event(log, job_stream(job)):
        decoded = decode_or_none(event)
        if decoded is None:
            state.version = event.version
        else:
            job_state.evolve(state, cast("JobEvent", decoded))
    if not state.version:
        raise CommandRefused(f"the log has no job {job!r}; `trialog jobs` lists those it has")
    return state


async def load_execution(
    source: JobSource, job: JobState, scheduled: TrialScheduled, asking: list[str]
) -> Execution:
    """One try at a slot, as the log has it; one that can't be read or was altered says so."""
    events, unreadable = await source.events(scheduled.trial), None
    try:
        state = state_of(_believed(events))
    except LogCorrupt as corrupt:
        state, unreadable = TrialState(), str(corrupt)
    saved = state.workspace
    return Execution(
        scheduled=scheduled,
        state=state,
        abandoned=scheduled.trial in job.abandoned,
        pruned=saved is not None and saved.archive.blob in job.pruned,
        asking=asking,
        unreadable=unreadable,
    )


def _believed(events: list[RecordedEvent] | LogCorrupt) -> list[RecordedEvent]:
    if isinstance(events, LogCorrupt):
        raise events
    return events


async def _lost_work(log: EventLog, trial: str | None) -> str | None:
    """What of a trial's saved work is not in the blob store as it was, in words.

    Bytes are read only where an earlier resume found that they had been altered.
    """
    assert trial is not None
    state = await load_trial(log, trial)
    if state.episode:
        return None
    try:
        work = await find_saved_work(log, trial_stream(trial))
    except CommandRefused:
        return None  # the trial says so itself
    altered = state.unscored is not None and state.unscored.category == "blob_altered"
    saved = work.artifacts.artifacts if work.artifacts else []
    for ref in [work.archive, *(artifact.blob for artifact in saved)]:
        if not await log.blobs.has(ref):
            return f"blob {ref.blob} of its saved work is missing"
        if altered:
            try:
                await log.blobs.check(ref)
            except (BlobAltered, LogCorrupt):
                return f"blob {ref.blob} of its saved work was altered"
    return None


def _without(execution: Execution, trial: str | None, lost: str) -> Execution:
    if execution.scheduled.trial != trial:
        return execution
    return msgspec.structs.replace(execution, lost=lost)


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
    """What a resume does with every slot of the job.

    Every stream's hash chain is checked, for work is taken from it. Raises LogCorrupt where the
    job's own is broken.
    """
    assert job.started is not None
    config = config_of(job.started)
    source = JobSource(log, job.started.job, verify=True)
    await source.trials()
    if source.broken is not None:
        raise source.broken
    planned: list[PlannedSlot] = []
    executions: dict[str, list[Execution]] = {}
    images: dict[str, str] = {}
    costs: list[float] = []
    models: dict[str, str] = {}
    asking = {task.task: task.asking for task in job.started.tasks}
    for slot in job_state.slots(config, [task.task for task in job.started.tasks]):
        key = slot_key(slot)
        tries = [
            await load_execution(source, job, scheduled, asking[slot.task])
            for scheduled in job.executions.get(key, [])
        ]
        for execution in tries:
            costs.append(execution.state.judge_cost)
            for model, reported in execution.state.judge_models:
                models.setdefault(model, reported)
            sandbox = execution.state.sandbox
            if sandbox is not None and sandbox.image_digest is not None:
                images[slot.task] = sandbox.image_digest
        decided = plan_slot(slot, tries, only, cancelled=job.cancelled)
        if decided.action == "grade" and (lost := await _lost_work(log, decided.trial)):
            tries = [_without(one, decided.trial, lost) for one in tries]
            decided = plan_slot(slot, tries, only, cancelled=job.cancelled)
        planned.append(decided)
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
