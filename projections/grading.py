"""A verifier's entry in result.json."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..events.kinds.parts import Criterion, Usage
from ..events.values import Json, Text
from .document import known_seconds
from .texts import score_names
from .trial import Grading, TrialView, with_line
from .usage import UsageTotal, usage_total

NO_REWARD = "verifier wrote no usable reward"
NO_REWARD_CATEGORY = "verifier_no_reward"


class CriterionResult(msgspec.Struct, frozen=True, gc=False):
    """One criterion's score, on its own range."""

    name: str
    score: float | None
    min_score: float
    max_score: float
    weight: float
    blocker: bool
    feedback: Text | None


class VerifierResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One verifier: what it gave, or why it gave nothing (`score` is null then)."""

    name: str
    kind: str
    version: str | None
    digest: str | None
    """Null where it is not known, as of an imported trial's."""
    weight: float
    score: float | None = None
    scores: dict[str, float] = {}
    criteria: list[CriterionResult] = []
    evidence: list[Text] = []
    feedback: Text | None = None
    details: dict[str, Json] = {}
    model: str | None = None
    samples: list[float] = []
    spread: float | None = None
    usage: UsageTotal | None = None
    live_state: bool = False
    exit_code: int | None = None
    sandbox_mode: str | None = None
    duration_sec: float | None = None
    error: Text | None = None
    error_category: str | None = None


def verifier_results(view: TrialView) -> list[VerifierResult]:
    """Every verifier that was let go or asked, in the order in which they first appear."""
    found = (_result(name, part) for name, part in view.grading.items())
    return [entry for entry in found if entry is not None]


def _result(name: str, part: Grading) -> VerifierResult | None:
    if (asked := part.requested) is not None:
        given = part.submitted
        return VerifierResult(
            name=name,
            kind="human",
            version=asked.version,
            digest=asked.digest or None,
            weight=asked.weight,
            score=given.score if given else None,
            criteria=criterion_results(given.criteria) if given else [],
            feedback=given.feedback if given else None,
        )
    if (scored := part.scored) is not None:
        return VerifierResult(
            name=name,
            kind=scored.verifier_kind,
            version=scored.version,
            digest=scored.digest or None,
            weight=scored.weight,
            score=None if scored.missing else scored.score,
            scores=score_names(scored.scores),
            criteria=criterion_results(scored.criteria),
            evidence=scored.evidence,
            feedback=scored.feedback,
            details=scored.details,
            model=scored.model,
            samples=scored.samples,
            spread=scored.spread,
            usage=_usage(part, scored.usage),
            live_state=scored.live_state or part.live,
            exit_code=scored.exit_code,
            sandbox_mode=scored.sandbox_mode,
            duration_sec=known_seconds(scored.duration, scored.untimed),
            error=NO_REWARD if scored.missing else None,
            error_category=NO_REWARD_CATEGORY if scored.missing else None,
        )
    if (failed := part.failed) is not None:
        return VerifierResult(
            name=name,
            kind=failed.verifier_kind,
            version=failed.version,
            digest=failed.digest or None,
            weight=failed.weight,
            model=failed.model,
            usage=_usage(part, failed.usage),
            live_state=part.live,
            exit_code=failed.exit_code,
            sandbox_mode=failed.sandbox_mode,
            duration_sec=known_seconds(failed.duration, failed.untimed),
            error=with_line(failed.error, failed.line),
            error_category=failed.category,
        )
    if (started := part.started) is not None:  # it was cut off
        return VerifierResult(
            name=name,
            kind=started.verifier_kind,
            version=started.version,
            digest=started.digest or None,
            weight=started.weight,
            model=started.model,
            usage=_usage(part, None),
            live_state=part.live,
            sandbox_mode=started.sandbox_mode,
        )
    return None  # a reward hook that queried a live app; it has no part in the verdict


def _usage(part: Grading, own: Usage | None) -> UsageTotal | None:
    """What the verifier says it used, else what its replies add up to."""
    known = part.samples if own is None else (own,)
    return usage_total(known) if known else None


def criterion_results(criteria: Sequence[Criterion]) -> list[CriterionResult]:
    """Criteria as documents have them."""
    return [
        CriterionResult(c.name, c.score, c.min_score, c.max_score, c.weight, c.blocker, c.feedback)
        for c in criteria
    ]
