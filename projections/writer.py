"""The one writer of a job's files."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio
import msgspec
from anyio import to_thread

from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, LogError
from ..events.log import BlobStore, EventLog
from ..events.values import BlobRef
from .disk import files_lock, fresh_part, holds_blob, place, put, put_folder, writing
from .errors import FilesUnwritable
from .files import Files, Problem, is_plain, needed_blobs, no_trial_files, trial_files
from .regrades import Regrade
from .source import JobSource, files_of, folded, trial_view
from .trial import TrialView


class Report(msgspec.Struct, frozen=True, gc=False):
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


class TrialFiles(Protocol):
    """Writes the files of executions as they end."""

    async def write_trial(self, trial: str) -> Report:
        """Write an execution's files. Raises FilesUnwritable."""
        ...


TOGETHER = 16
"""Trials whose files are written under one lock, at most."""


class _Order:
    """A trial whose files somebody wants written, and what came of it."""

    def __init__(self, trial: str) -> None:
        self.trial = trial
        self.report: Report | None = None
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.report is not None or self.error is not None

    def outcome(self) -> Report:
        if self.error is not None:
            raise self.error
        assert self.report is not None
        return self.report


class JobFiles:
    """A job's files on disk, for an engine that runs the job: one object as long as it runs.

    Each trial is read once when its files are written; a summary costs what is new since the
    last one. Several processes may write the files of one job; a lock orders them. Trials that end
    while others' files are being written are written together, since most of what a small trial's
    files cost is the lock and the way into a thread and back.

    With `verify`, no file is written from a stream whose hash chain is broken; an engine need not
    check what it has just appended.
    """

    def __init__(self, log: EventLog, job: str, folder: Path, *, verify: bool = False) -> None:
        self._log = log
        self._folder = folder
        self._source = JobSource(log, job, verify=verify)
        self._turn = anyio.Lock(fast_acquire=True)
        self._orders: list[_Order] = []

    async def write_trial(self, trial: str) -> Report:
        """Write an execution's files. Raises FilesUnwritable."""
        order = _Order(trial)
        self._orders.append(order)
        async with self._turn:
            while not order.done:
                together, self._orders = self._orders[:TOGETHER], self._orders[TOGETHER:]
                try:
                    await self._write_all(together)
                except BaseException:
                    # Whoever waits for one of the others does it, or fails, in its own name.
                    left = [one for one in together if one is not order and not one.done]
                    self._orders[:0] = left
                    raise
        return order.outcome()

    async def _write_all(self, orders: Sequence[_Order]) -> None:
        async with files_lock(self._folder):
            read = await self._source.events_each([order.trial for order in orders])
            trials = [(order.trial, events) for order, events in zip(orders, read, strict=True)]
            regrades = self._source.regrades
            made = await to_thread.run_sync(_make_all, self._folder, trials, regrades)
            for order, events, one in zip(orders, read, made, strict=True):
                if one.known is not None:
                    self._source.keep(order.trial, one.known, events)
                if isinstance(one.known, TrialView) and one.report is None and one.error is None:
                    files = await files_of(self._log.blobs, one.known, regrades)
                    await self._write(order, files)
                else:
                    order.report, order.error = one.report, one.error

    async def _write(self, order: _Order, files: Files) -> None:
        try:
            order.report = await write(self._log.blobs, self._folder, order.trial, files)
        except FilesUnwritable as error:
            order.error = error

    async def write_regrades(self, trials: Sequence[str]) -> Report:
        """Write what regrades made of executions; their other files are as they were.

        Raises FilesUnwritable.
        """
        report = Report()
        for start in range(0, len(trials), TOGETHER):
            names = list(trials[start : start + TOGETHER])
            async with self._turn, files_lock(self._folder):
                await self._source.trials()  # of the regrades, too, those that finished since
                read = await self._source.events_each(names)
                pairs = list(zip(names, read, strict=True))
                regrades = self._source.regrades
                made = await to_thread.run_sync(_make_regrades, self._folder, pairs, regrades)
                for (name, events), one in zip(pairs, made, strict=True):
                    if one.known is not None:
                        self._source.keep(name, one.known, events)
                    report += one.report or Report()
        return report

    async def write_summary(self, under_way: Container[str] = ()) -> Report:
        """Write the job's own files. Raises FilesUnwritable.

        Trials `under_way` in the caller's own process are not read until they end.
        """
        async with self._turn, files_lock(self._folder):
            return await self._write_job(await self._source.summary(under_way))

    async def _write_job(self, files: Files) -> Report:
        return await write(self._log.blobs, self._folder, "", files)

    async def readable_summary(self) -> bytes:
        """summary.json as it would be without the executions that can't be read, for a person who
        is told of them; it is not written. Raises LogCorrupt where the job's own events can't be.
        """
        files = await self._source.summary(readable=True)
        for problem in files.problems:
            raise problem.error
        return files.documents["summary.json"]

    async def trials(self) -> Collection[str]:
        """Every execution that was scheduled."""
        return await self._source.trials()


