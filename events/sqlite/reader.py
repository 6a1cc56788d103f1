"""Readers: connections of their own in worker threads, so that they never wait for the writer.

Each call is one short read transaction, ended before anyone outside sees its result; a slow
follower therefore never keeps the write-ahead log from shrinking.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio
import anyio.to_thread

from ..envelope import Head, RecordedEvent
from ..errors import LogUnavailable
from ..hashing import first_previous
from .connection import as_stored, is_no_text, open_reader, translated
from .rows import StreamNames, checked_name
from .sql import QUERY

P = ParamSpec("P")
T = TypeVar("T")

BATCH = 1000
"""Events that are read at a time."""

THREADS = 4
"""Reads at once; more wait for their turn."""


class Readers:
    """A few connections, opened when they are needed, and the log's reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._names = StreamNames()
        self._limiter = anyio.CapacityLimiter(THREADS)
        self._closed = False

    async def run(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a read in a thread; SQLite's errors become the log's."""
        return await self.in_thread(lambda: self._run(function, *args, **kwargs))

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run something that blocks; it is never left alone half-way."""
        if self._closed:
            raise LogUnavailable(self._path, "it is closed")
        return await anyio.to_thread.run_sync(function, limiter=self._limiter)

    async def close(self) -> None:
        """Close the connections, once the reads under way are done."""
        if not self._closed:
            self._closed = True
            for borrower in range(THREADS):
                await self._limiter.acquire_on_behalf_of(borrower)
            await anyio.to_thread.run_sync(self._close_idle)

    def _run(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        db = self._idle.pop() if self._idle else open_reader(self._path)
        try:
            try:
                return function(db, *args, **kwargs)
            except sqlite3.OperationalError as error:
                if not is_no_text(error):
                    raise
            db.text_factory = as_stored
            return function(db, *args, **kwargs)
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        finally:
            db.text_factory = str
            self._idle.append(db)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    # The reads, each in a thread.

    def stream(
        self, db: sqlite3.Connection, stream: str, after: int, limit: int | None
    ) -> list[RecordedEvent]:
        """A stream's events with versions above `after`."""
        rows = db.execute(
            QUERY["stream_events"],
            {"stream": stream, "after": after, "limit": -1 if limit is None else limit},
        )
        return self._names.recorded(db, rows.fetchall())

    def each(self, db: sqlite3.Connection, streams: Sequence[str]) -> list[list[RecordedEvent]]:
        """All events of some streams."""
        return [self.stream(db, stream, 0, None) for stream in streams]

    def range(self, db: sqlite3.Connection, after: int, until: int) -> list[RecordedEvent]:
        """The next events of the whole log."""
        rows = db.execute(QUERY["next_events"], {"after": after, "until": until, "limit": BATCH})
        return self._names.recorded(db, rows.fetchall())

    def chosen(
        self, db: sqlite3.Connection, after: int, streams: Sequence[str]
    ) -> tuple[list[RecordedEvent], int]:
        """The next events of some streams, and the position up to which there is none left."""
        names = json.dumps(list(streams))
        # The last position comes first: what is committed between the reads lies above it.
        last = self.last(db)
        first = db.execute(
            QUERY["next_position_of"], {"streams": names, "after": after}
        ).fetchone()[0]
        if first is None:
            return [], max(after, last)
        until = first + BATCH - 1
        rows = db.execute(
            QUERY["events_of"], {"streams": names, "first": first, "last": until}
        ).fetchall()
        return self._names.recorded(db, rows), max(rows[-1][0], min(until, last))

    def head(self, db: sqlite3.Connection, stream: str) -> Head:
        """A stream's last version and hash."""
        found = db.execute(QUERY["head"], (stream,)).fetchone()
        return Head(0, first_previous(stream)) if found is None else Head(*found)

    def heads(self, db: sqlite3.Connection, streams: Sequence[str]) -> list[Head]:
        """The heads of some streams."""
        return [self.head(db, stream) for stream in streams]

    def last(self, db: sqlite3.Connection) -> int:
        """The newest position."""
        return int(db.execute(QUERY["last_position"]).fetchone()[0])

    def streams(self, db: sqlite3.Connection, prefix: str) -> list[str]:
        """Names of streams."""
        rows = db.execute(QUERY["stream_names"], {"prefix": prefix})
        return [checked_name(row[0]) for row in rows]


async def all_events(
    readers: Readers, after: int, until: int | None
) -> AsyncIterator[list[RecordedEvent]]:
    """All events above a position, in batches, up to those that are there when it begins."""
    last = await readers.run(readers.last)
    until = last if until is None else min(until, last)
    while after < until:
        batch = await readers.run(readers.range, after, until)
        after = batch[-1].position
        yield batch
