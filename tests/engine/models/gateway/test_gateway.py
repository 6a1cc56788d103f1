"""The model gateway on this machine's own loopback: what it passes on to a real endpoint."""

from __future__ import annotations

import json
from typing import Any

import anyio
import msgspec
import pytest

from helpers.gateway import Endpoint, Reply, chat, chunk, message, refused
from helpers.served import Serve, Served, said
from trialog.events.kinds import WarningRaised


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


async def test_a_list_has_what_the_trial_may_call(serve: Serve, endpoint: Endpoint) -> None:
    """Of the endpoint's models its own and further ones; others are not told of by name either."""
    served = await serve(also=["a/small"])
    every = [{"id": name, "object": "model"} for name in ("m", "a/small", "large")]
    endpoint.reply(Reply(json.dumps({"object": "list", "data": every, "last_id": "large"})))
    assert (200, {"object": "list", "data": every[:2], "last_id": "a/small"}) == (
        await served.ask(path="/v1/models")
    )
    asked = [await served.ask(path=f"/v1/models/{name}") for name in ("a/small", "m", "large")]
    assert [200, 200, 404] == [status for status, _ in asked]
    assert "model_not_allowed" == asked[-1][1]["error"]["code"]
    assert "large" not in str(served.calls[0].response)
    assert ["/v1/models", "/v1/models/a/small", "/v1/models/m"] == [
        one.path for one in endpoint.asked
    ]


async def test_a_base_url_with_a_query(served: Served, endpoint: Endpoint) -> None:
    """Each call goes to its path with that query, then the client's own; the log has neither."""
    endpoints = served.trial.upstream._endpoints
    one = endpoints["openai"]
    endpoints["openai"] = msgspec.structs.replace(one, base_url=f"{one.base_url}?version=2")
    assert 200 == (await served.ask(said(), path="/v1/chat/completions?beta=true"))[0]
    assert ["/v1/chat/completions?version=2&beta=true"] == [one.path for one in endpoint.asked]
    assert "version" not in str(served.calls[0].endpoint)


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
