"""The model gateway on this machine's own loopback: a real endpoint, and clients of all kinds."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import openai
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.fakes import FakeBackend, FakeSandbox
from helpers.gateway import (
    Endpoint,
    Reply,
    chat,
    chat_stream,
    chunk,
    event,
    message,
    message_events,
    refused,
)
from trialog.engine.models.endpoint import read_endpoints
from trialog.engine.models.gateway import gateway as gateway_module
from trialog.engine.models.gateway import http, upstream
from trialog.engine.models.gateway.gateway import (
    CONNECTIONS,
    HOLD_UP_SEC,
    IN_VAIN,
    Gateway,
)
from trialog.engine.models.gateway.trial import TrialCalls
from trialog.engine.models.gateway.upstream import open_upstream
from trialog.engine.models.models import ModelLimits, Models
from trialog.engine.models.prices import Price
from trialog.engine.sandbox.protocol import Image, SandboxSpec
from trialog.events.clock import SystemClock
from trialog.events.kinds import AgentMessage, ModelCalled, WarningRaised
from trialog.events.kinds.parts import Limits
from trialog.events.open import memory_log

Until = Callable[[Callable[[], object]], Awaitable[None]]


class Served:
    """One trial's gateway, and a client of it."""

    def __init__(self, gateway: Gateway, trial: TrialCalls, variables: dict[str, str]) -> None:
        self.gateway = gateway
        self.trial = trial
        self.variables = variables
        self.events: list[Any] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.variables["OPENAI_BASE_URL"].rsplit(":")[-1].split("/")[0])

    @property
    def key(self) -> str:
        """The trial's own."""
        return self.variables["OPENAI_API_KEY"]

    @property
    def calls(self) -> list[ModelCalled]:
        """The calls that were told."""
        return [event for event in self.events if isinstance(event, ModelCalled)]

    @asynccontextmanager
    async def asking(
        self, body: Any = None, *, path: str = "/v1/chat/completions", key: str | None = None,
        method: str | None = None, **headers: str,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:  # fmt: skip
        """A request under way."""
        shown = {"authorization": f"Bearer {self.key if key is None else key}", **headers}
        data = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        sent = None if data is None else io.BytesIO(data)
        async with (
            aiohttp.ClientSession(headers=shown) as session,
            session.request(
                method or ("GET" if body is None else "POST"),
                f"http://127.0.0.1:{self.port}{path}", data=sent,
            ) as response,
        ):  # fmt: skip
            yield response

    async def ask(self, body: Any = None, **more: Any) -> tuple[int, Any]:
        """Status and answer; the error's type where the answer is cut."""
        async with self.asking(body, **more) as response:
            try:
                text = await response.text()
            except aiohttp.ClientError as error:
                return response.status, type(error).__name__
            try:
                return response.status, json.loads(text)
            except json.JSONDecodeError:
                return response.status, text

    async def raw(self, *pieces: bytes) -> bytes:
        """What comes back for these bytes."""
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            answer = b""
            try:
                for piece in pieces:
                    await stream.send(piece)
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return answer

    def head(self, path: str = "/v1/chat/completions", **headers: object) -> bytes:
        """A request's head."""
        lines = {"host": "x", "authorization": f"Bearer {self.key}", **headers}
        text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
        return f"POST {path} HTTP/1.1\r\n{text}\r\n".encode()


def said(text: str = "hi", **more: Any) -> dict[str, Any]:
    """A request for a chat completion."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Answers as told."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause before another try but what the endpoint asks for."""
    pause = upstream.pause

    def shorter(retries: int, headers: Any, **more: Any) -> float:
        return pause(retries, headers, **more) if "retry-after" in headers else 0.0

    monkeypatch.setattr(upstream, "pause", shorter)


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Serve]:
    """Serves gateways, all of one job; keywords are Models' own."""
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(memory_log())
        upstream = await stack.enter_async_context(open_upstream(read_endpoints(endpoint.environ)))
        spec = SandboxSpec(
            job="j", trial="t", log_id="l", image=Image(name=None), workdir="/app",
            limits=Limits(), scratch=tmp_path,
        )  # fmt: skip
        sandbox = FakeSandbox(FakeBackend(), spec)

        async def make(*, network: bool = False, **given: Any) -> Served:
            events: list[Any] = []

            def emit(told: Any) -> str:
                events.append(told)
                return f"e{len(events)}"

            models = Models(None, upstream=upstream, **given)
            trial = TrialCalls(
                "m", models, upstream, emit=emit, blobs=log.blobs, clock=SystemClock(),
                network=network,
            )  # fmt: skip
            gateway = Gateway(trial)
            _, variables = await stack.enter_async_context(gateway.serving(sandbox))
            served = Served(gateway, trial, variables)
            served.events = events
            return served

        yield make


