"""A conversation with a real endpoint over HTTP that fails in all the ways that endpoints do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from helpers.judges import Answer, Endpoint, completion, refused
from helpers.models import chunk, streamed
from trialog.engine.agents.chat.agent import ContextNotes
from trialog.engine.agents.chat.calls import ModelFailed
from trialog.engine.agents.chat.talk import Said, Talk, Wanted
from trialog.engine.models.client import open_model_client
from trialog.engine.models.endpoint import read_endpoint
from trialog.engine.models.models import Models
from trialog.engine.models.prices import Price
from trialog.events.clock import SystemClock
from trialog.events.kinds import ModelCalled
from trialog.events.memory import MemoryLog

PRICES = {"m": Price(input=1.0, output=2.0)}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Answers as told."""
    made = Endpoint()
    yield made
    made.close()


async def said(
    endpoint: Endpoint, *answers: Answer, parameters: Any = None, **settings: Any
) -> tuple[Said | Wanted | ModelFailed, list[ModelCalled]]:
    """What comes of asking the model for its next step, and the calls that it took."""
    endpoint.answer(*answers)
    calls: list[ModelCalled] = []

    def emit(event: Any) -> str:
        if isinstance(event, ModelCalled):
            calls.append(event)
        return "e1"

    async with open_model_client(read_endpoint(endpoint.environ)) as client:
        models = Models(client, prices=PRICES, **settings)
        notes = ContextNotes(MemoryLog().blobs, emit)
        talk = Talk("m", models, [], notes, SystemClock(), parameters)
        await talk.begin("Work.", "Go.")
        try:
            return await talk.next(), calls
        except ModelFailed as failed:
            return failed, calls


@pytest.mark.parametrize(
    ("first", "retries"),
    [
        (refused(429), 1), (refused(500), 1), (refused(503), 1), (Answer("{", cut=True), 1),
        (streamed(chunk({"content": "he"}), done=False), 1),
    ],
)  # fmt: skip
async def test_what_passes_is_one_call(endpoint: Endpoint, first: Answer, retries: int) -> None:
    """Limits, faults and broken connections are tried again within one call, whose event has how
    often, and tokens, cost and latency of the reply."""
    done, [call] = await said(endpoint, first, completion("hello"))
    assert Said("hello") == done
    assert (retries, 120, 30, 0.00018, None) == (
        call.retries, call.usage.input_tokens, call.usage.output_tokens, call.usage.cost_usd,
        call.error,
    )  # fmt: skip
    assert call.latency > 0
    assert call.endpoint == endpoint.url


async def test_malformed_json_is_another_call(endpoint: Endpoint) -> None:
    """It was answered and may have cost something, so each is an event with what came."""
    done, [first, second] = await said(endpoint, Answer('{"choices": ['), completion("hello"))
    assert Said("hello") == done
    assert ('{"choices": [', None) == (first.response, first.usage.input_tokens)
    assert None is second.error


async def test_silence(endpoint: Endpoint) -> None:
    """An endpoint that says nothing is given up when the call's time is over."""
    endpoint.released.clear()
    done, [call] = await said(endpoint, completion("too late"), call_timeout=0.2)
    assert isinstance(done, ModelFailed)
    assert ("model_failed", "unreachable") == (done.category, call.failure)
    assert "the endpoint did not answer within 0.2 s" == call.error
    assert 0.2 <= call.latency


async def test_silence_in_the_middle_of_a_stream(endpoint: Endpoint) -> None:
    """A stream that falls silent is no reply either."""
    hanging = streamed(chunk({"content": "he"}), done=False, hangs=True)
    done, [call] = await said(endpoint, hanging, call_timeout=0.2, parameters={"stream": True})
    assert isinstance(done, ModelFailed)
    assert "the endpoint did not answer within 0.2 s" == call.error


@pytest.mark.parametrize(
    ("answer", "failure", "status", "category"),
    [
        (refused(401), "unavailable", 401, "model_unavailable"),
        (refused(404), "unavailable", 404, "model_unavailable"),
        (refused(400, "no such parameter"), "rejected", 400, "model_rejected"),
    ],
)
async def test_what_will_not_pass_is_not_tried_again(
    endpoint: Endpoint, answer: Answer, failure: str, status: int, category: str
) -> None:
    """The event says how it failed, in words and for programs."""
    done, [call] = await said(endpoint, answer)
    assert isinstance(done, ModelFailed)
    assert (category, failure, status, 0) == (
        done.category, call.failure, call.status, call.retries,
    )  # fmt: skip
    assert 1 == len(endpoint.requests)


async def test_streaming(endpoint: Endpoint) -> None:
    """With `stream=true` the endpoint is asked for pieces and for what they used; the event is as
    that of a reply in one piece."""
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    answer = streamed(
        chunk({"content": "hel"}), chunk({"content": "lo"}), chunk({}, finish_reason="stop"),
        {"choices": [], "usage": usage},
    )  # fmt: skip
    done, [call] = await said(endpoint, answer, parameters={"stream": True})
    assert Said("hello") == done
    [request] = endpoint.requests
    assert (True, {"include_usage": True}) == (
        request.body["stream"], request.body["stream_options"],
    )  # fmt: skip
    assert "hello" == call.response["choices"][0]["message"]["content"]
    assert (7, 2, "m-2026-01") == (
        call.usage.input_tokens, call.usage.output_tokens, call.model_reported,
    )  # fmt: skip


async def test_an_endpoint_that_knows_no_stream_options(endpoint: Endpoint) -> None:
    """A parameter of null leaves them out; then nobody says what was used."""
    answer = streamed(chunk({"content": "hi"}), chunk({}, finish_reason="stop"))
    parameters = {"stream": True, "stream_options": None}
    _, [call] = await said(endpoint, answer, parameters=parameters)
    assert "stream_options" not in endpoint.requests[0].body
    assert None is call.usage.input_tokens
