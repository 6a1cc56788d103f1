"""regrade.json: what the latest regrade made of a trial. The run's own result is result.json."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..events.envelope import RecordedEvent
from ..events.kinds import RegradeFailed, RegradeScored, RegradeStarted
from ..events.kinds.parts import Verdict as VerifierVerdict
from ..events.values import Text
from .document import seconds
from .grading import (
    NO_REWARD,
    NO_REWARD_CATEGORY,
    VerifierResult,
    criterion_results,
    verifier_results,
)
from .regrades import (
    Graded,
    Regrade,
    Verdict,
    answered,
    by_weight,
    digest_of,
    digest_of_run,
    graded_by,
    original,
    verdict_of,
)
from .result import LogPlace, Warned
from .texts import score_names
from .trial import TrialView, with_line
from .usage import usage_total

SCHEMA = "trialog.regrade/1"


class Grades(msgspec.Struct, frozen=True):
    """One grading of a trial; nulls and no verifiers where there was none."""

    reward: float | None
    passed: bool | None
    verifiers: list[VerifierResult]


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A regrade before the latest."""

    regrade_id: str
    new: Graded
    verdict: Verdict
    reason: str | None
    author: str | None
    error: Text | None
    verifier_digest_after: str | None
    at: str


class RegradeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """regrade.json; docs/files.md explains every field."""

    schema: str
    regrade_id: str
    trial_name: str
    original: Grades
    new: Grades
    verdict: Verdict
    reason: str | None
    author: str | None
    error: Text | None
    verifier_digest_before: str | None
    verifier_digest_after: str | None
    history: list[Earlier]
    at: str
    log: LogPlace
    error_category: str | None
    warnings: list[Warned]
    notes: list[str]
    as_of_run: bool


def regrade(view: TrialView, regrades: Sequence[Regrade]) -> RegradeDocument | None:
    """The last by weight of the job's finished `regrades` that has an answer for the trial.

    None where there is none.
    """
    if view.finish is None:
        return None
    before = original(view)
    found = _answers(view, regrades, before)
    if not found:
        return None
    *earlier, latest = found
    planned, event = latest.regrade.planned, latest.event
    return RegradeDocument(
        schema=SCHEMA,
        regrade_id=latest.regrade.id,
        trial_name=view.started.trial,
        original=Grades(before.reward, before.passed, verifier_results(view)),
        new=Grades(latest.graded.reward, latest.graded.passed, latest.verifiers),
        verdict=latest.verdict,
        reason=planned.reason,
        author=planned.author,
        error=latest.error,
        verifier_digest_before=digest_of_run(view),
        verifier_digest_after=latest.digest,
        history=[_earlier(one) for one in earlier],
        at=event.at,
        log=LogPlace(event.stream, event.version, event.hash.hex()),
        error_category=latest.category,
        warnings=latest.warnings,
        notes=_notes(view, latest.regrade.id),
        as_of_run=planned.as_of_run,
    )


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One finished regrade's answer for the trial."""

    regrade: Regrade
    event: RecordedEvent
    graded: Graded
    verdict: Verdict
    digest: str | None = None
    error: Text | None = None
    category: str | None = None
    verifiers: list[VerifierResult] = []
    warnings: list[Warned] = []


def _answers(view: TrialView, regrades: Sequence[Regrade], before: Graded) -> list[_Answer]:
    given = answered(view)
    found: list[_Answer] = []
    for one in by_weight(regrades):
        if (answer := given.get(one.id)) is not None:
            found.append(_given(one, *answer, before))
        elif (skipped := one.skipped.get(view.started.trial)) is not None:
            found.append(
                _Answer(
                    regrade=one, event=skipped.event, graded=Graded(), verdict="not_regradable",
                    error=skipped.payload.reason, category=skipped.payload.category,
                )
            )  # fmt: skip
    return found


def _given(
    one: Regrade, event: RecordedEvent, answer: RegradeScored | RegradeFailed, before: Graded
) -> _Answer:
    graded = graded_by(answer)
    failed = answer if isinstance(answer, RegradeFailed) else None
    warnings: list[Warned] = []
    if isinstance(answer, RegradeScored):
        pairs = zip(answer.warnings, answer.messages, strict=False)
        warnings = [Warned(code, message) for code, message in pairs]
    return _Answer(
        regrade=one,
        event=event,
        graded=graded,
        verdict=verdict_of(before, graded),
        digest=digest_of((v.verifier, v.digest) for v in answer.verdicts),
        error=failed.error if failed else None,
        category=failed.category if failed else None,
        verifiers=[_verifier(verdict) for verdict in answer.verdicts],
        warnings=warnings,
    )


def _earlier(one: _Answer) -> Earlier:
    planned = one.regrade.planned
    return Earlier(
        regrade_id=one.regrade.id,
        new=one.graded,
        verdict=one.verdict,
        reason=planned.reason,
        author=planned.author,
        error=one.error,
        verifier_digest_after=one.digest,
        at=one.event.at,
    )


def _notes(view: TrialView, regrade_id: str) -> list[str]:
    """What the last start of the regrade noted; an earlier one was cut off."""
    started = [
        payload.notes
        for _, payload in view.regrades
        if isinstance(payload, RegradeStarted) and payload.regrade_id == regrade_id
    ]
    return started[-1] if started else []


def _verifier(verdict: VerifierVerdict) -> VerifierResult:
    """A verifier's entry, as result.json would have it."""
    missing, error = verdict.missing, verdict.error
    return VerifierResult(
        name=verdict.verifier,
        kind=verdict.verifier_kind,
        version=verdict.version,
        digest=verdict.digest,
        weight=verdict.weight,
        score=None if missing else verdict.score,
        scores=score_names(verdict.scores),
        criteria=criterion_results(verdict.criteria),
        evidence=verdict.evidence,
        feedback=verdict.feedback,
        details=verdict.details,
        model=verdict.model,
        samples=verdict.samples,
        spread=verdict.spread,
        usage=None if verdict.usage is None else usage_total((verdict.usage,)),
        live_state=verdict.live_state,
        exit_code=verdict.exit_code,
        sandbox_mode=verdict.sandbox_mode,
        duration_sec=seconds(verdict.duration),
        error=NO_REWARD if missing else None if error is None else with_line(error, verdict.line),
        error_category=NO_REWARD_CATEGORY if missing else verdict.error_category,
    )
