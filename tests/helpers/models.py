"""For tests of agents that use models: what an endpoint answers, and a client in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from helpers.judges import Answer, completion
from trialog.engine.models.client import Answered, CallFailed, CallWatch


def calling(*calls: tuple[str, Any], text: str | None = None, **changes: Any) -> Answer:
    """A reply that calls tools, by name and arguments (a text goes as it is)."""
    listed = [
        {
            "id": f"c{place}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": given if isinstance(given, str) else json.dumps(given),
            },
        }
        for place, (name, given) in enumerate(calls, 1)
    ]
    message = {"tool_calls": listed}
    return completion(text, message=message, finish_reason="tool_calls", **changes)


def shell(command: str, **more: Any) -> Answer:
    """A reply that runs a command."""
    return calling(("shell", {"command": command, **more}))


class FakeModel:
    """A ModelClient that gives these replies in turn (the last again), or what a function of the
    messages gives."""

    endpoint = "http://fake/v1"

    def __init__(self, *replies: Answer | CallFailed | Callable[[Any], Answer]) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []

    async def complete(
        self, request: Mapping[str, Any], watch: CallWatch | None = None
    ) -> Answered:
        """The next reply."""
        self.requests.append(json.loads(json.dumps(request)))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, CallFailed):
            raise reply
        answer = reply if isinstance(reply, Answer) else reply(request["messages"])
        return Answered(body=answer.body)

    def heard(self, call: str) -> str:
        """What the model was told last of a tool call."""
        messages = self.requests[-1]["messages"]
        return next(m["content"] for m in reversed(messages) if m.get("tool_call_id") == call)


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    """One piece of a streamed completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "c1", "model": "m-2026-01", "choices": [choice], "usage": None}


def stream(*chunks: dict[str, Any], done: bool = True) -> bytes:
    """Server-sent events with these data."""
    events = [f"data: {json.dumps(one)}\n\n" for one in chunks]
    return "".join([*events, *(["data: [DONE]\n\n"] if done else [])]).encode()


def streamed(*chunks: dict[str, Any], done: bool = True, **changes: Any) -> Answer:
    """The answer that streams these."""
    headers = {"content-type": "text/event-stream"}
    return Answer(stream(*chunks, done=done).decode(), headers=headers, **changes)
