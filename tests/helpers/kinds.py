"""An example of every kind of event: its required fields alone, or all of them."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from trialog.events.kinds import Event
from trialog.events.values import BlobRef, blob_ref

KINDS: tuple[type[Event], ...] = get_args(Event)


def example(kind: Any, *, full: bool) -> Any:
    """An instance; with `full` no field has its default."""
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _value(hints[field.name], field.name, full)
            for field in msgspec.structs.fields(kind)
            if full or field.required
        }
    )


def _value(type_: Any, name: str, full: bool) -> Any:
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Literal:
        return arguments[-1] if full else arguments[0]
    if origin in (types.UnionType, typing.Union):
        return _value(next(a for a in arguments if a is not type(None)), name, full)
    if origin is list:
        return [_value(arguments[0], name, full)] if full else []
    if origin is dict:
        return {"key": _value(arguments[1], name, full)} if full else {}
    if origin is tuple:
        return ()
    if type_ is BlobRef:
        return blob_ref(name.encode())
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return example(type_, full=full)
    simple: dict[Any, Any] = {str: f"some {name}", int: 1, float: 0.5, bool: full, Any: [name]}
    return simple[type_]
