"""What counts as a number in a reward file."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

SHOWN = 80
"""Characters of a value that a warning repeats."""


def parse_number(text: str) -> float | None:
    """A JSON number, with an optional leading ``+`` and a bare leading or trailing point.

    Infinity where it overflows; None for anything else. Minus zero is zero.
    """
    if _NUMBER.fullmatch(text) is None:
        return None
    return float(text) + 0.0


def is_finite(value: float) -> bool:
    """Whether the value is a number that has not overflowed."""
    return math.isfinite(value)


def shown(text: str) -> str:
    """A value as a warning repeats it: on one line, and cut when it is long."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: SHOWN + 1])
    return line if len(text) <= SHOWN else f"{line[:SHOWN]}…"
