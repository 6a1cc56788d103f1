"""RFC 6902: a JSON patch applied to a value in place, with the order of keys kept.

A key that is replaced keeps its place; one that is added goes to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from ..events.values import Json


class PatchError(ValueError):
    """A patch does not fit the value that it is applied to."""


def copied(value: Json) -> Json:
    """A copy of a JSON value, so that patching one leaves the other as it is."""
    if isinstance(value, dict | list):
        return msgspec.json.decode(msgspec.json.encode(value))
    return value


def apply_patch(value: Json, patch: Sequence[Json]) -> Json:
    """The patched value; containers inside `value` are changed in place."""
    return _patched(value, patch, _as_it_is)


def patched(value: Json, patch: Sequence[Json]) -> Json:
    """The same, with `value` and all that is in it left as they are; what is equal is shared."""
    return _patched(value, patch, _part)


_Reach: TypeAlias = Callable[[list[Json], str], None]
"""Called with each place right before it is changed."""


def _patched(value: Json, patch: Sequence[Json], reach: _Reach) -> Json:
    holder: list[Json] = [value]
    for operation in patch:
        try:
            _apply(holder, operation, reach)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise PatchError(f"{_shown(operation)} does not fit: {error!r}") from error
    return holder[0]


def _as_it_is(holder: list[Json], path: str) -> None:
    pass


def _part(holder: list[Json], path: str) -> None:
    """Put copies in place of the containers that lead to a place, so that they can be changed."""
    parent: Any = holder
    key: Any = 0
    for part in path.split("/")[1:]:
        inner = parent[key]
        parent[key] = parent = inner.copy()
        key = _key(parent, part, adding=True)


def _apply(holder: list[Json], operation: dict[str, Json], reach: _Reach) -> None:
    path: str = operation["path"]
    match operation["op"]:
        case "add":
            reach(holder, path)
            _insert(holder, path, copied(operation["value"]))
        case "remove":
            reach(holder, path)
            _take(holder, path)
        case "replace":
            reach(holder, path)
            parent, key = _place(holder, path)
            parent[key]  # must be there
            parent[key] = copied(operation["value"])
        case "move":
            source: str = operation["from"]
            if path.startswith(f"{source}/"):
                raise ValueError("a value can't move into itself")
            reach(holder, source)
            moved = _take(holder, source)
            reach(holder, path)
            _insert(holder, path, moved)
        case "copy":
            parent, key = _place(holder, operation["from"])
            value = copied(parent[key])
            reach(holder, path)
            _insert(holder, path, value)
        case "test":
            parent, key = _place(holder, path)
            if not _equal(parent[key], operation["value"]):
                raise ValueError("the value at this place is another one")
        case other:
            raise ValueError(f"{other!r} is no operation")


def _insert(holder: list[Json], path: str, value: Json) -> None:
    parent, key = _place(holder, path, adding=True)
    if parent is not holder and isinstance(parent, list):
        parent.insert(key, value)  # pyright: ignore[reportUnknownMemberType] - any JSON
    else:
        parent[key] = value


def _take(holder: list[Json], path: str) -> Json:
    parent, key = _place(holder, path)
    if parent is holder:
        raise ValueError("the whole value can't be removed")
    return parent.pop(key)


def _place(holder: list[Json], path: str, *, adding: bool = False) -> tuple[Any, Any]:
    """The container and key that a JSON pointer names; `adding` allows the place after the end."""
    parent: Any = holder
    key: Any = 0
    if path and not path.startswith("/"):
        raise ValueError(f"{path!r} is no JSON pointer")
    for part in path.split("/")[1:]:
        parent = parent[key]
        key = _key(parent, part, adding)
    return parent, key


def _key(parent: Json, part: str, adding: bool) -> int | str:
    if isinstance(parent, dict):
        return part.replace("~1", "/").replace("~0", "~")
    if isinstance(parent, list):
        return _index(part, len(cast("Sequence[Json]", parent)), adding)
    raise TypeError(f"{part!r} leads through what is no object or array")


def _index(part: str, length: int, adding: bool) -> int:
    if part == "-" and adding:
        return length
    plain = part.isascii() and part.isdigit() and (part == "0" or part[0] != "0")
    if not plain or int(part) > length or (int(part) == length and not adding):
        raise ValueError(f"{part!r} is no index into {length} items")
    return int(part)


def _equal(a: Json, b: Json) -> bool:
    """Equal as JSON: true is not 1, and the order of keys does not count."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("dict[str, Json]", a), cast("dict[str, Json]", b)
        return left.keys() == right.keys() and all(_equal(left[k], right[k]) for k in left)
    if isinstance(a, list) and isinstance(b, list):
        ours, theirs = cast("Sequence[Json]", a), cast("Sequence[Json]", b)
        return len(ours) == len(theirs) and all(map(_equal, ours, theirs))
    return bool(a == b)


def _shown(operation: Json) -> str:
    return msgspec.json.encode(operation).decode(errors="replace")[:200]
