"""RFC 6902."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trialog.projections.patch import PatchError, apply_patch, patched


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
        ([1, 3], [{"op": "add", "path": "/1", "value": 2}], [1, 2, 3]),
        ([1], [{"op": "add", "path": "/-", "value": 2}], [1, 2]),
        ([1], [{"op": "add", "path": "/1", "value": 2}], [1, 2]),
        ({"a": 1}, [{"op": "add", "path": "", "value": [1]}], [1]),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ([1, 2], [{"op": "remove", "path": "/0"}], [2]),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/1", "value": 3}], {"a": [1, 3]}),
        (1, [{"op": "replace", "path": "", "value": {"x": None}}], {"x": None}),
        ({"a": 1, "b": []}, [{"op": "move", "from": "/a", "path": "/b/0"}], {"b": [1]}),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
        ({"a": [1]}, [{"op": "copy", "from": "", "path": "/b"}], {"a": [1], "b": {"a": [1]}}),
        ([1, {"x": 1}], [{"op": "test", "path": "", "value": [1, {"x": 1}]}], [1, {"x": 1}]),
        ({"": 1, "a/b": 2}, [{"op": "remove", "path": "/a~1b"}], {"": 1}),
        ({"": 1, "m~n": 2}, [{"op": "remove", "path": "/m~0n"}], {"": 1}),
        ({"~1": 1}, [{"op": "remove", "path": "/~01"}], {}),
        ({"": 1}, [{"op": "replace", "path": "/", "value": 2}], {"": 2}),
    ],
)  # fmt: skip
def test_operations(value: Any, patch: list[Any], expected: Any) -> None:
    """Each operation does what the standard says, at the place that its pointer names.

    The same comes of it where the value itself stays as it was.
    """
    before = copy.deepcopy(value)
    assert expected == patched(value, patch)
    assert value == before
    assert expected == apply_patch(value, patch)


_json = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab01"), inner),
    max_leaves=8,
)
_pointer = st.lists(st.sampled_from(["a", "b", "0", "1", "-"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)


@given(
    _json,
    st.lists(
        st.fixed_dictionaries({
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": _pointer, "from": _pointer, "value": _json,
        }),
        max_size=4,
    ),
)  # fmt: skip
@example([[1], [2]], [{"op": "move", "from": "/0", "path": "/0/0"}])
def test_a_patch_may_leave_the_value_as_it_was(value: Any, patch: list[Any]) -> None:
    """Whatever a patch does to a copy, it does beside the value; what does not fit fits neither."""
    before = copy.deepcopy(value)

    def outcome(apply: Any, given: Any) -> Any:
        try:
            return json.dumps(apply(given, patch))
        except PatchError:
            return PatchError

    assert outcome(patched, value) == outcome(apply_patch, copy.deepcopy(value))
    assert json.dumps(value) == json.dumps(before)


def test_keys_keep_their_order() -> None:
    """A key that is replaced keeps its place, one that is added goes to the end."""
    value = {"b": 1, "a": 2}

    given_keys = apply_patch(
        value,
        [
            {"op": "replace", "path": "/b", "value": 3},
            {"op": "add", "path": "/0", "value": 4},
        ],
    )

    assert '{"b": 3, "a": 2, "0": 4}' == json.dumps(given_keys)


@pytest.mark.parametrize(
    ("value", "operation"),
    [
        ({}, {"op": "remove", "path": "/a"}),
        ({}, {"op": "replace", "path": "/a", "value": 1}),
        ({}, {"op": "move", "from": "/a", "path": "/b"}),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}),
        ({"a": 1}, {"op": "remove", "path": ""}),
        ({"a": 1}, {"op": "remove", "path": "a"}),
        ({"a": 1}, {"op": "remove", "path": "/a/b"}),
        ([1], {"op": "remove", "path": "/1"}),
        ([1], {"op": "remove", "path": "/-"}),
        ([1], {"op": "add", "path": "/2", "value": 1}),
        ([1], {"op": "add", "path": "/01", "value": 1}),
        ([1], {"op": "add", "path": "/-1", "value": 1}),
        ([1], {"op": "add", "path": "/٠", "value": 1}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}),
        ({"a": [1]}, {"op": "test", "path": "/a", "value": [1, 2]}),
        ({"a": {"x": 1}}, {"op": "test", "path": "/a", "value": {"y": 1}}),
        ({"a": "x"}, {"op": "test", "path": "/a", "value": ["x"]}),
        ({"a": 1}, {"op": "increment", "path": "/a"}),
        ({"a": 1}, {"op": "add", "path": "/b"}),
        ({"a": 1}, {"path": "/b"}),
        ({"a": 1}, {"op": "add", "path": 5, "value": 1}),
        ({"a": 1}, "add"),
    ],
)  # fmt: skip
def test_a_patch_that_does_not_fit_is_an_error(value: Any, operation: Any) -> None:
    """What an operation can't do is an error that shows the operation."""
    with pytest.raises(PatchError, match="does not fit"):
        apply_patch(value, [operation])


def test_a_patch_is_not_changed_by_later_ones() -> None:
    """Values that a patch brings are copied, so that it can be applied again."""
    patch = [
        {"op": "add", "path": "/a", "value": {"x": []}},
        {"op": "add", "path": "/a/x/-", "value": 1},
    ]
    before = copy.deepcopy(patch)

    assert {"a": {"x": [1]}} == apply_patch({}, patch)
    assert before == patch
