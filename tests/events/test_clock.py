"""Times and ids."""

from __future__ import annotations

import re
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.events.clock import RandomIds, SystemClock, format_time, parse_time


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_769_860_800_000_000, "2026-01-31T12:00:00.000000Z"),
        (1_769_860_799_999_999, "2026-01-31T11:59:59.999999Z"),
    ],
)
def test_times_have_six_digits_and_z(microseconds: int, text: str) -> None:
    """Always, so that they sort as text."""
    assert text == format_time(microseconds)
    assert microseconds == parse_time(text)


@given(st.integers(0, 4_102_444_800_000_000), st.integers(0, 4_102_444_800_000_000))
def test_times_sort_as_text(one: int, other: int) -> None:
    """And come back as they were."""
    assert (one < other) == (format_time(one) < format_time(other))
    assert one == parse_time(format_time(one))


def test_early_years() -> None:
    """A year always has four digits."""
    assert format_time(-62_135_596_800_000_000) == "0001-01-01T00:00:00.000000Z"


def test_the_systems_clock() -> None:
    """Now, and a clock for durations."""
    clock = SystemClock()
    assert abs(parse_time(clock.now()) / 1e6 - time.time()) < 60
    assert clock.monotonic() <= clock.monotonic()


def test_random_ids() -> None:
    """UUIDv7 for events, which sort by time; eight hex digits for names."""
    ids = RandomIds()
    made = [ids.event_id() for _ in range(100)]
    assert {7} == {uuid.UUID(one).version for one in made}
    assert 100 == len(set(made))
    assert sorted(made) == made
    assert re.fullmatch("[0-9a-f]{8}", ids.suffix())
