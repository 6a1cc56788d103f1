"""The log in memory: for tests, and for whoever wants no file. Every rule of the format holds."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the queue is settled by a callback of the loop, without a task
import secrets
from collections.abc import AsyncIterator, Sequence

import anyio
import anyio.lowlevel

from .blobs import MemoryBlobs
from .drafts import Draft, Tail, chained, draft_all, empty_tail
from .envelope import Appended, Head, NewEvent, RecordedEvent
from .errors import LogError, LogUnavailable
from .ledger import Place, settle
from .tickets import Ticket

BATCH = 1000
"""Events that a reader gets at a time."""


class _Append(Ticket[Appended]):
    __slots__ = ("drafts", "expected", "stream")

    def __init__(self, stream: str, expected: int, drafts: list[Draft]) -> None:
        super().__init__()
        self.stream = stream
        self.expected = expected
        self.drafts = drafts


class MemoryLog:
    """An EventLog that is gone when the process ends."""

    def __init__(self) -> None:
        self._events: list[RecordedEvent] = []
        self._streams: dict[str, list[RecordedEvent]] = {}
        self._ids: dict[str, Place] = {}
        self._queue: list[_Append] = []
        self._changed = anyio.Event()
        self._closed = False
        self._log_id = secrets.token_hex(16)
        self._blobs = MemoryBlobs()

    @property
    def log_id(self) -> str:
        """A random name of this log."""
        return self._log_id

    @property
    def blobs(self) -> MemoryBlobs:
        """The blobs that the events name."""
        return self._blobs

    def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> _Append:
        """Append all events or none; see `EventLog.append`."""
        ticket = _Append(stream, expected_version, draft_all(stream, events))
        if self._closed:
            ticket.fail(self._is_closed())
            return ticket
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._settle)
        self._queue.append(ticket)
        return ticket

    async def head(self, stream: str) -> Head:
        """Version and hash of a stream's last event."""
        await self._checkpoint()
        tail = self.tail(stream)
        return Head(tail.version, tail.hash)

    async def read(
        self, stream: str, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """A stream's events with versions above `after`."""
        await self._checkpoint()
        after = max(after, 0)
        last = None if limit is None else after + limit
        return self._streams.get(stream, [])[after:last]

    async def heads(self, streams: Sequence[str]) -> list[Head]:
        """The heads of these streams."""
        return [await self.head(stream) for stream in streams]

    async def read_each(self, streams: Sequence[str]) -> list[list[RecordedEvent]]:
        """All events of each of these streams."""
        return [await self.read(stream) for stream in streams]

    async def read_all(
        self, *, after: int = 0, until: int | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """All events with positions above `after`, in batches."""
        await self._checkpoint()
        last = len(self._events) if until is None else min(until, len(self._events))
        for start in range(max(after, 0), last, BATCH):
            yield self._events[start : min(start + BATCH, last)]

    async def last_position(self) -> int:
        """The position of the newest event."""
        await self._checkpoint()
        return len(self._events)

    async def streams(self, prefix: str = "") -> list[str]:
        """Names of the streams that begin with `prefix`."""
        await self._checkpoint()
        return [name for name in self._streams if name.startswith(prefix)]

    async def subscribe(
        self, *, after: int = 0, streams: Sequence[str] | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """Catch up, then follow for ever."""
        wanted = None if streams is None else frozenset(streams)
        position = max(after, 0)
        while True:
            changed = self._changed
            await self._checkpoint()
            batch = self._events[position : position + BATCH]
            position += len(batch)
            found = [e for e in batch if wanted is None or e.stream in wanted]
            if found:
                yield found
            elif not batch:
                await changed.wait()

    async def aclose(self) -> None:
        """Settle what is queued, then close."""
        self._settle()
        self._closed = True
        self._changed.set()

    def _settle(self) -> None:
        batch, self._queue = self._queue, []
        for ticket, outcome in zip(batch, settle(self, batch), strict=True):
            if isinstance(outcome, LogError):
                ticket.fail(outcome)
            else:
                ticket.succeed(outcome)
        self._changed.set()
        self._changed = anyio.Event()

    def _is_closed(self) -> LogUnavailable:
        return LogUnavailable(":memory:", "it is closed")

    async def _checkpoint(self) -> None:
        if self._closed:
            raise self._is_closed()
        await anyio.lowlevel.checkpoint()

    # What `settle` asks for.

    def tail(self, stream: str) -> Tail:
        """The stream's last event."""
        events = self._streams.get(stream)
        if not events:
            return empty_tail(stream)
        return Tail(events[-1].version, events[-1].hash, events[-1].at)

    def stored(self, stream: str, first: int, last: int) -> list[RecordedEvent]:
        """The stream's events from one version to another."""
        return self._streams[stream][max(first, 1) - 1 : last]

    def find(self, drafts: Sequence[Draft]) -> Place | None:
        """The place of the first id that is stored already."""
        return next((self._ids[d.id] for d in drafts if d.id in self._ids), None)

    def taken(self, drafts: Sequence[Draft]) -> Place | None:
        """The same, for a new place."""
        return self.find(drafts)

    def add(self, stream: str, tail: Tail, drafts: Sequence[Draft]) -> Appended:
        """Store the events."""
        events = chained(stream, tail, drafts, len(self._events) + 1)
        self._events += events
        self._streams.setdefault(stream, []).extend(events)
        for event in events:
            self._ids[event.id] = Place(event.id, stream, event.version)
        last = events[-1]
        return Appended(events[0].position, last.position, last.version, last.hash)
