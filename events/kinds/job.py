"""What happens to a job: stream ``job/<job>``."""

from __future__ import annotations

from typing import Literal

from ..payload import Part, Payload
from ..values import BlobRef, Json, Text
from .parts import SavedFile, SkippedPath, Slot


class TaskSnapshot(Part, frozen=True, kw_only=True):
    """A task as the job took it when it started."""

    task: str
    digest: str
    """SHA-256 over the folder's files; see docs."""
    path: str
    """Where the folder was."""
    dataset: str | None = None
    """The folder that its links may lead into."""
    layout: Literal["a", "b", "project"]
    snapshot: BlobRef
    """Prompt, settings, verifier and solution: a deterministic zstd-compressed tar."""
    environment_digest: str | None = None
    """Of the build context, which is not in the snapshot."""
    files: dict[str, str] = {}
    """SHA-256 of each verifier file by its path."""
    asking: list[str] = []
    """Verifiers whose checks may ask the apps, and so need them alive."""


class AgentSnapshot(Part, frozen=True, kw_only=True):
    """An agent as the job took it when it started."""

    agent: str
    """As the configuration names it."""
    name: str
    """As results show it."""
    digest: str | None = None
    """SHA-256 of its program."""
    program: BlobRef | None = None
    """Its program; null where it is a part of trialog."""


class ImportedJob(Part, frozen=True, kw_only=True):
    """Where a job comes from that another system ran."""

    system: str
    """`harbor`, `benchflow`, `inspect` or `plural`."""
    version: str | None = None
    """Of that system, where its records say it."""
    name: str
    """What the job is called there."""
    path: str
    """What was imported, on the host that imported it."""
    digest: str
    """SHA-256 over the names and bytes of all that was read."""
    at: str
    """When it was imported; the times of the events are the other system's."""
    files: list[SavedFile] = []
    """Every file that belongs to no imported trial, as it was."""
    skipped: list[SkippedPath] = []
    """What was left out, trials too, and why."""
    data: Json | None = None
    """What its main record says that no event has a place for."""


class JobStarted(Payload, frozen=True, kw_only=True):
    """A job began; from here on nothing outside the log decides what it runs. By the job runner."""

    job: str
    folder: str
    """The job's folder, relative to the log's folder."""
    config: dict[str, Json]
    """The configuration as resolved."""
    versions: dict[str, str]
    """Of trialog, Python and the platform."""
    tasks: list[TaskSnapshot]
    slots: int
    """How many slots the matrix has."""
    pid: int
    host: str
    agents: list[AgentSnapshot] = []
    """What each agent runs; older logs have none, and name programs by their paths alone."""
    replays: str | None = None
    """The job whose recorded calls answer this one's models."""
    imported: ImportedJob | None = None
    """For a job that another system ran; process and host are those that imported it."""


class TrialScheduled(Payload, frozen=True, kw_only=True):
    """An execution of a slot got its name. By the job runner, before the trial's first event."""

    trial: str
    slot: Slot
    execution: int
    """1 for the first try at the slot, 2 … after a retry or resume."""
    continues: str | None = None
    """The trial name of the execution that this one goes on from or replaces."""
    reason: str | None = None
    """Why there is an execution after the first."""


class TrialAbandoned(Payload, frozen=True, kw_only=True):
    """An execution will never end: its owner is gone, and another one takes its slot."""

    trial: str
    reason: str


class JobResumed(Payload, frozen=True, kw_only=True):
    """A job goes on after it had stopped. By the job runner that took the lock."""

    plan: dict[str, int]
    """How many slots each action was planned for."""
    pid: int
    host: str
    judge_max_cost: float | None = None
    """The new limit in US dollars on what judges may cost; null where it stays as it was."""


class JobInterrupted(Payload, frozen=True, kw_only=True):
    """The job's owner was told to stop, by a signal. By the job runner."""

    signal: str
    running: int


class JobCancelled(Payload, frozen=True, kw_only=True):
    """What had not finished ends as cancelled. By ``trialog cancel``."""

    reason: str | None = None
    author: str | None = None


class Head(Part, frozen=True, kw_only=True):
    """Where an execution's stream stood."""

    trial: str
    version: int
    hash: str


class JobFinished(Payload, frozen=True, kw_only=True):
    """Nothing is scheduled or running any more. By the job runner."""

    root: str
    """RFC 9162 tree hash (hex) over the heads' 32-byte hashes, sorted by trial name."""
    heads: list[Head] | BlobRef
    """The heads that the root was made of; a blob of the same JSON when over 16 KiB."""
    trials: int
    wall_seconds: float | None = None
    """Since JobStarted or the last JobResumed; null where another process ended the job than the
    one that had run it."""


class RegradePlanned(Payload, frozen=True, kw_only=True):
    """A regrade took its verifiers and chose its trials. By the regrade runner."""

    regrade_id: str
    tasks: list[TaskSnapshot]
    """As they are graded by; one that is gone is missing."""
    trials: list[str]
    author: str | None = None
    reason: str | None = None
    as_of_run: bool = False
    verifier_only: str | None = None
    sandbox: str | None = None
    image: str | None = None
    """For tasks that name none and trials that had none."""
    call_models: bool = False
    """Judges are asked anew; else their recorded replies are read again."""
    judge_max_cost: float | None = None
    """Dollars that judges may cost together; null: no limit."""


class RegradeSkipped(Payload, frozen=True, kw_only=True):
    """A chosen trial can't be regraded. By the regrade runner."""

    regrade_id: str
    trial: str
    reason: str
    category: str


class RegradeFinished(Payload, frozen=True, kw_only=True):
    """Every chosen trial of a regrade has its answer. By the regrade runner."""

    regrade_id: str
    regraded: int
    failed: int
    not_regradable: int


class BlobsPruned(Payload, frozen=True, kw_only=True):
    """Blobs were given up to free disk. By ``trialog prune``, before any byte is removed."""

    what: Literal["workspace"]
    blobs: list[str]
    reason: str | None = None
    author: str | None = None


class EngineFault(Payload, frozen=True, kw_only=True):
    """The engine itself failed outside of any trial. By the job runner."""

    error: Text
    where: str
    category: str
