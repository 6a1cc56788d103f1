"""Calling an endpoint over HTTP."""

from __future__ import annotations

import builtins
import json
import sys
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.judges import (
    Answer,
    Endpoint,
    completion,
    contents,
    episode,
    refused,
    said,
    verifier,
)
from trialog.engine.judges.client import (
    RETRIES,
    CallFailed,
    JudgeUnavailable,
    Reply,
    open_client,
    read_completion,
)
from trialog.engine.judges.client import (
    endpoint as named_endpoint,
)
from trialog.engine.judges.judge import JudgeResult, judge, recorded_judge
from trialog.events.clock import SystemClock
from trialog.events.kinds import VerifierFailed, VerifierScored
from trialog.events.kinds.parts import Usage
from trialog.events.memory import MemoryLog

SCHEMA = {"type": "object"}
MESSAGES = [{"role": "user", "content": "hello"}]
KEY = "sk-very-secret-key"


async def judged(endpoint: Endpoint, **changes: Any) -> JudgeResult:
    """What a judge says over HTTP; read again without a network, it says the same to the byte."""
    blobs = MemoryLog().blobs
    by = verifier(**changes)
    async with open_client(endpoint.environ) as client:
        result = await judge(by, episode(), client, digest="d", blobs=blobs, clock=SystemClock())
    endpoint.close()
    again = await recorded_judge(
        by, result.events, digest="d", blobs=blobs, duration=result.verdict.duration
    )
    assert msgspec.json.encode(result) == msgspec.json.encode(again)
    assert KEY not in msgspec.json.encode(result).decode()
    return result


async def ask(endpoint: Endpoint) -> Any:
    """One reply."""
    async with open_client(endpoint.environ) as client:
        return await client.ask("m", MESSAGES, SCHEMA)


async def test_a_judge_asks_by_schema_with_its_key(endpoint: Endpoint) -> None:
    """The endpoint gets model, messages and schema, and the verdict comes from its reply."""
    endpoint.answer(completion(said(policy=1)))
    result = await judged(endpoint)
    assert isinstance(result.verdict, VerifierScored)
    assert 0.875 == result.verdict.score
    assert Usage(model_calls=1, input_tokens=120, output_tokens=30) == result.verdict.usage
    (request,) = endpoint.requests
    assert "/v1/chat/completions" == request.path
    assert f"Bearer {KEY}" == request.headers["authorization"]
    assert "m-latest" == request.body["model"]
    assert ["system", "user"] == [message["role"] for message in request.body["messages"]]
    assert "It is sorted." in contents(request.body["messages"])
    asked = request.body["response_format"]["json_schema"]
    assert asked["strict"]
    assert ["policy", "clarity"] == asked["schema"]["required"]
    assert {"model", "messages", "response_format"} == set(request.body)


async def test_malformed_replies_over_http_are_all_recorded(endpoint: Endpoint) -> None:
    """An error with status 200, a refusal, then a good reply."""
    endpoint.answer(
        Answer('{"error": {"message": "overloaded", "code": 529}}'),
        completion(None, message={"refusal": "I would rather not."}),
        completion(f"```json\n{said()}\n```"),
    )
    result = await judged(endpoint)
    assert isinstance(result.verdict, VerifierScored)
    assert [("error", False), ("refusal", False), ("stop", True)] == [
        (event.finish, event.valid) for event in result.events
    ]
    assert "overloaded" in str(result.events[0].reply)
    assert "I would rather not." == result.events[1].reply


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_what_may_pass_is_tried_again(endpoint: Endpoint, status: int) -> None:
    """Busy or broken endpoints are asked again, and the sample is not lost."""
    endpoint.answer(refused(status), refused(status), completion(said()))
    result = await judged(endpoint)
    assert isinstance(result.verdict, VerifierScored)
    assert 3 == len(endpoint.requests)
    assert 1 == len(result.events)


async def test_a_cut_connection_is_tried_again(endpoint: Endpoint) -> None:
    """What came before the cut is not taken for a reply."""
    endpoint.answer(completion(said())._replace(cut=True), completion(said()))
    result = await judged(endpoint)
    assert isinstance(result.verdict, VerifierScored)
    assert 2 == len(endpoint.requests)


async def test_retry_after_is_honoured(endpoint: Endpoint) -> None:
    """The next try comes when the endpoint says, later than it would by itself (half a second)."""
    endpoint.answer(Answer("{}", 429, {"retry-after": "1"}), completion(said()))
    result = await judged(endpoint)
    assert isinstance(result.verdict, VerifierScored)
    first, second = endpoint.requests
    assert second.at - first.at >= 1.0


async def test_a_wait_past_the_deadline_ends_the_sample(endpoint: Endpoint) -> None:
    """An endpoint that names a time that is too late is not asked before it."""
    endpoint.answer(Answer("{}", 429, {"retry-after": "30"}), completion(said()))
    result = await judged(endpoint, timeout_sec=0.8)
    assert isinstance(result.verdict, VerifierFailed)
    assert ("judge_failed", True) == (result.verdict.category, result.verdict.infrastructure)
    assert 1 == len(endpoint.requests)


