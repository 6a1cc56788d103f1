"""The model gateway on both sandboxes, with a real endpoint behind it and no network inside."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.gateway import (
    KEY,
    Endpoint,
    Reply,
    chat,
    chat_stream,
    chunk,
    message,
    message_events,
    refused,
)
from helpers.programs import Done, RunProgram
from trialog.engine.models.prices import Price
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.events.kinds import AgentFinished, AgentMessage, ModelCalled
from trialog.events.open import memory_log

Run = Callable[..., Awaitable[Done]]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Answers as told."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def run(backend: SandboxBackend, endpoint: Endpoint, tmp_path: Path) -> Run:
    """Runs a task with this program, in Python, as its agent."""
    on = RunProgram(backend, tmp_path)

    async def run_it(program: str, **more: Any) -> Done:
        async with memory_log() as log:
            return await on(log, program, endpoint.environ, **more)

    return run_it


EVERYWHERE = """
import socket
for host, port in [("127.0.0.1", PORT_OF_THE_ENDPOINT), ("10.255.255.1", 80), ("::1", 21170)]:
    try:
        socket.create_connection((host, port), 3).close()
        tell("reached", host)
    except OSError as error:
        tell("not reached", host)
base = "http://127.0.0.1:PORT_OF_THE_ENDPOINT/v1"
tell(*ask("/v1/models", base=base, timeout=3))
tell(*chat())
"""


async def test_nothing_else_is_reached(run: Run, endpoint: Endpoint) -> None:
    """An offline sandbox reaches the gateway and no other address; without it, none at all."""
    program = EVERYWHERE.replace("PORT_OF_THE_ENDPOINT", str(endpoint.port))
    done = await run(program)
    *others, direct, [status, body] = done.told
    assert {"not reached"} == {one[0] for one in others}
    assert direct[0] == 0
    assert (200, "hello") == (status, json.loads(body)["choices"][0]["message"]["content"])
    assert ("scored", 1) == (done.ended.outcome, len(endpoint.asked))


LEAKS = '''
import subprocess
script = """env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/mounts | tr '\\\\0' '\\\\n'
    grep -rs sk- /task /logs /tmp /app $HOME"""
env = subprocess.run(script, shell=True, capture_output=True, text=True).stdout
tell("very-secret" in env, os.environ["OPENAI_API_KEY"] in env)
tell(*chat())
tell(*ask("/v1/messages", {"model": "m", "max_tokens": 9, "messages": []}))
tell(*chat("my key is " + os.environ["OPENAI_API_KEY"]))
'''


async def test_keys_stay_outside(run: Run, endpoint: Endpoint) -> None:
    """The endpoint gets its key; the sandbox, the events and the files never do, not even where
    the endpoint repeats it."""
    endpoint.reply(
        chat(f"your key is {KEY}"), message(f"and {KEY}-too"), refused(401, f"bad key {KEY}")
    )
    done = await run(LEAKS)
    leaks, first, second, third = done.told
    assert [False, True] == leaks
    assert "your key is [redacted:OPENAI_API_KEY]" in first[1]
    assert "and [redacted:" in second[1]
    assert 401 == third[0]
    assert "bad key [redacted:" in third[1]
    asked = endpoint.asked
    assert [f"Bearer {KEY}", f"{KEY}-too"] == [
        asked[0].headers["authorization"], asked[1].headers["x-api-key"],
    ]  # fmt: skip
    assert "authorization" not in asked[1].headers
    assert "very-secret" not in str(done.events)
    written = b"".join(file.read_bytes() for file in done.folder.rglob("*") if file.is_file())
    assert b"very-secret" not in written
    assert ["unavailable"] == [call.failure for call in done.of(ModelCalled) if call.failure]


ALL_FORMS = """
tell(*chat())
tell(*chat(stream=True))
tell(*ask("/v1/messages?beta=true", {"model": "m", "max_tokens": 9, "stream": True, "messages": []},
    headers={"anthropic-beta": "one", "cookie": "x=y", "x-forwarded-for": "1.2.3.4"}))