@pytest.fixture
async def served(serve: Serve) -> Served:
    """One gateway."""
    return await serve()


# What is passed on


async def test_what_is_sent_is_what_was_checked(served: Served, endpoint: Endpoint) -> None:
    """Two models in one request are no way to another model than the trial's."""
    twice = b'{"model": "m", "messages": [], "model": "larger"}'
    status, answer = await served.ask(twice)
    assert (404, "model_not_allowed") == (status, answer["error"]["code"])
    assert [] == endpoint.asked
    await served.ask(b'{"model": "larger", "messages": [], "model": "m"}')
    assert {"model": "m", "messages": []} == endpoint.asked[0].body


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "http://169.254.169.254/v1/chat/completions"),
        ("POST", "/v1/../admin/keys"),
        ("POST", "/v1/chat/completions/../../files"),
        ("POST", "//evil/v1/chat/completions"),
        ("GET", "/v1/files"),
        ("GET", "/v1/models/../files"),
        ("GET", "/v1/models/%2e%2e/files"),
        ("GET", "/v1/chat/completions"),
        ("DELETE", "/v1/models/m"),
        ("CONNECT", "evil:443"),
        ("POST", "/v1/chat/completions?x=\u00e9"),
        ("POST", "/v1/chat/completions?a#b"),
    ],
)
async def test_no_other_path(served: Served, endpoint: Endpoint, method: str, path: str) -> None:
    """Only what is listed is passed on, and only to the configured host."""
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: evil\r\nauthorization: Bearer {served.key}\r\n"
        "content-length: 2\r\nconnection: close\r\n\r\n{}"
    ).encode()
    answer = await served.raw(head)
    assert answer.split(b" ")[1] in (b"400", b"404"), answer
    assert [] == endpoint.asked
    assert 200 == (await served.ask(said()))[0]


async def test_the_key_of_another_trial(serve: Serve, endpoint: Endpoint) -> None:
    """One trial's sandbox can't use another's gateway; without a key nobody can."""
    one, other = await serve(), await serve()
    for key in (other.key, "", "sk-trialog-", one.key[:-1]):
        status, answer = await one.ask(said(), key=key)
        assert (401, "invalid_key") == (status, answer["error"]["code"])
    status, answer = await one.ask({"model": "m"}, path="/v1/messages", key=other.key)
    assert (401, "authentication_error") == (status, answer["error"]["type"])
    assert ([], []) == (endpoint.asked, one.events)
    one.gateway.close()
    [told] = one.events
    assert isinstance(told, WarningRaised)
    assert "5 requests of the sandbox (5 invalid_key)" in told.message


