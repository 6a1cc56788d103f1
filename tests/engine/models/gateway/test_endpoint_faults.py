"""What a model gateway makes of an endpoint that fails, and of its streams."""

from __future__ import annotations

import json

import pytest
import structlog

from helpers.gateway import (
    Endpoint,
    Reply,
    chat,
    chat_stream,
    chunk,
    event,
    message_events,
    refused,
)
from helpers.served import Serve, Served, said
from trialog.engine.models.models import ModelLimits
from trialog.events.kinds import AgentMessage, WarningRaised


async def test_what_may_help_is_tried_again(served: Served, endpoint: Endpoint) -> None:
    """429, 5xx and a cut connection cost tries, and the program sees none of them."""
    cut = chat()._replace(cut=True)
    endpoint.reply(refused(429), refused(503), cut, chat("at last"))
    status, answer = await served.ask(said())
    assert (200, "at last") == (status, answer["choices"][0]["message"]["content"])
    [call] = served.calls
    assert (3, None, 1) == (call.retries, call.error, call.turn)


async def test_errors_are_passed_on(served: Served, endpoint: Endpoint) -> None:
    """What tries do not help against reaches the program as it is, and clients are told to stop."""
    endpoint.reply(refused(400, "no such field"))
    async with served.asking(said()) as response:
        assert (400, "false") == (response.status, response.headers["x-should-retry"])
        assert "no such field" == (await response.json())["error"]["message"]
    endpoint.reply(refused(500))
    assert 500 == (await served.ask(said()))[0]
    first, second = served.calls
    assert ("rejected", 400, "odd", 0) == (first.failure, first.status, first.code, first.retries)
    assert ("unreachable", 500, 5) == (second.failure, second.status, second.retries)
    assert 7 == len(endpoint.asked)


async def test_an_endpoint_that_is_not_there(served: Served, endpoint: Endpoint) -> None:
    """It is 502 in the API's own form, after all tries."""
    endpoint.reply(chat()._replace(cut=True))
    status, answer = await served.ask(said())
    assert (502, "api_error") == (status, answer["error"]["type"])
    status, answer = await served.ask({"model": "m"}, path="/v1/messages")
    assert (502, "error", "api_error") == (status, answer["type"], answer["error"]["type"])
    assert [5, 5] == [call.retries for call in served.calls]
    assert [("unreachable", None)] * 2 == [(c.failure, c.response) for c in served.calls]


async def test_silence(serve: Serve, endpoint: Endpoint) -> None:
    """An endpoint that says nothing costs the call's time and no more."""
    served = await serve(call_timeout=0.2)
    endpoint.reply(Reply(hold=True))
    status, answer = await served.ask(said())
    assert (504, "the endpoint did not answer within 0.2 s") == (status, answer["error"]["message"])
    endpoint.reply(Reply(pieces=(chunk("a"),), hold=True))
    status, answer = await served.ask(said(stream=True))
    assert (200, "ClientPayloadError") == (status, answer)
    first, second = served.calls
    assert (None, "a") == (first.response, second.response["choices"][0]["message"]["content"])
    assert "did not answer within 0.2 s" in str(second.error)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (refused(401, "no such key"), "the endpoint refuses the key: no such key"),
        (refused(404), "the endpoint does not know the model: no"),
        (refused(500, "boom"), "the endpoint answered 500: boom"),
        (chat()._replace(cut=True), "the endpoint can't be reached: "),
        (Reply(b"<html>"), "the endpoint's answer is no JSON"),
    ],
)
async def test_what_the_endpoint_is_to_blame_for_is_told_at_the_end(
    served: Served, endpoint: Endpoint, reply: Reply, error: str
) -> None:
    """An agent goes on without its model and is graded, so a key that is refused would pass for
    poor work: a warning says how many calls failed, and of what the last one did."""
    endpoint.reply(chat(), reply)
    await served.ask(said("a"))
    await served.ask(said("b"))
    await served.ask(path="/v1/models")
    served.gateway.close()
    [told] = [event for event in served.events if isinstance(event, WarningRaised)]
    assert "model_calls_failed" == told.code
    assert f"the model's endpoint failed 1 of 2 calls ({error}" in str(told.message)


async def test_what_the_agent_is_to_blame_for_is_no_failure_of_the_endpoints(
    serve: Serve, endpoint: Endpoint
) -> None:
    """A request that it won't take, one past a limit and one that the time cut off."""
    served = await serve(limits=ModelLimits(seconds=2.0, turns=2))
    endpoint.reply(refused(400), Reply(hold=True))
    await served.ask(said("a"))
    await served.ask(said("b"))
    await served.ask(said("c"))
    served.gateway.close()
    assert ["rejected", "unreachable", "refused"] == [call.failure for call in served.calls]
    assert [] == [event for event in served.events if isinstance(event, WarningRaised)]


async def test_an_answer_that_is_no_json(served: Served, endpoint: Endpoint) -> None:
    """It is passed on as it is, and told as it is."""
    endpoint.reply(Reply(b"<html>\xff"))
    async with served.asking(said()) as response:
        assert (200, b"<html>\xff") == (response.status, await response.read())
    [call] = served.calls
    assert ("the endpoint's answer is no JSON", "<html>\ufffd") == (call.error, call.response)


