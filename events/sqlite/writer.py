"""The one writer of a log in this process: a queue, and a task that commits all of it at once.

While a commit is under way the next batch gathers; nothing is waited for. The task is a plain one
of the loop's, so that no cancel scope around the log's user ever stops it half-way.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - this is the adapter to aiosqlite, which is asyncio's
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import aiosqlite

from ..drafts import Draft
from ..envelope import Appended
from ..errors import LogError, LogUnavailable
from ..tickets import Ticket
from .connection import poisoned, translated
from .transaction import Blob, Committer

P = ParamSpec("P")
T = TypeVar("T")

_WORTH_HALVING = 8
"""Appends; fewer than that are committed together."""

_MOSTLY_WORK = 50e-6
"""Seconds an append; a commit that took longer had waited for the disk."""


class Append(Ticket[Appended]):
    """An append in the queue."""

    __slots__ = ("drafts", "expected", "stream")

    def __init__(self, stream: str, expected: int, drafts: list[Draft]) -> None:
        super().__init__()
        self.stream = stream
        self.expected = expected
        self.drafts = drafts


class BlobPut(Ticket[bool]):
    """A small blob in the queue."""

    __slots__ = ("blob",)

    def __init__(self, blob: Blob) -> None:
        super().__init__()
        self.blob = blob


class _Connection(aiosqlite.Connection):
    """aiosqlite's connection and thread, and a way to run a whole transaction there in one hop.

    Statement by statement, a commit would cost four hops between the loop and the thread.
    """

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the thread."""
        # aiosqlite leaves it untyped
        execute = cast("Callable[..., Awaitable[T]]", self._execute)  # pyright: ignore[reportUnknownMemberType]
        return await execute(function, *args, **kwargs)


class Writer:
    """Appends and small blobs, committed in the order in which they were queued."""

    def __init__(self, path: Path, db: sqlite3.Connection, committed: Callable[[], None]) -> None:
        self._path = path
        self._connection = _Connection(lambda: db, iter_chunk_size=1)
        self._committer = Committer(db)
        self._committed = committed
        self._appends: list[Append] = []
        self._blobs: list[BlobPut] = []
        self._refusal: LogError | None = None
        self._seconds_each = 0.0
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the thread and the task."""
        _ = await self._connection
        self._task = asyncio.get_running_loop().create_task(self._run())

    def append(self, ticket: Append) -> None:
        """Queue an append."""
        if self._refusal is not None:
            ticket.fail(self._refusal)
        else:
            self._appends.append(ticket)
            self._rouse()

    def put(self, ticket: BlobPut) -> None:
        """Queue a small blob; it is committed no later than any append queued after it."""
        if self._refusal is not None:
            ticket.fail(self._refusal)
        else:
            self._blobs.append(ticket)
            self._rouse()

    def check(self) -> None:
        """Raise what an append would be refused with."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    async def close(self) -> None:
        """Commit what is queued, then close the file."""
        if self._refusal is None:
            self._refusal = LogUnavailable(self._path, "it is closed")
        self._rouse()
        assert self._task is not None
        await self._task
        await self._connection.close()

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _run(self) -> None:
        while True:
            slept = False
            while not self._appends and not self._blobs:
                if self._refusal is not None:
                    return
                slept = True
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
            appends = self._next(slept=slept)
            blobs, self._blobs = self._blobs, []
            began = time.perf_counter()
            try:
                outcomes = await self._connection.run(
                    self._committer.commit, appends, [put.blob for put in blobs]
                )
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                    self._fail(translated(error, self._path), appends, blobs)
                else:
                    self._poison(error, appends, blobs)
            except Exception as error:
                self._poison(error, appends, blobs)
            else:
                self._seconds_each = (time.perf_counter() - began) / (
                    sum(len(a.drafts) for a in appends) or 1
                )
                self._deliver(appends, outcomes, blobs)

    def _next(self, *, slept: bool) -> list[Append]:
        """All that is queued; or half of it, to set two halves of the appenders out of step.

        Appenders who all wait for the same commit leave one core idle in turn: they encode while
        the writer sleeps, then sleep while it writes. Two groups take turns instead, and stay in
        turn by themselves. Not where a commit is mostly the wait for a slow disk.
        """
        queued = self._appends
        half = len(queued) // 2
        if slept and half >= _WORTH_HALVING and self._seconds_each < _MOSTLY_WORK:
            self._appends = queued[half:]
            return queued[:half]
        self._appends = []
        return queued

    def _deliver(
        self,
        appends: Sequence[Append],
        outcomes: Sequence[Appended | LogError],
        blobs: Sequence[BlobPut],
    ) -> None:
        failed: dict[str, LogError] = {}
        for append, outcome in zip(appends, outcomes, strict=True):
            if isinstance(outcome, LogError):
                append.fail(outcome)
                failed.setdefault(append.stream, outcome)
            else:
                append.succeed(outcome)
        for put in blobs:
            put.succeed(True)
        self._fail_followers(failed)
        self._committed()

    def _fail(self, error: LogError, appends: Sequence[Append], blobs: Sequence[BlobPut]) -> None:
        """Nothing of a batch was stored, and the file is as it was."""
        for append in appends:
            append.fail(error)
        for put in blobs:
            put.fail(error)
        self._fail_followers({append.stream: error for append in appends})

    def _fail_followers(self, failed: dict[str, LogError]) -> None:
        """What was queued on a stream after an append that failed, fails too."""
        if failed:
            kept: list[Append] = []
            for append in self._appends:
                error = failed.get(append.stream)
                if error is None:
                    kept.append(append)
                else:
                    append.fail(error)
            self._appends = kept

    def _poison(
        self, error: Exception, appends: Sequence[Append], blobs: Sequence[BlobPut]
    ) -> None:
        """Refuse all that is queued, and all that will come."""
        self._refusal = poisoned(error, self._path)
        self._fail(self._refusal, [*appends, *self._appends], [*blobs, *self._blobs])
        self._appends, self._blobs = [], []
