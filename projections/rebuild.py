"""Every file of a job from its log: written, compared, or as they stood at some position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from anyio import to_thread

from ..events.log import EventLog
from .disk import entries, exists, holds, holds_blob, place, walk
from .errors import FolderTaken
from .files import ELSEWHERE, JOB_DOCUMENTS, Files
from .source import JobSource
from .writer import JobFiles, Report, path_of, write


class Difference(msgspec.Struct, frozen=True):
    """A file that is not as the log has it."""

    path: str
    """Below the job's folder."""
    what: Literal["missing", "differs", "extra", "blocked"]
    """`extra`: the log knows nothing of it. `blocked`: the log can't give it, `detail` says why."""
    detail: str | None = None

    @property
    def harmless(self) -> bool:
        """Nothing is wrong with the job's own files: this one is somebody else's."""
        return self.what == "extra"

    def __str__(self) -> str:
        return f"{self.what}: {self.path}" + (f" ({self.detail})" if self.detail else "")


async def job_folder(log: EventLog, job: str, jobs_folder: Path) -> Path:
    """Where a job's files are. `jobs_folder` is the log's own folder. Raises JobUnknown."""
    return jobs_folder / await JobSource(log, job).folder()


async def rebuild(log: EventLog, job: str, jobs_folder: Path) -> Report:
    """Write every file of a job. Only those that differ are touched, and nothing is removed.

    Raises JobUnknown and FilesUnwritable.
    """
    files = JobFiles(log, job, await job_folder(log, job, jobs_folder))
    report = Report()
    for trial in await files.trials():
        report += await files.write_trial(trial)
    return report + await files.write_summary()


async def check(log: EventLog, job: str, jobs_folder: Path) -> list[Difference]:
    """Compare every file of a job with the log, and write nothing. Raises JobUnknown.

    The files of an execution that is still in flight are not judged: they are written at its end.
    """
    source = JobSource(log, job)
    folder = jobs_folder / await source.folder()
    found: list[Difference] = []
    trials = await source.trials()
    for trial in trials:
        if (files := await source.trial(trial)) is not None:
            found += await to_thread.run_sync(_differences, folder, trial, files)
    found += await to_thread.run_sync(_differences, folder, "", await source.summary())
    return found + await to_thread.run_sync(_extras, folder, set(trials))


async def rebuild_at(log: EventLog, job: str, position: int, out: Path) -> Report:
    """Write a job's files into `out` as they stood at a position of the log.

    A trial that had not finished then has no result.json. Raises JobUnknown, FolderTaken and
    FilesUnwritable.
    """
    source = JobSource(log, job, until=position)
    await source.folder()
    if await to_thread.run_sync(entries, out):
        raise FolderTaken(out)
    report = Report()
    for trial in await source.trials():
        if (files := await source.trial(trial)) is not None:
            report += await write(log.blobs, out, trial, files)
    return report + await write(log.blobs, out, "", await source.summary())


def _differences(folder: Path, trial: str, files: Files) -> list[Difference]:
    found = [Difference(path_of(trial, p.path), "blocked", str(p.error)) for p in files.problems]
    if files.due:
        found += _compared(folder, trial, files)
    if trial:
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
            yield Difference(path, "differs", str(error))


def _extras(folder: Path, trials: set[str]) -> list[Difference]:
    known = {*trials, *ELSEWHERE, *(kind.path for kind in JOB_DOCUMENTS)}
    return [Difference(name, "extra") for name in entries(folder) if name not in known]
