"""Canonical JSON."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.projections.document import (
    compact,
    document,
    line,
    seconds,
    total,
    total_seconds,
)


class Two(msgspec.Struct):
    """A document of two keys."""

    b: float | None
    a: list[str]


def test_a_document_is_indented_and_ends_with_a_newline() -> None:
    """Two spaces of indent, keys in the order of the fields, null for what is absent."""
    expected = b'{\n  "b": null,\n  "a": [\n    "x"\n  ]\n}\n'

    assert expected == document(Two(None, ["x"]))


def test_a_line_is_one_line() -> None:
    """An object of a .jsonl file has one newline, at its end, whatever is in its texts."""
    odd = "\u2028\u2029\x85\x0b\x0c\x1c\x1e\r\n"

    assert b"\n" == line(Two(1.0, [odd]))[-1:]
    assert 1 == line(Two(1.0, [odd])).count(b"\n")
    assert odd == json.loads(line(Two(1.0, [odd])))["a"][0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, b"1.0"),
        (0.0, b"0.0"),
        (-0.0, b"-0.0"),
        (0.1, b"0.1"),
        (0.1 + 0.2, b"0.30000000000000004"),
        (2 / 3, b"0.6666666666666666"),
        (1e-5, b"0.00001"),
        (1e-7, b"1e-7"),
        (1e15, b"1000000000000000.0"),
        (1e16, b"1e16"),
        (1e22, b"1e22"),
        (1.2345678901234568e17, b"1.2345678901234568e17"),
        (5e-324, b"5e-324"),
        (1.7976931348623157e308, b"1.7976931348623157e308"),
    ],
)
def test_floats_have_one_style(value: float, text: bytes) -> None:
    """A float has a point or an exponent, and the fewest digits that read back the same."""
    assert text == compact(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_back_the_same(value: float) -> None:
    """Every float reads back as the same bits, and never as an integer."""
    text = compact(value)

    back = json.loads(text)

    assert isinstance(back, float)
    assert (value, math.copysign(1, value)) == (back, math.copysign(1, back))
    assert text == compact(back)
    assert len(text) <= len(repr(value)) + 4  # `1e-05` is `0.00001` here


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_indenting_changes_no_value(value: object) -> None:
    """What is read from an indented document is what was written."""
    assert value == json.loads(document(msgspec.defstruct("D", ["x"])(value)))["x"]  # type: ignore[call-arg]


def test_sums_are_exact() -> None:
    """A sum does not depend on the order of the addends."""
    values = [1e16, 1.0, -1e16]
    assert 1.0 != sum(values[:2]) + values[2]  # what a plain sum gives

    assert 1.0 == total(values)
    assert total(values) == total(reversed(values))


def test_sums_are_exact_on_the_way() -> None:
    """A sum that is too large only on the way is as exact as any other."""
    with pytest.raises(OverflowError):
        math.fsum([1e308, 1e308, -1e308, -1e308, 5e-324])

    assert 5e-324 == total([1e308, 1e308, -1e308, -1e308, 5e-324])


def test_a_sum_that_no_float_holds_is_null() -> None:
    """There is no infinity in a file."""
    assert total([1e308, 1e308]) is None


def test_durations_are_rounded_to_microseconds() -> None:
    """A duration has at most six digits behind the point."""
    assert 0.123457 == seconds(0.1234567)
    assert seconds(None) is None
    assert 0.3 == total_seconds([0.1, 0.2])
    assert total_seconds([]) is None
