"""A chat completion that came in pieces, as one. Pure.

An endpoint that streams sends server-sent events whose data are chunks; what they add up to is what
it would have sent at once, so that everything after it knows one form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

DONE = b"data: [DONE]"
"""The end of a stream."""

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


class StreamBroken(Exception):
    """The stream ended before the completion did, or with an error of the endpoint's."""


def is_stream(content_type: str, body: bytes) -> bool:
    """Whether a body is a stream of events, whatever was asked for."""
    return content_type.startswith("text/event-stream") or body.startswith((b"data:", b"event:"))


def has_ended(tail: bytes) -> bool:
    """Whether a stream with this at its end is complete, though its connection may stay open."""
    return tail.rstrip().endswith(DONE)


def assembled(body: bytes) -> str:
    """The completion in a stream, as JSON; the stream itself where it is none.

    Raises StreamBroken.
    """
    whole = _Whole()
    done = False
    for data in _events(body):
        if data.strip() == b"[DONE]":
            done = True
            break
        try:
            whole.add(msgspec.json.decode(data))
        except (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError):
            return body.decode("utf-8", "replace")
    if not done and whole.finish is None:
        raise StreamBroken("its stream ended in the middle of the reply")
    return msgspec.json.encode(whole.completion()).decode()


def _events(body: bytes) -> Iterator[bytes]:
    """The data of each event."""
    held: list[bytes] = []
    for line in body.splitlines():
        if line.startswith(b"data:"):
            held.append(line[5:].removeprefix(b" "))
        elif not line and held:
            yield b"\n".join(held)
            held = []
    if held:
        yield b"\n".join(held)


class _Whole:
    """The sum of the chunks so far."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self._top: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: dict[Any, dict[str, Any]] = {}
        self._usage: Any = None

    def add(self, chunk: Any) -> None:
        """Raises StreamBroken; and TypeError and the like for what is no chunk."""
        if error := chunk.get("error"):
            said: Any = cast("dict[str, Any]", error).get("message") if _is_object(error) else error
            raise StreamBroken(f"its stream ended with an error: {said}")
        for name in ("id", "created", "model", "system_fingerprint"):
            if chunk.get(name) is not None:
                self._top.setdefault(name, chunk[name])
        self._usage = chunk.get("usage") or self._usage
        for choice in cast("list[Any]", chunk.get("choices") or []):
            if choice.get("index", 0) == 0:
                self._add_choice(choice)

    def _add_choice(self, choice: dict[str, Any]) -> None:
        delta: dict[str, Any] = choice.get("delta") or {}
        for name in _TEXTS:
            if piece := delta.get(name):
                self._message[name] = (self._message.get(name) or "") + piece
        for piece in cast("list[Any]", delta.get("tool_calls") or []):
            self._add_call(piece)
        self.finish = choice.get("finish_reason") or self.finish

    def _add_call(self, piece: dict[str, Any]) -> None:
        place = piece.get("index")
        if place is None:  # some number only the first piece of each
            place = piece.get("id") or next(reversed(self._calls), 0)
        empty = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(place, empty)
        call["id"] = call["id"] or piece.get("id")
        function: dict[str, Any] = call["function"]
        new: dict[str, Any] = piece.get("function") or {}
        function["name"] = function["name"] or new.get("name") or ""
        function["arguments"] += new.get("arguments") or ""

    def completion(self) -> dict[str, Any]:
        """All of it."""
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = list(self._calls.values())
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {
            **self._top, "object": "chat.completion", "choices": [choice], "usage": self._usage,
        }  # fmt: skip


def _is_object(value: object) -> bool:
    return isinstance(value, dict)
