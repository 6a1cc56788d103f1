"""Whether a task's folder may be evidence: only what a trial is known to have run, under a root
that the user trusts. A recorded path is never read by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ..errors import TaskError
from ..tasks.load import is_task_folder, load_task
from ..tasks.names import safe_name
from .choosing import Subject

DEEPEST = 4
"""Folders below the root that are searched."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
NO_ROOT = "task evidence skipped: no --tasks-root was given"


class Admission(NamedTuple):
    """The folder that was admitted, or why there is none."""

    folder: Path | None
    note: str | None


def admit(subject: Subject, root: Path | None) -> Admission:
    """The subject's task below the root, if its digest is the recorded one; blocks."""
    if root is None:
        return Admission(None, NO_ROOT)

    def skipped(why: str) -> Admission:
        return Admission(None, f"task evidence skipped: {why}")

    if subject.task is None:
        return skipped("the trial's records do not name its task")
    if subject.snapshot is not None and subject.snapshot.layout == "project":
        return skipped(f"task {subject.task} is a project's, of which no folder has a digest")
    recorded = sorted(set(subject.digests))
    if not recorded:
        return skipped("no digest of the task was recorded")
    if (wrong := next((d for d in recorded if not _DIGEST.fullmatch(d)), None)) is not None:
        return skipped(f"its recorded digest {wrong[:80]!r} is none")
    if len(recorded) > 1:
        return skipped(f"its recorded digests differ ({', '.join(recorded)})")
    found = find_below(root, subject.task)
    if not found:
        return skipped(f"there is no task {subject.task} below {root}")
    if len(found) > 1:
        return skipped(f"{len(found)} folders below {root} are called {subject.task}")
    digest = digest_of(found[0])
    if digest != recorded[0]:
        return skipped(f"{found[0]} is not what the trial ran ({recorded[0]} then, {digest} now)")
    return Admission(found[0], None)


def digest_of(folder: Path) -> str:
    """A task folder's digest, or why it has none."""
    try:
        return load_task(folder).digest
    except TaskError as error:
        return str(error)


def find_below(root: Path, task: str) -> list[Path]:
    """Task folders of that name at or below a root; links are not followed."""
    found: list[Path] = []
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        if is_task_folder(folder):
            if safe_name(folder.name) == task:
                found.append(folder)
            continue  # a task folder is not searched for more tasks
        if depth == DEEPEST:
            continue
        try:
            inner = sorted(folder.iterdir())
        except OSError:
            continue
        waiting += [
            (entry, depth + 1)
            for entry in inner
            if not entry.name.startswith(".") and not entry.is_symlink() and entry.is_dir()
        ]
    return found
