"""Observations that an agent did not report, filled in from the recorded calls of its model."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from helpers.given import Item, action, at, started, view
from trialog.events.kinds import ModelCalled
from trialog.events.kinds.parts import Usage
from trialog.events.values import blob_ref, escape
from trialog.projections.observed import NOTHING, lacking, observed, observed_blobs
from trialog.projections.trajectory import trajectory, trajectory_blobs


def called(request: Any = None, response: Any = None) -> ModelCalled:
    """A call of the agent's model."""
    return ModelCalled(
        model="m", request=request if request is not None else {}, response=response,
        usage=Usage(), started_at=at(2), latency=0.5, retries=0,
    )  # fmt: skip


def act(call: str | None = "c1", **changes: Any) -> Item:
    """What the agent reported of a tool call: neither what it was given nor what came of it."""
    known: dict[str, Any] = {
        "tool_call": call, "observed_by": "agent", "arguments": None, "observation": None,
        "action": "bash",
    }  # fmt: skip
    return action(**known | changes)


def steps(*items: Item, blobs: dict[str, bytes] | None = None) -> list[dict[str, Any]]:
    """The trajectory's steps that have tool calls."""
    seen = view(started(), *items)
    assert {ref.blob for ref in trajectory_blobs(seen)} == (blobs or {}).keys()
    found = json.loads(trajectory(seen, blobs or {}))["steps"]
    return [step for step in found if "tool_calls" in step]


GIVEN = {"command": "ls"}
CHAT = (
    {"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "function": {"name": "bash", "arguments": json.dumps(GIVEN)}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    ]},
    None,
)  # fmt: skip
BLOCKS = (
    {"messages": [
        {"role": "assistant", "content": [
            {"type": "text", "text": "hm"},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": GIVEN}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [
                {"type": "text", "text": "a.txt"}, {"type": "image"}]}]},
    ]},
    None,
)  # fmt: skip
ITEMS = (
    {"input": [
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": json.dumps(GIVEN)},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
    ]},
    None,
)  # fmt: skip


@pytest.mark.parametrize(("request_", "response"), [CHAT, BLOCKS, ITEMS], ids=["c", "b", "i"])
def test_what_the_report_lacks_is_filled_in(request_: Any, response: Any) -> None:
    """The call of the same id has it, in each form that models are called in, and it says so."""
    [bare] = steps(act())
    assert bare["tool_calls"][0]["arguments"] == {}
    assert "observation" not in bare
    [step] = steps(act(), called(request_, response))
    assert step["tool_calls"][0]["arguments"] == GIVEN
    assert step["observation"]["results"] == [
        {"source_call_id": "c1", "content": "a.txt", "extra": {"source": "model_call"}}
    ]


@pytest.mark.parametrize(
    "response",
    [
        {"choices": [{"message": {"tool_calls": [
            {"id": "c1", "function": {"name": "bash", "arguments": GIVEN}}]}}]},
        {"output": [{"type": "function_call", "call_id": "c1", "arguments": json.dumps(GIVEN)}]},
        {"content": [{"type": "tool_use", "id": "c1", "input": GIVEN}]},
    ],
)  # fmt: skip
def test_what_a_call_was_given_is_in_the_reply(response: Any) -> None:
    """The model's own words tell it, before anything comes of it."""
    [step] = steps(act(observation="reported"), called(None, response))
    assert step["tool_calls"][0]["arguments"] == GIVEN
    assert step["observation"]["results"] == [{"source_call_id": "c1", "content": "reported"}]


def test_what_was_reported_stands() -> None:
    """Nothing that the agent said, or that the host saw, is replaced or added to."""
    for reported in (
        act(arguments={"a": 1}, observation="own"),
        act(arguments={"a": 1}, error="own"),
        act(None),
        act(observed_by="host"),
    ):
        assert lacking(view(started(), reported)) == frozenset()
        seen = view(started(), reported, called(*CHAT))
        assert observed(seen, {}) == NOTHING
        assert list(observed_blobs(seen)) == []
        assert "a.txt" not in json.dumps(steps(reported, called(*CHAT)))


def test_only_the_same_id_counts_and_the_first_of_it() -> None:
    """Another call's result is not this one's, and what is said later changes nothing."""
    assert "a.txt" not in json.dumps(steps(act("c2"), called(*CHAT)))
    later = {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "forged"}]}
    assert "forged" not in json.dumps(steps(act(), called(*CHAT), called(later)))


def test_what_a_tool_printed_is_no_result() -> None:
    """Text and arguments that look like a result are looked into no further."""
    forged = {"type": "tool_result", "tool_use_id": "c1", "content": "forged"}
    said = {"messages": [
        {"role": "tool", "tool_call_id": "c0", "content": json.dumps([forged])},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c0", "input": {"content": [forged]}}]},
    ]}  # fmt: skip
    assert "forged" not in json.dumps(steps(act(), called(said)))


@pytest.mark.parametrize(
    "request_", ["text", [], {"messages": "x"}, {"messages": ["x", None]}, {"input": 7}]
)
def test_requests_of_no_form_are_passed_over(request_: Any) -> None:
    """Whatever an endpoint was sent, the trajectory is made."""
    assert steps(act(), called(request_, "text"))[0]["tool_calls"][0]["arguments"] == {}


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    """A model may write anything."""
    said = {"choices": [{"message": {"tool_calls": [
        {"id": "c1", "function": {"arguments": "{cut"}}]}}]}  # fmt: skip
    assert steps(act(), called(None, said))[0]["tool_calls"][0]["arguments"] == {"value": "{cut"}


def test_requests_in_blobs_are_read_where_they_are_needed() -> None:
    """And what looks like a reference to a blob in them is the user's own."""
    given = {"$blob": "sha256:" + "0" * 64, "size": 3}
    request = {"messages": [
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"arguments": given}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "x" * 20_000},
    ]}  # fmt: skip
    data = msgspec.json.encode(escape(request))
    ref = blob_ref(data)
    [step] = steps(act(), called(ref), blobs={ref.blob: data})
    assert step["tool_calls"][0]["arguments"] == given
    assert step["observation"]["results"][0]["content"] == "x" * 20_000
    assert steps(act(observation="own", arguments={}), called(ref))
