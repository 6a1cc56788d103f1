"""How an app's state after a step is recorded: in full, or as a patch on the one before.

A state is recorded in full the first time, at least at every 50th change of its app, and whenever
it is over 16 KiB, then as a blob. In between it is an RFC 6902 patch where that is smaller, if the
patch gives back the very same JSON: order of keys, floats and all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import msgspec

from ...events.kinds.parts import StateChange
from ...events.values import INLINE_LIMIT, Json, blob_ref, escape
from ...projections.patch import PatchError, apply_patch

FULL_EVERY = 50
"""Changes of an app, of which at least one is in full."""

_SHORTEST = len('[{"op":"remove","path":"/"}]')
"""Bytes of the smallest patch that changes anything."""


class Recorded(NamedTuple):
    """A state's change as an event holds it."""

    change: StateChange
    blob: bytes | None
    """The bytes that `change.full` names; they must be stored before the event is."""


class _App(NamedTuple):
    raw: bytes
    """The latest state, escaped, as JSON."""
    patches: int
    """Changes since the last one in full."""


class StateRecorder:
    """Records the states of a trial's apps, change by change.

    `clean` is applied to each state first: give it the redactor's `value` where there are secrets,
    so that patches fit the states that are stored.
    """

    def __init__(
        self, *, full_every: int = FULL_EVERY, clean: Callable[[Json], Json] | None = None
    ) -> None:
        self._full_every = full_every
        self._clean = clean
        self._apps: dict[str, _App] = {}

    def start(self, app: str, state: Json) -> None:
        """Tell the state that EnvironmentReset has recorded, so that changes can be patches on it.

        Without this, an app's first change is in full.
        """
        self._apps[app] = _App(self._encoded(state), 0)

    def record(self, app: str, state: Json) -> Recorded:
        """The app's state after a step, as the step's event has it."""
        raw = self._encoded(state)
        before = self._apps.get(app)
        if len(raw) > INLINE_LIMIT:
            self._apps[app] = _App(raw, 0)
            return Recorded(StateChange(full=blob_ref(raw)), raw)
        if before is not None and before.patches + 1 < self._full_every:
            patch = _patch(before.raw, raw)
            if patch is not None:
                self._apps[app] = _App(raw, before.patches + 1)
                return Recorded(StateChange(patch=patch), None)
        self._apps[app] = _App(raw, 0)
        return Recorded(StateChange(full=[msgspec.json.decode(raw)]), None)

    def _encoded(self, state: Json) -> bytes:
        return msgspec.json.encode(escape(state if self._clean is None else self._clean(state)))


def _patch(before: bytes, after: bytes) -> list[Json] | None:
    """The patch between two encoded states, if it is smaller than the second and exact."""
    if len(after) <= _SHORTEST and before != after:
        return None
    try:
        patch = list(difference(msgspec.json.decode(before), msgspec.json.decode(after)))
        if _size(patch) >= len(after):
            return None
        found = msgspec.json.encode(apply_patch(msgspec.json.decode(before), patch))
    except (PatchError, RecursionError):  # nested too deep to compare
        return None
    return patch if found == after else None


def difference(before: Json, after: Json, path: str = "") -> Iterator[Json]:
    """The operations that make `after` of `before`, for a reader that keeps the order of keys."""
    if _same(before, after):
        return
    whole: Json = {"op": "replace", "path": path, "value": after}
    operations: list[Json] | None = None
    match before, after:
        case dict(), dict():
            old, new = cast("dict[str, Json]", before), cast("dict[str, Json]", after)
            operations = list(_objects(old, new, path))
        case list(), list():
            was, now = cast("Sequence[Json]", before), cast("Sequence[Json]", after)
            operations = list(_arrays(was, now, path))
        case _:
            pass
    if operations is None or _size(operations) > _size([whole]):
        yield whole
    else:
        yield from operations


def _objects(before: dict[str, Json], after: dict[str, Json], path: str) -> Iterator[Json]:
    """Keys that are gone, then each key of `after`: in its old place, moved to the end, or new."""
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": _join(path, key)}
    places = {key: place for place, key in enumerate(k for k in before if k in after)}
    reached, in_place = -1, True
    for key, value in after.items():
        where = _join(path, key)
        place = places.get(key)
        in_place = in_place and place is not None and place > reached
        if place is None:
            yield {"op": "add", "path": where, "value": value}
            continue
        if in_place:
            reached = place
        else:
            yield {"op": "move", "from": where, "path": where}
        yield from difference(before[key], value, where)


def _arrays(before: Sequence[Json], after: Sequence[Json], path: str) -> Iterator[Json]:
    """What lies between the items that both begin with and those that both end with."""
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and _same(before[head], after[head]):
        head += 1
    tail = 0
    while tail < shorter - head and _same(before[-1 - tail], after[-1 - tail]):
        tail += 1
    old, new = len(before) - tail, len(after) - tail
    common = min(old, new)
    for index in range(head, common):
        yield from difference(before[index], after[index], f"{path}/{index}")
    for index in reversed(range(common, old)):
        yield {"op": "remove", "path": f"{path}/{index}"}
    for index in range(common, new):
        yield {"op": "add", "path": f"{path}/{index}", "value": after[index]}


def _same(a: Json, b: Json) -> bool:
    """Whether two values are the same JSON text: 1 is not 1.0, 0.0 is not -0.0, order counts."""
    if type(a) is not type(b):
        return False
    match a:
        case dict():
            left, right = cast("dict[str, Json]", a), cast("dict[str, Json]", b)
            return list(left) == list(right) and all(_same(left[k], right[k]) for k in left)
        case list():
            ours, theirs = cast("Sequence[Json]", a), cast("Sequence[Json]", b)
            return len(ours) == len(theirs) and all(map(_same, ours, theirs))
        case float():
            return repr(a) == repr(b)
        case _:
            return bool(a == b)


def _join(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"


def _size(operations: list[Json]) -> int:
    return len(msgspec.json.encode(operations))
