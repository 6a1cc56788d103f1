"""A trial's reward ledger as it stands, or as it stood with an earlier version of a verifier."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...events.envelope import RecordedEvent
from ...events.kinds import StepRewardFailed, VerifierApplied
from ...events.values import Text
from ...projections.rewards import RewardLine, reward_lines
from ...projections.trial import TrialFold, TrialView, with_line
from .asof import AsOf, as_it_stood, labels, standing


class FailedReward(msgspec.Struct, frozen=True):
    """A verifier's reward hook gave nothing for a step, and why."""

    step: str
    verifier: str
    version: str
    error: Text


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier that was applied to the stored trial."""

    verifier: str
    version: str
    digest: str
    score: float | None
    scores: dict[str, float]
    error: Text | None
    author: str | None
    reason: str | None
    at: str


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What verifiers, judges and people said of a trial. Pure data, made of its events alone."""

    view: TrialView
    lines: list[RewardLine]
    failed: list[FailedReward]
    applied: list[Applied]
    versions: dict[str, str]
    """The version whose labels stand, of each verifier that labelled the trial."""


def ledger_of(
    events: Sequence[RecordedEvent], moment: AsOf | None = None, *, every_version: bool = False
) -> Ledger | None:
    """The ledger of a trial's events, None before its first. Raises what blocks the documents.

    Of step rewards and hindsight only those of the standing version are in it, unless
    `every_version` is asked for; scores are there as they were given.
    """
    if moment is not None:
        events = as_it_stood(events, moment)
    fold = TrialFold()
    fold.feed(events)
    view = fold.record()
    if fold.blocked is not None:
        raise fold.blocked
    if view is None:
        return None
    found = labels(events)
    versions = standing(found, moment)
    lines = reward_lines(view)
    failed: dict[tuple[str, str, str], FailedReward] = {}
    applied: list[Applied] = []
    for event, label in found:
        if isinstance(label, StepRewardFailed):
            error = with_line(label.error, label.line)
            one = FailedReward(label.step, label.verifier, label.version, error)
            failed[one.step, one.verifier, one.version] = one
        elif isinstance(label, VerifierApplied):
            applied.append(
                Applied(
                    verifier=label.verifier, version=label.version, digest=label.digest,
                    score=label.score, scores=label.scores, error=label.error,
                    author=label.author, reason=label.reason, at=event.at,
                )
            )  # fmt: skip
    if not every_version:
        lines = [line for line in lines if _stands(line, versions)]
    return Ledger(
        view=view,
        lines=lines,
        failed=[
            one
            for one in failed.values()
            if every_version or versions.get(one.verifier) == one.version
        ],
        applied=applied,
        versions=versions,
    )


def _stands(line: RewardLine, versions: dict[str, str]) -> bool:
    if line.source not in ("step", "hindsight"):
        return True
    return versions.get(line.verifier) == line.version
