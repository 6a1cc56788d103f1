"""Every file of a job from its log: written, compared, or as they stood at some position."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path

from anyio import to_thread

from ..events.errors import LogCorrupt, said
from ..events.log import EventLog
from .audit import Audit, Difference
from .disk import entries, exists, holds, holds_blob, place, walk
from .errors import FolderTaken
from .files import ELSEWHERE, JOB_DOCUMENTS, Files
from .reviews import review_files, reviews_of, write_review
from .source import JobSource
from .writer import JobFiles, Report, path_of, write

__all__ = ("Difference", "Report", "check", "job_folder", "rebuild", "rebuild_at")


async def job_folder(log: EventLog, job: str, jobs_folder: Path) -> Path:
    """Where a job's files are. `jobs_folder` is the log's own folder. Raises JobUnknown."""
    return jobs_folder / await JobSource(log, job).folder()


async def rebuild(log: EventLog, job: str, jobs_folder: Path) -> Report:
    """Write every file of a job. Only those that differ are touched, and nothing is removed.

    From a stream whose hash chain is broken, or that ends before what JobFinished recorded, nothing
    is written; its files are problems. Raises JobUnknown, FilesUnwritable, and LogCorrupt where the
    job's first event can't be believed.
    """
    folder = jobs_folder / await JobSource(log, job, verify=True).folder()
    files = JobFiles(log, job, folder, verify=True)
    report = Report()
    for trial in await files.trials():
        report += await files.write_trial(trial)
    report += await files.write_summary()
    for review, started in await reviews_of(log, job):
        place = jobs_folder / started.out_dir
        report += await write_review(log, review, jobs_folder, place, verify=True)
    return report


async def check(log: EventLog, job: str, jobs_folder: Path) -> list[Difference]:
    """Compare every file of a job with the log, and write nothing. Raises JobUnknown.

    The streams' hash chains, where they stood when the job finished, and every blob that their
    events name are checked as well, workspaces too. The files of an execution
    that is still in flight are not judged: they are written at its end.
    """
    source = JobSource(log, job, verify=True)
    audit = Audit(log)
    await audit.job(job)
    try:
        folder = jobs_folder / await source.folder()
    except LogCorrupt as corrupt:
        audit.altered(corrupt)
        return audit.found
    if source.broken is not None:
        audit.altered(source.broken)
    found: list[Difference] = []
    trials = await source.trials()
    for trial in trials:
        events = await source.events(trial)
        if isinstance(events, LogCorrupt):
            audit.altered(events)
            await audit.stream(f"trial/{trial}")
        else:
            await audit.blobs(events)
        if (files := await source.files(trial, events)) is not None:
            found += await to_thread.run_sync(_differences, folder, trial, files)
    found += await to_thread.run_sync(_differences, folder, "", await source.summary())
    for review, started in await reviews_of(log, job):
        place = jobs_folder / started.out_dir
        async for below, name, files in review_files(log, review, verify=True):
            wrong = await to_thread.run_sync(_differences, place / below, name, files)
            found += [_below(one, folder, place / below) for one in wrong]
    return [*audit.found, *found, *await to_thread.run_sync(_extras, folder, trials)]


async def rebuild_at(log: EventLog, job: str, position: int, out: Path) -> Report:
    """Write a job's files into `out` as they stood at a position of the log.

    A trial that had not finished then has no result.json, one whose stream is not what was appended
    has nothing. Raises JobUnknown, FolderTaken, FilesUnwritable and LogCorrupt.
    """
    source = JobSource(log, job, until=position, verify=True)
    await source.folder()
    if await to_thread.run_sync(entries, out):
        raise FolderTaken(out)
    report = Report()
    for trial in await source.trials():
        if (files := await source.trial(trial)) is not None:
            report += await write(log.blobs, out, trial, files)
    report += await write(log.blobs, out, "", await source.summary())
    for review, _ in await reviews_of(log, job, until=position):
        async for below, name, files in review_files(log, review, until=position, verify=True):
            report += await write(log.blobs, out / "reviews" / review / below, name, files)
    return report


def _below(found: Difference, folder: Path, place: Path) -> Difference:
    """The same difference, its path from the job's folder; whole where it lies elsewhere."""
    path = place / found.path
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    return Difference(str(shown), found.what, found.detail)


def _differences(folder: Path, trial: str, files: Files) -> list[Difference]:
    found = [Difference(path_of(trial, p.path), "blocked", said(p.error)) for p in files.problems]
    if files.due:
        found += _compared(folder, trial, files)
    if trial and files.known:
        known = {
            *files.documents,
            *(c.path for c in files.copies),
            *(p.path for p in files.problems),
        }
        found += [
            Difference(path_of(trial, path), "extra")
            for path in walk(folder / trial)
            if path not in known
        ]
    return found


def _compared(folder: Path, trial: str, files: Files) -> Iterator[Difference]:
    tests: list[tuple[str, Callable[[Path], bool]]] = [
        *((copy.path, partial(holds_blob, ref=copy.blob)) for copy in files.copies),
        *((path, partial(holds, data=data)) for path, data in files.documents.items()),
    ]
    for path, same in tests:
        path = path_of(trial, path)
        try:
            target = place(folder, path)
            if not exists(target):
                yield Difference(path, "missing")
            elif not same(target):
                yield Difference(path, "differs")
        except OSError as error:
            yield Difference(path, "differs", said(error))


def _extras(folder: Path, trials: Container[str]) -> list[Difference]:
    known = {*ELSEWHERE, *(kind.path for kind in JOB_DOCUMENTS)}
    return [Difference(name, "extra") for name in entries(folder, trials) if name not in known]
