"""A log whose events and texts are redacted before they reach it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from ..events.envelope import Appended, Head, NewEvent, RecordedEvent
from ..events.log import BlobStore, BlobWriter, EventLog
from ..events.values import BlobRef, json_bytes
from .redact import Redactor

_StructT = TypeVar("_StructT", bound=msgspec.Struct)


def redacting(log: EventLog, redactor: Redactor) -> EventLog:
    """The log behind a redactor; the log itself when there is nothing to redact."""
    return log if redactor.empty else RedactingLog(log, redactor)


class RedactingLog:
    """An EventLog that takes secrets out of payloads, and out of blobs that are put as bytes."""

    def __init__(self, log: EventLog, redactor: Redactor) -> None:
        self._log = log
        self._redactor = redactor
        self._blobs = RedactingBlobs(log.blobs, redactor)

    @property
    def log_id(self) -> str:
        """As the log."""
        return self._log.log_id

    @property
    def blobs(self) -> BlobStore:
        """The blobs; see RedactingBlobs for what is redacted in them."""
        return self._blobs

    def append(
        self, stream: str, expected_version: int, events: Sequence[NewEvent]
    ) -> Awaitable[Appended]:
        """Append the events, redacted."""
        return self._log.append(stream, expected_version, [self._clean(event) for event in events])

    def _clean(self, event: NewEvent) -> NewEvent:
        payload = redacted(event.payload, self._redactor)
        if payload is event.payload:
            return event
        return msgspec.structs.replace(event, payload=payload)

    async def head(self, stream: str) -> Head:
        """As the log."""
        return await self._log.head(stream)

    async def read(
        self, stream: str, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """As the log."""
        return await self._log.read(stream, after=after, limit=limit)

    async def heads(self, streams: Sequence[str]) -> list[Head]:
        """As the log."""
        return await self._log.heads(streams)

    async def read_each(self, streams: Sequence[str]) -> list[list[RecordedEvent]]:
        """As the log."""
        return await self._log.read_each(streams)

    def read_all(
        self, *, after: int = 0, until: int | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """As the log."""
        return self._log.read_all(after=after, until=until)

    async def last_position(self) -> int:
        """As the log."""
        return await self._log.last_position()

    async def streams(self, prefix: str = "") -> list[str]:
        """As the log."""
        return await self._log.streams(prefix)

    def subscribe(
        self, *, after: int = 0, streams: Sequence[str] | None = None
    ) -> AsyncIterator[list[RecordedEvent]]:
        """As the log."""
        return self._log.subscribe(after=after, streams=streams)

    async def aclose(self) -> None:
        """As the log."""
        await self._log.aclose()


class RedactingBlobs:
    """Blobs behind a redactor: `put` is for texts and redacts; files and writers keep their bytes.

    Workspaces and verifiers come as files, since their digests must hold; look for secrets in them
    with `find_secrets_in_archive`.
    """

    def __init__(self, blobs: BlobStore, redactor: Redactor) -> None:
        self._blobs = blobs
        self._redactor = redactor

    async def put(self, data: bytes) -> BlobRef:
        """Store bytes without the secrets; the reference names what was stored."""
        return await self._blobs.put(self._redactor.stored(data))

    async def put_file(self, path: Path) -> BlobRef:
        """Store a file's bytes as they are."""
        return await self._blobs.put_file(path)

    def writer(self) -> AbstractAsyncContextManager[BlobWriter]:
        """Store bytes as they come, as they are."""
        return self._blobs.writer()

    async def get(self, ref: BlobRef) -> bytes:
        """As the store."""
        return await self._blobs.get(ref)

    async def copy_to(self, ref: BlobRef, path: Path) -> None:
        """As the store."""
        await self._blobs.copy_to(ref, path)

    async def check(self, ref: BlobRef) -> None:
        """As the store."""
        await self._blobs.check(ref)

    async def has(self, ref: BlobRef) -> bool:
        """As the store."""
        return await self._blobs.has(ref)


def redacted(told: _StructT, redactor: Redactor) -> _StructT:
    """A payload or report without the secrets; itself when it has none."""
    if redactor.empty or not redactor.finds_in_json(json_bytes(told)):
        return told
    return _redact_struct(told, redactor)


def _redact_struct(struct: _StructT, redactor: Redactor) -> _StructT:
    """The struct with all its free text redacted; names of variants are the format's own words."""
    changed = {
        name: _redact(getattr(struct, name), redactor) for name in _free_fields(type(struct))
    }
    return msgspec.structs.replace(struct, **changed)


def _redact(value: object, redactor: Redactor) -> object:
    match value:
        case BlobRef():
            return value
        case msgspec.Struct():
            return _redact_struct(value, redactor)
        case str():
            return redactor.text(value)
        case dict():
            items = cast("dict[object, object]", value)
            return {_redact(k, redactor): _redact(v, redactor) for k, v in items.items()}
        case list():
            return [_redact(item, redactor) for item in cast("list[object]", value)]
        case tuple():
            return tuple(_redact(item, redactor) for item in cast("tuple[object, ...]", value))
        case _:
            return value


@cache
def _free_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Fields that can hold anything but words from a fixed list."""
    described = msgspec.inspect.type_info(kind)
    assert isinstance(described, msgspec.inspect.StructType)
    return tuple(field.name for field in described.fields if not _fixed(field.type))


def _fixed(kind: msgspec.inspect.Type) -> bool:
    match kind:
        case msgspec.inspect.UnionType(types=types):
            return all(_fixed(one) for one in types)
        case (
            msgspec.inspect.LiteralType()
            | msgspec.inspect.NoneType()
            | msgspec.inspect.BoolType()
            | msgspec.inspect.IntType()
            | msgspec.inspect.FloatType()
        ):
            return True
        case _:
            return False
