"""What a reviewer may read: a copy of the trial's files and, where it is admitted, of its task.

Everything here is a copy in a folder of the engine's own; the reviewed trial is never touched.
Links are dropped, never followed. All functions block.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from ...events.errors import TrialogError
from ...projections.review import RUNTIME
from .rubric import FILE_NAME as RUBRIC
from .structure import RESULT_FILE

REPORT = "review_report.json"
"""Beside a folder of reviewers' runs it marks a review's folder, wherever that was put."""
REVIEWS = frozenset({"reviews", RUNTIME})
"""Folders of a trial's that reviews wrote into; no reviewer reads an earlier verdict."""
EARLIER = frozenset({REPORT, RESULT_FILE})
MESSAGE_LOGS = frozenset({"llm_trajectory.jsonl"})
"""A provider's whole message log: it repeats the growing conversation with every request."""
SKILLS = "skills"
LARGEST = 64 * 1024 * 1024
"""Bytes of one file; a larger one is left out, with a note."""
MOST_BYTES = 1024 * 1024 * 1024
DEEPEST = 64


class EvidenceOpen(TrialogError):
    """The evidence can't be made so that no reviewer could change it."""

    category = "evidence_open"


class EvidenceUnreadable(TrialogError):
    """The reviewed trial's records are damaged."""

    category = "evidence_unreadable"


def copy_trial(source: Path, target: Path) -> list[str]:
    """Copy a trial's folder, without what earlier reviews left; notes on what was left out."""

    def why(path: Path) -> str | None:
        if path.name in EARLIER or ((path / REPORT).is_file() and (path / RUNTIME).is_dir()):
            return "an earlier review"
        if path.name in REVIEWS and path.parent == source:
            return "an earlier review"
        return "a message log" if path.name in MESSAGE_LOGS else None

    return _copy(source, target, why)


def copy_task(source: Path, target: Path) -> list[str]:
    """Copy a task's folder, without its skills and any rubric; notes on what was left out."""

    def why(path: Path) -> str | None:
        return "" if path.name in (SKILLS, RUBRIC, ".git") else None

    return _copy(source, target, why)


def close(folder: Path) -> None:
    """Make a tree root's (where this is root), readable by all and writable by nobody else.

    Raises EvidenceOpen where that can't be had.
    """
    mine = os.geteuid()
    try:
        for at, folders, files in os.walk(folder):
            for name in (".", *folders, *files):
                path = Path(at, name)
                if path.is_symlink():
                    raise EvidenceOpen(f"{path} is a link")
                if mine == 0:
                    os.chown(path, 0, 0)
                is_folder = path.is_dir()
                path.chmod(0o755 if is_folder else 0o644)
        _confirm(folder, mine)
    except OSError as error:
        raise EvidenceOpen(f"the evidence can't be closed to its reader: {error}") from error


def _confirm(folder: Path, owner: int) -> None:
    for at, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            status = os.lstat(Path(at, name))
            readable = 0o555 if stat.S_ISDIR(status.st_mode) else 0o444
            mode = stat.S_IMODE(status.st_mode)
            if status.st_uid != owner or mode & 0o022 or mode & readable != readable:
                raise EvidenceOpen(
                    f"{Path(at, name)} belongs to user {status.st_uid} with mode {mode:04o}: its "
                    "reader could change it, or can't read it"
                )


def _copy(source: Path, target: Path, leaves_out: Callable[[Path], str | None]) -> list[str]:
    """`leaves_out` says why a path is left out; an empty text goes without a note."""
    notes: list[str] = []
    total = 0
    waiting = [(source, target, 0)]
    while waiting:
        here, there, depth = waiting.pop()
        there.mkdir(parents=True, exist_ok=True)
        with os.scandir(here) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        for entry in entries:
            path = Path(entry.path)
            shown = os.fsencode(target.name / path.relative_to(source)).decode("utf-8", "replace")
            if (why := leaves_out(path)) is not None:
                notes += [f"{shown}: {why}, left out"] if why else []
            elif entry.is_symlink():
                notes.append(f"{shown}: a link, left out")
            elif entry.is_dir():
                if depth == DEEPEST:
                    notes.append(f"{shown}: nested too deeply, left out")
                else:
                    waiting.append((path, there / entry.name, depth + 1))
            elif not entry.is_file():
                notes.append(f"{shown}: no regular file, left out")
            elif (size := entry.stat(follow_symlinks=False).st_size) > LARGEST:
                notes.append(f"{shown}: {size} bytes, over {LARGEST}, left out")
            elif total + size > MOST_BYTES:
                notes.append(f"{shown}: the evidence is over {MOST_BYTES} bytes, left out")
            else:
                total += size
                _copy_file(path, there / entry.name)
    return notes


def _copy_file(source: Path, target: Path) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(source, flags), "rb") as original, open(target, "xb") as copy:
        shutil.copyfileobj(original, copy, 1024 * 1024)
