"""What a model said: its text and the tools it calls, out of a chat completion. Pure.

Nothing of a completion goes further but what is read here: texts as texts, calls by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ....events.kinds.parts import Usage
from ...models.usage import read_usage

EXCERPT = 300
"""Characters of malformed arguments that an error repeats."""

MOST_CALLS = 128
"""Calls of one reply that are made."""

DEEPEST = 200
"""Levels of arrays and objects; nothing honest has more, and what walks them would run out."""

LONGEST_ID = 256
"""Characters of a call's id that is kept."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model wants called."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    """Null where they are no JSON object."""
    given: str
    """The arguments as they came."""


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a model's."""

    text: str = ""
    reasoning: str | None = None
    calls: list[ToolCall] = []
    calls_left_out: int = 0
    """Of those that are more than MOST_CALLS."""
    finish: str | None = None
    """Why the model stopped, in the endpoint's words."""
    model: str | None = None
    """The model's own name for itself."""
    usage: Usage = Usage(model_calls=1)

    def message(self) -> dict[str, Any]:
        """The message as the model is shown it again."""
        said: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            said["tool_calls"] = [_again(call) for call in self.calls]
        return said


def _again(call: ToolCall) -> dict[str, Any]:
    # Endpoints refuse a conversation with arguments that are no JSON; the error has an excerpt.
    arguments = "{}" if call.arguments is None else call.given
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def read_reply(body: str, *, turn: int) -> ModelReply | None:
    """The reply in an endpoint's answer; null for what is no chat completion."""
    try:
        answer = msgspec.json.decode(body)
        if _too_deep(answer):
            return None
        choice = answer["choices"][0]
        message = choice["message"]
        content = _content(message.get("content"))
        refusal = message.get("refusal")
        listed = cast("list[Any]", message.get("tool_calls") or [])
        calls = [_call(item, turn, place) for place, item in enumerate(listed[:MOST_CALLS], 1)]
    except (
        msgspec.DecodeError, LookupError, TypeError, AttributeError, ValueError, RecursionError,
    ):  # fmt: skip
        return None
    return ModelReply(
        text=content or _text(refusal) or "",
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        calls=_told_apart(calls),
        calls_left_out=max(0, len(listed) - MOST_CALLS),
        finish=_text(choice.get("finish_reason")),
        model=_text(answer.get("model")),
        usage=read_usage(answer.get("usage")),
    )


def _content(content: Any) -> str:
    """A text, or the texts of a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError
    parts = cast("list[Mapping[str, Any]]", content)
    return "".join(part["text"] for part in parts if part.get("type") == "text")


def _call(item: Any, turn: int, place: int) -> ToolCall:
    function = item["function"]
    given = function.get("arguments")
    text = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
    name = _text(item.get("id"))
    return ToolCall(
        id=name if name and len(name) <= LONGEST_ID else f"call-{turn}-{place}",
        name=str(function["name"]),
        arguments=_object(text),
        given=text,
    )


def _object(text: str) -> dict[str, Any] | None:
    try:
        value: Any = msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(value, dict) or _too_deep(value):
        return None
    return cast("dict[str, Any]", value)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += cast("dict[str, Any]", item).values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return True


def _told_apart(calls: list[ToolCall]) -> list[ToolCall]:
    """The calls with ids of their own: one answer belongs to one call."""
    seen: set[str] = set()
    apart: list[ToolCall] = []
    for place, call in enumerate(calls, 1):
        name = f"{call.id}-{place}" if call.id in seen else call.id
        seen.add(name)
        apart.append(msgspec.structs.replace(call, id=name))
    return apart


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
