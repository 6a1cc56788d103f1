"""Which trials a review is of, as the log has them, or as a folder of files has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from anyio import to_thread

from ...events.errors import LogCorrupt, said
from ...events.kinds.job import TaskSnapshot
from ...events.log import EventLog
from ...projections.result import result
from ...projections.source import trial_view
from ..errors import ConfigError
from ..labels.trials import job_trials

Selection = Literal["all", "passing", "failing"]
RESULT = "result.json"
CONFIG = "config.json"
"""Where other tools record a trial's task, too."""
_TRACES = (RESULT, "trajectory.json", "steps.jsonl", "rewards.jsonl")
"""What only a trial's folder has."""
_LARGEST = 64 * 1024 * 1024


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One trial that may be reviewed."""

    trial: str
    task: str | None
    passed: bool
    """In the original verdict, and without a recorded error."""
    digests: list[str] = []
    """Every digest of its task that was recorded."""
    snapshot: TaskSnapshot | None = None
    """Its task as the job took it; null for a trial that only its files tell of."""
    folder: Path | None = None
    """Its folder, for such a trial."""
    notes: list[str] = []


async def logged_subjects(log: EventLog, job: str, job_folder: Path) -> list[Subject]:
    """A job's trials, one a slot, by name. What has not finished is left out."""
    trials = await job_trials(log, job)
    snapshots = {snapshot.task: snapshot for snapshot in trials.started.tasks}
    found: list[Subject] = []
    for scheduled in trials.trials:
        subject = await logged_subject(
            log, scheduled.trial, snapshots.get(scheduled.slot.task), job_folder
        )
        if subject is not None:
            found.append(subject)
    return sorted(found, key=lambda one: one.trial)


async def logged_subject(
    log: EventLog, trial: str, snapshot: TaskSnapshot | None, job_folder: Path
) -> Subject | None:
    """One trial as the log has it; None for one that has not finished."""
    try:
        view = await trial_view(log, trial)
        damage = None if view is None else view.blocked
    except LogCorrupt as corrupt:
        view, damage = None, corrupt
    if damage is not None:
        return Subject(
            trial=trial, task=None, passed=False, notes=[f"its events can't be read: {damage}"]
        )
    verdict = None if view is None else result(view)
    if view is None or verdict is None:
        return None
    _, unread = await to_thread.run_sync(_read_object, job_folder / trial / RESULT)
    known = view.started.task_digest  # empty for what other systems ran
    digests = ([known] if known else []) + ([snapshot.digest] if snapshot else [])
    return Subject(
        trial=trial,
        task=view.started.slot.task,
        passed=verdict.passed is True and verdict.error is None and verdict.verifier_error is None,
        digests=digests,
        snapshot=snapshot,
        notes=[f"{unread}; the log's own was used"] if unread else [],
    )


def filed_subjects(folder: Path) -> list[Subject]:
    """The trials of a job that no log knows, or the one trial of such a folder; blocks."""
    if _is_trial(folder):
        return [_filed(folder)]
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"the job's folder can't be read: {said(error)}", file=folder) from None
    found = [_filed(entry) for entry in entries if _is_trial(entry)]
    if not found:
        raise ConfigError(
            "neither a job or trial of the log, nor a folder with trials' files in it "
            f"({', '.join(_TRACES)})",
            file=folder,
        )
    return found


def choose(subjects: list[Subject], selection: Selection) -> list[Subject]:
    """Those that the selection takes: passing ones, all others, or all."""
    if selection == "all":
        return subjects
    return [one for one in subjects if one.passed is (selection == "passing")]


def _is_trial(folder: Path) -> bool:
    if folder.is_symlink() or folder.name.startswith(".") or not folder.is_dir():
        return False
    return any((folder / name).is_file() for name in _TRACES)


def _filed(folder: Path) -> Subject:
    read, unread = _read_object(folder / RESULT)
    config, _ = _read_object(folder / CONFIG)
    task = read.get("task_name")
    recorded = (read.get("task_digest"), config.get("task_digest"))
    errors = (read.get("error"), read.get("verifier_error"))
    return Subject(
        trial=folder.name,
        task=task if isinstance(task, str) else None,
        passed=read.get("passed") is True and errors == (None, None),
        digests=[str(digest) for digest in recorded if digest is not None],
        folder=folder,
        notes=[f"{unread}; it counts as failing"] if unread else [],
    )


def _read_object(path: Path) -> tuple[dict[str, Any], str | None]:
    """What a JSON file holds, or why that can't be told."""
    name = path.name
    try:
        if path.is_symlink() or not path.is_file():
            return {}, f"{name} is missing" if not path.exists() else f"{name} is no plain file"
        if path.stat().st_size > _LARGEST:
            return {}, f"{name} is over {_LARGEST} bytes"
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        what = said(error) if isinstance(error, OSError) else str(error)[:200]
        return {}, f"{name} can't be read: {what}"
    if not isinstance(found, dict):
        return {}, f"{name} is no JSON object"
    return cast("dict[str, Any]", found), None
