"""Payloads to stored text and back.

The text that was stored is never changed: an old schema is lifted, one step at a time, while it
is read. Fields that this release does not know are passed over, so that a later release may add
some without raising the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast, get_args

import msgspec

from .envelope import RecordedEvent
from .errors import EventInvalid, LogCorrupt, UnknownEvent
from .kinds import Event
from .payload import Payload
from .values import json_bytes

Fields: TypeAlias = dict[str, Any]
"""A payload's JSON object, the key ``kind`` among its keys."""
Upcaster: TypeAlias = Callable[[Fields], Fields]
"""Fields of one schema to fields of the next; pure."""
Shape = TypeVar("Shape", bound=msgspec.Struct)

KINDS: dict[str, type[Payload]] = {kind.__name__: kind for kind in get_args(Event)}
"""Every kind by its name."""

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""By kind and the schema that is read: how its fields become those of the next schema."""


def encode(payload: Event) -> str:
    """A payload as the text that is stored.

    Text that UTF-8 can't hold is stored with U+FFFD (see `storable`). Raises EventInvalid for a
    payload that could not be read back, such as one with a NaN or a field of the wrong type.
    """
    try:
        raw = json_bytes(payload)
        back = _decoder().decode(raw)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise EventInvalid(type(payload).__name__, str(error)) from error
    if type(back) is not type(payload):
        raise EventInvalid(type(payload).__name__, "this kind is not part of the format")
    return raw.decode()


def decode(recorded: RecordedEvent) -> Event:
    """The payload of a stored event.

    Raises UnknownEvent for a kind or schema that this release doesn't know, and LogCorrupt for
    text that is not what its kind and schema say.
    """
    kind = KINDS.get(recorded.kind)
    if kind is None or recorded.schema > kind.schema:
        raise _unknown(recorded)
    try:
        if recorded.schema == kind.schema:
            payload = _decoder().decode(recorded.data)
        else:
            payload = msgspec.convert(_lifted(recorded, kind), Event)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise _unreadable(recorded, error) from error
    found = type(payload).__name__
    if found != recorded.kind:
        raise LogCorrupt(
            _where(recorded), f"the row says kind {recorded.kind!r}, but its data is a {found!r}"
        )
    return payload


def decode_or_none(recorded: RecordedEvent) -> Event | None:
    """Like `decode`, but None for an unknown event that may be passed over."""
    try:
        return decode(recorded)
    except UnknownEvent:
        if recorded.ignorable:
            return None
        raise


def decode_known(recorded: RecordedEvent) -> Event | None:
    """Like `decode`, but None for every unknown event.

    For readers that look for some kinds, and make nothing of the whole that would be wrong without
    the others.
    """
    try:
        return decode(recorded)
    except UnknownEvent:
        return None


def decode_as(recorded: RecordedEvent, shape: type[Shape]) -> Shape:
    """Only the fields that `shape` has; cheaper than `decode` for a fold that needs a few.

    `shape` is an untagged struct. Whether it fits the event's kind is the caller's affair.
    """
    kind = KINDS.get(recorded.kind)
    if kind is None or recorded.schema > kind.schema:
        raise _unknown(recorded)
    try:
        if recorded.schema == kind.schema:
            return cast("Shape", _shape_decoder(shape).decode(recorded.data))
        return msgspec.convert(_lifted(recorded, kind), shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise _unreadable(recorded, error) from error


def _lifted(recorded: RecordedEvent, kind: type[Payload]) -> Fields:
    """The fields of an old schema, brought up to the kind's own."""
    fields: Fields = msgspec.json.decode(recorded.data, type=Fields)
    for schema in range(recorded.schema, kind.schema):
        upcast = UPCASTERS.get((recorded.kind, schema))
        if upcast is None:
            raise _unknown(recorded)
        fields = upcast(fields)
    return fields


def _unreadable(recorded: RecordedEvent, error: Exception) -> LogCorrupt:
    """What data can't be read as, and why."""
    if isinstance(error, UnicodeEncodeError):  # so a reader gives bytes that are no text
        return LogCorrupt(_where(recorded), "data is not UTF-8; the log was changed here")
    return LogCorrupt(_where(recorded), f"data is no {recorded.kind}: {error}")


def _where(recorded: RecordedEvent) -> str:
    return f"stream {recorded.stream!r} version {recorded.version}"


def _unknown(recorded: RecordedEvent) -> UnknownEvent:
    return UnknownEvent(
        _where(recorded), recorded.kind, recorded.schema, position=recorded.position
    )


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    """Made when it is first needed: it costs some milliseconds, which start-up should not pay."""
    return msgspec.json.Decoder(Event)


@cache
def _shape_decoder(shape: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)