@pytest.mark.parametrize(
    ("status", "failure", "category", "infrastructure", "tries"),
    [
        (400, "rejected", "judge_failed", False, 1),
        (413, "rejected", "judge_failed", False, 1),
        (401, "unavailable", "judge_unavailable", True, 1),
        (403, "unavailable", "judge_unavailable", True, 1),
        (404, "unavailable", "judge_unavailable", True, 1),
        (429, "unreachable", "judge_failed", True, RETRIES + 1),
        (500, "unreachable", "judge_failed", True, RETRIES + 1),
    ],
)
async def test_an_endpoint_that_keeps_failing_gives_no_score(
    endpoint: Endpoint, status: int, failure: str, category: str, infrastructure: bool, tries: int
) -> None:
    """The category says whether a resume may help; its message is there, the key is not."""
    endpoint.answer(refused(status, f"no such thing, {KEY}"))
    result = await judged(endpoint)
    verdict = result.verdict
    assert isinstance(verdict, VerifierFailed)
    assert (category, infrastructure) == (verdict.category, verdict.infrastructure)
    (event,) = result.events
    assert failure == event.failure
    assert "no such thing, [redacted:OPENAI_API_KEY]" in str(event.error)
    bare = [request for request in endpoint.requests if "response_format" not in request.body]
    assert tries == len(endpoint.requests) - len(bare)


async def test_an_endpoint_that_is_not_there_gives_no_score(endpoint: Endpoint) -> None:
    """Nobody listens: the machine's fault, and a resume judges again."""
    environ = endpoint.environ
    endpoint.close()
    by = verifier(timeout_sec=0.4)
    async with open_client(environ) as client:
        result = await judge(
            by, episode(), client, digest="d", blobs=MemoryLog().blobs, clock=SystemClock()
        )
    assert isinstance(result.verdict, VerifierFailed)
    assert ("judge_failed", True) == (result.verdict.category, result.verdict.infrastructure)


