"""Reading reward.json: strict JSON, and nothing in it can raise, hang or fill the memory.

Stricter than Python's own reader: no key twice in any object, no NaN or Infinity, no nesting
beyond MAX_DEPTH. Numbers at the top are kept as they were written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import msgspec

from ...events.values import without_surrogates
from .number import shown

MAX_DEPTH = 100
"""Objects and lists inside one another."""

_BOM = b"\xef\xbb\xbf"


class Number(msgspec.Struct, frozen=True):
    """A number, as it was written."""

    literal: str

    @property
    def value(self) -> float:
        """The nearest double; infinite where it overflows. Minus zero is zero."""
        return float(self.literal) + 0.0


class Document(msgspec.Struct, frozen=True):
    """A well-formed reward.json."""

    numbers: dict[str, Number]
    others: dict[str, Any]
    """Entries that are no numbers: strict JSON values."""


class Fault(msgspec.Struct, frozen=True):
    """Why a file can't be used: a sentence that begins with the file's name or the key's."""

    reason: str


class _Constant(msgspec.Struct, frozen=True):
    """NaN, Infinity or -Infinity, which JSON doesn't have but many writers write."""

    name: str


class _Refused(Exception):
    """Raised in the reader's hooks; the message is the fault."""


_Pairs: TypeAlias = list[tuple[str, Any]]


def read_document(data: bytes, name: str) -> Document | Fault:
    """The entries of a JSON object, or what is wrong with it. `name` is the file's, for that."""
    try:
        text = data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        return Fault(f"{name} is not UTF-8 (byte {error.start})")
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _unique(pairs, name),
            parse_constant=_Constant,
            parse_float=Number,
            parse_int=Number,
        )
        if not isinstance(value, dict):
            return Fault(f"{name} is not a JSON object but {_described(value)}")
        return _entries(cast("dict[str, Any]", value), name)
    except _Refused as refused:
        return Fault(str(refused))
    except RecursionError:
        return Fault(f"{name} is nested more than {MAX_DEPTH} deep")
    except json.JSONDecodeError as error:
        return Fault(f"{name} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})")


def _unique(pairs: _Pairs, name: str) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for key, value in pairs:
        # Two keys that differ only in what is no Unicode would become one when stored.
        clean = without_surrogates(key)[0]
        if clean in items:
            raise _Refused(f"{name} has the key '{shown(clean)}' twice")
        items[clean] = value
    return items


def _entries(items: dict[str, Any], name: str) -> Document:
    numbers: dict[str, Number] = {}
    others: dict[str, Any] = {}
    for key, value in items.items():
        match value:
            case Number():
                numbers[key] = value
            case _Constant():
                raise _Refused(
                    f"{shown(key)} in {name} is {value.name}, which is not a finite number"
                )
            case _:
                others[key] = _plain(value, 1, key, name)
    return Document(numbers, others)


def _plain(value: Any, depth: int, key: str, name: str) -> Any:
    """A value that any JSON writer can write; the numbers in it become Python's."""
    if depth > MAX_DEPTH:
        raise _Refused(f"{name} is nested more than {MAX_DEPTH} deep")
    match value:
        case dict():
            items = cast("dict[str, Any]", value)
            return {k: _plain(v, depth + 1, key, name) for k, v in items.items()}
        case list():
            return [_plain(v, depth + 1, key, name) for v in cast("Sequence[Any]", value)]
        case str():
            return without_surrogates(value)[0]
        case Number():
            return _python_number(value)
        case _Constant():
            raise _Refused(f"{shown(key)} in {name} has {value.name} in it, which is not JSON")
        case _:
            return value


def _python_number(number: Number) -> int | float | str:
    """An int of 64 bits or a finite float; else the digits themselves."""
    literal = number.literal
    if len(literal) <= 20 and literal.removeprefix("-").isdigit():
        whole = int(literal)
        if -(2**63) <= whole < 2**64:
            return whole
    value = float(literal)
    return value if math.isfinite(value) else literal


def _described(value: Any) -> str:
    match value:
        case list():
            return "a list"
        case Number():
            return f"the number {shown(value.literal)}"
        case _Constant():
            return value.name
        case str():
            return "a text"
        case None:
            return "null"
        case _:
            return str(value).lower()


def json_text(value: Any) -> str:
    """A value from a document as JSON text, for a warning."""
    return json.dumps(value, ensure_ascii=False)
