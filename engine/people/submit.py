"""Recording a person's review, and going on with its trial when the last one is in."""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec.structs import replace

from ...events.clock import Clock, Ids
from ...events.codec import decode_or_none
from ...events.envelope import NewEvent, RecordedEvent
from ...events.errors import VersionConflict
from ...events.kinds import HumanReviewRequested, HumanReviewSubmitted
from ...events.log import EventLog
from ..stored import store_text
from ..trial.decide import Record
from ..trial.decide import decide as decide_trial
from ..trial.load import replay
from ..trial.record import stream_of
from ..trial.state import evolve
from .decide import Submission, decide

ATTEMPTS = 20
"""Conflicts in a row after which something is wrong."""


class Concluding(Protocol):
    """Goes on with a trial whose reviews are all in: score, hindsight, end, files."""

    async def __call__(self, trial: str) -> None:
        """Bring the trial to its end. Whatever of it is in the log already is not done again."""
        ...


class Reviewed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a submission."""

    trial: str
    review: HumanReviewSubmitted
    waits_for: list[str]
    """Who is still waited for; nobody when the trial has been concluded."""


async def submit(
    log: EventLog,
    trial: str,
    submission: Submission,
    *,
    clock: Clock,
    ids: Ids,
    conclude: Concluding,
) -> Reviewed:
    """Append a review; when it was the last one, conclude the trial.

    Raises CommandRefused where the trial does not wait for it or the scores don't fit. The review
    is durable before the trial is concluded: when this process dies in between, a resume of the
    job finishes the trial.
    """
    if isinstance(submission.feedback, str):
        feedback = await store_text(submission.feedback, log.blobs)
        submission = replace(submission, feedback=feedback)
    stream, version = stream_of(trial), -1
    for _ in range(ATTEMPTS):
        recorded = await log.read(stream)
        state = replay(recorded)
        version = state.version
        review = decide(state, submission, trial)
        decide_trial(state, Record([review]))
        event = NewEvent(
            id=ids.event_id(), at=clock.now(), payload=review,
            causation=_request(recorded, review.verifier),
        )  # fmt: skip
        try:
            await log.append(stream, version, [event])
        except VersionConflict:
            continue  # somebody else wrote: decide again on what is there now
        waits_for = [asked.verifier for asked in evolve(state, review).awaiting]
        if not waits_for:
            await conclude(trial)
        return Reviewed(trial=trial, review=review, waits_for=waits_for)
    raise VersionConflict(stream, version, -1)


def _request(recorded: list[RecordedEvent], verifier: str) -> str | None:
    """The id of the event that asked for the review."""
    for event in recorded:
        if event.kind == HumanReviewRequested.__name__:
            asked = decode_or_none(event)
            if isinstance(asked, HumanReviewRequested) and asked.verifier == verifier:
                return event.id
    return None
