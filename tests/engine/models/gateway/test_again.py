"""Recorded answers as streams: what puts a stream together gives the same answer again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from trialog.engine.models.gateway.again import streamed
from trialog.engine.models.gateway.recorded import RecordedEndpoints
from trialog.engine.models.gateway.routes import Form, find
from trialog.engine.models.gateway.streams import EventReader, assembler, data_of
from trialog.engine.models.gateway.upstream import Ask, Downstream
from trialog.engine.models.recorded import RecordedCall
from trialog.engine.models.replaying import Recording
from trialog.events.memory import MemoryLog

CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"n": 1}'}},
    {"id": "c2", "type": "function", "function": {"name": "rm", "arguments": "{}"}},
]
CHAT: dict[str, Any] = {
    "object": "chat.completion", "id": "c1", "created": 3, "model": "m-2026",
    "choices": [
        {
            "index": 0, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": "hé\n", "reasoning": "hm",
                        "tool_calls": CALLS},
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}  # fmt: skip
TEXT: dict[str, Any] = {
    "object": "text_completion", "id": "c1", "model": "m",
    "choices": [{"index": 0, "text": "hello", "finish_reason": "stop"}], "usage": None,
}  # fmt: skip
MESSAGE: dict[str, Any] = {
    "type": "message", "id": "m1", "role": "assistant", "model": "c-2026",
    "stop_reason": "tool_use", "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "abc"},
        {"type": "text", "text": "hé\n"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"n": [1, {"a": None}]}},
        {"type": "tool_use", "id": "t2", "name": "now", "input": {}},
    ],
    "usage": {"input_tokens": 9, "output_tokens": 20},
}  # fmt: skip
RESPONSE: dict[str, Any] = {
    "id": "r1", "object": "response", "status": "completed", "model": "m",
    "output": [
        {"type": "reasoning", "id": "o0", "summary": []},
        {"type": "message", "id": "o1", "role": "assistant",
         "content": [{"type": "output_text", "text": "hello", "annotations": []}]},
        {"type": "function_call", "id": "o2", "call_id": "c1", "name": "f", "arguments": "{}"},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("chat", CHAT), ("completions", TEXT), ("messages", MESSAGE), ("responses", RESPONSE),
        ("responses", RESPONSE | {"status": "incomplete"}),
    ],
)  # fmt: skip
def test_a_stream_adds_up_to_the_recorded_answer(form: Form, answer: dict[str, Any]) -> None:
    """To the last field; without the events that end it, it is none that has ended."""
    events, end = streamed(form, answer)
    whole = _assembled(form, events)
    assert form in ("chat", "completions") or not whole.ended
    whole = _assembled(form, [*events, *end])
    assert whole.ended
    assert whole.error is None
    assert answer == whole.whole()


def _assembled(form: Form, events: list[bytes]) -> Any:
    whole, reader = assembler(form), EventReader()
    for event in reader.feed(b"".join(events)):
        if (data := data_of(event).strip()) != b"[DONE]":
            whole.add(msgspec.json.decode(data))
    assert b"" == reader.rest()
    return whole


@pytest.mark.parametrize("form", ["chat", "completions", "messages", "responses"])
@pytest.mark.parametrize("answer", [None, {}, [], {"choices": 3, "content": [3], "output": "x"}])
def test_an_answer_that_is_none_makes_a_stream_too(form: Form, answer: Any) -> None:
    """Whatever an endpoint said then, a replay does not fail over it."""
    events, end = streamed(form, answer)
    assert all(event.endswith(b"\n\n") for event in [*events, *end])


async def test_an_answer_that_was_no_json_comes_again() -> None:
    """As it came then, to a client that had asked for a stream, too."""
    request: dict[str, Any] = {"model": "m", "messages": [], "stream": True}
    call = RecordedCall(
        event="e1", request=request, body="<html>", error="the endpoint's answer is no JSON",
        form="chat",
    )  # fmt: skip
    recording = Recording("t__1", [call], MemoryLog().blobs, clean=lambda value: value)
    target = find("POST", "/v1/chat/completions", {})
    assert target is not None

    async def begin(status: int, headers: Mapping[str, str]) -> None:
        raise AssertionError("no stream had begun")

    async def piece(data: bytes) -> bool:
        raise AssertionError("no stream had begun")

    answer = await RecordedEndpoints(recording).ask(
        Ask(target=target, body=msgspec.json.encode(request)), Downstream(begin, piece)
    )
    assert (200, b"<html>", "e1") == (answer.status, answer.body, answer.replayed)
