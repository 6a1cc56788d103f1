"""rewards.jsonl: the ledger, a line a reward, in the order of the stream.

A 0 that the engine gave is no reward and has no line. A label's id is made of what it labels, so
that the same label applied again adds nothing; new ones are appended, and the file only grows.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Literal, assert_never

import msgspec

from ..events.envelope import RecordedEvent
from ..events.kinds import (
    HindsightCredited,
    HumanReviewSubmitted,
    StepRewarded,
    StepRewardFailed,
    VerifierScored,
)
from ..events.kinds.parts import Target
from ..events.values import Json
from .document import compact, line
from .trial import Rewarding, TrialView

Source = Literal["step", "hindsight", "verifier", "judge", "human"]


class TargetLine(msgspec.Struct, frozen=True, gc=False):
    """What a reward credits."""

    kind: Literal["step", "event", "verdict"]
    event_id: str
    field: str | None = None
    start: int | None = None
    end: int | None = None
    token_start: int | None = None
    token_end: int | None = None


class RewardLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of rewards.jsonl."""

    record_id: str
    target: TargetLine
    value: float
    weight: float
    source: Source
    verifier: str
    version: str | None
    app: str | None
    created_at: str
    metadata: dict[str, Json]
    granularity: Literal["step", "terminal"]
    space: Literal["output", "action", "reasoning", "memory"]


def rewards(view: TrialView) -> bytes:
    """The file's bytes; empty when there is no reward."""
    return b"".join(line(reward) for reward in reward_lines(view))


def reward_lines(view: TrialView) -> list[RewardLine]:
    """Every reward once, in the order of the stream."""
    seen: dict[str, RewardLine] = {}
    places: Counter[bytes] = Counter()
    for event, payload in view.ledger:
        reward = _line(view, event, payload, places)
        if reward is not None:
            seen.setdefault(reward.record_id, reward)
    return list(seen.values())


def _line(
    view: TrialView, event: RecordedEvent, payload: Rewarding, places: Counter[bytes]
) -> RewardLine | None:
    trial = view.started.trial
    source: Source
    match payload:
        case StepRewarded() | HindsightCredited() as given:
            source = "step" if isinstance(given, StepRewarded) else "hindsight"
            target = _target(given.target)
            return RewardLine(
                record_id=_record_id(
                    trial, source, given.verifier, given.version, target, places, given.applied
                ),
                target=target,
                value=given.value,
                weight=given.weight,
                source=source,
                verifier=given.verifier,
                version=given.version,
                app=given.app,
                created_at=event.at,
                metadata=given.metadata,
                granularity="terminal" if target.kind == "verdict" else "step",
                space=given.space,
            )
        case VerifierScored() as scored:
            if scored.source == "engine" or scored.missing or scored.verifier_kind == "human":
                return None  # no reward; or a person's, whose line is the submission's
            source = "judge" if scored.verifier_kind == "agent" else "verifier"
            return _terminal(
                trial, event, source, scored.verifier, scored.version, scored.score,
                scored.weight, places,
            )  # fmt: skip
        case HumanReviewSubmitted() as submitted:
            asked = view.grading[submitted.verifier].requested
            return _terminal(
                trial, event, "human", submitted.verifier, asked.version if asked else None,
                submitted.score, asked.weight if asked else 1.0, places,
            )  # fmt: skip
        case StepRewardFailed():
            return None
        case _:
            assert_never(payload)


def _terminal(
    trial: str,
    event: RecordedEvent,
    source: Source,
    verifier: str,
    version: str | None,
    value: float,
    weight: float,
    places: Counter[bytes],
) -> RewardLine:
    target = TargetLine("verdict", event.id)
    return RewardLine(
        record_id=_record_id(trial, source, verifier, version, target, places, None),
        target=target,
        value=value,
        weight=weight,
        source=source,
        verifier=verifier,
        version=version,
        app=None,
        created_at=event.at,
        metadata={},
        granularity="terminal",
        space="output",
    )


def _target(target: Target) -> TargetLine:
    return TargetLine(
        target.target,
        target.event_id,
        target.field,
        target.start,
        target.end,
        target.token_start,
        target.token_end,
    )


def _record_id(
    trial: str,
    source: Source,
    verifier: str,
    version: str | None,
    target: TargetLine,
    places: Counter[bytes],
    applied: str | None,
) -> str:
    """32 hex digits of a SHA-256 over what the reward is about.

    The place tells several credits of one verifier for one target apart; it is counted anew in
    each application, so that the same label gets the same id again.
    """
    what = compact([trial, source, verifier, version, target])
    run = what + (applied or "").encode()
    place = places[run]
    places[run] += 1
    return sha256(what + str(place).encode()).hexdigest()[:32]
