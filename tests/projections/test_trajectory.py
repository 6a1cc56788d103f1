"""trajectory.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from helpers.given import Item, action, agent_finished, at, slot, started, trial, view
from trialog.events.kinds import AgentMessage, AgentStarted, EnvironmentReset, ModelCalled
from trialog.events.kinds.parts import AppState, Usage
from trialog.events.values import blob_ref
from trialog.projections.trajectory import trajectory, trajectory_blobs

SCHEMA = Draft202012Validator(
    json.loads(Path(__file__).with_name("atif-1.7.schema.json").read_text("utf-8"))
)


def of(*items: Item, blobs: dict[str, bytes] | None = None) -> dict[str, Any]:
    """The file, read back; valid, with steps numbered from 1 and every result's call there."""
    assert {ref.blob for ref in trajectory_blobs(view(*items))} == (blobs or {}).keys()
    found = json.loads(trajectory(view(*items), blobs or {}))
    assert [] == [error.message for error in SCHEMA.iter_errors(found)]
    assert list(range(1, len(found["steps"]) + 1)) == [step["step_id"] for step in found["steps"]]
    for step in found["steps"]:
        calls = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        results = step.get("observation", {"results": []})["results"]
        assert {r["source_call_id"] for r in results if "source_call_id" in r} <= calls
    return found


def steps(*items: Item, blobs: dict[str, bytes] | None = None) -> list[dict[str, Any]]:
    """The steps of a trial in which these happened."""
    return of(started(), *items, blobs=blobs)["steps"]


def say(role: Any, text: Any, **changes: Any) -> AgentMessage:
    """A message."""
    return AgentMessage(role=role, text=text, **changes)


def called(**changes: Any) -> ModelCalled:
    """A model call."""
    known: dict[str, Any] = {
        "model": "m", "request": {}, "usage": Usage(), "started_at": at(2), "latency": 0.5,
        "retries": 0,
    }  # fmt: skip
    return ModelCalled(**(known | changes))


def test_the_schema_refuses_what_is_wrong() -> None:
    """The schema that these tests check against can say no."""
    found = of(*trial())
    for change in ({"schema_version": "ATIF-v9"}, {"steps": []}, {"more": 1}, {"agent": {}}):
        assert list(SCHEMA.iter_errors(found | change))
    step = found["steps"][0]
    for wrong in ({"source": "user"}, {"source": "tool"}, {"message": None}, {"step_id": 0}):
        assert list(SCHEMA.iter_errors(found | {"steps": [step | wrong]}))


def test_the_whole() -> None:
    """The file says which format, run and agent it is of."""
    found = of(
        started(slot=slot(model="m")),
        AgentStarted(name="chat", version="1.2"),
        called(usage=Usage(input_tokens=10, output_tokens=2, cached_tokens=1, cost_usd=0.5)),
    )

    steps = found.pop("steps")
    assert {
        "schema_version": "ATIF-v1.7",
        "session_id": "t__00000001",
        "trajectory_id": "t__00000001",
        "agent": {"name": "oracle", "version": "1.2", "model_name": "m"},
        "final_metrics": {
            "total_prompt_tokens": 10, "total_completion_tokens": 2, "total_cached_tokens": 1,
            "total_cost_usd": 0.5, "total_steps": 1,
        },
        "extra": {"job": "j", "task": "t"},
    } == found  # fmt: skip
    assert 1 == len(steps)


def test_an_agent_without_a_version() -> None:
    """The format wants a version; an agent that has none is of an unknown one."""
    assert {"name": "oracle", "version": "unknown"} == of(*trial())["agent"]


def test_the_model_that_the_agent_names() -> None:
    """Where the slot names no model, the agent's own word holds."""
    found = of(started(), AgentStarted(name="chat", model="m"))

    assert "m" == found["agent"]["model_name"]


def test_a_trial_without_steps() -> None:
    """The format wants a step; one that says so stands for none, and the notes explain it."""
    found = of(started())

    assert ["system"] == [step["source"] for step in found["steps"]]
    assert "No step" in found["notes"]
    assert "notes" not in of(*trial())


def test_messages() -> None:
    """Messages keep their roles; what the agent thought stands beside what it said."""
    assert [
        {"step_id": 1, "source": "system", "message": "be good", "timestamp": at(2)},
        {"step_id": 2, "source": "user", "message": "do it", "timestamp": at(3)},
        {
            "step_id": 3, "source": "agent", "message": "done", "timestamp": at(4),
            "reasoning_content": "easy",
        },
    ] == steps(
        say("system", "be good"), say("user", "do it"), say("assistant", "done", reasoning="easy")
    )  # fmt: skip


def test_an_action_is_a_tool_call() -> None:
    """An action stands with its arguments, and what came of it under the same id."""
    (step,) = steps(("a1", action(tool_call="c1", turn=4)))

    assert {
        "step_id": 1, "source": "agent", "message": "", "timestamp": at(4),
        "tool_calls": [{
            "tool_call_id": "c1", "function_name": "run", "arguments": {"command": "true"},
            "extra": {
                "app": "shell", "duration_sec": 0.5, "event_id": "a1", "observed_by": "host",
            },
        }],
        "observation": {"results": [{"source_call_id": "c1", "content": "ok"}]},
    } == step  # fmt: skip