tell(*ask("/v1/responses", {"model": "m", "input": "hi"}))
tell(*ask("/v1/embeddings", {"model": "e", "input": ["hi"]}))
tell(*ask("/v1/models"))
"""


async def test_calls_are_in_the_log_and_in_the_files(run: Run, endpoint: Endpoint) -> None:
    """Each form of call is an event with what it used and cost; the files add them up."""
    endpoint.reply(
        chat("one"),
        chat_stream("tw", "o"),
        Reply(pieces=message_events("three")),
        Reply(json.dumps({
            "object": "response", "usage": {"input_tokens": 7, "output_tokens": 3},
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "four"}]}],
        })),
        Reply(json.dumps({"usage": {"prompt_tokens": 5, "total_tokens": 5, "cost": 0.5}})),
        Reply(json.dumps({"data": [{"id": "m"}]})),
    )  # fmt: skip
    done = await run(
        ALL_FORMS, also_models=["e"], prices={"m": Price(input=1000, output=10000, cached=500)}
    )
    assert [200] * 6 == [status for status, _ in done.told]
    stream = done.told[1][1]
    assert "[DONE]" in stream
    assert "usage" not in stream  # it had not asked for it
    assert {"include_usage": True} == endpoint.asked[1].body["stream_options"]
    there = endpoint.asked[2]
    assert ("/v1/messages?beta=true", "one") == (there.path, there.headers["anthropic-beta"])
    assert not {"cookie", "x-forwarded-for"} & there.headers.keys()
    calls = done.of(ModelCalled)
    assert [(1, 100, 20, 0.3), (1, 100, 20, 0.3), (1, 100, 20, 0.295), (1, 7, 3, 0.037),
            (1, 5, 0, 0.5), (0, None, None, None)] == [
        (u.model_calls, u.input_tokens, u.output_tokens, u.cost_usd)
        for u in (call.usage for call in calls)
    ]  # fmt: skip
    assert [1, 2, 3, 4, None, None] == [call.turn for call in calls]
    assert ["agent"] * 4 + ["embeddings", "models"] == [call.purpose for call in calls]
    assert ["one", "two", "three", "four"] == [message.text for message in done.of(AgentMessage)]
    assert "two" == calls[1].response["choices"][0]["message"]["content"]
    usage = done.file("result.json")["usage"]
    assert (5, 312, 63, 1.432) == (
        usage["model_calls"], usage["input_tokens"], usage["output_tokens"], usage["cost_usd"],
    )  # fmt: skip
    trajectory = done.file("trajectory.json")
    steps = [step for step in trajectory["steps"] if step.get("llm_call_count")]
    assert ["one", "two", "three", "four"] == [step["message"] for step in steps]
    assert [0.3, 0.3, 0.295, 0.037] == [step["metrics"]["cost_usd"] for step in steps]
    assert 1.432 == trajectory["final_metrics"]["total_cost_usd"]


async def test_a_limit(run: Run, endpoint: Endpoint) -> None:
    """A call past it is refused in the API's own form and told; the agent counts as ended by it,
    and its work is graded."""
    done = await run("for _ in range(4): tell(*chat())\nsys.exit(3)", max_turns=2)
    assert [200, 200, 403, 403] == [status for status, _ in done.told]
    error = json.loads(done.told[2][1])["error"]
    assert ("max_turns", "invalid_request_error") == (error["code"], error["type"])
    assert 2 == len(endpoint.asked)
    assert [None, None, "refused", "refused"] == [call.failure for call in done.of(ModelCalled)]
    [end] = done.of(AgentFinished)
    assert ("max_turns", "max_turns", 3) == (end.ended_by, end.error_category, end.exit_code)
    assert ("scored", 2) == (done.ended.outcome, done.file("result.json")["usage"]["model_calls"])


VERIFIER = """
cat /logs/agent/address
python3 - <<'END'
import socket
try:
    socket.create_connection(("127.0.0.1", 21170), 3)
    reached = 0
except OSError:
    reached = 1
