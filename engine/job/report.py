"""What a running job tells whoever watches it; the console and ``--json`` are made of this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from ..trial.state import HookFailure

Outcome: TypeAlias = Literal["scored", "unscored", "errored", "cancelled", "awaiting_review"]


class JobOpened(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="report", tag="job-opened", gc=False
):
    """A job began or goes on."""

    job: str
    folder: str
    slots: int
    sandbox: str
    resumed: bool
    replays: str | None = None
    """The job whose recorded calls answer its models."""


class Notice(msgspec.Struct, frozen=True, kw_only=True, tag_field="report", tag="notice", gc=False):
    """A warning or a line of news that belongs to no trial's result."""

    level: Literal["info", "warning", "error"]
    message: str


class TrialBegan(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="report", tag="trial-began", gc=False
):
    """An execution began or was taken up again."""

    trial: str
    task: str
    agent: str
    stage: str


class TrialEnded(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="report", tag="trial-ended", gc=False
):
    """An execution finished, and its files are written."""

    trial: str
    task: str
    agent: str
    model: str | None
    attempt: int
    execution: int
    outcome: Outcome
    passed: bool | None
    reward: float | None
    tools: int
    parameters: dict[str, Any] = {}
    error: str | None = None
    category: str | None = None
    verifier: str | None = None
    """Whose error it is, where the task has several."""
    agent_error: str | None = None
    """How the agent of a scored trial failed; `category` is its category."""
    tampered: int = 0
    """How much was found that the agent had left for the verifier."""
    kept: bool = False
    """Its sandbox is still there, for `trialog exec`."""
    infrastructure: bool = False
    """The machine was at fault, so a resume runs the slot again."""
    warnings: list[str] = []
    """Messages."""
    hook_failures: list[HookFailure] = []
    """Verifiers' own reward and hindsight hooks that failed, which cost the trial nothing else."""
    will_retry: bool = False
    regraded: str | None = None
    """The last finished regrade that gave it a verdict."""


class Progress(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="report", tag="progress", gc=False
):
    """How far the job is."""

    slots: int
    done: int
    running: int
    waiting: int
    scored: int
    passed: int
    errored: int
    unscored: int


class JobClosed(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="report", tag="job-closed", gc=False
):
    """The job has ended, was interrupted, or was cancelled."""

    job: str
    folder: str
    interrupted: bool
    seconds: float


Report: TypeAlias = JobOpened | Notice | TrialBegan | TrialEnded | Progress | JobClosed
Watcher: TypeAlias = Callable[[Report], None]
"""Called on the event loop; must not block."""
