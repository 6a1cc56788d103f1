"""steps.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.given import (
    Item,
    action,
    agent_finished,
    at,
    started,
    step_rewarded,
    trial,
    view,
)
from trialog.events.errors import LogCorrupt
from trialog.events.kinds import AgentMessage, EnvironmentReset, StepRewardFailed, TrialFinished
from trialog.events.kinds.parts import AppState, StateChange
from trialog.events.values import blob_ref
from trialog.projections.steps import state_blobs, steps

FIELDS = (
    "event_id turn app action arguments observation error previous_state current_state rewards "
    "started_at duration_sec"
).split()


def lines(*items: Item, blobs: dict[str, bytes] | None = None) -> list[dict[str, Any]]:
    """The file, read back."""
    return [json.loads(line) for line in steps(view(*items), blobs or {}).splitlines()]


def reset(**states: Any) -> EnvironmentReset:
    """Apps in these states."""
    return EnvironmentReset(
        apps={name: AppState(state=state, control="owned") for name, state in states.items()}
    )


def act(app: str = "counter", **changes: Any) -> Any:
    """An action on an app that changed these apps."""
    return action(app=app, action="add", **changes)


def states(*items: Item, blobs: dict[str, bytes] | None = None) -> list[tuple[Any, Any]]:
    """Each step's states."""
    return [
        (line["previous_state"], line["current_state"])
        for line in lines(started(), *items, blobs=blobs)
    ]


def test_every_field_is_there_in_its_order() -> None:
    """All fields in the documented order, null where there is nothing to say."""
    (line,) = lines(*trial())

    assert FIELDS == list(line)


def test_a_line_an_action() -> None:
    """Each action is a line, in order, with what it was and what came of it."""
    found = lines(
        started(),
        ("a1", action(turn=1, duration=0.1234567)),
        AgentMessage(role="assistant", text="hm"),
        ("a2", action(turn=2, observation=None, error="no such file", arguments=None)),
    )

    assert [
        {
            "event_id": "a1", "turn": 1, "app": "shell", "action": "run",
            "arguments": {"command": "true"}, "observation": "ok", "error": None,
            "previous_state": None, "current_state": None, "rewards": [],
            "started_at": at(4), "duration_sec": 0.123457,
        },
        {
            "event_id": "a2", "turn": 2, "app": "shell", "action": "run",
            "arguments": None, "observation": None, "error": "no such file",
            "previous_state": None, "current_state": None, "rewards": [],
            "started_at": at(4), "duration_sec": 0.5,
        },
    ] == found  # fmt: skip


def test_no_action_is_an_empty_file() -> None:
    """Without an action the file is there, and empty."""
    assert b"" == steps(view(started()), {})


def test_rewards_of_a_step() -> None:
    """A step has what each verifier gave it, or why it gave nothing."""
    failed = StepRewardFailed(
        verifier="care", version="2.0.0", digest="d", step="a1", error="KeyError: 1", line="v.py:3"
    )

    (line,) = lines(started(), ("a1", action()), step_rewarded("a1", 0.5), failed)

    assert [
        {"verifier": "progress", "version": "1.0.0", "value": 0.5, "error": None},
        {"verifier": "care", "version": "2.0.0", "value": None, "error": "KeyError: 1 (at v.py:3)"},
    ] == line["rewards"]  # fmt: skip


def test_frozen_at_the_end() -> None:
    """Labels that are applied later, and whatever else comes, change no byte."""
    run = [started(), ("a1", action()), TrialFinished(outcome="scored")]
    before = steps(view(*run), {})
    failed = StepRewardFailed(
        verifier="care", version="2.0.0", digest="d", step="a1", error="e", applied="x"
    )

    after = steps(view(*run, step_rewarded("a1", 0.5, applied="x"), failed, action()), {})

    assert before == after


def test_states_in_full() -> None:
    """A step has the acting app's state before and after it."""
    assert [({"n": 0}, {"n": 1}), ({"n": 1}, {"n": 1})] == states(
        reset(counter={"n": 0}),
        act(states={"counter": StateChange(full=[{"n": 1}])}),
        act(),
    )


def test_states_from_patches() -> None:
    """A state is rebuilt from the last one in full and the patches since."""
    assert [
        ({"n": 0, "log": []}, {"n": 1, "log": []}),
        ({"n": 1, "log": []}, {"n": 1, "log": ["x"]}),
    ] == states(
        reset(counter={"n": 0, "log": []}),
        act(states={"counter": StateChange(patch=[{"op": "replace", "path": "/n", "value": 1}])}),
        act(states={"counter": StateChange(patch=[{"op": "add", "path": "/log/-", "value": "x"}])}),
    )


