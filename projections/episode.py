"""A trial's episode as its events tell it: what checks, rewards and hindsight are given.

The same data is made while the trial runs and when it is replayed, so a hook sees the same either
way: values as they were recorded, redacted ones included.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class TaskData(msgspec.Struct, frozen=True, kw_only=True):
    """The task, with what its agent never sees."""

    name: str
    instructions: str = ""
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    expected: Any = None
    initial_state: dict[str, Any] | None = None


class AppData(msgspec.Struct, frozen=True, kw_only=True):
    """An app at the episode's start and end."""

    initial: Any
    final: Any = None
    control: Literal["owned", "sandboxed", "live", "replayed"] = "owned"


class StepData(msgspec.Struct, frozen=True, kw_only=True):
    """One action."""

    event_id: str
    turn: int
    app: str
    action: str
    arguments: dict[str, Any]
    observation: Any = None
    error: str | None = None
    states: dict[str, Any] = {}
    """Every app's state after the step, of those that changed by it."""
    observed_by: Literal["host", "agent"] = "host"
    model_call: str | None = None
    tool_call: str | None = None


class QueryData(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier's question to an app, and the answer that it got."""

    verifier: str
    app: str
    action: str
    arguments: dict[str, Any]
    answer: Any = None
    error: str | None = None
    step: str | None = None
    """The step's event id, for a question of a reward; null for one of a check."""


class RewardData(msgspec.Struct, frozen=True, kw_only=True):
    """A reward in the ledger."""

    verifier: str
    version: str | None
    value: float
    source: Literal["step", "hindsight", "verifier", "judge", "human"]
    event_id: str


class EpisodeData(msgspec.Struct, frozen=True, kw_only=True):
    """A whole episode."""

    trial: str
    task: TaskData
    seed: int | None = None
    apps: dict[str, AppData] = {}
    first_observation: Any = None
    steps: list[StepData] = []
    answer: list[Any] | None = None
    """A list of one; null when the agent gave none."""
    terminated: bool = False
    truncated: bool = False
    reason: str | None = None
    usage: dict[str, Any] = {}
    artifacts: list[dict[str, Any]] = []
    model_calls: list[dict[str, Any]] = []
    queries: list[QueryData] = []
    rewards: list[RewardData] = []
