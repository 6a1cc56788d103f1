"""From a judge's replies to its verdict. A pure function, so that a replay gives the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...events.kinds import JudgeSampled, VerifierFailed, VerifierScored, WarningRaised
from ...events.kinds.parts import Criterion, Usage
from ...events.values import Json, escape
from ...projections.usage import usage_total
from ..authoring.verifiers import AgentVerifier, RubricCriterion
from .prompt import cut
from .reply import Malformed, Marks, Read

ASKS = 3
"""Times that a sample is asked for: once, and twice more where its reply does not fit."""


_BELOW_ONE = math.nextafter(1.0, 0.0)

FEEDBACK = 4_000
"""Characters of the reasons for a criterion in a verdict; the replies have them in full."""


class Heard(NamedTuple):
    """A recorded reply, and what it says; nothing where there was no reply."""

    event: JudgeSampled
    read: Read | None


class Conclusion(NamedTuple):
    """A verdict and what its reader should know."""

    verdict: VerifierScored | VerifierFailed
    warnings: list[WarningRaised]


class _Sample(NamedTuple):
    number: int
    marks: Marks | None
    last: Heard


def normalised(score: float, criterion: RubricCriterion) -> float:
    """A criterion's score on its own range as 0 … 1."""
    share = (score - criterion.min_score) / (criterion.max_score - criterion.min_score)
    return min(max(share, 0.0), 1.0)


def rubric_score(scores: dict[str, float], criteria: Sequence[RubricCriterion]) -> float:
    """The criteria's normalised scores by their weights, 0 … 1.

    Exactly 1.0 where all that weigh anything are fully met, and only there: rounding passes nobody.
    """
    if all(scores[c.name] >= c.max_score for c in criteria if c.weight):
        return 1.0
    total = math.fsum(criterion.weight for criterion in criteria)
    shares = (c.weight * normalised(scores[c.name], c) for c in criteria)
    return min(max(math.fsum(shares) / total, 0.0), _BELOW_ONE)


def passes(scores: dict[str, float], criteria: Sequence[RubricCriterion]) -> bool:
    """Whether scores would pass by themselves: every blocker fully met, or a score of 1.0."""
    blockers = [criterion for criterion in criteria if criterion.blocker]
    if blockers:
        return all(scores[blocker.name] >= blocker.max_score for blocker in blockers)
    return rubric_score(scores, criteria) >= 1.0


def conclude(
    verifier: AgentVerifier, heard: Sequence[Heard], *, digest: str, duration: float
) -> Conclusion:
    """The verdict over all samples: their mean, or why there is none.

    A sample that got no reply is left out and counted. One whose replies never fit fails the
    verdict, since what makes a judge stumble may well be the work.
    """
    samples = _samples(heard)
    valid = [sample.marks for sample in samples if sample.marks is not None]
    lost = [s for s in samples if s.marks is None and s.last.event.failure is not None]
    malformed = [s for s in samples if s.marks is None and s.last.event.failure is None]
    usage = _usage(heard)
    warnings = _changed_model(verifier, heard)
    if malformed or not valid:
        error, category, infrastructure = (
            _malformed(malformed[0], heard, len(samples))
            if malformed
            else _lost(lost, own_limit=_past_own_limit(verifier, usage))
        )
        failed = VerifierFailed(
            verifier=verifier.name,
            verifier_kind="agent",
            version=verifier.version,
            digest=digest,
            weight=verifier.weight,
            error=error,
            category=category,
            infrastructure=infrastructure,
            model=verifier.model,
            usage=usage,
            duration=duration,
        )
        return Conclusion(failed, warnings)
    criteria = verifier.criteria
    means = {c.name: _mean([marks.scores[c.name] for marks in valid]) for c in criteria}
    each = [rubric_score(marks.scores, criteria) for marks in valid]
    passed = sum(passes(marks.scores, criteria) for marks in valid)
    if lost:
        warnings.append(_lost_warning(verifier, lost, len(samples)))
    if 0 < passed < len(valid):
        warnings.append(_unstable(verifier, each, passed))
    scored = VerifierScored(
        verifier=verifier.name,
        verifier_kind="agent",
        version=verifier.version,
        digest=digest,
        weight=verifier.weight,
        score=rubric_score(means, criteria),
        scores=escape({c.name: normalised(means[c.name], c) for c in criteria}),
        criteria=[_criterion(c, means[c.name], valid) for c in criteria],
        details={
            "aggregation": "mean",
            "samples_asked": len(samples),
            "samples_valid": len(valid),
            "samples_lost": len(lost),
            "samples_passed": passed,
            "replies_malformed": sum(isinstance(one.read, Malformed) for one in heard),
            "criteria_spread": _spreads(criteria, valid),
            "models_reported": _models(heard),
        },
        source="verifier",
        warnings=[warning.code for warning in warnings],
        model=verifier.model,
        samples=each,
        spread=_spread(each),
        usage=usage,
        duration=duration,
    )
    return Conclusion(scored, warnings)


