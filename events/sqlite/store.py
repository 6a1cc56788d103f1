"""The EventLog in one SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from ..drafts import draft_all
from ..envelope import Appended, Head, NewEvent, RecordedEvent
from ..errors import LogUnavailable
from ..tickets import Ticket
from .blobs import SqliteBlobs
from .connection import open_writer, read_log_id
from .reader import Readers, all_events
from .tickets import Append, Blob, BlobPut
from .writer import Writer

POLL_SECONDS = 0.1
"""How often a subscription looks for what other processes have appended."""

_FOR_EVER = 2**62


class SqliteLog:
    """An EventLog in an SQLite file; `open_log` makes one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers = Readers(path)
        self._writer: Writer | None = None
        self._changed: anyio.Event | None = None  # until somebody waits: each costs a commit some
        self._blobs = SqliteBlobs(path, self._readers, self._put_small, self._check)
        self._log_id = ""

    async def start(self, *, readonly: bool, create: bool, log_id: str) -> None:
        """Open the file."""
        if not readonly:
            db = await anyio.to_thread.run_sync(
                partial(open_writer, self._path, create=create, log_id=log_id)
            )
            writer = Writer(self._path, db, self._committed)
            await writer.start()
            self._writer = writer
        self._log_id = await self._readers.run(read_log_id)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def log_id(self) -> str:
        """A random name that the log got when it was created; copies share it."""
        return self._log_id

    @property
    def blobs(self) -> SqliteBlobs:
        """The blobs that the events name."""
        return self._blobs

    def append(
        self, stream: str, expected_version: int, events: Sequence[NewEvent]
    ) -> Ticket[Appended]:
        """Append all events or none; see `EventLog.append`."""
        ticket = Append(stream, expected_version, draft_all(stream, events))
        if self._writer is None:
            ticket.fail(self._is_readonly())
        else:
            self._writer.append(ticket)
        return ticket

    async def head(self, stream: str) -> Head:
        """Version and hash of a stream's last event."""
        return await self._readers.run(self._readers.head, stream)

    async def read(
        self, stream: str, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """A stream's events with versions above `after`."""
        return await self._readers.run(self._readers.stream, stream, after, limit)

    async def heads(self, streams: Sequence[str]) -> list[Head]:
        """The heads of these streams, in one hop to a thread."""
        return await self._readers.run(self._readers.heads, streams)

    async def read_each(self, streams: Sequence[str]) -> list[list[RecordedEvent]]:
        """All events of each of these streams, in one hop to a thread."""
        return await self._readers.run(self._readers.each, streams)

    def read_all(
        self, *, after: int = 0, until: int | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """All events with positions above `after`, in batches."""
        return all_events(self._readers, after, until)

    async def last_position(self) -> int:
        """The position of the newest event."""
        return await self._readers.run(self._readers.last)

    async def streams(self, prefix: str = "") -> list[str]:
        """Names of the streams that begin with `prefix`."""
        return await self._readers.run(self._readers.streams, prefix)

    async def subscribe(
        self, *, after: int = 0, streams: Sequence[str] | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """Catch up, then follow for ever.

        Positions are given under the database's write lock and in its order, so whatever is
        committed later lies above all that was read.
        """
        while True:
            changed = self._changed = self._changed or anyio.Event()
            before = after
            if streams is None:
                batch = await self._readers.run(self._readers.range, after, _FOR_EVER)
                after = batch[-1].position if batch else after
            else:
                batch, after = await self._readers.run(self._readers.chosen, after, streams)
            if batch:
                yield batch
            elif after == before:
                with anyio.move_on_after(POLL_SECONDS):
                    await changed.wait()

    async def aclose(self) -> None:
        """Write what is queued, then close."""
        with anyio.CancelScope(shield=True):
            await self._readers.close()
            if self._writer is not None:
                # Last, for only a connection that may write tidies up the write-ahead log.
                await self._writer.close()
            self._committed()

    def _committed(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    def _put_small(self, blob: Blob) -> BlobPut:
        put = BlobPut(blob)
        if self._writer is None:
            put.fail(self._is_readonly())
        else:
            self._writer.put(put)
        return put

    def _check(self) -> None:
        """Raise what an append would."""
        if self._writer is None:
            raise self._is_readonly()
        self._writer.check()

    def _is_readonly(self) -> LogUnavailable:
        return LogUnavailable(self._path, "it was opened only to read")
