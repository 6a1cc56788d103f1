"""What counts as a number in a reward file."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.verifier.number import parse_number, shown

ACCEPTED = {
    "1": 1.0,
    "0": 0.0,
    "-0": 0.0,
    "+1": 1.0,
    "-0.5": -0.5,
    ".5": 0.5,
    "+.5": 0.5,
    "-.5": -0.5,
    "1.": 1.0,
    "1.e0": 1.0,
    "1e0": 1.0,
    "1E+2": 100.0,
    "5e-1": 0.5,
    "1e5": 1e5,
    "1e-400": 0.0,
    "0.1": 0.1,
    "1.0000000000000000000000001": 1.0,
}
REFUSED = [
    "", ".", "+", "-", "e5", ".e5", "1e", "1e+", "--1", "+-1", "1 2", "1,0", "1.0.0", "01", "-01",
    "00.5", "1_0", "0x1", "0b1", "1f", "nan", "NaN", "inf", "-Infinity", "True", "true", "१", "１",
    "½", "1\u00a0", "1\x00", "1\n2", "١.٥",
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), ACCEPTED.items())
def test_accepted(text: str, value: float) -> None:
    """A JSON number, with a leading plus and a bare leading or trailing point allowed."""
    assert parse_number(text) == value


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    """No underscores, hexadecimal, foreign digits, leading zeros, words or second numbers."""
    assert parse_number(text) is None


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" + "0" * 400, "9" * 5000])
def test_overflow_is_not_finite(text: str) -> None:
    """A number that is too large is read as infinite, never as something else."""
    number = parse_number(text)
    assert number is not None
    assert math.isinf(number)


def test_minus_zero_has_no_sign() -> None:
    """Minus zero is zero, so that no file ever shows -0.0."""
    assert math.copysign(1, parse_number("-0.0") or 0.0) == 1


def slow_number(text: str) -> Decimal | None:
    """The grammar once more, by hand and character by character."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    mantissa, sign, exponent = rest, "", ""
    for mark in "eE":
        if mark in rest:
            mantissa, sign, exponent = rest.partition(mark)
            break
    whole, _point, fraction = mantissa.partition(".")
    digits = set("0123456789")
    if not set(whole) <= digits or not set(fraction) <= digits or not (whole or fraction):
        return None
    if len(whole) > 1 and whole[0] == "0":
        return None
    if sign:
        bare = exponent[1:] if exponent[:1] in ("+", "-") else exponent
        if not bare or not set(bare) <= digits:
            return None
    return Decimal(f"{text[:1] if text[:1] == '-' else ''}{whole or '0'}.{fraction or '0'}") * (
        Decimal(10) ** int(exponent or "0")
    )


@given(st.text(alphabet="0123456789+-.eE", max_size=8))
def test_grammar_against_a_slow_reading(text: str) -> None:
    """Both readings accept the same texts and give the same number."""
    _, _, exponent = text.lower().partition("e")
    if len(exponent.lstrip("+-")) > 3:
        return
    slow = slow_number(text)
    fast = parse_number(text)
    if slow is None:
        assert fast is None
    else:
        assert fast == float(slow)


def test_shown_is_short_and_on_one_line() -> None:
    """A warning repeats no more than a line of what was written."""
    assert shown("1\n2\x1b[31m") == r"1\n2\x1b[31m"
    assert shown("x" * 200) == "x" * 80 + "…"
