"""What agents' own reports lack of their tool calls, out of the recorded calls of their models.

An agent tells the model what came of a call, under the call's id; where it did not report that, or
not what the call was given, both are found there. Requests are read as far as their forms go (chat
completions, responses, Anthropic's messages), and nothing that a tool printed is taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from ..events.kinds import ActionTaken, ModelCalled
from ..events.values import BlobRef, Json
from .texts import full_value, reference
from .trial import TrialView


class Recorded(NamedTuple):
    """By tool calls' ids, what was given to them and what came of them; the first holds."""

    arguments: dict[str, Json]
    results: dict[str, str]


NOTHING = Recorded({}, {})


def lacking(view: TrialView) -> frozenset[str]:
    """Ids of the tool calls of which the agent's report lacks something."""
    return frozenset(
        action.tool_call
        for _, action in view.history
        if isinstance(action, ActionTaken)
        and action.tool_call is not None
        and action.observed_by == "agent"
        and (action.arguments is None or (action.observation is None and action.error is None))
    )


def observed_blobs(view: TrialView) -> Iterator[BlobRef]:
    """The blobs that `observed` needs; none where no report lacks anything."""
    if lacking(view):
        for _, call in view.history:
            if isinstance(call, ModelCalled):
                for value in (call.request, call.response):
                    if (ref := reference(value)) is not None:
                        yield ref


def observed(view: TrialView, blobs: Mapping[str, bytes]) -> Recorded:
    """What recorded model calls have of those tool calls."""
    wanted = lacking(view)
    if not wanted:
        return NOTHING
    arguments: dict[str, Json] = {}
    results: dict[str, str] = {}
    for _, call in view.history:
        if not isinstance(call, ModelCalled):
            continue
        for item in _items(full_value(call.request, blobs), full_value(call.response, blobs)):
            for ident, given in _calls(item):
                if ident in wanted:
                    arguments.setdefault(ident, given)
            for ident, came in _results(item):
                if ident in wanted:
                    results.setdefault(ident, came)
    return Recorded(arguments, results)


def _items(request: Json, response: Json) -> Iterator[dict[str, Any]]:
    """Messages and items of both, and the blocks in them; no deeper."""
    asked, said = _table(request), _table(response)
    found = [*_tables(asked.get("messages")), *_tables(asked.get("input"))]
    found += [_table(choice.get("message")) for choice in _tables(said.get("choices"))]
    found += [*_tables(said.get("output")), *_tables(said.get("content"))]
    for item in found:
        yield item
        yield from _tables(item.get("content"))


def _calls(item: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    for call in _tables(item.get("tool_calls")):
        yield str(call.get("id")), _parsed(_table(call.get("function")).get("arguments"))
    if item.get("type") == "function_call":
        yield str(item.get("call_id")), _parsed(item.get("arguments"))
    if item.get("type") == "tool_use":
        yield str(item.get("id")), item.get("input")


def _results(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if item.get("role") == "tool":
        yield str(item.get("tool_call_id")), _text(item.get("content"))
    if item.get("type") == "function_call_output":
        yield str(item.get("call_id")), _text(item.get("output"))
    if item.get("type") == "tool_result":
        yield str(item.get("tool_use_id")), _text(item.get("content"))


def _text(content: Json) -> str:
    """Plain text, or the texts of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in _tables(content) if "text" in block)


def _parsed(arguments: Json) -> Json:
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _tables(value: Json) -> Iterable[dict[str, Any]]:
    if not isinstance(value, list):
        return ()
    return [_table(item) for item in cast("Sequence[Any]", value)]


def _table(value: Json) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
