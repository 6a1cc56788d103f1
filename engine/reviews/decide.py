"""What became of a review: the reviewer's own trial and its answer in, one event out. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...events.kinds import AgentFinished, ReviewCompleted, ReviewFailed
from ...events.kinds.review import ReviewCheck
from ...events.values import Text
from ..trial.state import TrialState
from .structure import CAP, RESULT_FILE, read_answer

MALFORMED = "review_malformed"
MISSING = "review_missing"
UNCHECKED = "review_unchecked"
COST_LIMIT = "review_cost_limit"
NOT_THERE = "there is no such file"
"""What every sandbox says of an artifact that was never made."""
CRASHED = ("agent_exit", "agent_timeout", "idle_timeout", "max_seconds")
"""Ends of a reviewer after which nobody knows whether its answer was meant to be the last."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one review before its reviewer works."""

    trial: str
    criteria: list[str]
    rubric_path: str | None = None
    notes: list[str] = []


def verdict(
    asked: Asked,
    reviewer_trial: str,
    state: TrialState,
    answer: bytes | None,
    *,
    models: Sequence[str] = (),
) -> ReviewCompleted | ReviewFailed:
    """A completed review, or why there is none. `answer` is the file that the reviewer wrote,
    `models` what its model called itself."""
    if (problem := _problem(state)) is not None:
        return failed(asked, *problem, reviewer_trial=reviewer_trial)
    done = state.agent_finished
    how = _end(done)
    if answer is None:
        why = "; ".join([*([how] if how else []), *_not_taken(state)])
        error = f"the reviewer wrote no {RESULT_FILE}" + (f": {why}" if why else "")
        return failed(asked, error, MISSING, reviewer_trial=reviewer_trial)
    reply = answer.decode("utf-8", "replace")
    if done is not None and done.ended_by in CRASHED:
        error = f"the reviewer did not come to its end, so its answer does not count: {how}"
        category = done.error_category or done.ended_by
        return failed(asked, error, category, reviewer_trial=reviewer_trial, reply=reply)
    found = read_answer(answer, asked.criteria)
    if isinstance(found, list):
        more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
        error = f"the answer is no review: {'; '.join(found[:5])}{more}"
        return failed(asked, error, MALFORMED, reviewer_trial=reviewer_trial, reply=reply)
    if state.scored is None or not state.scored.passed:
        # The check inside and this one are the same code: it could not run, or did not see this.
        why = "; ".join(state.warnings) or "its own check did not accept it"
        return failed(asked, why, UNCHECKED, reviewer_trial=reviewer_trial, reply=reply)
    return ReviewCompleted(
        trial=asked.trial,
        reviewer_trial=reviewer_trial,
        summary=found["summary"],
        checks={
            name: ReviewCheck(
                outcome=found["checks"][name]["outcome"],
                explanation=found["checks"][name]["explanation"],
            )
            for name in asked.criteria
        },
        rubric_path=asked.rubric_path,
        notes=asked.notes + ([f"the reviewer answered, then {how}"] if how else []),
        criteria=asked.criteria,
        models_reported=list(models),
    )


def failed(
    asked: Asked,
    error: Text,
    category: str,
    *,
    reviewer_trial: str | None = None,
    reply: str | None = None,
) -> ReviewFailed:
    """One trial's review that came to nothing."""
    return ReviewFailed(
        trial=asked.trial,
        reviewer_trial=reviewer_trial,
        error=error,
        category=category,
        rubric_path=asked.rubric_path,
        notes=asked.notes,
        criteria=asked.criteria,
        reply=reply,
    )


def _end(done: AgentFinished | None) -> str | None:
    """How the reviewer ended, where it did not end well."""
    if done is None or done.error is None:
        return None
    return done.error if isinstance(done.error, str) else done.ended_by


def _not_taken(state: TrialState) -> list[str]:
    """Why the file could not be taken out of the sandbox, where something was there."""
    if state.artifacts is None:
        return []
    skipped = [
        f"{one.path}: {one.reason}"
        for one in state.artifacts.skipped
        if one.path.rpartition("/")[2] == RESULT_FILE and one.reason != NOT_THERE
    ]
    large = [one for one in state.artifacts.artifacts if one.path == RESULT_FILE and one.size > CAP]
    return skipped + [f"it is over {CAP} bytes" for _ in large]


def _problem(state: TrialState) -> tuple[Text, str] | None:
    """Why the reviewer's trial gave no verdict."""
    for end in (state.errored, state.unscored):
        if end is not None:
            return end.error, end.category
    return None


def counted(answers: Sequence[ReviewCompleted | ReviewFailed]) -> tuple[int, int]:
    """How many reviews are valid, and how many failed."""
    valid = sum(isinstance(answer, ReviewCompleted) for answer in answers)
    return valid, len(answers) - valid
