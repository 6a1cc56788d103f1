"""What goes wrong with one review is that trial's, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trialog.engine.errors import TaskError
from trialog.engine.models.limit import CostLimit
from trialog.engine.reviews.choosing import Subject
from trialog.engine.reviews.config import review_config
from trialog.engine.reviews.evidence import EvidenceOpen, EvidenceUnreadable
from trialog.engine.reviews.planning import PlannedReview
from trialog.engine.reviews.reviewer import Reviewer
from trialog.events.errors import LogUnavailable
from trialog.events.kinds import ReviewFailed
from trialog.events.kinds.parts import Usage

PLANNED = PlannedReview(
    subject=Subject(trial="t__1", task="t", passed=True), criteria=[], task=None, notes=["n"]
)


def reviewer(
    scratch: Path, error: Exception | None = None, limit: CostLimit | None = None
) -> Reviewer:
    """A reviewer that fails so, as soon as it works."""
    context: Any = SimpleNamespace(
        scratch=scratch, log=None, ids=None, models=SimpleNamespace(cost_limit=limit)
    )
    files: Any = None
    made: Any = Reviewer(
        review_config({"agent": "nop"}), context, {}, files, image_digest=None, regrades=()
    )

    async def fails(planned: Any, asked: Any, folder: Path) -> None:
        assert error is not None
        raise error

    made._review = fails
    found: Reviewer = made
    return found


@pytest.mark.parametrize(
    ("error", "category", "said"),
    [
        (EvidenceOpen("it can be written"), "evidence_open", "it can be written"),
        (EvidenceUnreadable("it is damaged"), "evidence_unreadable", "it is damaged"),
        (PermissionError(13, "Permission denied", "/x"), "host_failed", "/x: Permission denied"),
        (TaskError("no prompt"), "host_failed", "no prompt"),
        (ValueError("a fault of ours"), "engine_fault", "ValueError: a fault of ours"),
    ],
)
async def test_a_failure_is_an_answer(
    tmp_path: Path, error: Exception, category: str, said: str
) -> None:
    """Evidence that can't be made or closed, and faults of our own, are error entries."""
    answer = await reviewer(tmp_path, error).review(PLANNED)
    assert isinstance(answer, ReviewFailed)
    assert (answer.trial, answer.category, answer.notes) == ("t__1", category, ["n"])
    assert said in str(answer.error)
    assert answer.reviewer_trial is None


async def test_the_logs_own_errors_end_the_review(tmp_path: Path) -> None:
    """Without a log no answer could be kept."""
    with pytest.raises(LogUnavailable):
        await reviewer(tmp_path, LogUnavailable("l.db", "it is gone")).review(PLANNED)


async def test_past_the_cost_limit_no_reviewer_begins(tmp_path: Path) -> None:
    """What is left of the review is told so, trial by trial."""
    limit = CostLimit(1.0, whose="the review's cost limit")
    limit.add(Usage(model_calls=1, cost_usd=1.5))
    answer = await reviewer(tmp_path, limit=limit).review(PLANNED)
    assert isinstance(answer, ReviewFailed)
    assert answer.category == "review_cost_limit"
    assert "limit of $1 is reached ($1.5000 spent)" in str(answer.error)
