"""What reviewers' models cost and called themselves, by the reviewers' own streams."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator

from ...events.codec import decode_known
from ...events.kinds import ModelCalled, TrialStarted
from ...events.log import EventLog
from ..trial.record import stream_of

PREFIX = "review-"
"""What every reviewer's task, and so its trials, begins with."""


async def spent_before(log: EventLog, review: str) -> float:
    """US dollars that the reviewers of a review have cost so far, those too that were cut off."""
    costs: list[float] = []
    for stream in await log.streams(stream_of(PREFIX)):
        first = await log.read(stream, limit=1)
        started = decode_known(first[0]) if first else None
        if isinstance(started, TrialStarted) and started.review == review:
            costs += [call.usage.cost_usd or 0.0 async for call in _calls(log, stream)]
    return math.fsum(costs)


async def models_reported(log: EventLog, trial: str) -> list[str]:
    """What the model called itself in a reviewer's trial, each name once, in order."""
    names = [call.model_reported async for call in _calls(log, stream_of(trial))]
    return list(dict.fromkeys(name for name in names if name is not None))


async def _calls(log: EventLog, stream: str) -> AsyncGenerator[ModelCalled]:
    for event in await log.read(stream):
        if event.kind == ModelCalled.__name__:
            call = decode_known(event)
            if isinstance(call, ModelCalled):
                yield call
