"""How states are recorded: in full, as blobs, as patches."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.worlds.changes import (
    FULL_EVERY,
    Recorded,
    StateRecorder,
    _patch,
    difference,
)
from trialog.events.values import INLINE_LIMIT, as_blob_ref, blob_ref, unescape
from trialog.projections.patch import apply_patch

KEYS = st.sampled_from(["a", "b", "c", "", "x/y", "~", "~1", "$blob", "size", "0", "é"])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 1]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=25,
)


@st.composite
def _changed(draw: st.DrawFn, value: Any) -> Any:
    """A value like the one given, with something changed, moved, put in or taken out."""
    if draw(st.integers(0, 5)) == 0:
        return draw(JSON)
    if isinstance(value, dict) and value:
        items = [(k, draw(_changed(v)) if draw(st.booleans()) else v) for k, v in value.items()]
        if draw(st.booleans()):
            items = draw(st.permutations(items))
        if draw(st.booleans()):
            items.pop()
        if draw(st.booleans()):
            items.append((draw(KEYS), draw(JSON)))
        return dict(items)
    if isinstance(value, list) and value:
        copy = [draw(_changed(v)) if draw(st.booleans()) else v for v in value]
        place = draw(st.integers(0, len(copy) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                copy.insert(place, draw(JSON))
            case 1:
                del copy[place]
            case 2:
                copy.append(draw(JSON))
            case _:
                pass
        return copy
    return draw(LEAVES)


@st.composite
def _histories(draw: st.DrawFn) -> list[Any]:
    """States as an app might go through them: each much like the one before."""
    states = [draw(JSON)]
    for _ in range(draw(st.integers(1, 5))):
        states.append(draw(_changed(states[-1])))
    return states


class Reader:
    """Reads changes back as a projection does: stored values, patches on copies of them."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def read(self, recorded: Recorded) -> bytes:
        """The state after a change, as JSON."""
        change = recorded.change
        if change.patch is not None:
            self.state = apply_patch(self.state, change.patch)
        elif recorded.blob is not None:
            self.state = msgspec.json.decode(recorded.blob)
        else:
            assert change.full is not None
            (self.state,) = change.full
        return msgspec.json.encode(unescape(self.state))


@given(_histories())
def test_replay_gives_back_the_same_bytes(states: list[Any]) -> None:
    """Read back, every state is the same JSON to the byte, however it was recorded."""
    recorder, reader = StateRecorder(), Reader()

    for state in states:
        assert reader.read(recorder.record("app", state)) == msgspec.json.encode(state)


@given(JSON.flatmap(lambda value: st.tuples(st.just(value), _changed(value))))
def test_difference(pair: tuple[Any, Any]) -> None:
    """The patch between any two values makes the second of the first, in the same order of keys."""
    before, after = pair
    patch = list(difference(before, after))

    made = apply_patch(msgspec.json.decode(msgspec.json.encode(before)), patch)

    assert msgspec.json.encode(made) == msgspec.json.encode(after)


@given(_histories())
def test_a_patch_is_smaller(states: list[Any]) -> None:
    """A state is recorded as a patch only where that is smaller than the state."""
    recorder = StateRecorder()

    for state in states:
        change = recorder.record("app", state).change
        if change.patch is not None:
            assert len(msgspec.json.encode(change.patch)) < len(msgspec.json.encode(state)) + 4


def _big(value: int, items: int = 40) -> dict[str, Any]:
    return {"items": list(range(items)), "value": value}


def test_first_in_full() -> None:
    """An app's first change is in full, and its next one a patch."""
    recorder = StateRecorder()

    first = recorder.record("app", _big(1)).change
    second = recorder.record("app", _big(2)).change

    assert (first.full, first.patch) == ([_big(1)], None)
    assert second.full is None
    assert second.patch == [{"op": "replace", "path": "/value", "value": 2}]


def test_first_as_a_patch_on_the_reset() -> None:
    """Where the state of the reset is told, the first change can be a patch on it."""
    recorder = StateRecorder()
    recorder.start("app", _big(1))

    assert recorder.record("app", _big(2)).change.patch is not None


def test_in_full_at_least_every_fifty_changes() -> None:
    """Of any fifty changes of an app one is in full, whatever other apps do meanwhile."""
    recorder = StateRecorder()
    recorder.start("app", _big(0))
    full: list[int] = []

    for n in range(1, 201):
        recorder.record("other", _big(n))
        if recorder.record("app", _big(n)).change.patch is None:
            full.append(n)

    assert full == [50, 100, 150, 200]
    assert FULL_EVERY == 50


def test_large_states_are_blobs() -> None:
    """A state over 16 KiB is in full and a blob, even where a patch would be small."""
    recorder = StateRecorder()
    small, large = "x" * (INLINE_LIMIT - 2), "x" * (INLINE_LIMIT - 1)

    inline = recorder.record("app", small)
    blobbed = recorder.record("app", large)
    again = recorder.record("app", large)

    assert (inline.change.full, inline.blob) == ([small], None)
    assert blobbed.blob == msgspec.json.encode(large)
    assert blobbed.change.full == blob_ref(blobbed.blob)
    assert again == blobbed


def test_a_patch_on_a_blob() -> None:
    """A state that has become small enough again may be a patch on the blob before it."""
    recorder, reader = StateRecorder(), Reader()
    large = {"log": "x" * INLINE_LIMIT, "rest": ["y" * 30] * 100}
    small = {"log": "", "rest": ["y" * 30] * 100}

    reader.read(recorder.record("app", large))
    recorded = recorder.record("app", small)

    assert recorded.change.patch is not None
    assert reader.read(recorded) == msgspec.json.encode(small)


def test_what_looks_like_a_blob_is_escaped() -> None:
    """A state of a user's that looks like a blob's reference is none, in full or in a patch."""
    forged = {"$blob": "sha256:" + "0" * 64, "size": 1}
    recorder = StateRecorder()

    full = recorder.record("app", {"x": forged, "rest": list(range(50))})
    patch = recorder.record("app", {"x": [forged], "rest": list(range(50))})

    assert full.change.full is not None
    assert as_blob_ref(full.change.full[0]["x"]) is None
    assert patch.change.patch is not None
    assert "$$blob" in json.dumps(patch.change.patch)


def test_states_are_cleaned_before_they_are_compared() -> None:
    """Secrets are gone before a patch is made, so that no pointer spells one out."""
    secret = "top/secret"
    recorder = StateRecorder(
        clean=lambda state: json.loads(json.dumps(state).replace(secret, "[redacted:KEY]"))
    )
    seen = Reader()

    for n in range(3):
        recorded = recorder.record("app", {**_big(0), secret: n})
        assert b"secret" not in msgspec.json.encode(recorded.change)
        assert b"[redacted:KEY]" in seen.read(recorded)
    assert "top~1secret" in json.dumps(list(difference({**_big(0), secret: 0}, _big(0))))


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, 1.0), (0.0, -0.0), (True, 1), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (None, False)],
)
def test_what_is_almost_the_same(before: Any, after: Any) -> None:
    """Values that compare equal but are not the same JSON are a difference."""
    assert list(difference(before, after))
    assert not list(difference(before, before))


def test_nested_too_deep_to_compare() -> None:
    """A state that is nested too deep for a comparison is recorded in full."""

    def nested(value: int, depth: int) -> bytes:
        return b"[" * depth + b'%d,"%s"' % (value, b"x" * 9000) + b"]" * depth

    assert _patch(nested(1, 20), nested(2, 20)) is not None
    assert _patch(nested(1, 800), nested(2, 800)) is None