def test_an_action_without_a_call_id() -> None:
    """Where no tool call asked for it, the event's id stands for one."""
    (step,) = steps(("a1", action()))

    assert "a1" == step["tool_calls"][0]["tool_call_id"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(None, {}), ({"a": 1}, {"a": 1}), (["x"], {"value": ["x"]}), ({"$$a": 1}, {"$a": 1})],
)
def test_arguments_are_an_object(arguments: Any, expected: Any) -> None:
    """The format wants an object; users' own keys are as they were."""
    (step,) = steps(action(arguments=arguments))

    assert expected == step["tool_calls"][0]["arguments"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"observation": {"n": [1]}}, {"content": '{"n":[1]}'}),
        ({"observation": ""}, {"content": ""}),
        ({"observation": None, "error": "no"}, {"content": "no", "extra": {"error": True}}),
        (
            {"observation": {"n": 1}, "error": "no"},
            {"content": "no", "extra": {"error": True, "observation": {"n": 1}}},
        ),
    ],
)
def test_observations(changes: Any, expected: Any) -> None:
    """What is no text is shown as JSON; an error is marked as one."""
    (step,) = steps(("a1", action(**changes)))

    assert [{"source_call_id": "a1"} | expected] == step["observation"]["results"]


def test_an_action_that_nothing_came_of() -> None:
    """Neither an observation nor an error: no result."""
    (step,) = steps(action(observation=None))

    assert "observation" not in step


def test_a_model_call_is_a_step() -> None:
    """A call's message, its actions and what it used are one step."""
    (step,) = steps(
        ("m1", called(model_reported="m-2026", usage=Usage(input_tokens=3, cost_usd=0.25))),
        say("assistant", "let me see", model_call="m1"),
        say("assistant", "and run it", model_call="m1", reasoning="hm"),
        action(tool_call="c1", model_call="m1"),
        action(tool_call="c2", model_call="m1"),
    )

    assert ("agent", "let me see\nand run it", "hm", "m-2026", 1, at(2)) == (
        step["source"], step["message"], step["reasoning_content"], step["model_name"],
        step["llm_call_count"], step["timestamp"],
    )  # fmt: skip
    assert {"prompt_tokens": 3, "cost_usd": 0.25} == step["metrics"]
    assert ["c1", "c2"] == [call["tool_call_id"] for call in step["tool_calls"]]
    assert 2 == len(step["observation"]["results"])


@pytest.mark.parametrize("changes", [{"error": "429"}, {"purpose": "judge"}])
def test_a_call_that_is_no_turn(changes: Any) -> None:
    """A call that failed, or was not the agent's, is no step; what it used is added up."""
    found = of(
        started(),
        called(usage=Usage(input_tokens=3), **changes),
        called(purpose="agent", usage=Usage(input_tokens=4)),
    )

    assert 1 == len(found["steps"])
    assert 7 == found["final_metrics"]["total_prompt_tokens"]


def test_actions_of_one_turn_share_a_step() -> None:
    """Where no model call is known, the turn binds a message and its actions."""
    found = steps(
        say("assistant", "both", turn=1),
        action(turn=1),
        action(turn=1),
        action(turn=2),
        say("user", "go on"),
        action(turn=2),
    )

    assert [("both", 2), ("", 1), ("go on", 0), ("", 1)] == [
        (step["message"], len(step.get("tool_calls", []))) for step in found
    ]


def test_a_tools_message() -> None:
    """What a tool said is a result of the step before it; without one it stands alone."""
    found = steps(say("tool", "boot"), say("assistant", "a"), say("tool", "b"))

    assert ["system", "agent"] == [step["source"] for step in found]
    assert [{"content": "b"}] == found[1]["observation"]["results"]


def test_the_first_observation() -> None:
    """What the environment showed first is what the agent was told."""
    known: dict[str, Any] = {"apps": {"a": AppState(state=1, control="owned")}}

    found = steps(EnvironmentReset(observation={"inbox": 3}, **known), EnvironmentReset(**known))

    assert [("user", '{"inbox":3}')] == [(step["source"], step["message"]) for step in found]


def test_the_answer_is_the_last_step() -> None:
    """The answer is said by the agent, once."""
    assert ["ok", "42"] == [
        step["message"] for step in steps(say("assistant", "ok"), agent_finished(answer=["42"]))
    ]
    assert ["42"] == [
        step["message"] for step in steps(say("assistant", "42"), agent_finished(answer=["42"]))
    ]
    assert [("user", "42"), ("agent", "42")] == [
        (step["source"], step["message"])
        for step in steps(say("user", "42"), agent_finished(answer=["42"]))
    ]
    assert ["{}"] == [step["message"] for step in steps(agent_finished(answer=[{}]))]


def test_texts_stand_in_full() -> None:
    """Texts that the log keeps as blobs are written out, whatever their bytes."""
    text, value, raw = "é" * 20_000, '{"$$k":"' + "x" * 20_000 + '"}', b"\xff" + b"y" * 20_000
    refs = [blob_ref(data) for data in (text.encode(), value.encode(), raw)]
    items: list[Item] = [
        say("assistant", refs[0], reasoning=refs[0]),
        action(observation=refs[1], arguments=refs[1]),
        action(observation=None, error=refs[2]),
        action(observation=refs[2]),
        EnvironmentReset(apps={}, observation=refs[1]),
        agent_finished(answer=[refs[1]]),
    ]
    blobs = {
        ref.blob: data for ref, data in zip(refs, (text.encode(), value.encode(), raw), strict=True)
    }

    found = steps(*items, blobs=blobs)
    assert (text, text) == (found[0]["message"], found[0]["reasoning_content"])
    call, result = found[1]["tool_calls"][0], found[1]["observation"]["results"]
    assert {"$k": "x" * 20_000} == call["arguments"]
    assert '{"$k":"' + "x" * 20_000 + '"}' == result[0]["content"]
    assert "\ufffd" + "y" * 20_000 == result[1]["content"] == result[2]["content"]


def test_small_texts_need_no_blob() -> None:
    """Nothing is read that is not needed."""
    assert [] == list(trajectory_blobs(view(*trial())))
