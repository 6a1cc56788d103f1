"""Where two requests differ first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.models.difference import Difference, first_difference

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("recorded", "now", "found"),
    [
        ({"m": 1}, {"m": 2}, ("m", "1", "2")),
        ({"m": 1}, {"m": 1.0}, ("m", "1", "1.0")),
        ({"m": 1}, {"m": True}, ("m", "1", "true")),
        ({"m": None}, {}, ("m", "null", None)),
        ({}, {"t": [1]}, ("t", None, "[1]")),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, ("a[1].b", "x", "y")),
        ({"a": [1]}, {"a": [1, 2]}, ("a[1]", None, "2")),
        ({"a": [1, 2]}, {"a": [1]}, ("a[1]", "2", None)),
        ({"a": "1"}, {"a": 1}, ("a", "1", "1")),
        ({"a": 1, "b": 1}, {"b": 2, "a": 2}, ("a", "1", "2")),
    ],
)
def test_the_first_part_that_differs(recorded: Any, now: Any, found: Any) -> None:
    """In the recorded order; kinds of values count, and so does what one side does not have."""
    assert Difference(*found) == first_difference(recorded, now)


def test_long_texts_are_shown_around_the_difference() -> None:
    """What is the same is left out, at a mark; a text that only goes on differs where it does."""
    found = first_difference({"a": "x" * 500 + "1" + "z" * 500}, {"a": "x" * 500 + "2"})
    assert found is not None
    assert (f"…{'x' * 80}1{'z' * 79}…", f"…{'x' * 80}2") == (found.recorded, found.now)


def test_the_order_of_keys_is_no_difference() -> None:
    """Two objects with the same entries are the same."""
    assert None is first_difference(
        {"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"d": 3, "c": 2}], "a": 1}
    )


@given(VALUES, VALUES)
def test_what_is_found_is_there(recorded: Any, now: Any) -> None:
    """A value does not differ from itself; two that differ do so somewhere, on the same way from
    either side."""
    assert None is first_difference(recorded, recorded)
    found, back = first_difference(recorded, now), first_difference(now, recorded)
    assert (found is None) == (back is None)
    if found is not None:
        assert found.recorded is not None or found.now is not None