class _Made(NamedTuple):
    """An execution folded and, where no blob is needed for it, written. `report` and `error` are
    null where that is still to be done."""

    known: TrialView | LogCorrupt | None
    report: Report | None = None
    error: Exception | None = None


def _make_all(
    folder: Path,
    trials: Sequence[tuple[str, list[RecordedEvent] | LogCorrupt]],
    regrades: Sequence[Regrade],
) -> list[_Made]:
    return [_make(folder, trial, events, regrades) for trial, events in trials]


def _make(
    folder: Path,
    trial: str,
    events: list[RecordedEvent] | LogCorrupt,
    regrades: Sequence[Regrade],
) -> _Made:
    try:
        view = folded(events)
    except LogCorrupt as corrupt:
        return _Made(corrupt, _known_problems(trial, no_trial_files(corrupt)))
    if view is None:
        return _Made(None, Report())
    if needed_blobs(view):
        return _Made(view)
    files = trial_files(view, {}, regrades=regrades)
    if files.copies:
        return _Made(view)
    report = _known_problems(trial, files)
    try:
        if names_a_folder(trial):
            report += put_all(folder, trial, files.documents)
    except FilesUnwritable as error:
        return _Made(view, error=error)
    return _Made(view, report)


def _make_regrades(
    folder: Path,
    trials: Sequence[tuple[str, list[RecordedEvent] | LogCorrupt]],
    regrades: Sequence[Regrade],
) -> list[_Made]:
    made: list[_Made] = []
    for trial, events in trials:
        try:
            view = folded(events, keep=False)
        except LogCorrupt as corrupt:
            files = no_trial_files(corrupt, only_regrades=True)
            made.append(_Made(corrupt, _known_problems(trial, files)))
            continue
        if view is None:
            made.append(_Made(None, Report()))
            continue
        files = trial_files(view, {}, regrades=regrades, only_regrades=True)
        report = _known_problems(trial, files)
        if names_a_folder(trial):
            report += put_all(folder, trial, files.documents)
        made.append(_Made(view, report))
    return made


async def write_trial(log: EventLog, trial: str, folder: Path) -> Report:
    """Write one execution's files below its job's folder. Raises FilesUnwritable."""
    async with files_lock(folder):
        try:
            view = await trial_view(log, trial)
        except LogCorrupt as corrupt:
            return await write(log.blobs, folder, trial, no_trial_files(corrupt))
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
    report = _known_problems(trial, files)
    if not names_a_folder(trial):
        return report
    for copy in files.copies:
        report += await _put_blob(blobs, job_folder, path_of(trial, copy.path), copy.blob)
    return report + await to_thread.run_sync(put_all, job_folder, trial, files.documents)


def _known_problems(trial: str, files: Files) -> Report:
    """Problems that there are before anything is written."""
    problems = [Problem(path_of(trial, p.path), p.error) for p in files.problems]
    if not names_a_folder(trial):
        error = ValueError("this name is no folder's; nothing is written")
        problems.append(Problem(trial, error))
    return Report(problems=tuple(problems))


def names_a_folder(trial: str) -> bool:
    """Whether a trial's files have a folder of its own; the job's own need none."""
    return not trial or ("/" not in trial and is_plain(trial))


def path_of(trial: str, path: str) -> str:
    """A file's path below the job's folder."""
    return f"{trial}/{path}" if trial else path


async def _put_blob(blobs: BlobStore, job_folder: Path, path: str, ref: BlobRef) -> Report:
    try:
        target, part = await to_thread.run_sync(_begin_blob, job_folder, path, ref)
        if part is None:
            return Report(unchanged=1)
        with writing(target):
            try:
                await blobs.copy_to(ref, part)
                await to_thread.run_sync(os.replace, part, target)
            except (LogError, OSError):
                await to_thread.run_sync(partial(part.unlink, missing_ok=True))
                raise
    except (LogError, OSError) as error:
        return Report(problems=(Problem(path, error),))
    return Report(written=1)


def _begin_blob(job_folder: Path, path: str, ref: BlobRef) -> tuple[Path, Path | None]:
    """The place of a blob's file and of what is to take it; null where the file is there."""
    target = place(job_folder, path)
    if holds_blob(target, ref):
        return target, None
    with writing(target):
        return target, fresh_part(target)


def put_all(job_folder: Path, trial: str, documents: dict[str, bytes]) -> Report:
    """Write an execution's documents, in this order; blocks. Raises FilesUnwritable."""
    if trial and documents and not any("/" in path for path in documents):
        with suppress(OSError):  # what can't be written is told file by file
            if put_folder(job_folder, trial, documents):
                return Report(written=len(documents))
    return put_each(job_folder, trial, documents)


def put_each(job_folder: Path, trial: str, documents: dict[str, bytes]) -> Report:
    """The same into a folder that is expected to be there, as it is from an execution's end on."""
    written = 0
    problems: list[Problem] = []
    for path, data in documents.items():
        try:
            written += put(job_folder, path_of(trial, path), data)
        except OSError as error:
            problems.append(Problem(path_of(trial, path), error))
    return Report(written, len(documents) - written - len(problems), tuple(problems))
