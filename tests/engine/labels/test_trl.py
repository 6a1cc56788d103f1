"""Training data as TRL reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from helpers.given import (
    Item,
    action,
    agent_finished,
    recorded,
    scored,
    started,
    trial,
    trial_scored,
)
from helpers.training import STEPS, broken, called, labelled, played, ran
from trialog.engine.labels.asof import AsOf
from trialog.engine.labels.ledger import ledger_of
from trialog.engine.labels.trl import trl_row
from trialog.events.kinds import AgentMessage, AgentStarted, TrialFinished

TRL_KEYS = {"prompt", "chosen", "rejected", "completion", "messages", "label"}
"""Keys that decide for TRL what kind of data a row is."""


def made(items: list[Item], moment: AsOf | None = None, instructions: str = "") -> dict[str, Any]:
    """The row as a reader has it."""
    found = ledger_of(recorded("trial/t__00000001", items), moment)
    assert found is not None
    row = trl_row(found, {}, instructions=instructions)
    return msgspec.json.decode(msgspec.json.encode(row))  # type: ignore[no-any-return]


def test_a_row_is_prompt_and_completion() -> None:
    """TRL takes a row for prompt and completion only if no other of its own keys is there."""
    assert {"prompt", "completion"} == made(ran(*played())).keys() & TRL_KEYS


def test_messages_have_role_and_content() -> None:
    """Every message has a role that chat templates know, and a text."""
    row = made(ran(*played()))

    for message in row["prompt"] + row["completion"]:
        assert message["role"] in {"system", "user", "assistant", "tool"}
        assert isinstance(message["content"], str)


def test_the_prompt_is_what_came_before_the_agent() -> None:
    """What was said before the agent's first message is the prompt."""
    row = made(
        ran(
            AgentMessage(role="system", text="be brief"),
            AgentMessage(role="user", text="count"),
            AgentMessage(role="assistant", text="one"),
            AgentMessage(role="user", text="go on"),
        )
    )

    assert [("system", "be brief"), ("user", "count")] == [
        (message["role"], message["content"]) for message in row["prompt"]
    ]
    assert [("assistant", "one"), ("user", "go on")] == [
        (message["role"], message["content"]) for message in row["completion"]
    ]


def test_the_tasks_instructions_stand_in() -> None:
    """Where no message is recorded, the prompt is the instructions and what was seen first."""
    items = [*trial()[:3], action(), *trial()[-5:]]
    silent = [item for item in played() if not isinstance(item, AgentMessage)]

    assert [] == made(items)["prompt"]
    assert [{"role": "user", "content": "do it"}] == made(items, instructions="do it")["prompt"]
    assert [{"role": "user", "content": "do it\n\ncount up"}] == made(
        ran(*silent), instructions="do it"
    )["prompt"]
    said = made(ran(*played()), instructions="do it")["prompt"]
    assert [{"role": "user", "content": "count up"}] == said


def test_each_step_names_its_message() -> None:
    """A step is known by its event's id and by the message that has its call."""
    row = made(ran(*played()))

    assert STEPS == row["step_ids"]
    for id, place in zip(row["step_ids"], row["step_messages"], strict=True):
        calls = row["completion"][place]["tool_calls"]
        assert f"call-{id}" in [call["id"] for call in calls]


def test_calls_in_parallel_are_one_message() -> None:
    """Two calls of one turn stand in one message, with an answer each behind it."""
    row = made(ran(*played()))
    place = row["step_messages"][2]

    assert place == row["step_messages"][3]
    assert ["assistant", "tool", "tool"] == [
        message["role"] for message in row["completion"][place : place + 3]
    ]
    assert ["call-s3a", "call-s3b"] == [
        message["tool_call_id"] for message in row["completion"][place + 1 : place + 3]
    ]


def test_rewards_are_aligned() -> None:
    """Rewards, credits and returns have one value a step, null where nothing was given."""
    row = made([*ran(*played()), *labelled("1", {"s2": 2.0})])

    assert [0.5, 0.25, None, None, None, 0.125, None] == row["step_rewards"]
    assert [None, 2.0, *[None] * 5] == row["step_credits"]
    assert 2.875 == row["step_returns"][0]
    assert (1.0, False, True) == (row["reward"], row["terminated"], row["truncated"])


def test_as_of_a_version() -> None:
    """Earlier labels can be had again here too."""
    whole = [*ran(*played()), *labelled("1", {"s2": 2.0}), *labelled("2", {"s2": 3.0})]

    assert 2.0 == made(whole, AsOf("h", "1"))["step_credits"][1]
    assert 3.0 == made(whole)["step_credits"][1]


def test_a_masked_trial_is_there() -> None:
    """A trial whose verifier failed is a row with the reason, and without a reward."""
    row = made(broken(*played()))

    assert (True, "unscored", None) == (row["masked"], row["mask_reason"], row["reward"])
    assert 7 == len(row["step_rewards"])


def test_a_call_without_an_answer() -> None:
    """Every call has an answer for the chat template, null where the action gave nothing."""
    row = made(ran(action(tool_call="c", observation=None)))

    assert ["assistant", "tool"] == [message["role"] for message in row["completion"]]
    assert "null" == row["completion"][1]["content"]


def test_reasoning_is_kept() -> None:
    """What a model reasoned stands beside its text."""
    row = made(ran(AgentMessage(role="assistant", text="one", reasoning="hm")))

    assert "hm" == row["completion"][0]["reasoning_content"]


def test_a_trial_without_steps() -> None:
    """A trial in which nothing was done is an empty conversation."""
    items: list[Item] = [
        started(), AgentStarted(name="nop"), agent_finished(), scored(0.0), trial_scored(0.0),
        TrialFinished(outcome="scored"),
    ]  # fmt: skip

    assert ([], []) == (made(items)["prompt"], made(items)["completion"])


def test_credits_of_calls() -> None:
    """Credit for a model call is in the flat list, under the call's own id."""
    row = made([*ran(("m1", called(1)), action(model_call="m1")), *labelled("1", {"m1": 0.5})])

    assert [("m1", "h", 0.5)] == [
        (one["event_id"], one["verifier"], one["value"]) for one in row["credited"]
    ]
