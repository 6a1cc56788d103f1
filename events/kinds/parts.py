"""Pieces that several kinds share."""

from __future__ import annotations

from typing import Literal

from ..payload import Part
from ..values import BlobRef, Json, Text


class Slot(Part, frozen=True, kw_only=True):
    """One cell of a job's matrix: task × agent × model × parameters × attempt."""

    task: str
    agent: str
    model: str | None = None
    parameters: dict[str, Json] = {}
    attempt: int
    """1 … k."""


class Continues(Part, frozen=True, kw_only=True):
    """The place in an earlier execution's stream that this one goes on from."""

    stream: str
    version: int
    hash: str


class Output(Part, frozen=True, kw_only=True):
    """Console output, as one stream."""

    blob: BlobRef
    """What was kept, redacted: all of it, or head and tail with a marked cut."""
    total: int
    """Bytes that were printed, after redaction."""
    sha256: str
    """Of all of it, after redaction."""
    truncated: bool = False
    invalid_utf8: bool = False
    """Some bytes are not UTF-8; the blob has them as they came."""


class Install(Part, frozen=True, kw_only=True):
    """An agent was installed in its sandbox."""

    duration: float
    network: bool
    """It had a network meanwhile."""
    output: Output | None = None
    """Null where it printed nothing."""


class Process(Part, frozen=True, kw_only=True):
    """A process that was still there when its phase had ended."""

    pid: int
    name: str


class SavedFile(Part, frozen=True, kw_only=True):
    """A file that was kept as a blob."""

    path: str
    blob: BlobRef
    mode: int | None = None


class SkippedPath(Part, frozen=True, kw_only=True):
    """A path that was not kept, and why."""

    path: str
    reason: str
    target: str | None = None
    """Where a symbolic link points; it was not followed."""
    failed: bool = False
    """It was there and taking it out failed: what is graded elsewhere would lack it."""
    too_large: bool = False
    """It failed because it is over the limit, which it would be again."""


class Usage(Part, frozen=True, kw_only=True):
    """What model calls used. Null where it was not seen; never 0 for unknown."""

    model_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class Replays(Part, frozen=True, kw_only=True):
    """The recorded trial that answers the model calls of this one."""

    job: str
    trial: str


class RequestDifference(Part, frozen=True, kw_only=True):
    """Where a replayed trial asks a model something else than the recorded one did."""

    trial: str
    """The recorded one."""
    call: int
    """Which of its calls, or of its judge's, from 1."""
    event: str | None = None
    """The recorded call; null where the recorded trial made no further one."""
    path: str
    """The first part that differs, as in `messages[3].content`; empty for all of it."""
    recorded: str | None = None
    """That part of the recorded request, or what is around the first difference in it; null where
    it does not have it."""
    now: str | None = None
    request_recorded: BlobRef | None = None
    """The whole request, as JSON; null where there is none, or it is not known any more."""
    request_now: BlobRef


class Target(Part, frozen=True, kw_only=True):
    """What a reward credits: a step, an event, a verdict, or a span in one of an event's texts."""

    target: Literal["step", "event", "verdict"]
    event_id: str
    field: str | None = None
    start: int | None = None
    """Characters, half-open with `end`."""
    end: int | None = None
    token_start: int | None = None
    token_end: int | None = None


class Criterion(Part, frozen=True, kw_only=True):
    """One criterion's score within a verdict."""

    name: str
    score: float | None
    """As given, on the criterion's own range."""
    min_score: float
    max_score: float
    weight: float
    blocker: bool = False
    feedback: Text | None = None


class CriterionAsked(Part, frozen=True, kw_only=True):
    """One criterion as a judge or a person is asked about it."""

    name: str
    description: Text
    weight: float
    min_score: float
    max_score: float
    blocker: bool = False


class StateChange(Part, frozen=True, kw_only=True):
    """An app's state after a step: in full, or as an RFC 6902 patch on the one before."""

    full: Json | None = None
    """The state; wrapped in a list of one, so that a null state can be told from none."""
    patch: list[Json] | None = None


class AppState(Part, frozen=True, kw_only=True):
    """An app's state at one moment and how far it can be trusted."""

    state: Json
    control: Literal["owned", "sandboxed", "live", "replayed"]


class Limits(Part, frozen=True, kw_only=True):
    """What a sandbox may use. Null: no limit was set or could be set."""

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    processes: int | None = None
    network: bool = False


class Verdict(Part, frozen=True, kw_only=True):
    """One verifier's answer, as a regrade or an applied label records it."""

    verifier: str
    verifier_kind: str
    version: str | None = None
    digest: str
    weight: float
    score: float | None = None
    scores: dict[str, float] = {}
    criteria: list[Criterion] = []
    evidence: list[Text] = []
    feedback: Text | None = None
    details: dict[str, Json] = {}
    exit_code: int | None = None
    duration: float | None = None
    output: Output | None = None
    files: list[SavedFile] = []
    error: Text | None = None
    error_category: str | None = None
    kept: bool = False
    """It was not run again: the recorded answer of a person, or of a verifier left as it was."""
    source: Literal["verifier", "engine"] | None = None
    missing: bool = False
    model: str | None = None
    samples: list[float] = []
    spread: float | None = None
    usage: Usage | None = None
    live_state: bool = False
    sandbox_mode: Literal["shared", "separate"] | None = None
    line: str | None = None
    """File and line in the verifier's own code."""
