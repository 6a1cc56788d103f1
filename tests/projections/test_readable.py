"""A job's summary without the trials that can't be read, for those who are told of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from helpers.given import fill, job_started, scheduled, slot, trial
from helpers.logs import alter
from trialog.events.errors import LogCorrupt
from trialog.events.log import EventLog
from trialog.events.open import open_log
from trialog.projections.writer import JobFiles

ONE, TWO = "t__00000001", "t__00000002"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    """A log with a job of two scored trials."""
    both = [scheduled(ONE), scheduled(TWO, slot=slot(attempt=2))]
    async with open_log(tmp_path / "trialog.db") as log:
        await fill(log, {
            "job/j": [job_started(slots=2), *both],
            f"trial/{ONE}": trial(),
            f"trial/{TWO}": trial(trial=TWO, slot=slot(attempt=2)),
        })  # fmt: skip
        yield log


async def test_a_trial(log: EventLog, tmp_path: Path) -> None:
    """It is no trial of any outcome, and the file is not written."""
    alter(tmp_path / "trialog.db", f"trial/{TWO}", 3, "data = '{bad'")
    files = JobFiles(log, "j", tmp_path / "j")
    assert [p.path for p in (await files.write_summary()).problems] == ["summary.json"]
    counts = msgspec.json.decode(await files.readable_summary())["counts"]
    assert (counts["slots"], counts["scored"]) == (2, 1)
    assert not (tmp_path / "j" / "summary.json").exists()


async def test_the_job(log: EventLog, tmp_path: Path) -> None:
    """Of a job whose own events can't be read there is none."""
    alter(tmp_path / "trialog.db", "job/j", 3, "data = '{bad'")
    with pytest.raises(LogCorrupt, match=r"^stream 'job/j' version 3: "):
        await JobFiles(log, "j", tmp_path / "j").readable_summary()