async def test_further_models(serve: Serve, endpoint: Endpoint) -> None:
    """Another model is refused and told, unless it was allowed."""
    served = await serve(also=["small"])
    assert 200 == (await served.ask(said() | {"model": "small"}))[0]
    status, _ = await served.ask(said() | {"model": "large"})
    assert (404, ["small"]) == (status, [asked.body["model"] for asked in endpoint.asked])
    allowed, other = served.calls
    assert (None, "refused", "large", 0) == (
        allowed.failure, other.failure, other.model, other.usage.model_calls,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"tools": [{"type": "function"}, {"type": "web_search_preview"}]}, "tools[1]"),
        ({"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "tools[0]"),
        ({"tools": [{"type": "mcp", "server_url": "https://x"}]}, "tools[0]"),
        ({"mcp_servers": [{"url": "https://x"}]}, "mcp_servers"),
        ({"web_search_options": {"size": 1}}, "web_search_options"),
        (
            {"messages": [{"content": [{"image_url": {"url": "https://evil/x.png"}}]}]},
            "messages[0].content[0].image_url.url",
        ),
        ({"input": [{"content": [{"file_url": "HTTP://x/y"}]}]}, "input[0].content[0].file_url"),
        (
            {"messages": [{"content": [{"source": {"type": "url", "url": "https://x"}}]}]},
            "messages[0].content[0].source.url",
        ),
    ],
)
async def test_the_endpoint_does_not_reach_out_for_an_agent(
    serve: Serve, endpoint: Endpoint, more: dict[str, Any], part: str
) -> None:
    """What a provider's own tools would do is refused where the task has no network, and only
    there."""
    offline, online = await serve(), await serve(network=True)
    status, answer = await offline.ask(said() | more)
    assert (403, "no_network") == (status, answer["error"]["code"])
    assert part in answer["error"]["message"]
    assert ([], "refused") == (endpoint.asked, offline.calls[0].failure)
    assert 200 == (await online.ask(said() | more))[0]


async def test_what_an_agent_does_itself_is_passed_on(served: Served, endpoint: Endpoint) -> None:
    """Tools of its own, whatever addresses they are given, and content that is in the request."""
    messages = [
        {"role": "user", "content": "see https://x and https://y"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "name": "get", "input": {"url": "https://x"}}]},
        {"role": "user", "content": [{"image_url": {"url": "data:image/png;base64,AAAA"}}]},
    ]  # fmt: skip
    function = {"name": "get", "parameters": {"properties": {"url": {"type": "string"}}}}
    tools = [{"type": "function", "function": function}, {"name": "bash", "type": "bash_20250124"}]
    assert 200 == (await served.ask({"model": "m", "messages": messages, "tools": tools}))[0]
    assert 1 == len(endpoint.asked)


async def test_nothing_in_the_background(served: Served, endpoint: Endpoint) -> None:
    """A call whose answer would have to be fetched later is refused: nobody would see it."""
    request = {"model": "m", "input": "hi", "background": True}
    status, _ = await served.ask(request, path="/v1/responses")
    assert (400, []) == (status, endpoint.asked)


async def test_a_connection_is_used_again(served: Served) -> None:
    """Requests of one connection are answered one after the other, pipelined ones too."""
    body = json.dumps(said()).encode()
    one = served.head(content_length=len(body)) + body
    last = served.head(content_length=len(body), connection="close") + body
    answer = await served.raw(one + one + last)
    assert 3 == answer.count(b"HTTP/1.1 200")
    assert [1, 2, 3] == [call.turn for call in served.calls]


async def test_a_client_that_asks_first(served: Served) -> None:
    """A body that waits for the word to come is asked for, once the key was seen."""
    body = json.dumps(said()).encode()
    async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
        await stream.send(served.head(content_length=len(body), expect="100-continue"))
        assert b"HTTP/1.1 100" in await stream.receive()
        await stream.send(body)
        assert b"HTTP/1.1 200" in await stream.receive()
    answer = await served.raw(
        served.head(content_length=99, expect="100-continue", authorization="Bearer no")
    )
    assert answer.startswith(b"HTTP/1.1 401")


# What goes wrong at the endpoint


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


# Limits


async def test_tokens_and_cost(serve: Serve, endpoint: Endpoint) -> None:
    """Once they are used up no call is made; the client is told which limit it is."""
    price = Price(input=1000, output=10000)
    for limits, code in [
        (ModelLimits(tokens=200), "max_tokens"),
        (ModelLimits(cost=0.5), "max_cost"),
    ]:
        endpoint.asked.clear()
        served = await serve(limits=limits, prices={"m": price})
        found = [await served.ask(said()) for _ in range(3)]
        assert [200, 200, 403] == [status for status, _ in found]
        assert code == found[-1][1]["error"]["code"]
        assert 2 == len(endpoint.asked)
        assert served.trial.reached is not None
        assert code == served.trial.reached.category


async def test_what_is_not_known_can_not_be_held(serve: Serve, endpoint: Endpoint) -> None:
    """A call that does not say what it used, or that was hung up on, ends what is limited."""
    served = await serve(limits=ModelLimits(tokens=10_000))
    endpoint.reply(Reply(pieces=(chunk("a"),), cut=True))
    await served.ask(said(stream=True))
    endpoint.reply(chat())
    status, answer = await served.ask(said())
    assert (403, "max_tokens") == (status, answer["error"]["code"])
    assert "does not say what a call used" in answer["error"]["message"]


async def test_errors_cost_nothing(serve: Serve, endpoint: Endpoint) -> None:
    """What the endpoint refused does not count towards tokens, but is a turn."""
    served = await serve(limits=ModelLimits(tokens=10_000, turns=2))
    endpoint.reply(refused(400))
    assert 400 == (await served.ask(said()))[0]
    endpoint.reply(chat())
    assert [200, 403] == [(await served.ask(said()))[0] for _ in range(2)]


async def test_turns_made_at_once(serve: Serve, endpoint: Endpoint) -> None:
    """As many calls as are allowed, however they come."""
    served = await serve(limits=ModelLimits(turns=5))
    found: list[int] = []

    async def ask() -> None:
        found.append((await served.ask(said()))[0])

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert (5, 15, 5) == (found.count(200), found.count(403), len(endpoint.asked))


async def test_seconds(serve: Serve, endpoint: Endpoint) -> None:
    """A call under way is cut when the time is over, and no further one is made."""
    served = await serve(limits=ModelLimits(seconds=0.4))
    endpoint.reply(Reply(hold=True))
    status, answer = await served.ask(said())
    assert (403, "max_seconds") == (status, answer["error"]["code"])
    assert "0.4 s, and they are over" in answer["error"]["message"]
    assert served.trial.reached is not None
    assert "max_seconds" == served.trial.reached.category
    status, answer = await served.ask(said())
    assert (403, "max_seconds") == (status, answer["error"]["code"])
    assert 1 == len(endpoint.asked)


async def test_refusals_are_told_up_to_a_number(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that calls on and on does not fill the log."""
    monkeypatch.setattr(gateway_module, "REFUSALS", 3)
    served = await serve(limits=ModelLimits(turns=0))
    for _ in range(10):
        assert 403 == (await served.ask(said()))[0]
    served.gateway.close()
    assert 3 == len(served.calls)
    assert "10 requests of the sandbox (10 max_turns)" in served.events[-1].message


async def test_a_call_that_is_refused_for_no_limit_is_told_at_the_end(
    serve: Serve, endpoint: Endpoint
) -> None:
    """An agent whose helper's model or tool is not passed on goes on without, and is graded: the
    event alone would be found by nobody. A limit is told by how the agent ended."""
    served = await serve(limits=ModelLimits(turns=0))
    await served.ask(said())
    served.gateway.close()
    assert ["max_turns"] == [call.code for call in served.calls]
    assert [] == [event for event in served.events if isinstance(event, WarningRaised)]
    await served.ask(said(model="helper"))
    served.gateway.close()
    [told] = [event for event in served.events if isinstance(event, WarningRaised)]
    assert "gateway_refused" == told.code
    assert "2 requests of the sandbox (1 max_turns, 1 model_not_allowed)" in str(told.message)


# Clients of all kinds


async def test_a_client_that_hangs_up(served: Served, endpoint: Endpoint, until: Until) -> None:
    """The endpoint is hung up on, too, and the call is told with what had come."""
    endpoint.reply(Reply(pieces=(chunk("some"),), hold=True))
    async with served.asking(said(stream=True)) as response:
        await response.content.readuntil(b"\n\n")
        response.close()
    await until(lambda: served.calls)
    [call] = served.calls
    assert ("cut_off", "the client hung up") == (call.failure, call.error)
    assert "some" == call.response["choices"][0]["message"]["content"]
    await until(endpoint.hung_up.is_set)


async def test_a_client_that_does_not_read(
    served: Served, endpoint: Endpoint, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds up nobody: the endpoint's answer is taken as it comes, and in the end the client is
    hung up on."""
    endpoint.reply(chat_stream(*(["x" * 60_000] * 200)))
    body = json.dumps(said(stream=True)).encode()
    async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
        await stream.send(served.head(content_length=len(body)) + body)
        await until(lambda: served.calls)
        assert (None, 20) == (served.calls[0].error, served.calls[0].usage.output_tokens)
    monkeypatch.setattr(http, "STALL_SEC", 0.3)
    async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
        await stream.send(served.head(content_length=len(body)) + body)
        await until(lambda: len(served.calls) == 2)
        await until(lambda: served.gateway._connections.value == CONNECTIONS - 1)
    assert 200 == (await served.ask(said()))[0]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"GET\r\n\r\n",
        b"\r\n" * 40_000,
        b"POST / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_garbage(served: Served, sent: bytes) -> None:
    """What is no request is answered as such or hung up on, and harms nobody."""
    answer = await served.raw(sent)
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"401", b"408", b"431", b"501")
    assert 200 == (await served.ask(said()))[0]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad_request"),
        (b"[]", "bad_request"),
        (b'{"model": 5}', "bad_request"),
        (b'{"model": "m", "x": ' + b"[" * 3000 + b"]" * 3000 + b"}", "bad_request"),
        (b'{"model": "m", "x": ' + b'{"a":' * 200 + b"1" + b"}" * 201, "bad_request"),
        (b'{"model": "m", "x": [' + b"[]," * 600_000 + b"1]}", "request_too_large"),
        (b'{"model": "m", "x": [' + b"1," * 1_100_000 + b"1]}", "request_too_large"),
        (b'{"model": "m", "x": "\\ud800"}', "bad_request"),
        (b'{"model": "m", "x": NaN}', "bad_request"),
        (b'{"model": "m", "x": "' + b"y" * 17 * 2**20 + b'"}', "request_too_large"),
    ],
)
async def test_bodies_that_are_not_taken(
    served: Served, endpoint: Endpoint, body: bytes, code: str
) -> None:
    """Each is an error in the API's own form, and nothing was sent on."""
    status, answer = await served.ask(body, method="POST")
    assert code == answer["error"]["code"]
    assert status in (400, 413)
    assert ([], []) == (endpoint.asked, served.events)
    assert 200 == (await served.ask(said()))[0]


async def test_an_endless_body(served: Served) -> None:
    """One that goes on past the cap is refused while it comes."""
    head = served.head(transfer_encoding="chunked")
    answer = await served.raw(head, *([b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 300))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
    assert 200 == (await served.ask(said()))[0]


async def test_bodies_together(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all requests under way hold is bounded, and given back."""
    monkeypatch.setattr(gateway_module, "HELD_CAP", 1000)
    async with await anyio.connect_tcp("127.0.0.1", served.port) as slow:
        await slow.send(served.head(content_length=900) + b"x" * 800)
        await anyio.wait_all_tasks_blocked()
        status, answer = await served.ask(said("y" * 500))
        while status == 200:  # the first one's bytes are still on their way
            status, answer = await served.ask(said("y" * 500))
        assert (413, "request_too_large") == (status, answer["error"]["code"])
    for _ in range(50):
        status, _ = await served.ask(said("y" * 500))
        if status == 200:
            break
    assert 200 == status


async def test_slow_clients(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head or a body that does not come to its end is given up."""
    monkeypatch.setattr(http, "HEAD_SEC", 0.2)
    monkeypatch.setattr(http, "BODY_SEC", 0.2)
    assert (await served.raw(b"POST /v1/chat")).startswith(b"HTTP/1.1 408")
    half = served.head(content_length=100) + b"{"
    assert (await served.raw(half)).startswith(b"HTTP/1.1 408")


async def test_hundreds_of_connections(serve: Serve, until: Until) -> None:
    """A trial has so many and no more; others are answered meanwhile, and in the end it is, too."""
    greedy, other = await serve(), await serve()
    sockets: list[socket.socket] = []
    for _ in range(300):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", greedy.port))
        sockets.append(connection)
    with anyio.fail_after(5):
        assert 200 == (await other.ask(said()))[0]
    free = greedy.gateway._connections
    await until(lambda: free.value == 0)
    assert free.max_value is None
    for connection in sockets:
        connection.close()
    await until(lambda: free.value == CONNECTIONS - 1)
    with anyio.fail_after(20):
        assert 200 == (await greedy.ask(said()))[0]


@pytest.mark.parametrize("request_of", ["nothing", "another path", "another model"])
async def test_a_flood(serve: Serve, endpoint: Endpoint, request_of: str) -> None:
    """Whoever asks again and again for what there is not is slowed down; those who are served are
    not."""
    greedy = await serve()
    key = f"authorization: Bearer {greedy.key}\r\nconnection: close\r\n"
    body = b'{"model": "other", "messages": []}'
    sent = {
        "nothing": b"",
        "another path": f"GET /v1/x HTTP/1.1\r\nhost: x\r\n{key}\r\n".encode(),
        "another model": greedy.head(content_length=len(body), connection="close") + body,
    }[request_of]
    ended = 0

    async def flood() -> None:
        nonlocal ended
        while True:
            async with await anyio.connect_tcp("127.0.0.1", greedy.port) as stream:
                await stream.send(sent)
                await stream.send_eof()
                try:
                    while True:
                        await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    ended += 1

    with anyio.move_on_after(1.0):
        async with anyio.create_task_group() as tasks:
            for _ in range(CONNECTIONS):
                tasks.start_soon(flood)
    in_a_second = IN_VAIN + CONNECTIONS / HOLD_UP_SEC
    assert CONNECTIONS < ended <= in_a_second + CONNECTIONS
    assert [] == endpoint.asked
    with anyio.fail_after(5):
        for _ in range(40):
            assert 200 == (await greedy.ask(said()))[0]


async def test_what_costs_nothing_is_counted(
    served: Served, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists and counts could fill the log, so there are so many of them."""
    monkeypatch.setattr(gateway_module, "UNPAID", 2)
    endpoint.reply(Reply(json.dumps({"input_tokens": 3})))
    asked = {"model": "m", "messages": []}
    found = [(await served.ask(path="/v1/models"))[0]]
    for _ in range(2):
        found.append((await served.ask(asked, path="/v1/messages/count_tokens"))[0])
    assert [200, 200, 403] == found
    assert [0, 0] == [call.usage.model_calls for call in served.calls]


async def test_what_is_no_turn_is_bounded(
    served: Served, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Embeddings are no turns, so that no limit may hold for them; all together are so large."""
    monkeypatch.setattr(gateway_module, "BESIDE_CAP", 1000)
    asked = {"model": "m", "input": "x" * 400}
    found = [await served.ask(asked, path="/v1/embeddings") for _ in range(3)]
    assert [200, 200, 403] == [status for status, _ in found]
    assert "asked_too_much" == found[-1][1]["error"]["code"]
    assert 2 == len(endpoint.asked)
    assert 200 == (await served.ask(said()))[0]


async def test_one_trial_does_not_keep_others_out(serve: Serve, endpoint: Endpoint) -> None:
    """A trial with many calls under way leaves room at the model for those of others."""
    greedy = await serve()
    other = await serve()
    other.trial.models._slots = greedy.trial.models._slots  # of one job
    endpoint.reply(*([Reply(hold=True)] * 4), chat())
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(greedy.ask, said())
        while len(endpoint.asked) < 4:
            await anyio.sleep(0.01)
        with anyio.fail_after(5):
            assert 200 == (await other.ask(said()))[0]
        assert 5 == len(endpoint.asked)
        tasks.cancel_scope.cancel()


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.data())
async def test_bytes_of_any_kind(
    served: Served, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    """Whatever is sent, there is an answer or none, and no fault of ours."""
    monkeypatch.setattr(gateway_module, "HOLD_UP_SEC", 0.0)
    valid = served.head(content_length=20) + b'{"model": "m"       }'
    cut = data.draw(st.integers(0, len(valid)))
    noise = data.draw(st.binary(max_size=60))
    rest = data.draw(st.sampled_from([b"", valid[cut:]]))
    with structlog.testing.capture_logs() as lines:
        async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
            await stream.send(valid[:cut] + noise + rest)
            await stream.send_eof()
            with anyio.move_on_after(5) as patience:
                try:
                    while True:
                        await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    pass
            assert not patience.cancelled_caught
    assert [] == [line for line in lines if line["log_level"] == "error"]


# The clients that agents use


async def test_openais_own_client(serve: Serve, endpoint: Endpoint) -> None:
    """It needs nothing but the variables, and does not try again what is refused."""
    served = await serve(also=["e"], limits=ModelLimits(turns=2))
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    vectors = {"data": [{"embedding": [0.5], "index": 0}], "model": "e", "usage": usage}
    models = {"object": "list", "data": [{"id": "m", "object": "model"}]}
    endpoint.reply(
        chat("one"), chat_stream("tw", "o"), Reply(json.dumps(vectors)), Reply(json.dumps(models))
    )
    url, key = served.variables["OPENAI_BASE_URL"], served.key
    async with openai.AsyncOpenAI(base_url=url, api_key=key) as client:
        asked = said()
        whole = await client.chat.completions.create(**asked)
        assert "one" == whole.choices[0].message.content
        pieces = await client.chat.completions.create(**asked, stream=True)
        # Many read the first choice of each chunk: one without any would be their end.
        assert "two" == "".join([p.choices[0].delta.content or "" async for p in pieces])
        found = await client.embeddings.create(model="e", input="x", encoding_format="float")
        assert [0.5] == found.data[0].embedding
        assert ["m"] == [model.id async for model in client.models.list()]
        with pytest.raises(openai.PermissionDeniedError, match="stopped after 2 turns"):
            await client.chat.completions.create(**asked)
        with pytest.raises(openai.NotFoundError, match="--also-model"):
            await client.chat.completions.create(**asked | {"model": "other"})
    assert 4 == len(endpoint.asked)
    assert [None, None, None, None, "refused", "refused"] == [c.failure for c in served.calls]


# Signs of life


async def test_pieces_are_signs_of_life(served: Served, endpoint: Endpoint) -> None:
    """A piece of an answer is one; a call that nothing comes of is none; a wait for the endpoint's
    own Retry-After is no silence."""
    trial = served.trial
    endpoint.reply(Reply(pieces=(chunk("a"),), hold=True))
    quiet = trial.pulse.quiet
    async with served.asking(said(stream=True)) as response:
        await response.content.readuntil(b"\n\n")
        heard = quiet()
        await anyio.sleep(0.05)
        assert quiet() > heard
    endpoint.reply(refused(429, retry_after_ms="x", retry_after="1"), chat())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.ask, said())
        while len(endpoint.asked) < 2:
            await anyio.sleep(0.01)
        await anyio.sleep(0.1)
        assert 0.0 == quiet()
        tasks.cancel_scope.cancel()


async def test_a_message_of_anthropics(served: Served, endpoint: Endpoint) -> None:
    """What a cache is about is part of the input, and what was read from it is told."""
    endpoint.reply(message("hi", usage={
        "input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 70,
        "output_tokens": 3,
    }))  # fmt: skip
    status, _ = await served.ask({"model": "m", "messages": []}, path="/v1/messages")
    usage = served.calls[0].usage
    assert (200, 95, 70, 3) == (
        status,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
    )
    assert "2023-06-01" == endpoint.asked[0].headers["anthropic-version"]
