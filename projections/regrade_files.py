"""The files of a regrade: made of each trial while it is at hand, written when all is over.

A regrade's verdicts stand from its end on, and a file may not show them before. Until then what
was made lies in a file without a name, so that memory does not grow with the trials.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from anyio import to_thread

from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt
from ..events.log import EventLog
from .disk import files_lock
from .files import Files, trial_files
from .regrades import Regrade
from .trial import TrialFold
from .writer import JobFiles, Report, names_a_folder, put_each

REGRADE = "regrade.json"
SUMMARY = "regrade-summary.json"

TOGETHER = 64
"""Trials whose files are written under one lock, at most."""


class _Made(NamedTuple):
    """A trial's regrade.json, and where it lies."""

    version: int
    """Of the trial's stream, when it was made."""
    offset: int
    length: int


class RegradeFiles(JobFiles):
    """A job's files while it is regraded. `regrades` are those that will be finished with it.

    From a stream whose hash chain is broken, or that was cut short, nothing is made.
    """

    def __init__(self, log: EventLog, job: str, folder: Path, regrades: Sequence[Regrade]) -> None:
        super().__init__(log, job, folder, verify=True)
        self._regrades = regrades
        self._made: dict[str, _Made] = {}
        self._pending: dict[str, tuple[int, bytes]] = {}
        self._store: IO[bytes] | None = None
        self._size = 0
        self._summary: Files | None = None
        """The job's own files, once they are made."""

    async def events(self, trials: Sequence[str]) -> list[list[RecordedEvent] | LogCorrupt]:
        """Each trial's events, or why they can't be had."""
        return await self._source.events_each(trials)

    async def events_of(self, trial: str) -> list[RecordedEvent] | LogCorrupt:
        """One trial's events; what is asked for at the same time is read together."""
        return await self._source.events(trial)

    def add(self, trial: str, fold: TrialFold, events: list[RecordedEvent]) -> None:
        """Make what the regrades come to for a trial, of all its events; `settle` puts it away.

        What can't be made here is left to `write_regrades`, which reads the trial again.
        """
        view = fold.record()
        if view is None:
            return
        self._source.keep(trial, view, events)
        files = trial_files(view, {}, regrades=self._regrades, only_regrades=True)
        if names_a_folder(trial) and not files.problems and REGRADE in files.documents:
            self._pending[trial] = events[-1].version, files.documents[REGRADE]

    async def settle(self) -> None:
        """Put away what was made; where there is no room for it, it is made again later."""
        pending, self._pending = self._pending, {}
        if pending:
            await to_thread.run_sync(self._put_away, pending)

    def _put_away(self, pending: dict[str, tuple[int, bytes]]) -> None:
        if self._store is None:
            self._store = tempfile.TemporaryFile(buffering=0)
        made: dict[str, _Made] = {}
        at = self._size
        for trial, (version, data) in pending.items():
            made[trial] = _Made(version, at, len(data))
            at += len(data)
        whole = b"".join(data for _, data in pending.values())
        with suppress(OSError):
            if os.pwrite(self._store.fileno(), whole, self._size) == len(whole):
                self._size = at
                self._made |= made

    async def write_regrades(self, trials: Sequence[str]) -> Report:
        """See JobFiles."""
        report = Report()
        left: list[str] = []
        for start in range(0, len(trials), TOGETHER):
            names = list(trials[start : start + TOGETHER])
            known = [name for name in names if name in self._made]
            async with self._turn, files_lock(self._folder):
                heads = await self._log.heads([f"trial/{name}" for name in known])
                current = {
                    name: self._made[name]
                    for name, head in zip(known, heads, strict=True)
                    if head.version == self._made[name].version
                }
                report += await to_thread.run_sync(self._write_made, current)
            left += [name for name in names if name not in current]
        return report + await super().write_regrades(left)

    async def regrade_summary(self) -> bytes:
        """The content of regrade-summary.json, as it was written or would be.

        Where a trial that was answered can't be read since, it is what the others came to. Raises
        LogCorrupt where the job's own events can't be read.
        """
        if self._summary is None or SUMMARY not in self._summary.documents:
            self._summary = await self._source.summary(readable=True)
            for problem in self._summary.problems:
                raise problem.error
        return self._summary.documents[SUMMARY]

    async def _write_job(self, files: Files) -> Report:
        self._summary = files
        return await super()._write_job(files)

    def _write_made(self, made: dict[str, _Made]) -> Report:
        report = Report()
        for trial, one in made.items():
            assert self._store is not None
            data = os.pread(self._store.fileno(), one.length, one.offset)
            report += put_each(self._folder, trial, {REGRADE: data})
        return report

    def close(self) -> None:
        """Give back the room for what was put away."""
        if self._store is not None:
            self._store.close()
