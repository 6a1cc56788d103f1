"""Streams of chunks, put together."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.models import chunk, stream
from trialog.engine.models.streamed import StreamBroken, assembled, has_ended, is_stream

CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": ""}}


def whole(body: bytes) -> Any:
    """The completion of a stream."""
    return json.loads(assembled(body))


def test_texts_calls_and_usage_add_up() -> None:
    """Pieces of text and of arguments are joined in order; usage comes last, without a choice."""
    body = stream(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning": "h"}), chunk({"reasoning": "m"}),
        chunk({"content": "Sät"}), chunk({"content": "ze"}),
        chunk({"tool_calls": [CALL]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"n"'}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "rm"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
        chunk({}, finish_reason="tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    )  # fmt: skip
    assert {
        "id": "c1",
        "model": "m-2026-01",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Sätze",
                    "reasoning": "hm",
                    "tool_calls": [
                        CALL
                        | {"function": {"name": "add", "arguments": '{"n": 1}'}}
                        | {"index": ...},
                        {
                            "id": "c2",
                            "type": "function",
                            "function": {"name": "rm", "arguments": ""},
                        },
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    } == _without_index(whole(body))


def _without_index(completion: Any) -> Any:
    completion["choices"][0]["message"]["tool_calls"][0]["index"] = ...
    return completion


@given(st.text(min_size=1), st.lists(st.integers(1, 40), max_size=5))
def test_wherever_a_text_is_cut_it_comes_back_whole(text: str, cuts: list[int]) -> None:
    """Chunks may end anywhere between characters."""
    text = text.encode("utf-8", "replace").decode()
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    body = stream(*(chunk({"content": piece}) for piece in pieces), chunk({}, finish_reason="stop"))
    assert text == whole(body)["choices"][0]["message"]["content"]


def test_calls_without_a_number_are_told_apart_by_their_ids() -> None:
    """Some endpoints number no pieces; what has neither belongs to the call before."""
    body = stream(
        chunk({"tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "{"}}]}),
        chunk({"tool_calls": [{"function": {"arguments": "}"}}]}),
        chunk({"tool_calls": [{"id": "b", "function": {"name": "y", "arguments": "{}"}}]}),
        chunk({}, finish_reason="tool_calls"),
    )
    calls = whole(body)["choices"][0]["message"]["tool_calls"]
    assert [("a", "x", "{}"), ("b", "y", "{}")] == [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
    ]


def test_comments_other_events_and_line_ends() -> None:
    """Keep-alive comments are passed over, CRLF ends a line, and no last [DONE] is needed."""
    body = b": processing\r\n\r\n" + stream(
        chunk({"content": "hi"}), chunk({}, finish_reason="stop"), done=False
    ).replace(b"\n", b"\r\n")
    assert "hi" == whole(body)["choices"][0]["message"]["content"]
    assert (True, False) == (has_ended(b"x\n\ndata: [DONE]\n\n"), has_ended(body))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (stream(chunk({"content": "h"}), done=False), "in the middle of the reply"),
        (b"", "in the middle of the reply"),
        (stream({"error": {"message": "overloaded"}}), "with an error: overloaded"),
        (stream({"error": "overloaded"}), "with an error: overloaded"),
    ],
)
def test_a_stream_that_breaks_off(body: bytes, words: str) -> None:
    """It is no reply: neither half of one nor an error in the middle."""
    with pytest.raises(StreamBroken, match=words):
        assembled(body)


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"choices": [\n\n', b"data: 3\n\n", b'data: {"choices": 3}\n\n',
        b'data: {"choices": [{"delta": {"content": 3}}]}\n\ndata: [DONE]\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n", b"data: \xff\n\n",
    ],
)  # fmt: skip
def test_a_malformed_stream_is_given_as_it_came(body: bytes) -> None:
    """Whoever reads it finds no completion in it, and no error is raised."""
    assert body.decode("utf-8", "replace") == assembled(body)


def test_streams_are_known_by_their_type_or_their_beginning() -> None:
    """Endpoints that stream without being asked, or under a wrong type, are understood."""
    assert is_stream("text/event-stream; charset=utf-8", b"")
    assert is_stream("application/json", b"data: {}")
    assert not is_stream("application/json", b"{}")
