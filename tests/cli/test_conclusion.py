"""Exit codes of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from trialog.engine.console.conclusion import exit_code_of


def summary(rate: float | None = 0.5, **counts: int) -> dict[str, Any]:
    """A summary of ten scored trials, but for these counts."""
    given = {"slots": 10, "scored": 10, "unscored": 0, "errored": 0, "awaiting_review": 0}
    return {"counts": {**given, **counts}, "pass_rate": {"value": rate}}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (summary(), 0),
        (summary(scored=8, awaiting_review=2), 0),
        (summary(scored=9, errored=1), 1),
        (summary(scored=9, unscored=1), 1),
        (summary(scored=9), 1),
    ],
)
def test_every_trial_is_scored_or_waits_for_people(found: dict[str, Any], code: int) -> None:
    """0 when every trial is scored or waits for people, 1 when some are not."""
    assert exit_code_of(found, interrupted=False) == code


def test_interrupted() -> None:
    """An interrupted job gives 130, whatever else."""
    assert exit_code_of(summary(scored=3), interrupted=True) == 130


@pytest.mark.parametrize(
    ("rate", "under", "code"), [(0.5, 0.5, 0), (0.5, 0.6, 1), (None, 0.0, 1), (0.0, 0.0, 0)]
)
def test_fail_under(rate: float | None, under: float, code: int) -> None:
    """--fail-under adds 1 below a pass rate, and where there is none."""
    assert exit_code_of(summary(rate), interrupted=False, fail_under=under) == code
