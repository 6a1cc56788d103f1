"""What is read of a trial. Texts are in full, and what was not given is None, never 0."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...events.values import Json


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One action of an agent's, and what came of it."""

    trial: str
    event_id: str
    number: int
    """1, 2, 3 …: its place among the trial's steps."""
    turn: int
    app: str
    """An app's name, or `shell`."""
    action: str
    arguments: Json | None
    observation: Json | None
    error: str | None
    observed_by: str
    """`host`, or `agent` where only the agent says so."""
    started_at: str | None
    """UTC, as all times are: RFC 3339 with six digits and ``Z``."""
    seconds: float | None
    model_call: str | None
    tool_call: str | None
    reward: float | None
    """The sum of its step rewards."""
    credit: float | None
    """The sum of what it was credited in hindsight."""
    to_go: float | None
    """Rewards and credit from this turn on, each later turn discounted by gamma once more."""
    terminated: bool
    """The episode came to its own end with this step."""
    truncated: bool
    """A limit cut it off after this step."""


class Reward(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the trial's ledger, as it stands: of step rewards and credit those of the version
    of a verifier that was applied last."""

    trial: str
    record_id: str
    verifier: str
    version: str | None
    source: Literal["step", "hindsight", "verifier", "judge", "human"]
    granularity: Literal["step", "terminal"]
    space: Literal["output", "action", "reasoning", "memory"]
    value: float
    weight: float
    app: str | None
    target: Literal["step", "event", "verdict"]
    event_id: str
    step: int | None
    """The step's number, where a step is credited."""
    field: str | None
    """The text of which a span is credited."""
    start: int | None
    """Characters, half-open with `end`."""
    end: int | None
    token_start: int | None
    token_end: int | None
    metadata: dict[str, Json]
    created_at: str


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion's score, on its own range."""

    name: str
    score: float | None
    min_score: float
    max_score: float
    weight: float
    blocker: bool
    feedback: str | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one verifier said of the whole trial."""

    trial: str
    given_in: Literal["run", "regrade", "applied"]
    """In the run itself, in a finished regrade, or as a label applied later."""
    regrade: str | None
    """The regrade's id."""
    verifier: str
    kind: str | None
    version: str | None
    digest: str | None
    weight: float | None
    score: float | None
    """None where it failed, or waits; `error` says why it failed."""
    scores: dict[str, float]
    criteria: list[Criterion]
    evidence: list[str]
    feedback: str | None
    model: str | None
    error: str | None
    error_category: str | None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a slot. What the end decides is None before it; the verdict is the run's."""

    name: str
    job: str
    task: str
    agent: str
    agent_version: str | None
    model: str | None
    parameters: dict[str, Json]
    attempt: int
    execution: int
    seed: int | None
    imported_from: str | None
    """The other system that ran it; None where trialog did."""
    outcome: Literal["scored", "unscored", "errored", "cancelled"] | None
    passed: bool | None
    score: float | None
    scores: dict[str, float]
    reward: float | None
    """At the end, as in result.json; `reward_valid` is false where the engine gave it."""
    reward_valid: bool
    named_rewards: dict[str, float]
    """`reward`, and whatever else the test script named."""
    error: str | None
    error_category: str | None
    warnings: list[str]
    """Codes."""
    answer: Json | None
    model_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    started_at: str
    finished_at: str | None
    seconds: float | None
    """In all phases together."""
    n_steps: int
    terminated: bool
    truncated: bool
    ended_by: str | None
    masked: bool
    """It is not to be trained on, and why."""
    mask_reason: str | None
    mask_detail: str | None
    steps: list[Step]
    rewards: list[Reward]
    verdicts: list[Verdict]
