"""The files of a job's reviews: written, compared, rebuilt, and as they stood."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.given import fill, job_started, scheduled, trial, unknown
from trialog.events.errors import BlobMissing, LogCorrupt
from trialog.events.kinds import ReviewCompleted, ReviewFailed, ReviewFinished, ReviewStarted
from trialog.events.kinds.review import ReviewCheck, ReviewCriterion
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log
from trialog.events.values import blob_ref
from trialog.projections.rebuild import check, rebuild, rebuild_at
from trialog.projections.reviews import REPORT, ReviewerFiles, review_files, reviews_of

TRIAL, REVIEWER = "t__00000001", "review-t__00000002"
LONG = b"long " * 5000
RUN = f"reviews/r/runtime/{TRIAL}/{REVIEWER}"


def begun(**more: Any) -> ReviewStarted:
    """A review of the job's trial."""
    usual: dict[str, Any] = {
        "review": "r",
        "path": "../..",
        "out_dir": "j/reviews/r",
        "trials": [TRIAL],
        "selection": "all",
        "criteria": [ReviewCriterion(name="sound", description="d", guidance="g")],
        "agent": "command:look",
        "sandbox": "bubblewrap",
        "network": "no-internet",
        "job": "j",
    }
    return ReviewStarted(**usual | more)


COMPLETED = ReviewCompleted(
    trial=TRIAL,
    reviewer_trial=REVIEWER,
    summary=blob_ref(LONG),
    checks={"sound": ReviewCheck(outcome="pass", explanation="because")},
    criteria=["sound"],
)
DONE = ReviewFinished(completed=1, failed=0)


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """A log with a job, a review of its trial, and one of another job."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await log.blobs.put(LONG)
        await fill(
            log,
            {
                "job/j": [job_started(), scheduled(TRIAL)],
                f"trial/{TRIAL}": trial(1.0, trial=TRIAL),
                f"trial/{REVIEWER}": trial(1.0, trial=REVIEWER),
                "review/r": [begun(), COMPLETED, DONE],
                "review/other": [begun(review="other", job="else"), DONE],
            },
        )
        yield log


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def break_chain(log: MemoryLog, stream: str) -> None:
    """Change a stream's last event, as no log allows."""
    events = log._streams[stream]
    events[-1] = msgspec.structs.replace(events[-1], hash=b"\0" * 32)


async def test_a_jobs_reviews_are_rebuilt_with_it(log: MemoryLog, tmp_path: Path) -> None:
    """Report and reviewer's files are written, found in order, and come back to the byte."""
    await rebuild(log, "j", tmp_path)
    files = bytes_of(tmp_path / "j")
    assert f"reviews/r/{REPORT}" in files
    assert f"{RUN}/result.json" in files
    assert not any(path.startswith("reviews/other") for path in files)
    assert await check(log, "j", tmp_path) == []
    shutil.rmtree(tmp_path / "j")
    await rebuild(log, "j", tmp_path)
    assert bytes_of(tmp_path / "j") == files


@pytest.mark.parametrize("path", [f"reviews/r/{REPORT}", f"{RUN}/result.json"])
async def test_a_changed_file_is_found(log: MemoryLog, tmp_path: Path, path: str) -> None:
    """A file of a review that differs is named from the job's folder."""
    await rebuild(log, "j", tmp_path)
    (tmp_path / "j" / path).write_bytes(b"{}")
    assert [(one.path, one.what) for one in await check(log, "j", tmp_path)] == [(path, "differs")]


async def test_a_review_that_lies_elsewhere(log: MemoryLog, tmp_path: Path) -> None:
    """A report outside of the job's folder is written there, and named whole when it differs."""
    out = tmp_path / "elsewhere"
    await fill(log, {"review/e": [begun(review="e", out_dir=str(out)), COMPLETED, DONE]})
    await rebuild(log, "j", tmp_path / "jobs")
    (out / REPORT).unlink()
    found = [(one.path, one.what) for one in await check(log, "j", tmp_path / "jobs")]
    assert found == [(str(out / REPORT), "missing")]


async def test_reviews_as_they_stood(log: MemoryLog, tmp_path: Path) -> None:
    """Before a review began there is none of it, and before its end there is no report."""
    [started] = [e.position for e in await log.read("review/r") if e.version == 1]
    await rebuild_at(log, "j", started - 1, tmp_path / "before")
    assert not any("reviews/" in path for path in bytes_of(tmp_path / "before"))
    await rebuild_at(log, "j", started + 1, tmp_path / "between")
    paths = bytes_of(tmp_path / "between")
    assert f"{RUN}/result.json" in paths
    assert f"reviews/r/{REPORT}" not in paths
    await rebuild_at(log, "j", await log.last_position(), tmp_path / "after")
    assert f"reviews/r/{REPORT}" in bytes_of(tmp_path / "after")


async def test_a_broken_chain_gives_no_file(log: MemoryLog, tmp_path: Path) -> None:
    """From a stream that was altered nothing is made; its files are problems by name."""
    break_chain(log, f"trial/{REVIEWER}")
    report = await rebuild(log, "j", tmp_path)
    assert {problem.path for problem in report.problems} >= {f"{REVIEWER}/result.json"}
    break_chain(log, "review/r")
    report = await rebuild(log, "j", tmp_path)
    assert [problem.path for problem in report.problems] == [REPORT]
    assert isinstance(report.problems[0].error, LogCorrupt)


async def test_a_text_that_is_missing(log: MemoryLog) -> None:
    """A blob that is not there is a problem of the report, by the blob's name."""
    log.blobs._blobs.clear()  # type: ignore[attr-defined]
    [*_, report] = [placed async for placed in review_files(log, "r")]
    [problem] = report.files.problems
    assert isinstance(problem.error, BlobMissing)


async def test_what_a_later_release_wrote_stops_the_report(log: MemoryLog) -> None:
    """An unknown event in the stream blocks the report; a stream that begins with one is no
    review of any job that is known."""
    events = log._streams["review/r"]
    events[1] = unknown(events[1], ignorable=False)
    [report] = [placed async for placed in review_files(log, "r")]
    assert [problem.path for problem in report.files.problems] == [REPORT]
    assert [name for name, _ in await reviews_of(log, "j")] == ["r"]
    events[0] = unknown(events[0], ignorable=True)
    assert await reviews_of(log, "j") == []


async def test_a_stream_that_begins_with_another_event(log: MemoryLog) -> None:
    """A review's stream without its start belongs to no job."""
    log._streams["review/r"][0] = log._streams["review/r"][2]
    assert await reviews_of(log, "j") == []


async def test_reviewers_files_are_written_as_they_end(log: MemoryLog, tmp_path: Path) -> None:
    """A run's files lie below the trial that it reviews; one without an event has none."""
    files = ReviewerFiles(log, "r", tmp_path, tmp_path / "out")
    files.expect(REVIEWER, TRIAL)
    files.expect("nobody", TRIAL)
    assert (await files.write_trial(REVIEWER)).written > 0
    assert (tmp_path / "out/runtime" / TRIAL / REVIEWER / "result.json").exists()
    assert (await files.write_trial("nobody")).written == 0


async def test_a_run_that_was_never_begun(log: MemoryLog) -> None:
    """A failed review without events of its reviewer has a report and no other file."""
    failed = ReviewFailed(trial=TRIAL, reviewer_trial="gone", error="e", category="c")
    await fill(log, {"review/f": [begun(review="f"), failed, DONE]})
    assert [placed.name async for placed in review_files(log, "f")] == [""]
