"""The one writer of a job's files."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import msgspec
from anyio import to_thread

from ..events.errors import LogCorrupt, LogError
from ..events.log import BlobStore, EventLog
from ..events.values import BlobRef
from .disk import files_lock, fresh_part, holds_blob, place, put, writing
from .files import Files, Problem, is_plain
from .source import JobSource, files_of, no_files, trial_view


class Report(msgspec.Struct, frozen=True):
    """What came of writing files. Those with a problem were left as they are."""

    written: int = 0
    unchanged: int = 0
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: Report) -> Report:
        return Report(
            self.written + other.written,
            self.unchanged + other.unchanged,
            self.problems + other.problems,
        )


class JobFiles:
    """A job's files on disk, for an engine that runs the job: one object as long as it runs.

    Each trial is read once when its files are written; a summary costs what is new since the
    last one. Several processes may write the files of one job; a lock orders them.
    """

    def __init__(self, log: EventLog, job: str, folder: Path) -> None:
        self._log = log
        self._folder = folder
        self._source = JobSource(log, job)

    async def write_trial(self, trial: str) -> Report:
        """Write an execution's files. Raises FilesUnwritable."""
        async with files_lock(self._folder):
            files = await self._source.trial(trial)
            if files is None:
                return Report()
            return await write(self._log.blobs, self._folder, trial, files)

    async def write_summary(self) -> Report:
        """Write the job's own files. Raises FilesUnwritable."""
        async with files_lock(self._folder):
            return await write(self._log.blobs, self._folder, "", await self._source.summary())

    async def trials(self) -> list[str]:
        """Every execution that was scheduled."""
        return await self._source.trials()


async def write_trial(log: EventLog, trial: str, folder: Path) -> Report:
    """Write one execution's files below its job's folder. Raises FilesUnwritable."""
    async with files_lock(folder):
        try:
            view = await trial_view(log, trial)
        except LogCorrupt as corrupt:
            return await write(log.blobs, folder, trial, no_files(corrupt))
        if view is None:
            return Report()
        return await write(log.blobs, folder, trial, await files_of(log.blobs, view))


async def write_summary(log: EventLog, job: str, folder: Path) -> Report:
    """Write a job's own files into its folder, from everything that the log has.

    Reads every trial: an engine keeps a JobFiles instead. Raises FilesUnwritable.
    """
    return await JobFiles(log, job, folder).write_summary()


async def write(blobs: BlobStore, job_folder: Path, trial: str, files: Files) -> Report:
    """Write these files; `trial` is empty for the job's own. The last document comes last.

    A file that can't be written is a problem of its own. Raises FilesUnwritable where none can.
    """
    report = Report(
        problems=tuple(Problem(path_of(trial, p.path), p.error) for p in files.problems)
    )
    if trial and ("/" in trial or not is_plain(trial)):
        error = ValueError("this name is no folder's; nothing is written")
        return report + Report(problems=(Problem(trial, error),))
    for copy in files.copies:
        report += await _put_blob(blobs, job_folder, path_of(trial, copy.path), copy.blob)
    return report + await to_thread.run_sync(_put_all, job_folder, trial, files.documents)


def path_of(trial: str, path: str) -> str:
    """A file's path below the job's folder."""
    return f"{trial}/{path}" if trial else path


async def _put_blob(blobs: BlobStore, job_folder: Path, path: str, ref: BlobRef) -> Report:
    try:
        target = await to_thread.run_sync(place, job_folder, path)
        if await to_thread.run_sync(holds_blob, target, ref):
            return Report(unchanged=1)
        with writing(target):
            part = await to_thread.run_sync(fresh_part, target)
            try:
                await blobs.copy_to(ref, part)
                await to_thread.run_sync(os.replace, part, target)
            except (LogError, OSError):
                await to_thread.run_sync(partial(part.unlink, missing_ok=True))
                raise
    except (LogError, OSError) as error:
        return Report(problems=(Problem(path, error),))
    return Report(written=1)


def _put_all(job_folder: Path, trial: str, documents: dict[str, bytes]) -> Report:
    written = 0
    problems: list[Problem] = []
    for path, data in documents.items():
        try:
            written += put(job_folder, path_of(trial, path), data)
        except OSError as error:
            problems.append(Problem(path_of(trial, path), error))
    return Report(written, len(documents) - written - len(problems), tuple(problems))
