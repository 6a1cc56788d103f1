"""What happens to a trial around its agent and its verdict: stream ``trial/<trial>``."""

from __future__ import annotations

from typing import Literal

from ..payload import Part, Payload
from ..values import BlobRef, Json, Text
from .parts import Continues, Limits, Output, Process, Replays, SavedFile, SkippedPath, Slot


class ImportedTrial(Part, frozen=True, kw_only=True):
    """A trial that another system ran. Its events say what that system recorded, and no more."""

    system: str
    """`harbor`, `benchflow`, `inspect` or `plural`."""
    name: str
    """What it is called there."""
    path: str
    """Where its records lie, below what was imported."""
    files: list[SavedFile] = []
    """Every file of its records, as it was."""
    skipped: list[SkippedPath] = []
    data: Json | None = None
    """What its main record says that no event has a place for."""


class TrialStarted(Payload, frozen=True, kw_only=True):
    """An execution began. By the trial runner; always version 1."""

    job: str
    trial: str
    slot: Slot
    execution: int
    seed: int | None = None
    task_digest: str
    continues: Continues | None = None
    """For an execution that goes on from an earlier one's saved work."""
    review: str | None = None
    """For a reviewer's own run: the review it belongs to."""
    sandbox_mode: Literal["shared", "separate"] | None = None
    """Where its test script is to run; null for what has none, and in old logs."""
    replays: Replays | None = None
    imported: ImportedTrial | None = None
    """For a trial that another system ran; its task's digest is empty where that is not known."""


class SandboxStarted(Payload, frozen=True, kw_only=True):
    """A sandbox is there. By the trial runner."""

    purpose: Literal["agent", "verifier"]
    """`verifier` for a sandbox of the verifier's own, or a fresh one over saved work."""
    backend: str
    sandbox_id: str
    image: str | None = None
    """As the task or the command line named it; null on the host's own system."""
    image_digest: str | None = None
    """Digest of the image's configuration."""
    repository_digest: str | None = None
    workspace: str
    """The workspace's path inside."""
    limits: Limits
    build_seconds: float | None = None
    """Null where nothing was built for this trial."""
    start_seconds: float


class SandboxFailed(Payload, frozen=True, kw_only=True):
    """No sandbox could be had. By the trial runner."""

    purpose: Literal["agent", "verifier"]
    backend: str
    image: str | None = None
    phase: Literal["build", "start"]
    error: Text
    category: str
    duration: float


class ProcessesKilled(Payload, frozen=True, kw_only=True):
    """The agent's phase is over and nothing of it runs any more, but what is kept. By the trial
    runner."""

    processes: list[Process] = []
    """Those that were still there, as the sandbox reported it, at most 256 of them; empty when it
    reported none. An agent may have invented some."""
    kept: list[Process] | None = None
    """Those that stay for the verifier, whose task is graded on a running service; null where
    nothing stays."""


class Artifact(SavedFile, frozen=True, kw_only=True):
    """A file that the task declared or the agent put under /logs/artifacts."""

    sha256: str
    size: int
    source: str | None = None
    """Where a declared one was inside; null for what was under /logs/artifacts, and in old logs."""
    raw_path: BlobRef | None = None
    """The path's bytes where they are not UTF-8."""


class ArtifactsSaved(Payload, frozen=True, kw_only=True):
    """Declared files were taken out of the sandbox. By the trial runner."""

    artifacts: list[Artifact] = []
    skipped: list[SkippedPath] = []
    duration: float
    untimed: bool = False
    """How long it took is not known, as in records of other systems; the 0 says nothing."""


class WorkspaceSaved(Payload, frozen=True, kw_only=True):
    """The final workspace is in the blob store. By the trial runner."""

    archive: BlobRef
    """Deterministic zstd-compressed tar."""
    size: int
    """Bytes of the files in it."""
    files: int
    skipped: list[SkippedPath] = []
    outside: list[str] | BlobRef | None = None
    """Paths that were changed outside the workspace; null where the engine can't tell."""
    duration: float


class WorkspaceHardened(Payload, frozen=True, kw_only=True):
    """What could steer the verifier was put out of its way. By the trial runner."""

    removed: list[str] = []
    steps_skipped: list[str] = []
    duration: float


class TrialScored(Payload, frozen=True, kw_only=True):
    """The trial has a score. By the trial's decisions."""

    passed: bool
    score: float
    scores: dict[str, float] = {}
    rewards: dict[str, float] | None = None
    """The script's own, `reward` first; null with ``--missing-reward error``."""
    reward_source: Literal["verifier", "engine"] | None = None
    """`engine`: nothing usable was written and the engine gave 0."""
    reward_valid: bool = False
    """False for values that the engine gave."""


class TrialUnscored(Payload, frozen=True, kw_only=True):
    """Nothing was assessed, because a verifier could not run. By the trial's decisions."""

    error: Text
    category: str
    infrastructure: bool
    """True: the machine was at fault, so a resume runs it again. False: the verifier was."""


class TrialErrored(Payload, frozen=True, kw_only=True):
    """There was no work to grade. By the trial's decisions."""

    error: Text
    category: str


class TrialFinished(Payload, frozen=True, kw_only=True):
    """The execution is over; its files are written from here. By the trial's decisions."""

    outcome: Literal["scored", "unscored", "errored", "cancelled"]


class WarningRaised(Payload, frozen=True, kw_only=True):
    """Something a reader of the result should know. In the same append as its cause."""

    code: str
    message: Text
    path: str | None = None


class TamperFound(Payload, frozen=True, kw_only=True):
    """The agent, or its image, had left something that could have changed the grade."""

    path: str
    sha256: str | None = None
    """Of the file's bytes; null for what is no readable file."""
    what: str
    raw_path: BlobRef | None = None
    """The path's bytes where they are not UTF-8."""


class SandboxLost(Payload, frozen=True, kw_only=True):
    """The sandbox went away under the engine's hands. By the trial runner."""

    sandbox_id: str
    phase: str
    error: Text


class SandboxRemoved(Payload, frozen=True, kw_only=True):
    """The sandbox is gone; no file depends on it. By the trial runner or the reaper."""

    ignorable = True

    sandbox_id: str
    duration: float | None = None
    kept: bool = False
    """It was left on purpose (``--keep-sandbox``)."""
    error: Text | None = None


class TrialInterrupted(Payload, frozen=True, kw_only=True):
    """The execution stopped before its end: a signal, or its engine died. The order goes on from
    SandboxStarted when it is taken up again."""

    reason: str
    stage: str
    """The last durable stage."""
    output: Output | None = None
    """What the phase that was cut off had printed; null where nothing is known of that."""


class LeaseTaken(Payload, frozen=True, kw_only=True):
    """A worker owns the execution until its lease ends. By the worker."""

    ignorable = True

    worker: str
    until: str


class LeaseLost(Payload, frozen=True, kw_only=True):
    """A worker's lease ended before the execution did. By whoever takes it over."""

    ignorable = True

    worker: str
    reason: str


class RegradeStarted(Payload, frozen=True, kw_only=True):
    """A regrade reached this trial. By the regrade runner."""

    regrade_id: str
    task_digest: str
    verifiers: dict[str, str]
    """Digest by name, as the regrade took them."""
    sandbox: str | None = None
    image_digest: str | None = None
    author: str | None = None
    reason: str | None = None
    supersedes: str | None = None
    """The id of the event with the verdict that stood before."""
    notes: list[str] = []
    """What a reader should know: another kind of sandbox than the run's, say."""
