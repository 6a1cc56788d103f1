"""Tokens and cost as an endpoint counts them. Pure."""

from __future__ import annotations

from typing import Any, cast

from ...events.kinds.parts import Usage

_MOST = 2**53
"""Tokens or dollars from which on a figure is nonsense."""


def read_usage(given: Any) -> Usage:
    """The `usage` of a chat completion; null for what it does not say."""
    if not isinstance(given, dict):
        return Usage(model_calls=1)
    said = cast("dict[str, Any]", given)
    details: Any = said.get("prompt_tokens_details")
    cached: Any = None
    if isinstance(details, dict):
        cached = cast("dict[str, Any]", details).get("cached_tokens")
    return Usage(
        model_calls=1,
        input_tokens=_count(said.get("prompt_tokens")),
        output_tokens=_count(said.get("completion_tokens")),
        cached_tokens=_count(cached),
        cost_usd=_dollars(said.get("cost")),
    )


def _dollars(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MOST else None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST else None
