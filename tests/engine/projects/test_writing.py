"""Manifests that are written read back as what was written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.projects.writing import NotStored, manifest_text
from trialog.engine.tasks.plain import plain
from trialog.engine.tasks.yaml12 import load_yaml

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner)
    ),
    max_leaves=12,
)


@given(VALUES.filter(lambda value: value is not None))
def test_any_value_comes_back(value: Any) -> None:
    """Whatever JSON can say comes back with its types: texts that look like numbers, characters
    beyond the first plane, control characters, 1 and 1.0."""
    back = plain(load_yaml(manifest_text({"expected": value})))
    assert repr(back) == repr({"expected": value})


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, float("inf"), {"k" * 2000: 1}])
def test_values_that_would_not_come_back(value: Any) -> None:
    """A value that would come back as another one is refused."""
    assert manifest_text({"expected": 5}) == "expected: 5\n"
    with pytest.raises(NotStored):
        manifest_text({"expected": value})


def test_nulls_are_left_out() -> None:
    """A key without a value is not written; a null within a value is kept."""
    assert manifest_text({"a": None, "b": [None]}) == "b: [null]\n"
    assert manifest_text({"a": None}) == ""
