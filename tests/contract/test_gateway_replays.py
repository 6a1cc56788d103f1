"""Agents whose calls came through the gateway, run again from their record on both sandboxes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from helpers.gateway import (
    Endpoint,
    Reply,
    chat,
    chat_stream,
    chunk,
    message,
    message_events,
    refused,
)
from helpers.programs import RunProgram
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.events.kinds import AgentFinished, ModelCalled, WarningRaised
from trialog.events.open import memory_log


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Answers as told."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def run(backend: SandboxBackend, tmp_path: Path) -> RunProgram:
    """Runs a program, in Python, as the agent."""
    return RunProgram(backend, tmp_path)


ALL = """
from concurrent.futures import ThreadPoolExecutor
user = lambda text: {"role": "user", "content": text}
messages = [user("one")]
status, answer = ask("/v1/chat/completions", {"model": "m", "messages": messages, "tools": []})
tell("chat", status, json.loads(answer)["choices"][0]["message"]["content"])
messages += [json.loads(answer)["choices"][0]["message"], user("two")]
body = {"model": "m", "messages": messages, "tools": [], "stream": True}
status, answer = ask("/v1/chat/completions", body)
pieces = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
tell("stream", status, "".join(p["choices"][0]["delta"].get("content", "") for p in pieces),
     answer.rstrip().endswith("[DONE]"))
tell("rejected", ask("/v1/chat/completions", {"model": "m", "messages": [], "odd": 1})[0])
said = {"model": "m", "max_tokens": 9, "messages": [user("hi")], "stream": True}
status, answer = ask("/v1/messages", said, headers={"anthropic-version": "2023-06-01"})
tell("message", status, "".join(json.loads(line[6:]).get("delta", {}).get("text", "")
     for line in answer.splitlines() if line.startswith("data: ")), "message_stop" in answer)
tell("embedded", ask("/v1/embeddings", {"model": "small", "input": ["a"]})[0])
tell("models", ask("/v1/models")[0])
tell("refused", ask("/v1/chat/completions", {"model": "other", "messages": []})[0])
tell("broken", chat("cut", stream=True)[0])
with ThreadPoolExecutor(3) as pool:
    answers = [json.loads(text) for _, text in pool.map(lambda n: chat(str(n)), range(3))]
    tell("at once", [one["choices"][0]["message"]["content"] for one in answers])
"""


async def test_every_form_of_a_call_is_answered_again(run: RunProgram, endpoint: Endpoint) -> None:
    """Without an endpoint or a key the program is told the same: whole answers and streams, errors
    and what broke off, several calls at once. Each event names the recorded one, at no cost."""
    replies = [
        chat("hello"), chat_stream("hé", "llo"), refused(400, "odd is not known"),
        Reply(pieces=message_events("hello")), message("x", data=[]), chat("list"),
        Reply(pieces=(chunk("half"),), cut=True), chat("a"), chat("a"), chat("a"),
    ]  # fmt: skip
    endpoint.reply(*replies)
    async with memory_log() as log:
        first = await run(log, ALL, endpoint.environ, also_models=["small"])
        assert "scored" == first.ended.outcome
        assert ["chat", 200, "hello"] == first.told[0]
        assert ["stream", 200, "héllo", True] == first.told[1]
        assert ["message", 200, "hello", True] == first.told[3]
        asked = len(endpoint.asked)
        again = await run(log, ALL, also_models=["small"], replay_models=first.job)
        assert first.told == again.told
        assert asked == len(endpoint.asked)
        before, after = first.of(ModelCalled), again.of(ModelCalled)
        assert [(c.error, c.failure, c.status, c.code, c.response) for c in before[:8]] == [
            (c.error, c.failure, c.status, c.code, c.response) for c in after[:8]
        ]
        passed = [call for call in after if call.failure != "refused"]
        assert all(call.replayed and call.usage.cost_usd == 0.0 for call in passed)
        assert first.of(WarningRaised) == again.of(WarningRaised)


async def test_a_call_that_the_time_cut_off(run: RunProgram, endpoint: Endpoint) -> None:
    """The trial is ended by the limit, not by a failure of the endpoint's, and so is its replay: a
    call after it is refused there, too, though no time has passed."""
    endpoint.reply(Reply(hold=True))
    program = "tell(*chat('a'))\ntell(*chat('b'))\n"
    async with memory_log() as log:
        first = await run(log, program, endpoint.environ, max_seconds=1.5)
        again = await run(log, program, replay_models=first.job)
        for ran in (first, again):
            codes = [json.loads(answer)["error"]["code"] for _, answer in ran.told]
            assert ["max_seconds", "max_seconds"] == codes
            [end] = ran.of(AgentFinished)
            assert ("max_seconds", 0) == (end.ended_by, end.exit_code)
            assert [] == ran.of(WarningRaised)
    assert 1 == len(endpoint.asked)


async def test_the_first_difference_ends_the_program(run: RunProgram, endpoint: Endpoint) -> None:
    """What it had printed stays; the trial is errored, and both requests are kept."""
    program = "import os\ntell('first', chat('same')[0])\ntell(chat(os.urandom(8).hex())[0])\n"
    program += "import time\ntime.sleep(300)"
    endpoint.reply(chat())
    async with memory_log() as log:
        first = await run(log, program.replace("time.sleep(300)", ""), endpoint.environ)
        again = await run(log, program, replay_models=first.job)
        assert ("errored", "replay_differs") == (again.ended.outcome, again.ended.category)
        assert [["first", 200]] == again.told
        [_, call] = again.of(ModelCalled)
        assert call.difference is not None
        assert (0, "differs", 2, "messages[0].content") == (
            call.usage.model_calls, call.failure, call.difference.call, call.difference.path,
        )  # fmt: skip
        before, now = [
            msgspec.json.decode(await log.blobs.get(ref))
            for ref in (call.difference.request_recorded, call.difference.request_now)
        ]
        assert before["model"] == now["model"] == "m"
        assert before != now


async def test_a_call_that_the_client_gave_up(run: RunProgram, endpoint: Endpoint) -> None:
    """It is not answered in a replay either, so that the client gives it up again."""
    body = '{"model": "m", "messages": []}'
    program = f"tell(ask('/v1/chat/completions', {body}, timeout=1)[1])\ntell(chat()[0])"
    endpoint.reply(Reply(hold=True), chat())
    async with memory_log() as log:
        first = await run(log, program, endpoint.environ)
        assert [["TimeoutError"], [200]] == first.told
        again = await run(log, program, replay_models=first.job)
        assert first.told == again.told
