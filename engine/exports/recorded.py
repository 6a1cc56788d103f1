"""Events as they are: a line an event, of every kind, known to this release or not. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...events.envelope import RecordedEvent
from ...projections.document import line


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the log has it; its payload's text is not touched."""

    position: int
    stream: str
    version: int
    kind: str
    schema: int
    id: str
    at: str
    causation: str | None
    ignorable: bool
    data: msgspec.Raw
    hash: str
    """64 hex digits."""


def event_lines(events: Iterable[RecordedEvent]) -> bytes:
    """A line an event."""
    return b"".join(line(_line(event)) for event in events)


def _line(event: RecordedEvent) -> EventLine:
    return EventLine(
        position=event.position, stream=event.stream, version=event.version, kind=event.kind,
        schema=event.schema, id=event.id, at=event.at, causation=event.causation,
        ignorable=event.ignorable, data=msgspec.Raw(event.data.encode(errors="replace")),
        hash=event.hash.hex(),
    )  # fmt: skip