async def test_an_endpoint_that_is_never_there_is_named(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all tries are used up, with what the connection failed of."""
    monkeypatch.setattr("trialog.engine.judges.client.RETRIES", 0)
    endpoint.close()
    with pytest.raises(CallFailed, match=r"can't be reached: Connection error\. \(.+\)") as info:
        await ask(endpoint)
    assert ("unreachable", None) == (info.value.failure, info.value.status)


async def test_a_silent_endpoint_is_given_up(endpoint: Endpoint) -> None:
    """The deadline holds over a connection on which nothing comes."""
    endpoint.answer(completion(said()))
    endpoint.released.clear()
    result = await judged(endpoint, timeout_sec=0.3)
    assert isinstance(result.verdict, VerifierFailed)
    assert "no reply within the 0.3 s" in str(result.verdict.error)
    assert 1 == len(endpoint.requests)


async def test_an_endpoint_without_schemas_is_asked_without(endpoint: Endpoint) -> None:
    """It is remembered, and the rubric in the prompt says the shape all the same."""
    endpoint.answer(refused(400, "response_format is not supported"), completion(said()))
    async with open_client(endpoint.environ) as client:
        for _ in range(2):
            assert said() == (await client.ask("m", MESSAGES, SCHEMA)).text
    assert [True, False, False] == ["response_format" in r.body for r in endpoint.requests]


async def test_the_key_is_in_no_reply(endpoint: Endpoint) -> None:
    """An endpoint that repeats it does not bring it into the log."""
    endpoint.answer(completion(f"your key is {KEY}", model=f"m {KEY}"))
    reply = await ask(endpoint)
    assert "your key is [redacted:OPENAI_API_KEY]" == reply.text
    assert "m [redacted:OPENAI_API_KEY]" == reply.model


async def test_samples_share_one_client(endpoint: Endpoint) -> None:
    """Several at once; each is its own request with its own fence."""
    endpoint.answer(completion(said()))
    result = await judged(endpoint, samples=4)
    assert isinstance(result.verdict, VerifierScored)
    assert [1.0] * 4 == result.verdict.samples
    fences = {contents(r.body["messages"]).split("BEGIN WORK ")[1][:32] for r in endpoint.requests}
    assert 4 == len(fences) == len(endpoint.requests)


async def test_a_cancelled_judge_lets_go_of_its_connection(endpoint: Endpoint) -> None:
    """Cancelling a trial does not wait for an endpoint."""
    endpoint.answer(completion(said()))
    endpoint.released.clear()
    async with open_client(endpoint.environ) as client, anyio.create_task_group() as group:
        group.start_soon(client.ask, "m", MESSAGES, None)
        with anyio.fail_after(10):
            while not endpoint.requests:
                await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    assert not endpoint.released.is_set()


# What an answer may look like


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>Bad gateway</html>",
        "null",
        "[]",
        "{}",
        '{"choices": []}',
        '{"choices": null, "error": {"message": "x"}}',
        '{"choices": [{}]}',
        '{"choices": [{"message": null}]}',
        '{"choices": [{"message": {"content": 7}}]}',
        '{"choices": [{"message": {"content": ["a"]}}]}',
        "[" * 100_000,
    ],
    ids=range(12),
)
def test_an_answer_that_is_no_completion_is_kept_as_it_is(body: str) -> None:
    """It is what the endpoint said, and no reply."""
    reply = read_completion(body)
    assert (body, "error") == (reply.text, reply.finish)


def test_a_completion_without_words_is_empty() -> None:
    """Neither text nor refusal."""
    reply = read_completion(completion(None).body)
    assert ("", "stop", "m-2026-01") == (reply.text, reply.finish, reply.model)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, {}),
        ("many", {}),
        ({}, {}),
        ({"prompt_tokens": "7", "completion_tokens": True, "cost": "free"}, {}),
        ({"prompt_tokens": -1, "completion_tokens": 10**30, "cost": -1}, {}),
        ({"prompt_tokens": 7.5, "cost": 1e300, "prompt_tokens_details": []}, {}),
        (
            {
                "prompt_tokens": 7,
                "completion_tokens": 0,
                "cost": 0.25,
                "prompt_tokens_details": {"cached_tokens": 3},
            },
            {"input_tokens": 7, "output_tokens": 0, "cost_usd": 0.25, "cached_tokens": 3},
        ),
    ],
    ids=range(7),
)
def test_usage_is_what_the_endpoint_says_or_null(usage: Any, expected: dict[str, Any]) -> None:
    """Nonsense is unknown, never 0."""
    reply = read_completion(completion(said(), usage=usage, model=None).body)
    assert Usage(model_calls=1, **expected) == reply.usage
    assert reply.model is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "message", "content", "usage", "model", "refusal"]),
                inner,
                max_size=4,
            )
        ),
    ).map(json.dumps)
    | st.text()
)
def test_no_answer_breaks_the_reading(body: str) -> None:
    """Whatever status 200 brings, it can be recorded, and what is no completion is kept whole."""
    read = read_completion(body)
    assert msgspec.json.decode(msgspec.json.encode(read), type=Reply) == read
    assert read.finish != "error" or read.text == body


# Finding the endpoint


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OPENAI_API_KEY": "a"}, (None, "a")),
        ({"OPENAI_API_KEY": " a\n", "OPENAI_BASE_URL": ""}, (None, "a")),
        ({"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "http://x/v1"}, ("http://x/v1", "a")),
        (
            {
                "OPENAI_API_KEY": "a",
                "OPENAI_BASE_URL": "http://x/v1",
                "TRIALOG_JUDGE_API_KEY": "b",
                "TRIALOG_JUDGE_BASE_URL": "https://y:8/v1",
            },
            ("https://y:8/v1", "b"),
        ),
        (
            {"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "http://x", "TRIALOG_JUDGE_API_KEY": "b"},
            ("http://x", "b"),
        ),
    ],
    ids=range(5),
)
def test_the_environment_names_endpoint_and_key(
    environ: dict[str, str], expected: tuple[str | None, str]
) -> None:
    """Judges' own variables go first."""
    found = named_endpoint(environ)
    assert expected == (found.base_url, found.key)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "neither TRIALOG_JUDGE_API_KEY nor OPENAI_API_KEY is set"),
        ({"OPENAI_API_KEY": "  "}, "neither TRIALOG_JUDGE_API_KEY nor OPENAI_API_KEY is set"),
        (
            {"OPENAI_API_KEY": "a", "TRIALOG_JUDGE_BASE_URL": "http://y"},
            "TRIALOG_JUDGE_API_KEY is not set",
        ),
        ({"OPENAI_API_KEY": "schlüssel"}, "OPENAI_API_KEY has characters"),
        ({"OPENAI_API_KEY": "a\nb"}, "OPENAI_API_KEY has characters"),
        ({"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "localhost:8000"}, "OPENAI_BASE_URL is"),
        ({"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "http://x:99999"}, "which is no address"),
        ({"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "http://"}, "which is no address"),
    ],
    ids=range(8),
)
async def test_what_is_missing_is_named(environ: dict[str, str], words: str) -> None:
    """Before anything is asked; a key of another's is never sent to the judges' own endpoint."""
    with pytest.raises(JudgeUnavailable, match=words):
        async with open_client(environ):
            pass


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name == "openai":
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(JudgeUnavailable, match="pip install 'openai>="):
        async with open_client({"OPENAI_API_KEY": "a"}):
            pass


async def test_other_variables_of_the_package_decide_nothing(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment that was given counts, not the process's own."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    endpoint.answer(completion(said()))
    await ask(endpoint)
    assert f"Bearer {KEY}" == endpoint.requests[0].headers["authorization"]


async def test_a_call_that_failed_says_why(endpoint: Endpoint) -> None:
    """Status and message, for whoever reads the log."""
    endpoint.answer(refused(503, "the model is loading"))
    with pytest.raises(CallFailed, match=r"answered 503: .*model is loading") as info:
        await ask(endpoint)
    assert ("unreachable", 503) == (info.value.failure, info.value.status)


def test_the_package_is_imported_only_when_a_judge_is_needed() -> None:
    """Commands that need no judge start without it."""
    import subprocess

    code = "import sys, trialog.engine.judges.judge; sys.exit('openai' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
