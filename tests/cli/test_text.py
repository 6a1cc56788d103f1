"""Text of others can't control the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.console.text import duration, escaped, number, percent, plural, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – naïve 日本", "plain – naïve 日本"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\tand\rmore", r"two\nlines\tand\rmore"),
        ("\x9b2J", r"\x9b2J"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
        ("lone \udc80", r"lone \udc80"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("[red]markup[/red]", "[red]markup[/red]"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    """What could move the cursor or reorder a line is shown as an escape; the rest stays."""
    assert escaped(text) == shown


@given(st.text(st.characters(codec=None)))
def test_escaped_text_is_printable_on_one_line(text: str) -> None:
    """Escaped text has no control character and no line end, whatever it was."""
    shown = escaped(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in shown)
    shown.encode("utf-8")


def test_line_ends_can_stay() -> None:
    """Output that is shown as it was printed keeps its lines and tabs, and no escapes."""
    assert escaped("a\tb\n\x1b[2Jc\r\n", lines=True) == "a\tb\n\\x1b[2Jc\\r\n"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("exactly ten", 11, "exactly ten"),
        ("a long sentence", 8, "a long…"),
        ("日本語の長い文", 7, "日本語…"),
        ("two\nlines", 20, "two lines"),
        ("", 5, ""),
    ],
)
def test_cut_to_width(text: str, width: int, shown: str) -> None:
    """A cut text fits its width in terminal cells, wide characters counted as two."""
    assert shortened(text, width) == shown


def test_figures() -> None:
    """Rates have one decimal, rewards two, and what is not known is a dash."""
    assert (percent(0.5), percent(None)) == ("50.0%", "–")
    assert (number(5 / 6), number(None)) == ("0.83", "–")
    assert [duration(s) for s in (4.4, 200, 7500)] == ["4s", "3min 20s", "2h 05min"]
    assert [plural(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
