"""What a regrade appends to a trial: verdicts in, an event out. Plain functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...events.clock import format_time, parse_time
from ...events.kinds import (
    RegradeFailed,
    RegradeScored,
    VerifierFailed,
    VerifierScored,
    WarningRaised,
)
from ...events.kinds.parts import Verdict
from ...projections.regrades import FLAKY
from ..trial.decide import combine
from .stored import StoredTrial


def answer(
    regrade_id: str,
    verdicts: Sequence[VerifierScored | VerifierFailed],
    warnings: Sequence[WarningRaised] = (),
    *,
    kept: Collection[str] = (),
    as_of_run: StoredTrial | None = None,
) -> RegradeScored | RegradeFailed:
    """What these verdicts come to. `kept` are verifiers that were not run again.

    `as_of_run` is the trial where the verifiers are exactly the run's: a difference is a warning.
    """
    parts = [verdict(one, kept=one.verifier in kept) for one in verdicts]
    failed = [one for one in verdicts if isinstance(one, VerifierFailed)]
    if failed:
        first = next((one for one in failed if not one.infrastructure), failed[0])
        return RegradeFailed(
            regrade_id=regrade_id,
            error=first.error,
            category=first.category,
            verdicts=parts,
            infrastructure=first.infrastructure,
        )
    scored = combine([one for one in verdicts if isinstance(one, VerifierScored)])
    told = [(warning.code, warning.message) for warning in warnings]
    if as_of_run is not None and (
        difference := _difference(as_of_run, scored.passed, scored.score)
    ):
        told.append((FLAKY, difference))
    return RegradeScored(
        regrade_id=regrade_id,
        verdicts=parts,
        passed=scored.passed,
        score=scored.score,
        scores=scored.scores,
        rewards=scored.rewards,
        reward_source=scored.reward_source,
        reward_valid=scored.reward_valid,
        warnings=[code for code, _ in told],
        messages=[message for _, message in told],
    )


def _difference(trial: StoredTrial, passed: bool, score: float) -> str | None:
    """In words what the same verifiers say otherwise now; None for nothing."""
    before = trial.scored
    if before is None or before.reward_source == "engine":
        return None  # the verifier itself said nothing
    if (before.passed, before.score) == (passed, score):
        return None
    return f"with the same files it gave {before.score:g} in the run and {score:g} now"


def verdict(one: VerifierScored | VerifierFailed, *, kept: bool = False) -> Verdict:
    """One verifier's answer as a regrade records it."""
    if isinstance(one, VerifierFailed):
        return Verdict(
            verifier=one.verifier, verifier_kind=one.verifier_kind, version=one.version,
            digest=one.digest, weight=one.weight, exit_code=one.exit_code, duration=one.duration,
            output=one.output, files=one.files, error=one.error, error_category=one.category,
            kept=kept, model=one.model, usage=one.usage, sandbox_mode=one.sandbox_mode,
            line=one.line,
        )  # fmt: skip
    return Verdict(
        verifier=one.verifier, verifier_kind=one.verifier_kind, version=one.version,
        digest=one.digest, weight=one.weight, score=one.score, scores=one.scores,
        criteria=one.criteria, evidence=one.evidence, feedback=one.feedback, details=one.details,
        exit_code=one.exit_code, duration=one.duration, output=one.output, files=one.files,
        kept=kept, source=one.source, missing=one.missing, model=one.model, samples=one.samples,
        spread=one.spread, usage=one.usage, live_state=one.live_state,
        sandbox_mode=one.sandbox_mode,
    )  # fmt: skip


def new_id(at: str, taken: Collection[str]) -> str:
    """A regrade's id from the time at which it is planned: ``20261104T175847Z-866168``."""
    moment = parse_time(at)
    while True:
        whole, _, parts = format_time(moment).removesuffix("Z").partition(".")
        id = f"{whole.replace('-', '').replace(':', '')}Z-{parts}"
        if id not in taken:
            return id
        moment += 1
