"""Frames and messages between engine and app host."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.worlds.serving import read_frame, write_all
from trialog.engine.worlds.wire import (
    HEADER,
    LIMIT,
    Act,
    Close,
    Done,
    Frames,
    Hello,
    Query,
    Unsendable,
    WireError,
    body_size,
    decode_answer,
    decode_request,
    frame,
)

REQUESTS = [
    Act(id=1, deadline=1.5, name="add", arguments={"n": 2**70, "$blob": "x"}, app=None),
    Query(id=2, deadline=1.0, app="a", name="get", arguments={}),
    Close(id=3, deadline=1.0),
]


@given(st.lists(st.integers(1, 40), max_size=30))
def test_frames_in_pieces(sizes: list[int]) -> None:
    """Messages are the same however the bytes were cut on their way."""
    data = b"".join(map(frame, REQUESTS))
    frames, bodies = Frames(), []
    for size in [*sizes, len(data)]:
        frames.feed(data[:size])
        data = data[size:]
        bodies += frames.take()

    assert [decode_request(body) for body in bodies] == REQUESTS


def test_what_is_no_message() -> None:
    """Bytes that are no message of the protocol are an error that says so."""
    with pytest.raises(WireError, match="what came is no request"):
        decode_request(b'{"type": "Dance"}')
    with pytest.raises(WireError, match="what came is no answer"):
        decode_answer(b"\xff")
    assert decode_answer(frame(Hello(version=9, python="3", trialog="1"))[HEADER:])


def test_limits() -> None:
    """A message over the limit is not sent, and one that is announced is not read."""
    with pytest.raises(Unsendable, match=f"at most {LIMIT} are allowed"):
        frame(Query(id=1, deadline=1, app="a" * LIMIT, name="", arguments={}))
    with pytest.raises(WireError, match="a message of 4294967295 bytes; at most"):
        body_size(b"\xff\xff\xff\xff")
    frames = Frames()
    frames.feed(b"\x7f\x00\x00\x00")
    with pytest.raises(WireError):
        list(frames.take())


@pytest.mark.parametrize("value", [object(), {1j}])
def test_what_is_no_json(value: object) -> None:
    """A message with what is no JSON data is not sent."""
    with pytest.raises(Unsendable):
        frame(Act(id=1, deadline=1, name="a", arguments={"x": value}, app=None))


def test_text_that_is_no_unicode() -> None:
    """A message with a lone surrogate is sent with U+FFFD in its place."""
    data = frame(Act(id=1, deadline=1, name="a", arguments={"x\udcff": ["\ud800"]}, app=None))
    sent = decode_request(data[HEADER:])
    assert isinstance(sent, Act)
    assert sent.arguments == {"x\ufffd": ["\ufffd"]}


def test_reading_from_a_pipe() -> None:
    """The host reads whole frames, and null at the end or in the middle of one."""
    read, write = os.pipe()
    data = frame(REQUESTS[0])
    write_all(write, data + data[:-1])
    os.close(write)

    assert read_frame(read) == data[HEADER:]
    assert read_frame(read) is None
    assert read_frame(read) is None
    os.close(read)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (frame(REQUESTS[0]), "Act while no world is open"),
        (b"\x00\x00\x00\x02{}", "what came is no request"),
        (b"GET / HTTP/1.1\r\n\r\n", "at most"),
    ],
)
def test_a_host_that_is_told_nonsense(sent: bytes, words: str) -> None:
    """A host that is told nonsense ends with an error, after a hello in its own version."""
    ran = subprocess.run(
        [sys.executable, "-m", "trialog.engine.worlds.main"],
        input=sent,
        capture_output=True,
        check=False,
    )
    frames = Frames()
    frames.feed(ran.stdout)

    assert [type(decode_answer(body)) for body in frames.take()] == [Hello]
    assert ran.returncode == 1
    assert words in ran.stderr.decode()


def test_a_host_without_work() -> None:
    """A host ends well when its input does."""
    ran = subprocess.run(
        [sys.executable, "-m", "trialog.engine.worlds.main"],
        input=b"",
        capture_output=True,
        check=True,
    )

    assert ran.stderr == b""
    assert decode_answer(ran.stdout[HEADER:]) != Done
