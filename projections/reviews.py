"""The files of reviews: each one's report, and those of its reviewers' own runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread

from ..events.checking import check_chain
from ..events.codec import decode
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, LogError
from ..events.kinds import ReviewStarted
from ..events.log import EventLog
from .disk import files_lock
from .files import Files, Problem, no_trial_files
from .review import ReviewFold, review_document, runtime_path
from .source import files_of, folded, read_trial, up_to
from .writer import Report, write

REPORT = "review_report.json"


class Placed(NamedTuple):
    """Files of one folder below a review's."""

    folder: str
    """The folder that `name` lies in, relative to the review's own; empty for that one."""
    name: str
    """A reviewer's run; empty for the review's own files."""
    files: Files


async def reviews_of(
    log: EventLog, job: str, *, until: int | None = None
) -> list[tuple[str, ReviewStarted]]:
    """The reviews of a job's trials, oldest first, with their first events."""
    return [one for one in await all_reviews(log, until=until) if one[1].job == job]


async def all_reviews(
    log: EventLog, *, until: int | None = None
) -> list[tuple[str, ReviewStarted]]:
    """Every review of the log, oldest first, with its first event."""
    found: list[tuple[str, ReviewStarted]] = []
    for stream in await log.streams("review/"):
        first = up_to(await log.read(stream, limit=1), until)
        started = _started(first[0]) if first else None
        if started is not None:
            found.append((stream.removeprefix("review/"), started))
    return found


async def read_review(
    log: EventLog, review: str, *, until: int | None = None, verify: bool = False
) -> ReviewFold:
    """A review as its stream has it. With `verify`, raises LogCorrupt for a broken hash chain."""
    events = up_to(await log.read(f"review/{review}"), until)
    if verify:
        await to_thread.run_sync(check_chain, events)
    fold = ReviewFold()
    await to_thread.run_sync(fold.feed, events)
    return fold


async def review_files(
    log: EventLog, review: str, *, until: int | None = None, verify: bool = False
) -> AsyncIterator[Placed]:
    """All files of a review, the report last."""
    try:
        fold = await read_review(log, review, until=until, verify=verify)
    except LogCorrupt as corrupt:
        yield Placed("", "", Files(problems=[Problem(REPORT, corrupt)]))
        return
    for reviewed, trial in fold.reviewers:
        if (placed := await _run(log, reviewed, trial, until=until, verify=verify)) is not None:
            yield placed
    yield Placed("", "", await _report(log, fold))


async def _run(
    log: EventLog, reviewed: str, trial: str, *, until: int | None = None, verify: bool = False
) -> Placed | None:
    """The files of a reviewer's own run; None before its first event."""
    folder = runtime_path(reviewed, trial).rpartition("/")[0]
    try:
        events = await read_trial(log, trial, until=until, verify=verify)
        view = await to_thread.run_sync(folded, events)
    except LogCorrupt as corrupt:
        return Placed(folder, trial, no_trial_files(corrupt))
    return None if view is None else Placed(folder, trial, await files_of(log.blobs, view))


async def write_review(
    log: EventLog,
    review: str,
    jobs_folder: Path,
    folder: Path,
    *,
    until: int | None = None,
    verify: bool = False,
) -> Report:
    """Write all files of a review into its folder. Raises FilesUnwritable."""
    report = Report()
    async with files_lock(_lock(jobs_folder, review)):
        async for place, name, files in review_files(log, review, until=until, verify=verify):
            report += await write(log.blobs, folder / place, name, files)
    return report


def _lock(jobs_folder: Path, review: str) -> Path:
    """What the lock of a review's files is named for; its folder may be anywhere."""
    return jobs_folder / f"review-{review}"


class ReviewerFiles:
    """Writes the files of reviewers' own runs as they end: one object as long as a review runs."""

    def __init__(self, log: EventLog, review: str, jobs_folder: Path, folder: Path) -> None:
        self._log = log
        self._folder = folder
        self._lock = _lock(jobs_folder, review)
        self._reviewed: dict[str, str] = {}

    def expect(self, trial: str, reviewed: str) -> None:
        """The run `trial` reviews the trial `reviewed`."""
        self._reviewed[trial] = reviewed

    async def write_trial(self, trial: str) -> Report:
        """Write a reviewer's files. Raises FilesUnwritable."""
        async with files_lock(self._lock):
            run = await _run(self._log, self._reviewed[trial], trial)
            if run is None:
                return Report()
            return await write(self._log.blobs, self._folder / run.folder, run.name, run.files)


async def _report(log: EventLog, fold: ReviewFold) -> Files:
    if fold.blocked is not None:
        return Files(problems=[Problem(REPORT, fold.blocked)])
    try:
        blobs = {ref.blob: await log.blobs.get(ref) for ref in fold.blobs()}
    except LogError as error:
        return Files(problems=[Problem(REPORT, error)])
    document = await to_thread.run_sync(review_document, fold, blobs)
    return Files() if document is None else Files(documents={REPORT: document})


def _started(event: RecordedEvent) -> ReviewStarted | None:
    try:
        payload = decode(event)
    except LogError:
        return None  # another release's; it names no job that this one could tell
    return payload if isinstance(payload, ReviewStarted) else None
