"""A trial to make training data of: parallel calls, a call made again, a shortened context."""

from __future__ import annotations

from typing import Any

from helpers.given import (
    Item,
    action,
    agent_finished,
    at,
    scored,
    started,
    step_rewarded,
    trial_scored,
    verifier_started,
)
from trialog.events.kinds import (
    AgentMessage,
    AgentStarted,
    EnvironmentReset,
    EpisodeEnded,
    HindsightCredited,
    ModelCalled,
    TrialFinished,
    TrialUnscored,
    VerifierApplied,
    VerifierFailed,
)
from trialog.events.kinds.parts import AppState, StateChange, Target, Usage

STEPS = ["s1", "s2", "s3a", "s3b", "s4", "s5", "s6"]


def called(turn: int | None, **changes: Any) -> ModelCalled:
    """The model answered."""
    known: dict[str, Any] = {
        "model": "m-1", "request": {"messages": []}, "response": {"text": "…"}, "usage": Usage(),
        "started_at": at(3), "latency": 0.25, "retries": 0, "turn": turn,
    }  # fmt: skip
    return ModelCalled(**(known | changes))


def step(id: str, turn: int, **changes: Any) -> tuple[str, Any]:
    """The counter goes up by one."""
    known: dict[str, Any] = {
        "turn": turn, "app": "counter", "action": "add", "arguments": {"n": 1},
        "observation": turn, "tool_call": f"call-{id}", "model_call": f"m{turn}",
        "states": {"counter": StateChange(full=[{"value": turn}])},
    }  # fmt: skip
    return (id, action(**(known | changes)))


def played() -> list[Item]:
    """Six turns: two calls in the third, a call made again in the second, and a context that is
    shortened before the fifth."""
    failed = called(2, error="connection reset", response=None)
    return [
        EnvironmentReset(
            apps={"counter": AppState(state={"value": 0}, control="owned")}, seed=7,
            observation="count up",
        ),
        ("m1", called(1)),
        AgentMessage(role="assistant", text="one", model_call="m1", turn=1),
        step("s1", 1),
        step_rewarded("s1", 0.5, app="counter"),
        ("m2-lost", failed),
        ("m2", called(2, retries=1)),
        step("s2", 2),
        step_rewarded("s2", 0.25, app="counter"),
        ("m3", called(3)),
        step("s3a", 3),
        step("s3b", 3),
        ("m4", called(4)),
        step("s4", 4),
        ("m-short", called(None, purpose="compaction")),
        ("m5", called(5)),
        step("s5", 5),
        step_rewarded("s5", 0.125, app="counter"),
        ("m6", called(6)),
        step("s6", 6),
        EpisodeEnded(
            apps={"counter": {"value": 6}}, terminated=False, truncated=True, reason="max_seconds"
        ),
    ]  # fmt: skip


def ran(*middle: Item, **changes: Any) -> list[Item]:
    """A finished trial around what happened in it, with the reward 1.0 at its end."""
    return [
        started(**changes),
        AgentStarted(name="chat"),
        *middle,
        agent_finished(ended_by="max_seconds", exit_code=None),
        verifier_started(verifier="exact", verifier_kind="deterministic", version="1.0.0"),
        ("verdict", scored(1.0, verifier="exact", verifier_kind="deterministic", version="1.0.0")),
        trial_scored(1.0),
        TrialFinished(outcome="scored"),
    ]


def broken(*middle: Item, **changes: Any) -> list[Item]:
    """The same, but its verifier raised."""
    return [
        started(**changes),
        AgentStarted(name="chat"),
        *middle,
        agent_finished(ended_by="max_seconds", exit_code=None),
        verifier_started(verifier="exact", verifier_kind="deterministic", version="1.0.0"),
        VerifierFailed(
            verifier="exact", verifier_kind="deterministic", version="1.0.0", weight=1.0,
            digest="sha256:" + "b" * 64, error="KeyError: 'done'", category="verifier_error",
            infrastructure=False, duration=0.5,
        ),
        TrialUnscored(
            error="KeyError: 'done'", category="verifier_error", infrastructure=False
        ),
        TrialFinished(outcome="unscored"),
    ]  # fmt: skip


def credit(event: str, value: float, **changes: Any) -> HindsightCredited:
    """Credit in hindsight by verifier `h`."""
    known: dict[str, Any] = {
        "verifier": "h", "version": "1", "digest": "sha256:h", "value": value, "weight": 1.0,
        "target": Target(target="step", event_id=event), "space": "action", "app": "counter",
    }  # fmt: skip
    return HindsightCredited(**(known | changes))


def labelled(version: str, credits: dict[str, float], verifier: str = "h") -> list[Item]:
    """A later label: one application of a verifier's version."""
    id = f"{verifier}@{version}"
    known: dict[str, Any] = {"verifier": verifier, "version": version, "digest": f"sha256:{id}"}
    return [
        (id, VerifierApplied(verifier_kind="deterministic", **known)),
        *(credit(event, value, applied=id, **known) for event, value in credits.items()),
    ]
