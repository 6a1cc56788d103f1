"""First states of apps, as tasks give them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec
from msgspec.structs import FieldInfo


def state_faults(given: Any, state: type[msgspec.Struct]) -> list[str]:
    """Everything for which no state of that type can be made of what is given."""
    if not isinstance(given, dict):
        return _fault(given, state)
    values, fields = cast("dict[str, Any]", given), _fields(state)
    faults = [unknown_name(name, fields, "field") for name in values if name not in fields]
    for name, field in fields.items():
        if name in values:
            faults += [_placed(fault, name) for fault in _fault(values[name], field.type)]
        elif field.required:
            faults.append(f"Object missing required field `{name}`")
    return faults or _fault(values, state)


@functools.cache
def known_fields(state: type[msgspec.Struct]) -> frozenset[str]:
    """The names that a state's fields are given by."""
    return frozenset(_fields(state))


def unknown_name(name: str, known: Iterable[str], what: str) -> str:
    """In words that there is no such app or field."""
    return f"there is no {what} {name!r}; there are: {', '.join(known)}"


def unknown_apps(given: Collection[str], apps: Collection[str]) -> list[str]:
    """Each name in what is given by app that is no app's."""
    return [unknown_name(name, apps, "app") for name in given if name not in apps]


@functools.cache  # the annotations behind it are compiled with each call
def _fields(state: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(state)}


def _fault(value: Any, kind: Any) -> list[str]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return [str(error)]
    return []


def _placed(fault: str, field: str) -> str:
    """What is wrong with a field's value, with its place in the state."""
    what, _, below = fault.partition(" - at `$")
    return f"{what} - at `$.{field}{below or '`'}"
