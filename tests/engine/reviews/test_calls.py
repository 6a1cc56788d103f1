"""What reviewers' models cost and called themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from helpers.given import Item, at, fill, sandbox, slot, started, unknown
from trialog.engine.reviews.calls import models_reported, spent_before
from trialog.events.kinds import ModelCalled
from trialog.events.kinds.parts import Usage
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log


def called(name: str | None, cost: float | None) -> ModelCalled:
    """A call of the model by its name for itself, at this cost."""
    return ModelCalled(
        model="m", model_reported=name, request={}, usage=Usage(model_calls=1, cost_usd=cost),
        started_at=at(2), latency=0.5, retries=0,
    )  # fmt: skip


def run(trial: str, review: str | None, *calls: ModelCalled) -> dict[str, list[Item]]:
    """A trial's stream, without an end, as one that was cut off has it."""
    first = started(trial=trial, review=review, slot=slot(task="review-t__1"))
    return {f"trial/{trial}": [first, sandbox(), *calls]}


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """A log with reviewers of two reviews, and a task of a user's that is called like one."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await fill(
            log,
            run("review-t__1__a", "r", called("m-1", 0.25), called(None, None), called("m-1", 0.5))
            | run("review-t__1__b", "r", called("m-2", 1.0), called("m-1", None))
            | run("review-t__1__c", "other", called("m-3", 8.0))
            | run("review-mine__d", None, called("m-4", 16.0)),
        )
        yield log


async def test_a_resume_knows_what_was_spent(log: MemoryLog) -> None:
    """All reviewers of the review count, those too that never came to an answer, and no other."""
    assert await spent_before(log, "r") == 1.75
    assert await spent_before(log, "other") == 8.0
    assert await spent_before(log, "none") == 0.0


async def test_names_are_told_once_in_their_order(log: MemoryLog) -> None:
    """A call that did not say is none; what a later release wrote is passed over."""
    assert await models_reported(log, "review-t__1__a") == ["m-1"]
    assert await models_reported(log, "review-t__1__b") == ["m-2", "m-1"]
    events = log._streams["trial/review-t__1__b"]
    events[2] = unknown(events[2], ignorable=False)
    assert await models_reported(log, "review-t__1__b") == ["m-1"]
