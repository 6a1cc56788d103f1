"""From new events to rows: what every store does alike.

A draft is an event whose payload is encoded; a stream's tail is what the next row needs to know of
the row before it. All of this is pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .codec import encode
from .envelope import Appended, NewEvent, RecordedEvent
from .errors import EventInvalid
from .hashing import event_hash, first_previous
from .values import json_bytes, without_surrogates

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event with its payload encoded; it has no place yet."""

    kind: str
    schema: int
    id: str
    at: str
    causation: str | None
    ignorable: bool
    data: str


class Tail(msgspec.Struct, frozen=True, gc=False):
    """A stream's last event, as far as the next one depends on it."""

    version: int
    hash: bytes
    at: str


def empty_tail(stream: str) -> Tail:
    """Of a stream without events."""
    return Tail(0, first_previous(stream), "")


def draft_all(stream: str, events: Sequence[NewEvent]) -> list[Draft]:
    """Encode the events of one append; raises EventInvalid before anything is queued."""
    if not events:
        raise EventInvalid("(none)", f"an append to stream {stream!r} needs at least one event")
    if not _is_name(stream):
        kind = type(events[0].payload).__name__
        raise EventInvalid(kind, f"{stream!r} can't be the name of a stream")
    if len(events) > 1 and len({event.id for event in events}) < len(events):
        kind = type(events[0].payload).__name__
        raise EventInvalid(kind, "two events of one append have the same id")
    return list(map(_draft, events))


def _is_name(stream: str) -> bool:
    if not stream or "\0" in stream:
        return False
    return stream.isascii() or without_surrogates(stream)[1] is None


def _draft(event: NewEvent) -> Draft:
    payload = event.payload
    kind = type(payload).__name__
    causation = event.causation
    if not event.id or not event.id.isascii():
        raise EventInvalid(kind, f"{event.id!r} is no event id")
    if causation is not None and not (causation and causation.isascii()):
        raise EventInvalid(kind, f"causation {causation!r} is no event id")
    if _TIME.fullmatch(event.at) is None:
        raise EventInvalid(kind, f"time {event.at!r} is not like 2026-01-31T00:00:00.000000Z")
    return _drafted(event, encode(payload))


def _drafted(event: NewEvent, data: str) -> Draft:
    payload = event.payload
    return Draft(
        type(payload).__name__, payload.schema, event.id, event.at, event.causation,
        payload.ignorable, data,
    )  # fmt: skip


def chain(
    stream: str, tail: Tail, drafts: Iterable[Draft]
) -> Iterator[tuple[Draft, int, str, bytes]]:
    """Each draft with its version, its time, which never steps back, and its hash."""
    version, latest, previous = tail.version, tail.at, tail.hash
    for draft in drafts:
        version += 1
        if draft.at > latest:
            latest = draft.at
        # By place: names would cost a twentieth of an append.
        previous = event_hash(
            previous, stream, version, draft.kind, draft.schema, draft.id, latest,
            draft.causation, draft.ignorable, draft.data,
        )  # fmt: skip
        yield draft, version, latest, previous


def chained(stream: str, tail: Tail, drafts: Iterable[Draft], first: int) -> list[RecordedEvent]:
    """Drafts as they are recorded after a stream's tail, from the position `first` on."""
    return [
        RecordedEvent(
            position=position, stream=stream, version=version, kind=draft.kind,
            schema=draft.schema, id=draft.id, at=at, causation=draft.causation,
            ignorable=draft.ignorable, data=draft.data, hash=hash,
        )
        for position, (draft, version, at, hash) in enumerate(chain(stream, tail, drafts), first)
    ]  # fmt: skip


def recorded(
    before: RecordedEvent, events: Sequence[NewEvent], appended: Appended
) -> list[RecordedEvent] | None:
    """The events of one append as the log has them, after the event `before` of their stream.

    None where the log has them otherwise, because something was stored between, or in another
    form; the hash tells. Then they are to be read.
    """
    stream = before.stream
    tail = Tail(before.version, before.hash, before.at)
    # That the payloads can be read back is seen to where they are appended.
    drafts = [_drafted(event, json_bytes(event.payload).decode()) for event in events]
    found = chained(stream, tail, drafts, appended.first)
    return found if found[-1].hash == appended.hash else None


def difference(draft: Draft, before: str, stored: RecordedEvent) -> str | None:
    """What differs between an offered event and the stored one with its id; None for nothing.

    `before` is the time of the event before the stored one: a time that the log had moved up to
    it is the same time.
    """
    pairs = {
        "kind": (draft.kind, stored.kind),
        "schema": (draft.schema, stored.schema),
        "causation": (draft.causation, stored.causation),
        "ignorable": (draft.ignorable, stored.ignorable),
        "time": (max(draft.at, before), stored.at),
        "data": (draft.data, stored.data),
    }
    return next((name for name, (mine, its) in pairs.items() if mine != its), None)
