"""The envelope: what surrounds a payload, before and after it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .kinds import Event

if TYPE_CHECKING:
    from .clock import Clock, Ids


class NewEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event on its way into the log."""

    id: str
    """UUIDv7; the same id with the same content may be offered again and is stored once."""
    at: str
    """UTC, RFC 3339 with six digits and ``Z``. Stored no earlier than the stream's last event."""
    payload: Event
    causation: str | None = None
    """The id of the event that led to this one."""


def new_event(payload: Event, clock: Clock, ids: Ids, causation: str | None = None) -> NewEvent:
    """A payload as an event of this moment, with an id of its own."""
    return NewEvent(id=ids.event_id(), at=clock.now(), payload=payload, causation=causation)


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as the log has it. `data` is the stored text, verbatim; see `codec.decode`."""

    position: int
    """1, 2, 3 … over the whole log."""
    stream: str
    version: int
    """1, 2, 3 … in its stream."""
    kind: str
    schema: int
    id: str
    at: str
    causation: str | None
    ignorable: bool
    data: str
    """Bytes that are not UTF-8, which only damage leaves, are lone surrogates in it."""
    hash: bytes
    """SHA-256, 32 bytes; chained over the stream."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """Where a stream stands. A stream that does not exist is at version 0."""

    version: int
    hash: bytes


class Appended(msgspec.Struct, frozen=True, gc=False):
    """What an acknowledged append stored: positions `first` … `last` and the stream's new head."""

    first: int
    last: int
    version: int
    hash: bytes
