"""What verifiers, judges and people say of a trial."""

from __future__ import annotations

from typing import Literal

from ..payload import Payload
from ..values import Json, Text
from .parts import (
    Criterion,
    CriterionAsked,
    Output,
    RequestDifference,
    SavedFile,
    Target,
    Usage,
    Verdict,
)


class VerifierStarted(Payload, frozen=True, kw_only=True):
    """A verifier was let go. By the trial runner."""

    verifier: str
    verifier_kind: Literal["script", "deterministic", "agent", "human"]
    version: str | None = None
    digest: str
    """SHA-256 over the verifier's files."""
    weight: float
    sandbox_mode: Literal["shared", "separate"] | None = None
    model: str | None = None
    timeout_sec: float | None = None


class JudgeSampled(Payload, frozen=True, kw_only=True):
    """A judge answered once, or gave no answer to a sample. By the judge runner."""

    verifier: str
    sample: int
    attempt: int
    """1, then 2 and 3 where a reply did not fit."""
    valid: bool
    reply: Text
    error: Text | None = None
    scores: dict[str, float] = {}
    model: str
    model_reported: str | None = None
    prompt_digest: str | None = None
    usage: Usage
    latency: float
    finish: str | None = None
    """Why the model stopped, in the endpoint's words; `refusal`; `error` for what is no reply."""
    failure: Literal["unreachable", "unavailable", "rejected", "cost_limit"] | None = None
    """There was no reply, and why; `reply` is empty then."""
    applied: str | None = None
    digest: str | None = None
    """Of the verifier's files."""
    replayed: str | None = None
    """The recorded JudgeSampled event that this is. No model was called, so it cost nothing."""


class VerifierScored(Payload, frozen=True, kw_only=True):
    """A verifier gave its score. By the trial runner."""

    verifier: str
    verifier_kind: Literal["script", "deterministic", "agent", "human"]
    version: str | None = None
    digest: str
    weight: float
    score: float
    """0 … 1 for what has criteria; else the verifier's own number."""
    scores: dict[str, float] = {}
    criteria: list[Criterion] = []
    evidence: list[Text] = []
    feedback: Text | None = None
    details: dict[str, Json] = {}
    """What was kept but not scored."""
    source: Literal["verifier", "engine"]
    """`engine`: nothing usable came, and this 0 is the engine's."""
    missing: bool = False
    """With ``--missing-reward error``: the 0 stands for a reward that was not written."""
    warnings: list[str] = []
    """Codes of the warnings that were raised with it."""
    exit_code: int | None = None
    timed_out: bool = False
    sandbox_mode: Literal["shared", "separate"] | None = None
    live_state: bool = False
    model: str | None = None
    samples: list[float] = []
    spread: float | None = None
    usage: Usage | None = None
    duration: float
    output: Output | None = None
    files: list[SavedFile] = []
    """The reward files as they were read, reward-details.json and ctrf.json."""
    untimed: bool = False
    """How long it took is not known, as in records of other systems; the 0 says nothing."""


class VerifierFailed(Payload, frozen=True, kw_only=True):
    """A verifier could not assess anything. By the trial runner."""

    verifier: str
    verifier_kind: Literal["script", "deterministic", "agent", "human"]
    version: str | None = None
    digest: str
    weight: float
    error: Text
    category: str
    infrastructure: bool
    """True: the machine was at fault. False: the verifier itself."""
    line: str | None = None
    exit_code: int | None = None
    sandbox_mode: Literal["shared", "separate"] | None = None
    model: str | None = None
    usage: Usage | None = None
    duration: float
    output: Output | None = None
    files: list[SavedFile] = []
    difference: RequestDifference | None = None
    """A judge of a replay is asked something else than was recorded."""
    untimed: bool = False
    """How long it took is not known, as in records of other systems; the 0 says nothing."""


class HumanReviewRequested(Payload, frozen=True, kw_only=True):
    """The trial waits for a person. By the trial runner."""

    verifier: str
    version: str | None = None
    digest: str
    weight: float
    instructions: Text
    criteria: list[CriterionAsked]


class HumanReviewSubmitted(Payload, frozen=True, kw_only=True):
    """A person scored the trial; this can't be edited or replaced. By ``trialog human submit``."""

    verifier: str
    reviewer: str | None = None
    score: float
    """0 … 1."""
    criteria: list[Criterion]
    feedback: Text | None = None


class HindsightCredited(Payload, frozen=True, kw_only=True):
    """A verifier credited something that had happened earlier. By the hook host, or applied."""

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


class HindsightFailed(Payload, frozen=True, kw_only=True):
    """A verifier's hindsight raised, ran too long or named what is not there. By the hook host."""

    verifier: str
    version: str
    digest: str
    error: Text
    line: str | None = None
    applied: str | None = None


class RegradeScored(Payload, frozen=True, kw_only=True):
    """A regrade gave the trial a new score beside the original. By the regrade runner."""

    regrade_id: str
    verdicts: list[Verdict]
    passed: bool
    score: float
    scores: dict[str, float] = {}
    rewards: dict[str, float] | None = None
    reward_source: Literal["verifier", "engine"] | None = None
    reward_valid: bool = False
    warnings: list[str] = []
    messages: list[Text] = []
    """The warnings in words, as many as `warnings` and in their order."""


class RegradeFailed(Payload, frozen=True, kw_only=True):
    """A regrade could not assess the trial. By the regrade runner."""

    regrade_id: str
    error: Text
    category: str
    verdicts: list[Verdict] = []
    infrastructure: bool = False
    """True: the machine was at fault. False: a verifier."""


class VerifierApplied(Payload, frozen=True, kw_only=True):
    """A verifier's labels were added to a stored trial. By ``trialog verifier apply``."""

    verifier: str
    verifier_kind: Literal["script", "deterministic", "agent", "human"]
    version: str
    digest: str
    score: float | None = None
    scores: dict[str, float] = {}
    evidence: list[Text] = []
    feedback: Text | None = None
    error: Text | None = None
    author: str | None = None
    reason: str | None = None
