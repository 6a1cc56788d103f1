"""The one writer of a log in this process: whatever is queued is committed at once.

While a commit is under way the next batch gathers; nothing is waited for. It runs in callbacks of
the loop's, so that no cancel scope around the log's user ever stops it half-way, and so that the
way from an append to its acknowledgement is as short as may be.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - this is the adapter to aiosqlite, which is asyncio's
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import aiosqlite

from ..envelope import Appended
from ..errors import LogError, LogPoisoned, LogUnavailable
from .connection import is_busy, poisoned, translated
from .pace import LEAST, told_next
from .place import OpenPlace
from .plans import Heads
from .queue import Batch, Queue
from .tickets import Append, BlobPut
from .transaction import Committer

_MOSTLY_WORK = 50e-6
"""Seconds an event; a commit that took longer had waited for the disk."""

_LARGE = 64
"""Events; a batch that is worth a moment, to have the thread at work first."""


class _Connection(aiosqlite.Connection):
    """aiosqlite's connection and thread, and a way to run a whole transaction there in one hop.

    Statement by statement, a commit would cost four hops between the loop and the thread.
    """

    def submit(self, function: Callable[[], object]) -> None:
        """Call a function in the thread. It has to tell its result itself: a future would cost
        the loop a round more."""
        self._tx.put_nowait((None, function))  # pyright: ignore[reportUnknownMemberType]


class Writer:
    """Appends and small blobs, committed in the order in which they were queued."""

    def __init__(self, path: Path, db: sqlite3.Connection, committed: Callable[[], None]) -> None:
        heads = Heads()
        self._path = path
        self._connection = _Connection(lambda: db, iter_chunk_size=1)
        self._committer = Committer(db, heads)
        self._queue = Queue(heads)
        self._committed = committed
        self._refusal: LogError | None = None
        self._seconds_each = 0.0
        self._untold: tuple[Batch, Sequence[Appended | LogError]] | None = None
        self._telling: deque[tuple[Append, Appended | LogError]] = deque()
        self._at_once = LEAST
        self._idle = True
        self._roused = self._alone = False
        self._drained: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        _ = await self._connection
        opened = self._loop.create_future()
        self._connection.submit(
            lambda: self._loop.call_soon_threadsafe(opened.set_result, OpenPlace(self._path))
        )
        self._place = await opened

    def append(self, append: Append) -> None:
        """Queue an append."""
        if self._refusal is not None:
            append.fail(self._refusal)
        else:
            self._queue.add(append)
            if self._idle:
                self._rouse()

    def put(self, put: BlobPut) -> None:
        """Queue a small blob; it is committed no later than any append queued after it."""
        if self._refusal is not None:
            put.fail(self._refusal)
        else:
            self._queue.put(put)
            if self._idle:
                self._rouse()

    def check(self) -> None:
        """Raise what an append would be refused with."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    async def close(self) -> None:
        """Commit what is queued, then close the file."""
        if self._refusal is None:
            self._refusal = LogUnavailable(self._path, "it is closed")
        if not self._idle:
            self._drained = self._loop.create_future()
            await self._drained
        await self._connection.close()

    def _rouse(self) -> None:
        """Have the queue committed: after this round of the loop's, for others may append in it;
        at once where an appender was alone the last time."""
        self._idle, self._roused = False, True
        if self._alone:
            self._next(slept=True)
        else:
            self._loop.call_soon(self._next, True)

    def _next(self, slept: bool) -> None:
        """Hand the next batch to the thread."""
        if not self._queue:
            self._tell()
            self._idle = True
            if self._drained is not None:
                self._tell_first(len(self._telling))
                self._drained.set_result(None)
            return
        fast = self._seconds_each < _MOSTLY_WORK
        batch = self._queue.take(halve=slept and fast, all_plans=not fast)
        started: Callable[[], object] | None = None
        if self._untold is not None and batch.plans and batch.events >= _LARGE:
            # Those who wait for the last batch will keep the loop busy. They are told when the
            # thread is at work without Python's lock; before, they would keep it waiting.
            started = partial(self._loop.call_soon_threadsafe, self._tell)
        self._connection.submit(partial(self._commit, batch, started))
        if started is None:
            self._tell()

    def _commit(self, batch: Batch, started: Callable[[], object] | None) -> None:
        """Commit, in the thread; nothing is acknowledged that went into a file without a name."""
        began = time.perf_counter()
        blobs = [put.blob for put in batch.blobs]
        try:
            outcomes = self._committer.commit(batch.appends, batch.plans, blobs, started)
            self._place.check()
        except BaseException as error:
            # Told apart here, for that looks at the disk.
            refused = self._refused(error)
            self._loop.call_soon_threadsafe(self._failed, batch, error, refused)
        else:
            seconds = time.perf_counter() - began
            self._loop.call_soon_threadsafe(self._stored, batch, outcomes, seconds)
            self._committer.tidy(batch.events)

    def _stored(
        self, batch: Batch, outcomes: Sequence[Appended | LogError], seconds: float
    ) -> None:
        self._tell()
        self._untold = (batch, outcomes)
        self._seconds_each = seconds / max(batch.events, 1)
        self._queue.settled(batch, outcomes)
        # Not the last of several, who would be parted the next time.
        was_alone, roused = self._alone, self._roused
        one = len(batch.appends) + len(batch.blobs) == 1
        self._alone, self._roused = roused and one and not self._queue, False
        self._next(slept=was_alone)

    def _refused(self, error: BaseException) -> LogError:
        """What whoever appended is told of a commit's failure. Blocks."""
        if isinstance(error, LogPoisoned):
            return error
        return translated(error, self._path) if is_busy(error) else poisoned(error, self._path)

    def _failed(self, batch: Batch, error: BaseException, refused: LogError) -> None:
        self._tell()
        self._tell_first(len(self._telling))
        if isinstance(error, sqlite3.IntegrityError) and batch.plans:
            self._queue.again(batch)
        elif is_busy(error):
            self._fail(refused, batch)
        else:
            self._poison(refused, batch)
        self._next(slept=False)

    def _tell(self) -> None:
        """Begin to tell those who wait for the last batch."""
        if self._untold is not None:
            batch, outcomes = self._untold
            self._untold = None
            self._telling.extend(zip(batch.appends, outcomes, strict=True))
            for put in batch.blobs:
                put.succeed(True)
            self._committed()
            self._tell_some()

    def _tell_some(self) -> None:
        """Tell the next of them, and the others when the loop has looked at all else.

        Where a batch comes before the last one is told, both go on telling: so none piles up.
        """
        self._tell_first(self._at_once)
        if self._telling:
            self._loop.call_soon(self._tell_more, time.perf_counter())

    def _tell_more(self, told: float) -> None:
        self._at_once = told_next(self._at_once, time.perf_counter() - told)
        self._tell_some()

    def _tell_first(self, most: int) -> None:
        for _ in range(min(most, len(self._telling))):
            append, outcome = self._telling.popleft()
            if isinstance(outcome, LogError):
                append.fail(outcome)
            else:
                append.succeed(outcome)

    def _fail(self, error: LogError, batch: Batch) -> None:
        """Nothing of a batch was stored, and the file is as it was."""
        for append in batch.appends:
            append.fail(error)
        for put in batch.blobs:
            put.fail(error)
        self._queue.failed(batch, error)

    def _poison(self, refused: LogError, batch: Batch) -> None:
        """Refuse all that is queued, and all that will come."""
        self._refusal = refused
        self._fail(refused, batch)
        self._queue.clear(refused)
