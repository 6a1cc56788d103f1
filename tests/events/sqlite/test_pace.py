"""So many appends are told at once as the loop can do without for a few milliseconds."""

from __future__ import annotations

from trialog.events.sqlite.pace import LEAST, MOST, told_next


def told_after(turns: int, each: float) -> int:
    """How many are told at once when each whom they wake takes so many seconds."""
    told = LEAST
    for _ in range(turns):
        told = told_next(told, told * each)
    return told


def test_who_is_woken_and_does_little_comes_with_many() -> None:
    """At 5 µs each, all that may be."""
    assert told_after(10, 5e-6) == MOST


def test_who_is_woken_and_works_comes_with_few() -> None:
    """At a millisecond each, no more than the least, from wherever it was."""
    assert told_after(10, 1e-3) == LEAST
    assert told_next(MOST, MOST * 1e-3) == MOST // 2


def test_it_settles_where_a_turn_takes_a_few_milliseconds() -> None:
    """At 50 µs each, it neither swings nor leaves the loop alone."""
    told = told_after(10, 50e-6)
    assert 0.0025 <= told * 50e-6 <= 0.005
    assert told == told_next(told, told * 50e-6)
