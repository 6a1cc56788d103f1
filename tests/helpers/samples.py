"""Payloads of every kind, and events made of them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from helpers.fakes import CountingIds, TickingClock
from trialog.events.codec import KINDS
from trialog.events.envelope import NewEvent, new_event
from trialog.events.kinds import Event, JobCancelled, WarningRaised
from trialog.events.payload import Payload
from trialog.events.values import BlobRef, blob_ref

BLOB = b"what the samples' references name\n"

CLOCK = TickingClock()
IDS = CountingIds()


def sample(kind: type[Payload], *, full: bool) -> Any:
    """A payload of a kind with every field set, or only with those that have no default."""
    return _struct(inspect.type_info(kind), full=full)


def samples() -> list[Any]:
    """Two of each kind: bare and full."""
    return [sample(kind, full=full) for kind in KINDS.values() for full in (False, True)]


def warning(message: str = "look here") -> WarningRaised:
    """A payload with a text in it."""
    return WarningRaised(code="reward_missing", message=message)


def event(payload: Event | None = None, **changes: Any) -> NewEvent:
    """An event of the next millisecond with the next id."""
    made = new_event(payload or JobCancelled(reason="enough"), CLOCK, IDS)
    return msgspec.structs.replace(made, **changes)


def events(count: int) -> list[NewEvent]:
    """That many events."""
    return [event(warning(f"number {number}")) for number in range(count)]


def _struct(info: Any, *, full: bool) -> Any:
    return info.cls(
        **{
            field.name: _value(field.type, field.name, full=full)
            for field in info.fields
            if full or field.required
        }
    )


def _value(info: Any, name: str, *, full: bool) -> Any:
    match info:
        case inspect.StrType():
            return f"a {name}"
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 0.25
        case inspect.AnyType():
            return {f"a {name}": [None, True, 1, 2.5, "text"]}
        case inspect.LiteralType():
            return info.values[0]
        case inspect.ListType():
            return [_value(info.item_type, name, full=full)]
        case inspect.DictType():
            return {f"a {name}": _value(info.value_type, name, full=full)}
        case inspect.UnionType():
            wanted = [t for t in info.types if not isinstance(t, inspect.NoneType)]
            # A blob where text or a blob may stand is tried with the full payload.
            return _value(wanted[-1 if full else 0], name, full=full)
        case inspect.StructType(cls=cls) if cls is BlobRef:
            return blob_ref(BLOB)
        case inspect.StructType():
            return _struct(info, full=full)
        case _:
            raise AssertionError(f"no sample of {info}")
