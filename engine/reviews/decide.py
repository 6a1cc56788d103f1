"""What became of a review: the reviewer's own trial and its answer in, one event out. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ...events.kinds import ReviewCompleted, ReviewFailed
from ...events.kinds.review import ReviewCheck
from ...events.values import Text
from ..trial.state import TrialState
from .structure import RESULT_FILE, faults

MALFORMED = "review_malformed"
MISSING = "review_missing"
UNCHECKED = "review_unchecked"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one review before its reviewer works."""

    trial: str
    criteria: list[str]
    rubric_path: str | None = None
    notes: list[str] = []


def verdict(
    asked: Asked, reviewer_trial: str, state: TrialState, answer: bytes | None
) -> ReviewCompleted | ReviewFailed:
    """A completed review, or why there is none. `answer` is the file that the reviewer wrote."""
    if (problem := _problem(state)) is not None:
        return failed(asked, *problem, reviewer_trial=reviewer_trial)
    if answer is None:
        how = state.agent_finished.error if state.agent_finished else None
        error = f"the reviewer wrote no {RESULT_FILE}" + (f": {how}" if how else "")
        return failed(asked, error, MISSING, reviewer_trial=reviewer_trial)
    wrong = faults(answer, asked.criteria)
    if wrong:
        more = f" (and {len(wrong) - 5} more)" if len(wrong) > 5 else ""
        error = f"the answer is no review: {'; '.join(wrong[:5])}{more}"
        return failed(asked, error, MALFORMED, reviewer_trial=reviewer_trial)
    if state.scored is None or not state.scored.passed:
        # The check inside and this one are the same code: it could not run, or did not see this.
        why = "; ".join(state.warnings) or "its own check did not accept it"
        return failed(asked, why, UNCHECKED, reviewer_trial=reviewer_trial)
    found = json.loads(answer)
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
        notes=asked.notes,
        criteria=asked.criteria,
    )


def failed(
    asked: Asked, error: Text, category: str, *, reviewer_trial: str | None = None
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
    )


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
