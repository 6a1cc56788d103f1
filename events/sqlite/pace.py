"""How many appends are told at once. Pure."""

from __future__ import annotations

LEAST = 32
MOST = 256

_LONG = 0.005
"""Seconds in which the loop looked at nothing else; from there on fewer are told."""


def told_next(told: int, seconds: float) -> int:
    """How many to tell after `told` of them, whom they woke having kept the loop `seconds`.

    Who is woken may do next to nothing, or a millisecond's work. Few at once keep all else waiting
    less; many at once have more appends to commit together.
    """
    if seconds > _LONG:
        return max(told // 2, LEAST)
    return min(told * 2, MOST) if seconds < _LONG / 2 else told
