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
from typing import NamedTuple, ParamSpec, TypeVar, cast

import aiosqlite

from ..drafts import Draft
from ..envelope import Appended
from ..errors import LogError, LogPoisoned, LogUnavailable
from ..tickets import Ticket
from .connection import is_busy, poisoned, translated
from .place import OpenPlace
from .transaction import Blob, Committer, Plan

P = ParamSpec("P")
T = TypeVar("T")

_WORTH_HALVING = 8
"""Appends; fewer than that are committed together."""

_MOSTLY_WORK = 50e-6
"""Seconds an event; a commit that took longer had waited for the disk."""

_LARGE = 64
"""Events; a batch that is worth a moment, to have the thread at work first."""


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


class Batch(NamedTuple):
    """What one transaction stores."""

    appends: list[Append]
    blobs: list[BlobPut]
    events: int


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
        self._untold: tuple[Batch, list[Appended | LogError]] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._place: OpenPlace | None = None

    async def start(self) -> None:
        """Start the thread and the task."""
        _ = await self._connection
        self._place = await self._connection.run(OpenPlace, self._path)
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
        while (slept := await self._until_queued()) is not None:
            batch = self._take(slept=slept)
            began = time.perf_counter()
            try:
                commit = await self._begin(batch)
                # Those who wait for the last batch will keep the loop busy. The thread is at work
                # without Python's lock by now; told before, they would have kept it waiting.
                self._tell()
                outcomes = await commit
            except Exception as error:
                self._tell()
                if is_busy(error):
                    self._fail(translated(error, self._path), batch)
                else:
                    self._poison(error, batch)
            else:
                self._seconds_each = (time.perf_counter() - began) / max(batch.events, 1)
                self._untold = (batch, outcomes)
                self._fail_followers(batch, outcomes)

    async def _until_queued(self) -> bool | None:
        """Whether there was anything to wait for; None when nothing will come any more."""
        slept = False
        while not self._appends and not self._blobs:
            self._tell()
            if self._refusal is not None:
                return None
            slept = True
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        return slept

    async def _begin(self, batch: Batch) -> asyncio.Task[list[Appended | LogError]]:
        """Hand a batch to the thread. A large one is at work when this returns."""
        loop = asyncio.get_running_loop()
        working: asyncio.Future[None] = loop.create_future()

        def started() -> None:
            loop.call_soon_threadsafe(working.set_result, None)

        plan = None if batch.blobs else self._committer.plan(batch.appends)
        wait = plan is not None and self._untold is not None and batch.events >= _LARGE
        commit = loop.create_task(
            self._connection.run(
                self._commit,
                plan,
                batch.appends,
                [put.blob for put in batch.blobs],
                started if wait else None,
            )
        )
        if wait:
            await asyncio.wait((working, commit), return_when=asyncio.FIRST_COMPLETED)
        return commit

    def _commit(
        self,
        plan: Plan | None,
        appends: Sequence[Append],
        blobs: Sequence[Blob],
        started: Callable[[], None] | None,
    ) -> list[Appended | LogError]:
        """Commit, in the thread; nothing is acknowledged that went into a file without a name."""
        outcomes = self._committer.commit(plan, appends, blobs, started)
        assert self._place is not None
        self._place.check()
        return outcomes

    def _take(self, *, slept: bool) -> Batch:
        """All that is queued; or half of it, to set two halves of the appenders out of step.

        Appenders who all wait for the same commit leave one core idle in turn: they encode while
        the writer sleeps, then sleep while it writes. Two groups take turns instead, and stay in
        turn by themselves. Not where a commit is mostly the wait for a slow disk.
        """
        appends, self._appends = self._appends, []
        blobs, self._blobs = self._blobs, []
        half = len(appends) // 2
        if slept and half >= _WORTH_HALVING and self._seconds_each < _MOSTLY_WORK:
            self._appends = appends[half:]
            del appends[half:]
        return Batch(appends, blobs, sum(len(append.drafts) for append in appends))

    def _tell(self) -> None:
        """Tell those who wait for the last batch."""
        if self._untold is not None:
            batch, outcomes = self._untold
            self._untold = None
            for append, outcome in zip(batch.appends, outcomes, strict=True):
                if isinstance(outcome, LogError):
                    append.fail(outcome)
                else:
                    append.succeed(outcome)
            for put in batch.blobs:
                put.succeed(True)
            self._committed()

    def _fail_followers(self, batch: Batch, outcomes: Sequence[Appended | LogError]) -> None:
        """What was queued on a stream after an append that failed, fails too."""
        failed: dict[str, LogError] = {}
        for append, outcome in zip(batch.appends, outcomes, strict=True):
            if isinstance(outcome, LogError):
                failed.setdefault(append.stream, outcome)
        if failed:
            kept: list[Append] = []
            for append in self._appends:
                error = failed.get(append.stream)
                if error is None:
                    kept.append(append)
                else:
                    append.fail(error)
            self._appends = kept

    def _fail(self, error: LogError, batch: Batch) -> None:
        """Nothing of a batch was stored, and the file is as it was."""
        for append in batch.appends:
            append.fail(error)
        for put in batch.blobs:
            put.fail(error)
        self._fail_followers(batch, [error] * len(batch.appends))

    def _poison(self, error: Exception, batch: Batch) -> None:
        """Refuse all that is queued, and all that will come."""
        self._refusal = error if isinstance(error, LogPoisoned) else poisoned(error, self._path)
        self._fail(self._refusal, batch)
        self._fail(self._refusal, Batch(self._appends, self._blobs, 0))
        self._appends, self._blobs = [], []
