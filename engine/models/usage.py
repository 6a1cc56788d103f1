"""Tokens and cost as an endpoint counts them. Pure."""

from __future__ import annotations

from typing import Any, cast

from ...events.kinds.parts import Usage

_MOST = 2**53
"""Tokens or dollars from which on a figure is nonsense."""


def read_usage(given: Any) -> Usage:
    """The `usage` of an answer, in any API's words; null for what it does not say.

    Tokens of the input are all of them, with those that were cached.
    """
    if not isinstance(given, dict):
        return Usage(model_calls=1)
    said = cast("dict[str, Any]", given)
    if "input_tokens" in said:
        return _of_input_and_output(said)
    asked, made = _count(said.get("prompt_tokens")), _count(said.get("completion_tokens"))
    if "completion_tokens" not in said and asked is not None and said.get("total_tokens") == asked:
        made = 0  # embeddings have no output
    return Usage(
        model_calls=1,
        input_tokens=asked,
        output_tokens=made,
        cached_tokens=_count(_detail(said.get("prompt_tokens_details"), "cached_tokens")),
        cost_usd=_dollars(said.get("cost")),
    )


def _of_input_and_output(said: dict[str, Any]) -> Usage:
    """Of a response, or of a message of Anthropic's, which counts apart what a cache is about."""
    fresh, read = _count(said["input_tokens"]), _count(said.get("cache_read_input_tokens"))
    written = _count(said.get("cache_creation_input_tokens"))
    if read is None:
        cached = _count(_detail(said.get("input_tokens_details"), "cached_tokens"))
    else:
        cached = read
    return Usage(
        model_calls=1,
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=_count(said.get("output_tokens")),
        cached_tokens=cached,
        cost_usd=_dollars(said.get("cost")),
    )


def _detail(details: Any, name: str) -> Any:
    return cast("dict[str, Any]", details).get(name) if isinstance(details, dict) else None


def _dollars(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MOST else None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST else None
