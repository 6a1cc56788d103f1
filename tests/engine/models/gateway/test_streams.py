"""Streams in pieces, and conversations in an event each."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.gateway import USED, chunk, event, message_events
from trialog.engine.models.gateway.requests import INHERITED, MOST_MESSAGES, Conversations
from trialog.engine.models.gateway.said import said_in
from trialog.engine.models.gateway.streams import EventReader, assembler, data_of


def put_together(form: Any, events: list[bytes]) -> Any:
    """What a stream adds up to."""
    whole = assembler(form)
    for one in events:
        data = data_of(one)
        if data and data != b"[DONE]":
            whole.add(json.loads(data))
    return whole.whole()


@given(
    st.lists(st.text(max_size=8), max_size=6),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_a_stream_is_the_same_however_it_is_cut(
    texts: list[str], end: bytes, cuts: list[int]
) -> None:
    """Events and what they add up to do not depend on where the network cut the bytes, and
    together they are all of the bytes."""
    events = [event({"choices": [{"index": 0, "delta": {"content": t}}]}) for t in texts]
    stream = b"".join(events).replace(b"\n", end) + b": a comment"
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    reader = EventReader()
    found: list[bytes] = []
    for start, stop in itertools.pairwise(places):
        found += reader.feed(stream[start:stop])
    assert stream == b"".join(found) + reader.rest()
    assert len(texts) == len(found)
    told = put_together("chat", found)["choices"]
    assert [] == told if not texts else "".join(texts) == told[0]["message"]["content"]


ANYTHING = st.recursive(
    st.none() | st.integers(-1, 2) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["type", "choices", "delta", "index", "message", "usage", "response", "text",
             "content", "tool_calls", "content_block", "finish_reason", "error"]
        ),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    st.lists(ANYTHING, max_size=6),
    st.sampled_from(["chat", "completions", "messages", "responses"]),
)
def test_an_endpoint_that_sends_anything(datas: list[Any], form: Any) -> None:
    """What is no event of the form is passed over; there is always an answer to be told."""
    whole = assembler(form)
    for data in datas:
        whole.add(data)
    told = whole.whole()
    assert told == json.loads(json.dumps(told))
    text, thought = said_in(form, told)
    assert (str, str) == (type(text), type(thought))


def test_several_choices() -> None:
    """Each is put together by itself, and a stream has ended when all have."""
    whole = assembler("chat")
    for place, text, end in [(0, "a", None), (1, "x", None), (0, "b", "stop"), (1, "y", None)]:
        choice = {"index": place, "delta": {"content": text}, "finish_reason": end}
        whole.add({"choices": [choice]})
    assert not whole.ended
    whole.add({"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}], "usage": USED})
    assert whole.ended
    told = whole.whole()
    assert [("ab", "stop"), ("xy", "length")] == [
        (choice["message"]["content"], choice["finish_reason"]) for choice in told["choices"]
    ]
    assert USED == told["usage"]


@pytest.mark.parametrize("part", ["choices", "calls"])
def test_a_stream_of_very_many_parts(part: str) -> None:
    """It takes no more time for each part than a short one does."""

    def seconds(parts: int) -> float:
        whole = assembler("chat")
        begun = time.process_time()
        for number in range(parts):
            call = {"tool_calls": [{"index": number, "function": {"arguments": "x"}}]}
            place, delta = (0, call) if part == "calls" else (number, {"content": "x"})
            choice = {"index": place, "delta": delta, "finish_reason": "stop"}
            whole.add({"choices": [choice]})
        choices = whole.whole()["choices"]
        calls = choices[0]["message"].get("tool_calls", [])
        assert parts == len(choices if part == "choices" else calls)
        return time.process_time() - begun

    few = seconds(500)
    assert seconds(15_000) < 30 * 6 * few + 0.1


def test_a_message_with_a_thought_and_a_tool() -> None:
    """Blocks of every kind become what a message has in one piece."""
    events = [
        {"type": "message_start", "message": {"id": "m1", "usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_start", "index": 1,
         "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
        {"type": "content_block_delta", "index": 1,
         "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
        {"type": "content_block_delta", "index": 1,
         "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
        {"type": "ping"},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
         "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]  # fmt: skip
    assert {
        "id": "m1",
        "usage": {"input_tokens": 5, "output_tokens": 9},
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        ],
    } == put_together("messages", [event(one) for one in events])
    assert "hi" == said_in("messages", put_together("messages", [*message_events("hi")])).text


def test_a_response() -> None:
    """Its last event has all of it; of one that was cut there is the text that came."""
    whole = assembler("responses")
    whole.add({"type": "response.created", "response": {"id": "r1", "output": []}})
    whole.add({"type": "response.output_text.delta", "delta": "he"})
    assert {"id": "r1", "output": [], "output_text": "he"} == whole.whole()
    done = {"id": "r1", "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "well"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "hey"}]},
    ]}  # fmt: skip
    whole.add({"type": "response.completed", "response": done})
    assert (True, done) == (whole.ended, whole.whole())
    assert ("hey", "well") == said_in("responses", whole.whole())
    failed = assembler("responses")
    failed.add({"type": "response.failed", "response": {"error": {"message": "too much"}}})
    assert "too much" == failed.error


def test_older_completions() -> None:
    """A text in pieces is one text."""
    events = [event({"choices": [{"text": t, "index": 0}]}) for t in ("a", "b")]
    assert "ab" == put_together("completions", events)["choices"][0]["text"]
    assert "a" == put_together("chat", [chunk("a")])["choices"][0]["message"]["content"]


def in_full(told: dict[str, Any], by_event: dict[str, dict[str, Any]], field: str) -> Any:
    """The request that an event and those before it stand for."""
    if "continues" not in told:
        return told
    before = in_full(by_event[told["continues"]], by_event, field)
    inherited = {name: before[name] for name in INHERITED if name in before}
    own = {name: value for name, value in told.items() if name != "continues"}
    return {**inherited, **own, field: [*before[field], *told[field]]}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.integers(0, 2), max_size=3),
            st.sampled_from([None, "one", "two"]),
            st.sampled_from([None, ["t"], ["t", "u"]]),
        ),
        max_size=12,
    ),
    st.sampled_from(["messages", "input"]),
)
def test_conversations_are_told_without_loss(calls: list[Any], field: str) -> None:
    """Whatever a client repeats, changes or takes back, the events hold each request in full."""
    conversations = Conversations()
    by_event: dict[str, dict[str, Any]] = {}
    messages: list[Any] = []
    for number, (kept, new, system, tools) in enumerate(calls):
        messages = messages[:kept] + [{"content": str(one)} for one in new]
        request: dict[str, Any] = {"model": "m", field: list(messages)}
        request |= {"system": system} if system is not None else {}
        request |= {"tools": tools} if tools is not None else {}
        told = conversations.new_in(request)
        name = f"e{number}"
        by_event[name] = told
        conversations.recorded(name, request)
        assert request == in_full(told, by_event, field)


def test_a_conversation_that_grows() -> None:
    """Each event has what is new: neither tools nor earlier messages again."""
    conversations = Conversations()
    messages: list[Any] = []
    sizes: list[int] = []
    for number in range(30):
        messages.append({"role": "user", "content": f"{number}" + "x" * 1000})
        request = {"model": "m", "messages": list(messages), "tools": ["t" * 5000]}
        told = conversations.new_in(request)
        conversations.recorded(f"e{number}", request)
        sizes.append(len(json.dumps(told)))
    assert max(sizes[1:]) < 1200


def test_a_conversation_of_very_many_messages() -> None:
    """What is remembered of a call is bounded: one that is longer is told whole each time."""
    conversations = Conversations()
    longest = {"model": "m", "messages": [1] * MOST_MESSAGES}
    for name, request in (("e1", longest), ("e2", {**longest, "messages": [1] * 100_000})):
        conversations.recorded(name, request)
    assert {"model": "m", "messages": [], "continues": "e1"} == conversations.new_in(longest)
    longer = {"model": "m", "messages": [1] * 100_001}
    assert longer == conversations.new_in(longer)
