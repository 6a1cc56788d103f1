"""The client over HTTP: what it sends, and how often it tries. Judges' tests have more of it."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from helpers.judges import Answer, Endpoint, completion, refused
from helpers.models import chunk, streamed
from trialog.engine.models.client import Answered, CallFailed, open_model_client
from trialog.engine.models.endpoint import ModelUnavailable, read_endpoint

REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [],
    "odd_parameter": {"x": 1},
}
KEY = "sk-very-secret-key"


async def complete(endpoint: Endpoint, watch: Any = None, **more: Any) -> Answered:
    """One call."""
    async with open_model_client(read_endpoint(endpoint.environ)) as client:
        return await client.complete(REQUEST | more, watch)


class Watched:
    """Notes what a client tells of a call."""

    def __init__(self) -> None:
        self.pieces = 0
        self.pauses = 0

    def heard(self) -> None:
        """A piece."""
        self.pieces += 1

    @contextmanager
    def pausing(self) -> Generator[None]:
        """A wait."""
        self.pauses += 1
        yield


async def test_a_request_goes_out_as_it_is(endpoint: Endpoint) -> None:
    """Fields that the package does not know are sent, too; the answer is not looked into."""
    endpoint.answer(Answer('{"any": "thing"}'))
    assert Answered(body='{"any": "thing"}') == await complete(endpoint)
    assert [REQUEST] == [request.body for request in endpoint.requests]
    assert f"Bearer {KEY}" == endpoint.requests[0].headers["authorization"]


@pytest.mark.parametrize("answer", [refused(429), refused(500), refused(503)])
async def test_what_may_help_is_tried_again(endpoint: Endpoint, answer: Answer) -> None:
    """429 and 5xx, and the reply says how many tries there were before."""
    endpoint.answer(answer, answer, completion("hi"))
    assert 2 == (await complete(endpoint)).retries


async def test_a_cut_connection_is_tried_again(endpoint: Endpoint) -> None:
    """Half an answer is none."""
    endpoint.answer(Answer("{", cut=True), completion("hi"))
    answered = await complete(endpoint)
    assert ("hi" in answered.body, answered.retries) == (True, 1)


async def test_retry_after_is_honoured(endpoint: Endpoint) -> None:
    """The next try comes no earlier than the endpoint says."""
    endpoint.answer(Answer("{}", 429, {"retry-after": "1"}), completion("hi"))
    await complete(endpoint)
    first, second = endpoint.requests
    assert 1.0 <= second.at - first.at


async def test_a_wait_that_is_longer_than_the_call_may_take(endpoint: Endpoint) -> None:
    """It is not begun: the call fails at once, and says what the endpoint asks for."""
    endpoint.answer(refused(429, "slow down", retry_after="3600", retry_after_ms="x"))
    with pytest.raises(CallFailed, match=r"slow down.*; it asks to wait 360[01] s") as failed:
        with anyio.fail_after(60):
            await complete(endpoint)
    assert ("unreachable", 429, 0) == (
        failed.value.failure, failed.value.status, failed.value.retries,
    )  # fmt: skip


async def test_whoever_watches_is_told_of_pieces_and_waits(endpoint: Endpoint) -> None:
    """Each try's answer is heard, and the waits between tries are the client's own."""
    endpoint.answer(refused(500), refused(500), completion("hi"))
    watch = Watched()
    await complete(endpoint, watch)
    assert (2, True) == (watch.pauses, watch.pieces >= 1)


HELLO = (chunk({"content": "hel"}), chunk({"content": "lo"}), chunk({}, finish_reason="stop"))


async def test_a_stream_is_given_as_one_completion(endpoint: Endpoint) -> None:
    """The request goes out as it is, and what comes in pieces is put together."""
    endpoint.answer(streamed(*HELLO))
    body = json.loads((await complete(endpoint, stream=True)).body)
    assert "hello" == body["choices"][0]["message"]["content"]
    assert [REQUEST | {"stream": True}] == [request.body for request in endpoint.requests]


async def test_a_stream_that_was_not_asked_for(endpoint: Endpoint) -> None:
    """An endpoint that only streams is understood."""
    endpoint.answer(streamed(*HELLO))
    assert "hello" in (await complete(endpoint)).body


@pytest.mark.parametrize(
    "broken",
    [
        streamed(HELLO[0], done=False),
        streamed(*HELLO[:2], done=False, cut=True),
        streamed(HELLO[0], {"error": {"message": "overloaded"}}),
    ],
)
async def test_a_stream_that_breaks_off_is_tried_again(endpoint: Endpoint, broken: Answer) -> None:
    """Half a reply is none, whether the stream ends, the connection breaks, or an error comes."""
    endpoint.answer(broken, streamed(*HELLO))
    answered = await complete(endpoint, stream=True)
    assert (1, True) == (answered.retries, "hello" in answered.body)


async def test_a_stream_ends_with_its_last_event(endpoint: Endpoint) -> None:
    """An endpoint that keeps the connection open after [DONE] holds nobody up."""
    endpoint.answer(streamed(*HELLO, hangs=True))
    with anyio.fail_after(5):
        assert "hello" in (await complete(endpoint, stream=True)).body


async def test_an_answer_without_end(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up at a size, and the memory that it takes is bounded."""
    monkeypatch.setattr("trialog.engine.models.client.ANSWER_CAP", 1000)
    monkeypatch.setattr("trialog.engine.models.client.RETRIES", 0)
    endpoint.answer(completion("x" * 100_000))
    with pytest.raises(CallFailed, match="broke off: its answer is over"):
        await complete(endpoint)


async def test_an_endpoint_that_only_fails(endpoint: Endpoint) -> None:
    """It is given up after so many tries, and the error says how many."""
    endpoint.answer(refused(500, f"broken, {KEY}"))
    with pytest.raises(CallFailed) as failed:
        await complete(endpoint)
    assert ("unreachable", 500, 5) == (
        failed.value.failure, failed.value.status, failed.value.retries,
    )  # fmt: skip
    assert KEY not in str(failed.value)
    assert "broken" in str(failed.value)


async def test_the_endpoints_own_word_for_an_error(endpoint: Endpoint) -> None:
    """A code such as context_length_exceeded is kept, and a refusal is not tried again."""
    body = '{"error": {"message": "long", "code": "context_length_exceeded"}}'
    endpoint.answer(Answer(body, 400))
    with pytest.raises(CallFailed) as failed:
        await complete(endpoint)
    assert ("rejected", "context_length_exceeded") == (failed.value.failure, failed.value.code)
    assert 1 == len(endpoint.requests)


def test_the_address_is_shown_without_passwords() -> None:
    """Events show where a call went, not how one gets in."""
    environ = {"OPENAI_BASE_URL": "http://me:secret@host:1/v1?key=secret", "OPENAI_API_KEY": "k"}
    assert "http://host:1/v1" == read_endpoint(environ).shown


def test_without_a_key_there_is_no_model() -> None:
    """The error names the variable and says who needs it."""
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY is not set, and the chat agent"):
        read_endpoint({})
