"""A disk that is full: told from other faults, whatever error it came as."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from ..events.errors import DISK_FULL, LogUnavailable, said
from ..projections.errors import FilesUnwritable
from .errors import ConfigError, log_error_in


def stopped_by(error: Exception) -> str | None:
    """In words what ends a job that is no fault of its own: its log failed, or the disk is full."""
    of_the_log = log_error_in(error)
    if of_the_log is not None:
        return str(of_the_log)
    full = full_disk_in(error)
    return None if full is None else said(full)


def full_disk_in(error: BaseException) -> BaseException | None:
    """What was raised because a disk is full: the error, or one in a group; else null."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((found for one in inner if (found := full_disk_in(one))), None)
    return error if any(map(_of_a_full_disk, _causes(error))) else None


def place_of_full_disk(error: BaseException) -> Path | None:
    """A place on the disk that is full, where one of the error's causes names it."""
    for cause in _causes(error):
        if isinstance(cause, LogUnavailable):
            return Path(cause.path).parent
        if isinstance(cause, FilesUnwritable):
            return cause.path.parent
        if isinstance(cause, ConfigError) and cause.file is not None:
            return Path(cause.file)
        if isinstance(cause, OSError) and isinstance(cause.filename, str | bytes):
            return Path(os.fsdecode(cause.filename)).parent
    return None


def _of_a_full_disk(error: BaseException) -> bool:
    if isinstance(error, LogUnavailable):
        return error.full
    return isinstance(error, OSError) and error.errno in DISK_FULL


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it was raised from."""
    here: BaseException | None = error
    while here is not None:
        yield from _inner(here)
        here = here.__cause__


def _inner(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _causes(one)
    else:
        yield error
