"""The log's and the blob store's protocols; every store passes one contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from .envelope import Appended, Head, NewEvent, RecordedEvent
from .values import BlobRef


class BlobWriter(Protocol):
    """A blob being written piece by piece; its bytes never lie in memory all at once."""

    async def write(self, chunk: bytes) -> None:
        """Add bytes."""
        ...

    async def commit(self) -> BlobRef:
        """Make the blob durable under its hash, and give its name."""
        ...


class BlobStore(Protocol):
    """Bytes under their SHA-256. What is put is durable before any event appended after it."""

    async def put(self, data: bytes) -> BlobRef:
        """Store bytes; the same bytes again cost nothing."""
        ...

    async def put_file(self, path: Path) -> BlobRef:
        """Store a file's bytes without reading them into memory at once."""
        ...

    def writer(self) -> AbstractAsyncContextManager[BlobWriter]:
        """A blob of unknown length; leaving the context without a commit leaves nothing behind."""
        ...

    async def get(self, ref: BlobRef) -> bytes:
        """The bytes; raises BlobMissing or BlobAltered, which name the blob."""
        ...

    async def copy_to(self, ref: BlobRef, path: Path) -> None:
        """Write the bytes to a file that does not exist yet; checked against the hash."""
        ...

    async def check(self, ref: BlobRef) -> None:
        """Compare the bytes with their name, in pieces; raises BlobMissing or BlobAltered, and
        LogCorrupt where the store has another size for them."""
        ...

    async def has(self, ref: BlobRef) -> bool:
        """Whether the bytes are there; they are not read."""
        ...


class EventLog(Protocol):
    """An append-only store of events in streams.

    `append` puts the events in the writer's queue at once, in the order of the calls, and gives a
    ticket; awaiting the ticket returns when they are durable. Await it before anyone outside is
    told. Awaiting is optional between appends to one stream: they keep their order, and when one
    fails, what was queued after it on that stream fails too.
    """

    @property
    def log_id(self) -> str:
        """A random name that the log got when it was created; copies share it."""
        ...

    @property
    def blobs(self) -> BlobStore:
        """The blobs that the events name."""
        ...

    def append(
        self, stream: str, expected_version: int, events: Sequence[NewEvent]
    ) -> Awaitable[Appended]:
        """Append all events or none.

        Raises EventInvalid for what could not be read back, before anything is queued. The
        ticket raises VersionConflict, EventIdConflict or LogUnavailable. The same events
        again, with the same ids and content at the same place, are acknowledged and not stored
        twice.
        """
        ...

    async def head(self, stream: str) -> Head:
        """Version and hash of a stream's last event; version 0 for one that does not exist."""
        ...

    async def read(
        self, stream: str, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """A stream's events with versions above `after`, oldest first."""
        ...

    async def heads(self, streams: Sequence[str]) -> list[Head]:
        """The heads of these streams, in one go."""
        ...

    async def read_each(self, streams: Sequence[str]) -> list[list[RecordedEvent]]:
        """All events of each of these streams, in one go."""
        ...

    def read_all(
        self, *, after: int = 0, until: int | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """All events with positions above `after`, in batches; up to `until` when it is given."""
        ...

    async def last_position(self) -> int:
        """The position of the newest event, 0 for an empty log."""
        ...

    async def streams(self, prefix: str = "") -> list[str]:
        """Names of the streams that begin with `prefix`, in the order of their first events."""
        ...

    def subscribe(
        self, *, after: int = 0, streams: Sequence[str] | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """Catch up from a position, then follow for ever; no committed event is ever skipped.

        Sees what other processes append too. With `streams`, only events of those streams.
        """
        ...

    async def aclose(self) -> None:
        """Write what is queued, then close."""
        ...
