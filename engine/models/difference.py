"""Where two requests differ first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

AROUND = 80
"""Characters of a text that are shown before and behind the first that differs."""


class Difference(NamedTuple):
    """The first part that differs; null where one of the two does not have it."""

    path: str
    recorded: str | None
    now: str | None


def first_difference(recorded: Any, now: Any) -> Difference | None:
    """The first difference of two JSON values; null where they are the same.

    The order of an object's keys is no difference; the kind of a number is one, as in 1 and 1.0.
    """
    return None if canonical(recorded) == canonical(now) else _find("", recorded, now)


def canonical(value: Any) -> bytes:
    """A value's JSON, with the keys of objects in order."""
    return msgspec.json.encode(value, order="sorted")


def _find(path: str, recorded: Any, now: Any) -> Difference:
    if isinstance(recorded, dict) and isinstance(now, dict):
        return _in_objects(path, cast("dict[str, Any]", recorded), cast("dict[str, Any]", now))
    if isinstance(recorded, list) and isinstance(now, list):
        return _in_lists(path, cast("Sequence[Any]", recorded), cast("Sequence[Any]", now))
    if isinstance(recorded, str) and isinstance(now, str):
        return Difference(path, *_around(recorded, now))
    return Difference(path, _shown(recorded), _shown(now))


def _in_objects(path: str, recorded: Mapping[str, Any], now: Mapping[str, Any]) -> Difference:
    for name in dict.fromkeys([*recorded, *now]):
        inner = f"{path}.{name}" if path else name
        if name not in now:
            return Difference(inner, _shown(recorded[name]), None)
        if name not in recorded:
            return Difference(inner, None, _shown(now[name]))
        if canonical(recorded[name]) != canonical(now[name]):
            return _find(inner, recorded[name], now[name])
    raise AssertionError("two objects that differ have a key that differs")


def _in_lists(path: str, recorded: Sequence[Any], now: Sequence[Any]) -> Difference:
    for place, (before, after) in enumerate(zip(recorded, now, strict=False)):
        if canonical(before) != canonical(after):
            return _find(f"{path}[{place}]", before, after)
    place = min(len(recorded), len(now))
    return Difference(
        f"{path}[{place}]",
        _shown(recorded[place]) if place < len(recorded) else None,
        _shown(now[place]) if place < len(now) else None,
    )


def _around(recorded: str, now: str) -> tuple[str, str]:
    """Both texts around the first character that differs."""
    pairs = enumerate(zip(recorded, now, strict=False))
    shorter = min(len(recorded), len(now))
    at = next((place for place, (before, after) in pairs if before != after), shorter)
    start = max(0, at - AROUND)
    return _cut(recorded, start, at + AROUND), _cut(now, start, at + AROUND)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _cut(text, 0, 2 * AROUND)


def _cut(text: str, start: int, end: int) -> str:
    before = "…" if start else ""
    behind = "…" if len(text) > end else ""
    return f"{before}{text[start:end]}{behind}"
