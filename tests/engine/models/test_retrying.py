"""Whether a call is made again, and when."""

from __future__ import annotations

import pytest

from trialog.engine.models.retrying import may_help, pause

NOW = 1_800_000_000.0
LATER = "Fri, 15 Jan 2027 08:02:00 GMT"  # two minutes after NOW


@pytest.mark.parametrize(
    ("status", "headers", "again"),
    [
        (None, {}, True), (429, {}, True), (500, {}, True), (503, {}, True), (408, {}, True),
        (409, {}, True), (400, {}, False), (401, {}, False), (404, {}, False), (413, {}, False),
        (400, {"x-should-retry": "true"}, True), (500, {"x-should-retry": "false"}, False),
    ],
)  # fmt: skip
def test_what_may_help(status: int | None, headers: dict[str, str], again: bool) -> None:
    """Limits, faults of the endpoint and broken connections; the endpoint's own word goes first."""
    assert again is may_help(status, headers)


def test_back_off_doubles_up_to_a_most_and_has_jitter() -> None:
    """Chance takes up to a quarter of it away."""
    assert [0.5, 1.0, 2.0, 4.0, 8.0, 8.0] == [pause(n, {}, now=NOW, chance=0.0) for n in range(6)]
    assert [0.375, 6.0] == [pause(n, {}, now=NOW, chance=1.0) for n in (0, 9)]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0), ({"retry-after": "300.5"}, 300.5), ({"retry-after": "0"}, 0.0),
        ({"retry-after": LATER}, 120.0), ({"retry-after": "Fri, 15 Jan 2021 08:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, 0.5), ({"retry-after": "-1"}, 0.5), ({"retry-after": "nan"}, 0.5),
        ({"retry-after": "inf"}, 0.5), ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
    ],
)  # fmt: skip
def test_retry_after(headers: dict[str, str], seconds: float) -> None:
    """Seconds or a date; what is neither is passed over. Jitter never makes it earlier."""
    assert seconds == pause(0, headers, now=NOW, chance=0.0)
    if "retry-after" in headers and seconds >= 1:
        assert seconds < pause(0, headers, now=NOW, chance=1.0) <= seconds + 1