def _samples(heard: Iterable[Heard]) -> list[_Sample]:
    """Each sample with its first reply that fits and its last one."""
    found: dict[int, _Sample] = {}
    for one in sorted(heard, key=lambda one: (one.event.sample, one.event.attempt)):
        number = one.event.sample
        earlier = found[number].marks if number in found else None
        marks = earlier or (one.read if isinstance(one.read, Marks) else None)
        found[number] = _Sample(number, marks, one)
    return list(found.values())


def _mean(values: Sequence[float]) -> float:
    """The mean; it is the largest only where all are equal, whatever rounding does."""
    low, high = min(values), max(values)
    if low == high:
        return low
    return min(max(math.fsum(values) / len(values), low), math.nextafter(high, low))


def _spread(values: Sequence[float]) -> float | None:
    """The largest less the smallest; null for fewer than two."""
    return max(values) - min(values) if len(values) > 1 else None


def _spreads(criteria: Sequence[RubricCriterion], valid: Sequence[Marks]) -> Json:
    return escape({c.name: _spread([m.scores[c.name] for m in valid]) for c in criteria})


def _criterion(criterion: RubricCriterion, score: float, valid: Sequence[Marks]) -> Criterion:
    reasons = [marks.reasons.get(criterion.name) for marks in valid]
    given = [reason for reason in reasons if reason]
    return Criterion(
        name=criterion.name,
        score=score,
        min_score=criterion.min_score,
        max_score=criterion.max_score,
        weight=criterion.weight,
        blocker=criterion.blocker,
        feedback=cut("\n".join(given), FEEDBACK) or None,
    )


def _usage(heard: Sequence[Heard]) -> Usage | None:
    """What all replies used, those that did not fit too."""
    total = usage_total([one.event.usage for one in heard])
    return Usage(
        model_calls=total.model_calls,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cached_tokens=total.cached_tokens,
        cost_usd=total.cost_usd,
    )


def _models(heard: Sequence[Heard]) -> list[str]:
    """The names that the model gave itself, in the order in which they first came."""
    ordered = sorted(heard, key=lambda one: (one.event.sample, one.event.attempt))
    names = (one.event.model_reported for one in ordered)
    return list(dict.fromkeys(name for name in names if name is not None))


def _changed_model(verifier: AgentVerifier, heard: Sequence[Heard]) -> list[WarningRaised]:
    models = _models(heard)
    if len(models) < 2:
        return []
    message = (
        f"judge {verifier.name}: {verifier.model} called itself {' and then '.join(models)}, so "
        "the samples are of different judges"
    )
    return [WarningRaised(code="judge_model_changed", message=message)]


def _unstable(verifier: AgentVerifier, each: Sequence[float], passed: int) -> WarningRaised:
    shown = ", ".join(f"{score:g}" for score in each)
    message = (
        f"judge {verifier.name}: {passed} of {len(each)} samples pass and the others do not "
        f"(scores {shown})"
    )
    return WarningRaised(code="judge_unstable", message=message)


def _lost_warning(verifier: AgentVerifier, lost: Sequence[_Sample], asked: int) -> WarningRaised:
    message = (
        f"judge {verifier.name}: {len(lost)} of {asked} samples got no reply and are left out; "
        f"the first: {lost[0].last.event.error}"
    )
    return WarningRaised(code="judge_sample_lost", message=message)


def _malformed(sample: _Sample, heard: Sequence[Heard], asked: int) -> tuple[str, str, bool]:
    tries = sum(one.event.sample == sample.number for one in heard)
    read = sample.last.read
    reason = read.reason if isinstance(read, Malformed) else "nothing could be read"
    error = (
        f"no reply of the judge's fits its rubric (sample {sample.number} of {asked}, asked "
        f"{tries} times); the last one: {reason}"
    )
    return error, "judge_malformed", False


def _past_own_limit(verifier: AgentVerifier, usage: Usage | None) -> bool:
    if verifier.max_cost is None or usage is None or not usage.model_calls:
        return False
    return usage.cost_usd is None or usage.cost_usd >= verifier.max_cost


def _lost(lost: Sequence[_Sample], *, own_limit: bool) -> tuple[str, str, bool]:
    """Every sample was lost: whether the judge can be had at all, and who is at fault.

    A limit of the verifier's own would be reached again, so it is the verifier's fault.
    """
    failures = [sample.last.event.failure for sample in lost]
    error = f"the judge gave no reply: {lost[0].last.event.error}"
    if all(failure == "cost_limit" for failure in failures):
        return error, "judge_cost_limit", not own_limit
    if all(failure == "unavailable" for failure in failures):
        return error, "judge_unavailable", True
    return error, "judge_failed", not all(failure == "rejected" for failure in failures)