open("/logs/verifier/reward.txt", "w").write(str(reached))
END
"""


async def test_the_verifier_has_none(run: Run) -> None:
    """When the agent is done, nobody listens any more, and no key was told."""
    done = await run(
        "tell(*chat()); import socket; socket.create_connection(('127.0.0.1', 21170), 3)",
        test=f"{VERIFIER}\nenv | grep -c OPENAI && echo 0 > /logs/verifier/reward.txt",
    )
    assert (200, "scored", 1.0) == (done.told[0][0], done.ended.outcome, done.ended.reward)


KEEPS = """
import socket
tell(*chat())
if os.fork() == 0:
    server = socket.create_server(("127.0.0.1", 8123))
    while True:
        connection, _ = server.accept()
        try:
            socket.create_connection(("127.0.0.1", 21170), 3).close()
            connection.sendall(b"reached")
        except OSError:
            connection.sendall(b"not reached")
        connection.close()
for _ in range(100):
    try:
        said = socket.create_connection(("127.0.0.1", 8123), 3).recv(99).decode()
        break
    except OSError:
        import time; time.sleep(0.05)
tell(said)
"""

ASKS = """
python3 - <<'END'
import socket
said = socket.create_connection(("127.0.0.1", 8123), 3).recv(99)
open("/logs/verifier/reward.txt", "w").write("1" if said == b"not reached" else "0")
END
"""


async def test_kept_processes_have_none(run: Run, backend: SandboxBackend) -> None:
    """What an agent leaves running for the test could call its model as long as the agent worked,
    and can't any more."""
    settings = "verifier.keep_processes = true\n"
    if backend.name == "docker":
        settings += 'agent.user = "nobody"\n'
    done = await run(KEEPS, test=ASKS, settings=settings)
    assert (200, ["reached"]) == (done.told[0][0], done.told[1])
    assert ("scored", 1.0) == (done.ended.outcome, done.ended.reward)


async def test_a_task_with_a_network(run: Run, endpoint: Endpoint, backend: SandboxBackend) -> None:
    """It calls its model through the gateway all the same."""
    done = await run(
        "tell(os.environ['OPENAI_BASE_URL']); tell(*chat())",
        settings="sandbox.allow_internet = true\n",
    )
    [url], [status, _] = done.told
    assert (200, 1) == (status, len(done.of(ModelCalled)))
    assert (backend.name == "docker") == (":21170/" in url)


async def test_silence_of_the_program_while_its_model_talks(run: Run, endpoint: Endpoint) -> None:
    """Pieces of an answer are signs of life, so the program is not stopped as idle; once nothing
    comes any more, it is."""
    endpoint.reply(Reply(pieces=(chunk("a"),) * 8, pause=0.25, hold=True))
    done = await run("chat(stream=True)", settings="agent.idle_timeout_sec = 1\n")
    [end] = done.of(AgentFinished)
    assert "idle_timeout" == end.ended_by
    assert end.duration > 2.5
    [call] = done.of(ModelCalled)
    assert ("cut_off", "a" * 8) == (
        call.failure, call.response["choices"][0]["message"]["content"],
    )  # fmt: skip


HANGS_UP = """
place = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(place.hostname, place.port)
body = json.dumps({"model": "m", "messages": [], "stream": True})
connection.request("POST", "/v1/chat/completions", body,
    {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
tell(connection.getresponse().read1().decode())
os._exit(0)
"""


async def test_a_call_under_way_at_the_end(
    run: Run, endpoint: Endpoint, until: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    """A program that ends in the middle of a stream: what came until then is in the log, and the
    endpoint is hung up on."""
    endpoint.reply(Reply(pieces=(chunk("only "), chunk("this")), hold=True))
    done = await run(HANGS_UP)
    assert "only" in done.told[0][0]
    [call] = done.of(ModelCalled)
    assert ("cut_off", "the client hung up") == (call.failure, call.error)
    assert "only this".startswith(call.response["choices"][0]["message"]["content"])
    await until(endpoint.hung_up.is_set)
    kinds = [type(event) for event in done.events]
    assert kinds.index(ModelCalled) < kinds.index(AgentFinished)
    assert "scored" == done.ended.outcome