async def test_an_error_with_a_good_status(served: Served, endpoint: Endpoint) -> None:
    """What an endpoint says beside its 200 is an error in the log; the client has it as it is."""
    answer = {"error": {"message": "out of credit", "code": "credit"}}
    endpoint.reply(Reply(json.dumps(answer)))
    assert (200, answer) == await served.ask(said())
    [call] = served.calls
    assert ("unreachable", 200, "credit", answer) == (
        call.failure, call.status, call.code, call.response,
    )  # fmt: skip
    assert "the endpoint answered with an error: out of credit" == call.error
    endpoint.reply(chat(error=None))
    await served.ask(said())
    assert served.calls[-1].error is None


@pytest.mark.parametrize("reply", [chat("hello"), chat_stream("hello")])
async def test_headers_that_are_none(served: Served, endpoint: Endpoint, reply: Reply) -> None:
    """An answer reaches the client, whatever bytes its endpoint has in a header."""
    kind = ("text/event-stream" if reply.pieces else "application/json") + "; charset=\xfc"
    endpoint.reply(reply._replace(headers={"x-request-id": "\xe9\x01", "content-type": kind}))
    with structlog.testing.capture_logs() as lines:
        status, answer = await served.ask(said(stream=bool(reply.pieces)))
    assert (200, True) == (status, "hello" in str(answer))
    assert [None] == [call.error for call in served.calls]
    assert [] == [line for line in lines if line["log_level"] == "error"]


@pytest.mark.parametrize(
    ("pieces", "cut", "error"),
    [
        ((chunk("half"),), True, "the endpoint's stream broke off"),
        ((chunk("half"),), False, "ended in the middle of the answer"),
        ((chunk("half"), event({"error": {"message": "overloaded"}})), False, "overloaded"),
        ((chunk("half"), b"data: {no json\n\n"), False, "ended in the middle"),
        ((chunk("half"), b"data: half an ev"), False, "ended in the middle"),
    ],
)
async def test_a_stream_that_breaks_off(
    served: Served, endpoint: Endpoint, pieces: tuple[bytes, ...], cut: bool, error: str
) -> None:
    """What came is passed on, the client can tell that there is more, and the call is an error."""
    endpoint.reply(Reply(pieces=pieces, cut=cut))
    status, answer = await served.ask(said(stream=True))
    assert (200, "ClientPayloadError") == (status, answer)
    [call] = served.calls
    assert error in str(call.error)
    assert "half" == call.response["choices"][0]["message"]["content"]
    assert 1 == len(endpoint.asked)


async def test_a_stream_whose_connection_stays_open(served: Served, endpoint: Endpoint) -> None:
    """Its own end is the end."""
    endpoint.reply(chat_stream("whole")._replace(hold=True))
    status, answer = await served.ask(said(stream=True))
    assert 200 == status
    assert answer.endswith("data: [DONE]\n\n")
    assert (None, 20) == (served.calls[0].error, served.calls[0].usage.output_tokens)


async def test_pieces_come_as_they_are_sent(served: Served, endpoint: Endpoint) -> None:
    """The first piece is there while the endpoint still works on the second."""
    endpoint.reply(Reply(pieces=(chunk("first"),), hold=True))
    async with served.asking(said(stream=True)) as response:
        assert b"first" in await response.content.readuntil(b"\n\n")
        assert [] == served.events


async def test_usage_that_was_asked_for(served: Served, endpoint: Endpoint) -> None:
    """A client that asked what was used is shown it; one that had not, is not."""
    endpoint.reply(chat_stream("x"))
    _, shown = await served.ask(said(stream=True, stream_options={"include_usage": True}))
    _, not_shown = await served.ask(said(stream=True))
    assert (True, False) == ('"usage"' in shown, '"usage"' in not_shown)
    assert [120, 120] == [
        (call.usage.input_tokens or 0) + (call.usage.output_tokens or 0) for call in served.calls
    ]


async def test_it_is_in_the_log_before_it_is_told(served: Served, endpoint: Endpoint) -> None:
    """When the client has the end of an answer, the call is an event."""
    endpoint.reply(chat_stream("x"), Reply(pieces=message_events("x")), chat())
    for body, path in [
        (said(stream=True), "/v1/chat/completions"),
        ({"model": "m", "stream": True}, "/v1/messages"),
        (said(), "/v1/chat/completions"),
    ]:
        before = len(served.calls)
        async with served.asking(body, path=path) as response:
            while not response.content.at_eof():
                data = await response.content.readany()
                if b"DONE" in data or b"message_stop" in data or b"finish" in data:
                    break
            if path == "/v1/messages" or not body.get("stream"):
                assert before + 1 == len(served.calls)
            await response.read()
        assert before + 1 == len(served.calls)


async def test_thoughts_and_calls_of_tools(served: Served, endpoint: Endpoint) -> None:
    """A stream adds up to what would have come at once."""
    call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "f", "arguments": ""}}
    pieces = (
        chunk(delta={"role": "assistant", "reasoning_content": "let "}),
        chunk(delta={"reasoning_content": "me"}),
        chunk(delta={"tool_calls": [call]}),
        chunk(delta={"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}),
        chunk(delta={"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
        chunk(end="tool_calls"),
        event("[DONE]"),
    )
    endpoint.reply(Reply(pieces=pieces))
    await served.ask(said(stream=True))
    told = served.calls[0].response["choices"][0]
    assert ("tool_calls", "let me") == (told["finish_reason"], told["message"]["reasoning_content"])
    function = {"name": "f", "arguments": '{"a": 1}'}
    assert [{"id": "t1", "type": "function", "function": function}] == told["message"]["tool_calls"]
    [words] = [one for one in served.events if isinstance(one, AgentMessage)]
    assert ("", "let me", "e1") == (words.text, words.reasoning, words.model_call)
