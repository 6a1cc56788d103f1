"""What is known of a job: a pure fold over its stream, and the slots of its matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import product
from typing import assert_never, cast

import msgspec

from ...events.kinds import (
    BlobsPruned,
    EngineFault,
    JobCancelled,
    JobEvent,
    JobFinished,
    JobInterrupted,
    JobResumed,
    JobStarted,
    RegradeFinished,
    RegradePlanned,
    RegradeSkipped,
    TrialAbandoned,
    TrialScheduled,
)
from ...events.kinds.parts import Slot
from ...events.values import Json, escape, unescape
from .config import JobConfig


class JobState(msgspec.Struct, kw_only=True):
    """A job as its events tell it. Private to one fold, which changes it in place."""

    version: int = 0
    started: JobStarted | None = None
    executions: dict[str, list[TrialScheduled]] = {}
    """By the slot's key, oldest first."""
    abandoned: set[str] = set()
    pruned: set[str] = set()
    cancelled: bool = False
    """And not resumed since."""
    finished: bool = False
    judge_max_cost: float | None = None
    """As a resume set it; null where none did."""


def evolve(state: JobState, event: JobEvent) -> JobState:
    """Take one more event into the state."""
    state.version += 1
    match event:
        case JobStarted():
            state.started = event
        case TrialScheduled():
            state.executions.setdefault(slot_key(event.slot), []).append(event)
        case TrialAbandoned():
            state.abandoned.add(event.trial)
        case JobResumed():
            state.finished = False
            state.judge_max_cost = event.judge_max_cost or state.judge_max_cost
        case JobCancelled():
            state.cancelled = True
        case JobFinished():
            state.finished = True
        case BlobsPruned():
            state.pruned.update(event.blobs)
        case JobInterrupted() | RegradePlanned() | RegradeSkipped() | RegradeFinished():
            pass
        case EngineFault():
            pass
        case _:
            assert_never(event)
    return state


def fold(events: Iterable[JobEvent]) -> JobState:
    """The state after all of these events."""
    state = JobState()
    for event in events:
        evolve(state, event)
    return state


def slot_key(slot: Slot) -> str:
    """A slot's identity as text; equal slots have equal keys."""
    return msgspec.json.encode(
        [slot.task, slot.agent, slot.model, _escaped(slot.parameters), slot.attempt],
        order="sorted",
    ).decode()


def _escaped(parameters: dict[str, Json]) -> dict[str, Json]:
    """As events hold them now; the first ones did not escape them."""
    return cast("dict[str, Json]", escape(unescape(parameters)))


def slots(config: JobConfig, tasks: Iterable[str]) -> Iterator[Slot]:
    """The matrix, attempt by attempt, so that the first pass over all tasks comes first."""
    models: list[str | None] = [*config.models] or [None]
    rows = config.parameters or [{}]
    names = list(tasks)
    for attempt in range(1, config.attempts + 1):
        for task, agent, model, row in product(names, config.agents, models, rows):
            yield Slot(
                task=task, agent=agent, model=model, parameters=escape(row), attempt=attempt
            )  # fmt: skip


def slot_seed(config: JobConfig, slot: Slot) -> int | None:
    """The slot's seed, derived from the job's: the same for each execution of the slot."""
    if config.seed is None:
        return None
    digest = hashlib.sha256(f"{config.seed}\n{slot_key(slot)}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
