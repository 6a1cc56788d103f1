"""Scratch folders: what a running engine keeps on disk for its trials, and nothing after it.

Each engine process has one, beside the log and named for the process, so that a later one can tell
whose it was and remove what a killed engine left.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import CancelScope, to_thread

from .archive import remove_tree
from .disk_hint import keep_apart
from .sandbox.owner import is_dead, parse_owner, this_process

FOLDER = ".scratch"
TRIES = 4
_COLON = "@"
"""A colon has a meaning of its own in lists of mounts and paths."""


@asynccontextmanager
async def scratch_folder(jobs_folder: Path, job: str) -> AsyncGenerator[Path]:
    """A folder for this process and job, gone afterwards."""
    folder = await to_thread.run_sync(_make, jobs_folder, job)
    try:
        yield folder
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(_remove, folder)


def _make(jobs_folder: Path, job: str) -> Path:
    folder = jobs_folder / FOLDER / str(this_process()).replace(":", _COLON) / job
    folder.mkdir(parents=True, exist_ok=True)
    # What trials leave here is for nobody else on this machine, verifiers' files above all.
    os.chmod(folder.parent, 0o700)
    keep_apart(folder)
    return folder


def _remove(folder: Path) -> None:
    for attempt in range(TRIES):
        try:
            remove_tree(folder)
        except OSError:
            # A thread may still write the last of some output; what stays is swept later.
            time.sleep(0.05 * attempt)
        else:
            break
    for empty in (folder.parent, folder.parent.parent):
        try:
            empty.rmdir()
        except OSError:
            return


def sweep(jobs_folder: Path) -> list[str]:
    """Remove the scratch folders of dead engines; gives their names."""
    try:
        found = sorted((jobs_folder / FOLDER).iterdir())
    except OSError:
        return []
    gone: list[str] = []
    for folder in found:
        owner = parse_owner(folder.name.replace(_COLON, ":"))
        if owner is not None and is_dead(owner):
            remove_tree(folder)
            gone.append(folder.name)
    return gone
