"""Whether a call is made again, and when. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

RETRIES = 5
"""Times that a call is made again where that may help."""

FIRST, MOST = 0.5, 8.0
"""Seconds before the first further try, doubled for each after it; and the most of it."""

SPREAD = 0.25
"""The share of a pause that is chance, so that many callers do not come back at once."""


def may_help(status: int | None, headers: Mapping[str, str]) -> bool:
    """Whether the same call may fare better later; `status` is null for a broken connection."""
    told = headers.get("x-should-retry", "").lower()
    if told in ("true", "false"):
        return told == "true"
    return status is None or status in (408, 409, 429) or status >= 500


def pause(retries: int, headers: Mapping[str, str], *, now: float, chance: float) -> float:
    """Seconds until the next try, after `retries` before.

    The endpoint's own word holds, and then it is no earlier; `now` is Unix time and `chance` is
    from 0 to 1.
    """
    asked = _asked(headers, now)
    if asked is not None:
        return asked + chance * min(SPREAD * asked, 1.0)
    whole: float = min(FIRST * 2.0**retries, MOST)
    return whole * (1 - SPREAD * chance)


def _asked(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that the endpoint asks for: ``retry-after-ms``, or ``retry-after`` in seconds or as
    a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or given is None:
        return seconds
    try:
        from email.utils import parsedate_to_datetime  # slow to import, and rarely needed

        return max(0.0, parsedate_to_datetime(given).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None
