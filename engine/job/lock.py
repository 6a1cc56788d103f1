"""One process owns a job: an operating-system lock, freed at once when the process dies."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from anyio import to_thread

from ..errors import JobLocked

_LOOKS = 3
_LOOK_SEC = 0.01
"""Whoever only asks for the owner has the lock for a moment, and is none."""


class Owner(msgspec.Struct, frozen=True):
    """Who holds a job's lock."""

    pid: int
    host: str


def lock_path(jobs_folder: Path, job: str) -> Path:
    """The lock's file; beside the jobs, so that a deleted job folder takes no lock with it."""
    return jobs_folder / ".locks" / f"{job}.lock"


@asynccontextmanager
async def own(jobs_folder: Path, job: str) -> AsyncGenerator[None]:
    """Own the job while the context lasts. Raises JobLocked, which names the owner."""
    descriptor = await to_thread.run_sync(_take, lock_path(jobs_folder, job), job)
    try:
        yield
    finally:
        os.close(descriptor)


async def is_owned(jobs_folder: Path, job: str) -> bool:
    """Whether a process owns the job now. Nothing is written, so a read-only folder will do."""
    return await to_thread.run_sync(_is_taken, lock_path(jobs_folder, job))


def _is_taken(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that several that ask don't take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(descriptor: int) -> None:
    for _ in range(_LOOKS):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_SEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _take(path: Path, job: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        owner = read_owner(path)
        raise JobLocked(job, owner.pid if owner else None, owner.host if owner else None) from None
    os.ftruncate(descriptor, 0)
    me = Owner(os.getpid(), socket.gethostname())
    try:
        os.pwrite(descriptor, msgspec.json.encode(me), 0)
    except OSError as error:  # which names no file
        os.close(descriptor)
        raise OSError(error.errno, error.strerror, str(path)) from error
    return descriptor


def read_owner(path: Path) -> Owner | None:
    """Who last took the lock, as far as the file tells."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None
