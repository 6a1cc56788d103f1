"""Model calls that are answered from a record."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.judges import Answer, completion
from helpers.models import FakeModel, calling
from trialog.engine.agents.chat.agent import ContextNotes
from trialog.engine.agents.chat.calls import ModelFailed, Stopped
from trialog.engine.agents.chat.talk import Said, Talk, Tool, Wanted
from trialog.engine.models.client import CallFailed, CutOff
from trialog.engine.models.models import ModelLimits, Models
from trialog.engine.models.prices import Price
from trialog.engine.models.recorded import call_blobs, recorded_calls
from trialog.engine.models.replaying import Recording, ReplayClient
from trialog.engine.redact import Redactor
from trialog.events.clock import SystemClock
from trialog.events.codec import encode
from trialog.events.kinds import ModelCalled
from trialog.events.memory import MemoryLog

ADD = Tool(name="add", description="Adds.", parameters={"type": "object"})
LONG = "x" * 40_000
"""So long that it becomes a blob."""


class Record:
    """What a conversation left in a log."""

    def __init__(self) -> None:
        self.blobs = MemoryLog().blobs
        self.calls: list[tuple[str, ModelCalled]] = []
        self.model: Any = None

    def emit(self, event: Any) -> str:
        """Keep it, as a log would; its id."""
        encode(event)
        if isinstance(event, ModelCalled):
            self.calls.append((f"e{len(self.calls) + 1}", event))
        return f"e{len(self.calls)}"

    async def client(self, **settings: Any) -> ReplayClient:
        """A client that is answered from it."""
        calls = await recorded_calls(self.calls, self.blobs)
        settings = {"clean": lambda value: value} | settings
        self.recording = Recording("t__1", calls, self.blobs, **settings)
        return ReplayClient(self.recording)


async def converse(
    client: Any, *results: str, record: Record | None = None, **settings: Any
) -> tuple[Any, Record]:
    """Let a model call tools that give these results: how it ended, and its record."""
    record = record or Record()
    models = Models(client, prices={"m": Price(input=1.0, output=1.0)})
    notes = ContextNotes(record.blobs, record.emit)
    talk = Talk("m", models, [ADD], notes, SystemClock(), **settings)
    told = list(results)
    try:
        await talk.begin("Work.", "Go.")
        while isinstance(wanted := await talk.next(), Wanted):
            talk.answer(wanted.call, told.pop(0))
    except (Stopped, ModelFailed) as ended:
        return ended, record
    return wanted, record


def replies(*more: Any) -> FakeModel:
    """A model that adds twice, then does this."""
    return FakeModel(calling(("add", {"n": 1})), calling(("add", {"n": 2})), *more)


async def test_a_conversation_is_answered_from_its_record() -> None:
    """The same requests get the same replies, whole requests are put together from what is new in
    each, and blobs are read; each call names the recorded one, and cost nothing."""
    model = replies(Answer("{"), completion("Done."))
    first, record = await converse(model, LONG, "b", parameters={"temperature": 0.5})
    calls = await recorded_calls(record.calls, record.blobs)
    assert model.requests == [call.request for call in calls]
    client = await record.client()
    again, copy = await converse(client, LONG, "b", parameters={"temperature": 0.5})
    assert Said("Done.") == first == again
    assert 0 == record.recording.left
    assert ["e1", "e2", "e3", "e4"] == [call.replayed for _, call in copy.calls]
    assert [0.0] * 4 == [call.usage.cost_usd for _, call in copy.calls]
    assert [(120, 30), (120, 30), (None, None), (120, 30)] == [
        (call.usage.input_tokens, call.usage.output_tokens) for _, call in copy.calls
    ]
    assert [call.response for _, call in record.calls] == [c.response for _, c in copy.calls]


STEPS = st.lists(
    st.one_of(
        st.text(max_size=20).map(lambda text: calling(("add", {"n": text}), ("add", {"m": text}))),
        st.sampled_from([
            calling(("add", '{"n"')), calling(("fly", {})), Answer("{"), Answer('{"choices": []}'),
            calling(("add", {"$blob": "x", "$": 1})), completion("Done."),
            completion("half", finish_reason="length"),
        ]),
        st.sampled_from([
            CallFailed("the endpoint answered 500: no", "unreachable", status=500, retries=5),
            CallFailed("the endpoint won't take the request: no", "rejected", status=400),
        ]),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@given(STEPS, st.text(max_size=30), st.sampled_from([{}, {"top_p": 1.0}, {"$x": {"$blob": 1}}]))
async def test_whatever_was_recorded_is_replayed(
    steps: list[Any], result: str, parameters: dict[str, Any]
) -> None:
    """The same end, the same requests, the same replies; nothing is left, nothing differs."""
    model = FakeModel(*steps, completion("The end."))
    results = [result] * 20
    first, record = await converse(model, *results, parameters=parameters)
    client = await record.client()
    again, copy = await converse(client, *results, parameters=parameters)
    assert (type(first), str(first)) == (type(again), str(again))
    assert (0, None) == (record.recording.left, record.recording.differs)
    assert [(c.request["messages"], c.response, c.error) for _, c in record.calls] == [
        (c.request["messages"], c.response, c.error) for _, c in copy.calls
    ]


@pytest.mark.parametrize(
    ("results", "settings", "call", "words"),
    [
        (("a", "B"), {}, 3, "messages[5].content is 'B', and was 'b'"),
        (("a", "b"), {"parameters": {"top_p": 1}}, 1, "top_p is '1', and was not there"),
    ],
)
async def test_the_first_call_that_differs(
    results: Any, settings: Any, call: int, words: str
) -> None:
    """It ends the replay, says what differs, and both requests are kept whole."""
    _, record = await converse(replies(completion("Done.")), "a", "b")
    client = await record.client()
    ended, copy = await converse(client, *results, **settings)
    assert isinstance(ended, ModelFailed)
    assert "replay_differs" == ended.category
    assert f"model call {call} is not the recorded one of trial t__1: {words}" == str(ended)
    _, last = copy.calls[-1]
    assert last.difference is not None
    assert (0, "differs", call, f"e{call}", "t__1") == (
        last.usage.model_calls, last.failure, last.difference.call, last.difference.event,
        last.difference.trial,
    )  # fmt: skip
    assert last.difference.request_recorded is not None
    before, now = [
        json.loads(await record.blobs.get(ref))
        for ref in (last.difference.request_recorded, last.difference.request_now)
    ]
    assert before == (await recorded_calls(record.calls, record.blobs))[call - 1].request
    assert before != now
    with pytest.raises(CallFailed, match="the replay ended before"):
        await client.complete({"model": "m"})


async def test_more_calls_than_were_recorded() -> None:
    """The record has no answer to them, and only the new request is kept."""
    _, record = await converse(replies(completion("Done.")), "a", "b")
    shorter = Record()
    shorter.blobs, shorter.calls = record.blobs, record.calls[:2]
    ended, copy = await converse(await shorter.client(), "a", "b")
    assert "model call 3 is not in the record: trial t__1 made 2" == str(ended)
    _, last = copy.calls[-1]
    assert last.difference is not None
    assert (None, None) == (last.difference.event, last.difference.request_recorded)


async def test_fewer_calls_than_were_recorded() -> None:
    """How many are left is known."""
    _, record = await converse(replies(completion("Done.")), "a", "b")
    client = await record.client()
    ended, _ = await converse(client, "a", "b", limits=ModelLimits(turns=2))
    assert isinstance(ended, Stopped)
    assert 1 == record.recording.left


@pytest.mark.parametrize(
    "failed",
    [
        CallFailed("the endpoint answered 500: no", "unreachable", status=500, retries=5),
        CallFailed("the endpoint refuses the key: no", "unavailable", status=401),
        CallFailed("the endpoint won't take the request: no", "rejected", status=400),
        CallFailed("the endpoint won't take the request: x", "rejected", status=413),
        CallFailed("the endpoint won't take it", "rejected", code="context_length_exceeded"),
    ],
)
async def test_a_failure_is_replayed_as_what_it_was(failed: CallFailed) -> None:
    """In words, in kind, and in how often it was tried; the agent ends as it did."""
    first, record = await converse(replies(failed), "a", "b")
    again, copy = await converse(await record.client(), "a", "b")
    assert (type(first), str(first), first.category) == (type(again), str(again), again.category)
    (_, before), (_, after) = record.calls[-1], copy.calls[-1]
    assert (before.error, before.failure, before.status, before.code, before.retries) == (
        after.error, after.failure, after.status, after.code, after.retries,
    )  # fmt: skip
    assert ("e3", 0.0) == (after.replayed, after.usage.cost_usd)


async def test_a_limit_on_cost_ends_a_replay_where_it_ended_the_trial() -> None:
    """Limits count what the recorded calls used, though nothing is paid."""
    limits = ModelLimits(cost=0.0002)
    first, record = await converse(replies(completion("Done.")), "a", "b", limits=limits)
    again, _ = await converse(await record.client(), "a", "b", limits=limits)
    assert isinstance(first, Stopped)
    assert ("max_cost", str(first)) == (again.ended_by, str(again))


async def test_a_call_that_was_cut_off_ends_the_agent_as_it_did() -> None:
    """Without the wait: the record says what had ended it."""
    _, record = await converse(replies(CallFailed("the call was cut off", "cut_off")), "a", "b")
    ended, _ = await converse(
        await record.client(cut_off=CutOff("agent_timeout", "agent_timeout")), "a", "b"
    )
    assert isinstance(ended, Stopped)
    assert ("agent_timeout", "agent_timeout") == (ended.ended_by, ended.category)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ("the call was cut off", "cut_off"),
        ("the endpoint refuses the key: no", "unavailable"),
        ("the endpoint won't take the request: no", "rejected"),
        ("the endpoint answered 500: no", "unreachable"),
    ],
)
async def test_failures_of_the_first_logs(error: str, failure: str) -> None:
    """They have no word for how a call failed but those of the error."""
    _, record = await converse(replies(CallFailed(error, "unreachable")), "a", "b")
    (event, call) = record.calls[-1]
    old = msgspec.structs.replace(call, failure=None)
    [*_, last] = await recorded_calls([*record.calls[:-1], (event, old)], record.blobs)
    assert failure == last.failure


async def test_requests_are_compared_as_a_log_has_them() -> None:
    """What is a secret was redacted in the record, and is so before it is compared."""
    redactor = Redactor({"TOKEN": "very-secret"})
    _, record = await converse(replies(completion("Done.")), "it is [redacted:TOKEN]", "b")
    client = await record.client(clean=redactor.value)
    again, _ = await converse(client, "it is very-secret", "b")
    assert Said("Done.") == again


async def test_the_blobs_of_a_call_are_known() -> None:
    """So that a record with a part missing can be refused beforehand."""
    _, record = await converse(FakeModel(calling(("add", {})), completion(LONG)), LONG)
    assert [0, 2] == [len(list(call_blobs(call))) for _, call in record.calls]
