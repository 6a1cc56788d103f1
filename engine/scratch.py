"""Scratch folders: what a running engine keeps on disk for its trials, and nothing after it.

Each engine process has one, beside the log and named for the process, so that a later one can tell
whose it was and remove what a killed engine left.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import CancelScope, to_thread

from .archive import remove_tree
from .sandbox.owner import is_dead, parse_owner, this_process

FOLDER = ".scratch"
TRIES = 4
_COLON = "@"
"""A colon has a meaning of its own in lists of mounts and paths."""

_FLAGS = struct.calcsize("l")
_GET_FLAGS = 2 << 30 | _FLAGS << 16 | ord("f") << 8 | 1
_SET_FLAGS = 1 << 30 | _FLAGS << 16 | ord("f") << 8 | 2
_TOP = 0x20000
"""What `chattr +T` sets, with Linux's FS_IOC_GETFLAGS and FS_IOC_SETFLAGS."""


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
    _spread(folder)
    return folder


def _spread(folder: Path) -> None:
    """Tell ext4 to make the folders of this one apart from each other on the disk.

    Where it has no journal, a new file costs a look at every one that was removed beside it in the
    last minutes, and trials remove all that they make.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = int.from_bytes(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS))[:4], sys.byteorder)
        fcntl.ioctl(fd, _SET_FLAGS, (flags | _TOP).to_bytes(_FLAGS, sys.byteorder))
    except OSError:
        pass  # another file system
    finally:
        os.close(fd)


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
