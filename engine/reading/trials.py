"""A trial's structs, made of its ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...events.kinds import ActionTaken, RegradeStarted, TrialErrored, TrialUnscored
from ...events.kinds.parts import Criterion as StoredCriterion
from ...events.kinds.parts import Verdict as StoredVerdict
from ...events.values import BlobRef, Json, Text, unescape
from ...projections.document import known_seconds
from ...projections.grading import CriterionResult, VerifierResult, verifier_results
from ...projections.regrades import answered
from ...projections.result import answer, result
from ...projections.texts import full_text, full_value, reference, score_names
from ...projections.trial import TrialView
from ...projections.usage import usage_total
from ..exports.form import TrialRead
from ..labels.ledger import Applied, Ledger
from ..labels.masks import ending_of, mask_of, short
from ..labels.rows import StepRow, rows
from .structs import Criterion, Reward, Step, Trial, Verdict


def trial_of(read: TrialRead, *, gamma: float = 1.0) -> Trial:
    """The trial. `read.blobs` has those that trial_blobs names."""
    view = read.ledger.view
    started, slot = view.started, view.started.slot
    found, used = result(view), usage_total(view.usages)
    mask, ending = mask_of(view, read.regrades), ending_of(view)
    texts = _Texts(read.blobs)
    steps = list(_steps(read, gamma))
    named = (found.rewards if found else None) or {}
    error, category = _error(view)
    said = answer(view)
    return Trial(
        name=started.trial, job=started.job, task=slot.task, agent=slot.agent,
        agent_version=view.agent_version,
        model=slot.model or (view.agent_started.model if view.agent_started else None),
        parameters=unescape(slot.parameters), attempt=slot.attempt, execution=started.execution,
        seed=started.seed, imported_from=started.imported.system if started.imported else None,
        outcome=view.finish.payload.outcome if view.finish else None,
        passed=found.passed if found else None, score=found.score if found else None,
        scores=found.scores if found else {}, reward=named.get("reward"),
        reward_valid=found.reward_valid if found else False, named_rewards=named,
        error=texts.optional(error), error_category=category,
        warnings=[warning.code for warning in view.warnings],
        answer=None if said is None else full_value(said, read.blobs),
        model_calls=used.model_calls, input_tokens=used.input_tokens,
        output_tokens=used.output_tokens, cached_tokens=used.cached_tokens,
        cost_usd=used.cost_usd, started_at=view.started_at,
        finished_at=view.finish.at if view.finish else None,
        seconds=found.timing.total if found else None, n_steps=len(steps),
        terminated=ending.terminated, truncated=ending.truncated, ended_by=ending.ended_by,
        masked=mask is not None, mask_reason=mask.reason if mask else None,
        mask_detail=mask.detail if mask else None, steps=steps,
        rewards=list(_rewards(read.ledger, {step.event_id: step.number for step in steps})),
        verdicts=list(_verdicts(read, texts)),
    )  # fmt: skip


def trial_blobs(view: TrialView) -> Iterator[BlobRef]:
    """The texts that are blobs and are given in full."""
    values: list[Json | Text | None] = [answer(view), _error(view)[0]]
    for _, payload in view.history:
        if isinstance(payload, ActionTaken):
            values += (payload.arguments, payload.observation, payload.error)
    verdicts: list[VerifierResult | StoredVerdict] = [*verifier_results(view), *_regraded(view)]
    for given in verdicts:
        values += (given.feedback, given.error, *given.evidence)
        values += (one.feedback for one in given.criteria)
    for value in values:
        if (ref := reference(value)) is not None:
            yield ref


def _error(view: TrialView) -> tuple[Text | None, str | None]:
    """Why there is no score; else what went wrong with the agent."""
    found = result(view)
    if isinstance(view.conclusion, TrialErrored | TrialUnscored):
        return view.conclusion.error, view.conclusion.category
    return (found.error, found.error_category) if found else (None, None)


def _steps(read: TrialRead, gamma: float) -> Iterator[Step]:
    view = read.ledger.view
    taken = {event.id: step for event, step in view.history if isinstance(step, ActionTaken)}
    for row in rows(read.ledger, read.blobs, gamma=gamma, regrades=read.regrades):
        if isinstance(row, StepRow):
            step = taken[row.event_id]
            yield Step(
                trial=row.trial, event_id=row.event_id, number=row.step, turn=row.turn,
                app=row.app, action=row.action, arguments=row.arguments,
                observation=row.observation, error=row.error, observed_by=row.observed_by,
                started_at=step.started_at or None,
                seconds=known_seconds(step.duration, step.untimed), model_call=row.model_call,
                tool_call=row.tool_call, reward=row.reward, credit=row.credit, to_go=row.to_go,
                terminated=row.terminated, truncated=row.truncated,
            )  # fmt: skip


def _rewards(ledger: Ledger, numbers: Mapping[str, int]) -> Iterator[Reward]:
    trial = ledger.view.started.trial
    for line in ledger.lines:
        target = line.target
        yield Reward(
            trial=trial, record_id=line.record_id, verifier=line.verifier, version=line.version,
            source=line.source, granularity=line.granularity, space=line.space, value=line.value,
            weight=line.weight, app=line.app, target=target.kind, event_id=target.event_id,
            step=numbers.get(target.event_id), field=target.field, start=target.start,
            end=target.end, token_start=target.token_start, token_end=target.token_end,
            metadata=unescape(line.metadata), created_at=line.created_at,
        )  # fmt: skip


class _Texts:
    """Texts out of their blobs."""

    def __init__(self, blobs: Mapping[str, bytes]) -> None:
        self._blobs = blobs

    def optional(self, text: Text | None) -> str | None:
        return None if text is None else full_text(text, self._blobs)

    def all(self, texts: Iterable[Text]) -> list[str]:
        return [full_text(text, self._blobs) for text in texts]

    def criteria(self, given: Iterable[CriterionResult | StoredCriterion]) -> list[Criterion]:
        return [
            Criterion(
                name=one.name, score=one.score, min_score=one.min_score, max_score=one.max_score,
                weight=one.weight, blocker=one.blocker, feedback=self.optional(one.feedback),
            )
            for one in given
        ]  # fmt: skip


def _verdicts(read: TrialRead, texts: _Texts) -> Iterator[Verdict]:
    view = read.ledger.view
    trial = view.started.trial
    for given in verifier_results(view):
        yield _of_run(trial, given, texts)
    answers = answered(view)
    for id in read.regrades:
        if id in answers:
            for verdict in answers[id][1].verdicts:
                yield _of_regrade(trial, id, verdict, texts)
    for label in read.ledger.applied:
        yield _applied(trial, label)


def _regraded(view: TrialView) -> list[StoredVerdict]:
    return [
        verdict
        for _, payload in view.regrades
        if not isinstance(payload, RegradeStarted)
        for verdict in payload.verdicts
    ]


def _of_run(trial: str, given: VerifierResult, texts: _Texts) -> Verdict:
    return Verdict(
        trial=trial, given_in="run", regrade=None, verifier=given.name, kind=given.kind,
        version=given.version, digest=given.digest, weight=given.weight, score=given.score,
        scores=given.scores, criteria=texts.criteria(given.criteria),
        evidence=texts.all(given.evidence), feedback=texts.optional(given.feedback),
        model=given.model, error=texts.optional(given.error),
        error_category=given.error_category,
    )  # fmt: skip


def _of_regrade(trial: str, regrade: str, given: StoredVerdict, texts: _Texts) -> Verdict:
    return Verdict(
        trial=trial, given_in="regrade", regrade=regrade, verifier=given.verifier,
        kind=given.verifier_kind, version=given.version, digest=given.digest or None,
        weight=given.weight, score=None if given.missing else given.score,
        scores=score_names(given.scores), criteria=texts.criteria(given.criteria),
        evidence=texts.all(given.evidence), feedback=texts.optional(given.feedback),
        model=given.model, error=texts.optional(given.error),
        error_category=given.error_category,
    )  # fmt: skip


def _applied(trial: str, label: Applied) -> Verdict:
    return Verdict(
        trial=trial, given_in="applied", regrade=None, verifier=label.verifier, kind=None,
        version=label.version, digest=label.digest, weight=None, score=label.score,
        scores=score_names(label.scores), criteria=[], evidence=[], feedback=None, model=None,
        error=None if label.error is None else short(label.error), error_category=None,
    )  # fmt: skip
