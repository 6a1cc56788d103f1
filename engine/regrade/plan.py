"""Whether a trial can be regraded, and why not. Pure: what is known in, the decision out."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from ...events.errors import BlobAltered, BlobMissing, LogCorrupt
from ..trial.state import lost_artifact, named
from .stored import StoredTrial

SavedBlob = Literal["there", "missing", "altered"]


class Refusal(NamedTuple):
    """Why a trial can't be regraded."""

    category: str
    reason: str


def unreadable(error: LogCorrupt | BlobMissing | BlobAltered) -> Refusal:
    """The refusal of a trial that the log can't give."""
    match error:
        case BlobMissing():
            category = "blob_missing"
        case BlobAltered():
            category = "blob_altered"
        case _:
            category = "trial_unreadable"
    return Refusal(category, str(error))


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about a trial beside its own events."""

    gone: str | None = None
    """Why its task can't be had any more."""
    script: bool
    """It is graded by a test script, in a sandbox; else by functions, on its episode."""
    service: bool = False
    """What is graded is a service that the agent left running."""
    pruned: bool = False
    """Its saved workspace was given up."""
    blob: SavedBlob = "there"
    """How its saved workspace lies in the blob store."""
    backend: str | None = None
    """The kind of sandbox that it would be regraded in."""


def refusal(trial: StoredTrial, facts: Facts) -> Refusal | None:
    """Why the trial is not regradable; None when it is."""
    if not trial.begun:
        return Refusal("not_finished", "it has not begun")
    if trial.waiting:
        return Refusal("not_finished", "it waits for people; `trialog human list` shows them")
    if trial.outcome is None:
        return Refusal("not_finished", "it has not finished; `trialog resume JOB` goes on with it")
    if trial.outcome == "cancelled":
        return Refusal("cancelled", "it was cancelled before its end")
    if facts.gone is not None:
        return Refusal("task_gone", facts.gone)
    if facts.script:
        return _without_workspace(trial, facts)
    if not trial.world:
        return Refusal("no_recorded_state", "it has no recorded episode")
    if not trial.worked:
        return Refusal("no_work", f"the agent left no work to grade ({trial.category})")
    return None


def _without_workspace(trial: StoredTrial, facts: Facts) -> Refusal | None:
    saved = trial.workspace
    if facts.service:
        return Refusal("service_gone", "what it is graded by is a service, which is gone")
    if saved is None:
        if trial.outcome == "errored":
            return Refusal("no_work", f"the agent left no work to grade ({trial.category})")
        return Refusal("no_saved_workspace", "its workspace was not saved")
    if facts.pruned:
        return Refusal("workspace_pruned", "its saved workspace was given up to free disk")
    if facts.blob == "missing":
        return Refusal("blob_missing", f"blob {saved.archive.blob} of its workspace is missing")
    if facts.blob == "altered":
        return Refusal("blob_altered", f"blob {saved.archive.blob} of its workspace was altered")
    if trial.artifacts is not None and trial.sandbox is not None:
        lost = lost_artifact(trial.artifacts, trial.sandbox.workspace)
        if lost is not None:
            return Refusal("artifact_lost", f"not saved is {named(lost)}")
    return None


def notes(trial: StoredTrial, facts: Facts) -> list[str]:
    """What a reader of the new grade should know."""
    found: list[str] = []
    if not facts.script:
        return found
    run = trial.sandbox.backend if trial.sandbox else None
    if run is not None and facts.backend is not None and run != facts.backend:
        found.append(f"the run's sandbox was {run}, this one is {facts.backend}")
    outside = trial.workspace.outside if trial.workspace else None
    if isinstance(outside, list):
        if outside:
            more = f" and {len(outside) - 1} more places" if len(outside) > 1 else ""
            found.append(
                f"what the agent changed outside its workspace is gone: {outside[0]}{more}"
            )
    elif outside is not None:
        found.append("what the agent changed outside its workspace is gone")
    return found