def test_keys_of_a_state_keep_their_order() -> None:
    """A rebuilt state has its keys in the order in which the app had them."""
    change = StateChange(patch=[{"op": "replace", "path": "/b", "value": 2}])

    written = steps(
        view(started(), reset(counter={"b": 1, "a": 1}), act(states={"counter": change})), {}
    )

    assert b'"current_state":{"b":2,"a":1}' in written


def test_a_state_of_null_is_one() -> None:
    """A state that is null is told from none; both show as null, and a patch can follow it."""
    change = StateChange(patch=[{"op": "replace", "path": "", "value": 1}])

    assert [(1, None), (None, 1)] == states(
        reset(counter=1),
        act(states={"counter": StateChange(full=[None])}),
        act(states={"counter": change}),
    )


def test_an_action_that_changed_another_app() -> None:
    """A step shows the acting app; another app's change shows when that one acts."""
    assert [(1, 1), (5, 5)] == states(
        reset(a=1, b=2), act("a", states={"b": StateChange(full=[5])}), act("b")
    )


def test_an_app_without_a_state() -> None:
    """What has no state, such as the shell, has null."""
    assert [(None, None)] == states(reset(counter=1), act("shell"))


def test_an_app_that_appears_later() -> None:
    """An app that was not there at the reset has no state before its first."""
    assert [(None, 3)] == states(act(states={"counter": StateChange(full=[3])}))


BIG = {"text": "x" * 20_000, "n": 1}
DATA = msgspec.json.encode(BIG)
REF = blob_ref(DATA)
NAMED = {"$blob": REF.blob, "size": REF.size}


@pytest.mark.parametrize("full", [[REF], REF])
def test_large_states_stay_blobs(full: Any) -> None:
    """A state over 16 KiB stays the name of its blob, and its bytes are not asked for."""
    items: list[Item] = [reset(counter=REF), act(states={"counter": StateChange(full=full)})]

    assert [(NAMED, NAMED)] == states(*items)
    assert [] == state_blobs(view(started(), *items))


def test_a_patch_on_a_large_state() -> None:
    """A state that shrinks below 16 KiB by a patch is rebuilt from the blob."""
    small = [{"op": "replace", "path": "/text", "value": ""}]
    more = [{"op": "replace", "path": "/n", "value": 2}]
    items: list[Item] = [
        started(),
        reset(counter=REF),
        act(states={"counter": StateChange(patch=small)}),
        act(states={"counter": StateChange(patch=more)}),
    ]

    assert [REF] == state_blobs(view(*items))
    assert [(NAMED, {"text": "", "n": 1}), ({"text": "", "n": 1}, {"text": "", "n": 2})] == states(
        *items[1:], blobs={REF.blob: DATA}
    )


def test_large_values_stay_blobs() -> None:
    """Arguments, observations and errors over 16 KiB stay the names of their blobs."""
    (line,) = lines(started(), action(arguments=REF, observation=REF, error=REF))

    assert [NAMED] * 3 == [line["arguments"], line["observation"], line["error"]]


def test_a_forged_reference_is_no_reference() -> None:
    """A user's own `$blob` key stays escaped, so that it can't be taken for a blob."""
    (line,) = lines(started(), action(observation={"$$blob": "sha256:0", "size": 1}))

    assert {"$$blob": "sha256:0", "size": 1} == line["observation"]


def test_a_malformed_reference_names_no_blob() -> None:
    """What only looks like a reference is a value."""
    odd = {"$blob": 5, "size": "x"}

    assert [] == state_blobs(view(started(), reset(counter=odd)))
    assert [(odd, odd)] == states(reset(counter=odd), act())


@pytest.mark.parametrize("before", [[], [reset(counter={"m": 1})]])
def test_a_patch_that_does_not_fit(before: list[Item]) -> None:
    """A patch on a state that it was not made for is a fault of the log, named by its event."""
    change = StateChange(patch=[{"op": "remove", "path": "/n"}])

    with pytest.raises(LogCorrupt, match=r"event a1.*'counter'"):
        steps(view(started(), *before, ("a1", act(states={"counter": change}))), {})


def test_rendering_twice_gives_the_same_bytes() -> None:
    """Rendering changes nothing in what it reads."""
    change = StateChange(patch=[{"op": "add", "path": "/log", "value": {"x": []}}])
    push = StateChange(patch=[{"op": "add", "path": "/log/x/-", "value": 1}])
    found = view(
        started(),
        reset(counter={"n": 0}),
        act(states={"counter": change}),
        act(states={"counter": push}),
        agent_finished(),
    )

    assert steps(found, {}) == steps(found, {})


def test_a_second_reset_starts_anew() -> None:
    """A world that was made again after an interruption is the one that counts."""
    assert [({"n": 5}, {"n": 5})] == states(reset(counter={"n": 0}), reset(counter={"n": 5}), act())


def test_every_field_is_documented() -> None:
    """docs/files.md names every field."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "files.md").read_text("utf-8")

    assert [] == [field for field in FIELDS if f"`{field}`" not in page]
