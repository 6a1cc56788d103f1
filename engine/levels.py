"""The values of nested data level by level, without recursion: others' JSON may be of any depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast


def levels(value: Any) -> Iterator[list[Any]]:
    """What a value holds, then what that holds, down to the deepest."""
    level: list[Any] = [value]
    while level := [item for each in level for item in _inside(each)]:
        yield level


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []
