"""Clients of all kinds at a model gateway: those of agents, slow ones, hostile ones, too many."""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable

import anyio
import openai
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.gateway import Endpoint, Reply, chat, chat_stream, chunk
from helpers.served import Serve, Served, said
from trialog.engine.models.gateway import gateway as gateway_module
from trialog.engine.models.gateway import http
from trialog.engine.models.gateway.gateway import CONNECTIONS, HOLD_UP_SEC, IN_VAIN
from trialog.engine.models.models import ModelLimits

Until = Callable[[Callable[[], object]], Awaitable[None]]


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
