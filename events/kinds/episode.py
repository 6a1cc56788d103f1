"""What an agent did: the steps, calls and messages between its start and its end."""

from __future__ import annotations

from typing import Literal

from ..payload import Payload
from ..values import BlobRef, Json, Text
from .parts import AppState, Install, Output, RequestDifference, StateChange, Target, Usage


class AgentStarted(Payload, frozen=True, kw_only=True):
    """The agent was let go. By the trial runner."""

    name: str
    version: str | None = None
    model: str | None = None
    digest: str | None = None
    """SHA-256 of the program that was run, where it is a file."""
    install: Install | None = None
    """How it was installed in the sandbox before; null where nothing was."""


class EnvironmentReset(Payload, frozen=True, kw_only=True):
    """The world is made. By the app host."""

    apps: dict[str, AppState]
    seed: int | None = None
    observation: Json | None = None


class ActionTaken(Payload, frozen=True, kw_only=True):
    """One step: an action and what came of it. By the app host, or the sandbox's driver."""

    turn: int
    tool_call: str | None = None
    """The tool-call id that asked for it."""
    model_call: str | None = None
    """The id of the ModelCalled event it came from."""
    app: str
    """An app's name, or `shell`."""
    action: str
    arguments: Json | None = None
    observation: Json | None = None
    error: Text | None = None
    raw: BlobRef | None = None
    """The observation's bytes where they are not UTF-8."""
    states: dict[str, StateChange] = {}
    """Every app that changed since the last step."""
    started_at: str
    """Empty where it is not known."""
    duration: float
    observed_by: Literal["host", "agent"]
    """Who saw it: only what the host saw is rewarded."""
    untimed: bool = False
    """How long it took is not known, as in records of other systems; the 0 says nothing."""


class StepRewarded(Payload, frozen=True, kw_only=True):
    """A verifier gave a step a reward. By the hook host, or by a label applied later."""

    verifier: str
    version: str
    digest: str
    target: Target
    app: str | None = None
    value: float
    weight: float
    space: Literal["output", "action", "reasoning", "memory"]
    metadata: dict[str, Json] = {}
    applied: str | None = None
    """The id of the VerifierApplied event it belongs to."""


class StepRewardFailed(Payload, frozen=True, kw_only=True):
    """A verifier's reward raised, ran too long or gave no finite number. By the hook host."""

    verifier: str
    version: str
    digest: str
    step: str
    """The ActionTaken event's id."""
    error: Text
    line: str | None = None
    """File and line in the verifier's own code."""
    applied: str | None = None


class ModelCalled(Payload, frozen=True, kw_only=True):
    """A model was called. By the model gateway or a model agent."""

    model: str
    model_reported: str | None = None
    endpoint: str | None = None
    request: Json
    response: Json | None = None
    error: Text | None = None
    usage: Usage
    started_at: str
    latency: float
    retries: int
    turn: int | None = None
    purpose: str | None = None
    failure: str | None = None
    """Why there is no reply: `unreachable`, `unavailable`, `rejected` or `cut_off`; `differs` where
    the call of a replay is not the recorded one; `refused` where the model gateway made no call."""
    status: int | None = None
    """HTTP's, of a failure that has one."""
    code: str | None = None
    """The endpoint's own word for a failure."""
    form: str | None = None
    """Of a call through the gateway: the form of its API, as in `chat` or `messages`."""
    replayed: str | None = None
    """The recorded ModelCalled event that it is answered from. No model was called, so its cost is
    0; tokens are those of the record."""
    difference: RequestDifference | None = None
    untimed: bool = False
    """How long it took is not known, as in records of other systems; the 0 says nothing."""


class AgentMessage(Payload, frozen=True, kw_only=True):
    """The agent, or someone speaking to it, said something. By the agent's adapter."""

    role: Literal["system", "user", "assistant", "tool"]
    text: Text
    raw: BlobRef | None = None
    """Its bytes where they are not UTF-8."""
    reasoning: Text | None = None
    turn: int | None = None
    model_call: str | None = None


class AppQueried(Payload, frozen=True, kw_only=True):
    """A verifier or hook asked an app something that changes nothing. By the app host."""

    verifier: str
    app: str
    action: str
    arguments: Json | None = None
    answer: Json | None = None
    error: Text | None = None
    step: str | None = None
    live: bool = False
    """The app's state is shared with others and may change for other reasons."""
    digest: str | None = None
    """Of the verifier's files."""


class EpisodeEnded(Payload, frozen=True, kw_only=True):
    """The environment's episode is over. By the app host."""

    apps: dict[str, Json]
    """Each app's final state."""
    terminated: bool
    truncated: bool
    reason: str | None = None
    answer: Json | None = None
    """Wrapped in a list of one, so that an answer of null can be told from none."""


class AgentFinished(Payload, frozen=True, kw_only=True):
    """The agent's phase is over and there is work to grade. By the trial runner."""

    ended_by: Literal[
        "done", "answer", "agent_exit", "agent_timeout", "idle_timeout", "max_turns",
        "max_seconds", "max_cost", "terminated", "truncated",
    ]  # fmt: skip
    exit_code: int | None = None
    answer: Json | None = None
    """Wrapped in a list of one, so that an answer of null can be told from none."""
    error: Text | None = None
    error_category: str | None = None
    duration: float
    output: Output | None = None
    version: str | None = None
    """What the agent said while it ran; its start knew of none, then."""
    reported_usage: Usage | None = None
    """What the agent said that it used; nobody else saw it, so no total counts it."""
    untimed: bool = False
    """How long it took is not known, as in records of other systems; the 0 says nothing."""


class AgentFailed(Payload, frozen=True, kw_only=True):
    """The agent's phase is over and there is nothing to grade. By the trial runner."""

    error: Text
    category: str
    exit_code: int | None = None
    duration: float
    output: Output | None = None
    version: str | None = None
    """As in AgentFinished."""
    untimed: bool = False
    """How long it took is not known, as in records of other systems; the 0 says nothing."""
