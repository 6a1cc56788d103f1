"""Names of tasks that are safe everywhere."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.tasks.names import LONGEST, safe_name


@pytest.mark.parametrize("name", ["half-life", "a", "A.b_c-1", "x" * LONGEST, "3d", "a-"])
def test_an_ordinary_name_stays(name):
    """Up to 80 ASCII letters, digits, dots, underscores and dashes."""
    assert safe_name(name) == name


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a b", "a-b-"),
        ("-rf", "rf-"),
        ("..", "task-"),
        ("", "task-"),
        (".hidden", "hidden-"),
        ("a\nb", "a-b-"),
        ("naïve", "na-ve-"),
        ("日本", "task-"),
        ("a.", "a-"),
        ("x" * 300, "x" * 71 + "-"),
        ("a\udcff", "a-"),
        ("__x", "x-"),
    ],
)
def test_another_name_is_cleaned_and_marked(name, begins):
    """What was changed ends with eight hex digits of the original's SHA-256."""
    assert re.fullmatch(re.escape(begins) + "[0-9a-f]{8}", safe_name(name))


NAMES = st.text(
    st.characters(exclude_categories=[], exclude_characters="/\0", codec=None), max_size=120
).filter(lambda name: not any(0xD800 <= ord(c) < 0xDC80 or 0xDCFF < ord(c) < 0xE000 for c in name))


@given(NAMES)
def test_every_name_becomes_one_plain_word(name):
    """Whatever a folder is called, the task's name is a safe word, and safe again."""
    safe = safe_name(name)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", safe)
    assert not safe.endswith(".")
    assert len(safe) <= LONGEST
    assert safe_name(safe) == safe
    assert Path(safe).name == safe


@given(NAMES, NAMES)
def test_different_names_stay_different(one, other):
    """Two folders never share a name by being cleaned."""
    assert (safe_name(one) == safe_name(other)) == (one == other)
