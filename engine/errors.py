"""Errors of the engine. The tree, below the log's own TrialogError:

    TrialogError
      ConfigError              what the user gave is wrong: file, key, what was found, what to do
        TaskError              a task folder can't be used
      CommandRefused           the command makes no sense in the state that things are in
        JobLocked              another process owns the job
      JobStopped               the log failed under a running job
        ReviewStopped          or under a rubric review
        RegradeStopped         or under a regrade
      SandboxError             a sandbox could not do what was asked
        LimitsRefused          a limit can't be held, and --strict-limits was given
        SandboxUnavailable     no engine, no namespaces
        ImageError             no such image, or it can't be built
          BuildTimeout         building or pulling it took too long
        SandboxStartTimeout    the sandbox did not come up in time
        SandboxGone            the sandbox went away under our hands

A failing agent or verifier is an event, not an exception.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, cast

from ..events.errors import LogError, TrialogError

if TYPE_CHECKING:
    from pathlib import Path


class ConfigError(TrialogError):
    """Something the user gave is wrong. The message names file and key."""

    def __init__(
        self, message: str, *, file: Path | str | None = None, key: str | None = None
    ) -> None:
        self.file = file
        self.key = key
        place = ": ".join(str(part) for part in (file, key) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class TaskError(ConfigError):
    """A task folder can't be used."""


class CommandRefused(TrialogError):
    """The command makes no sense in the state that things are in."""


class JobLocked(CommandRefused):
    """Another process owns the job."""

    def __init__(self, job: str, pid: int | None, host: str | None) -> None:
        self.job = job
        self.pid = pid
        self.host = host
        what, _, review = job.partition("review-")
        thing = f"job {job}" if what or not review else f"review {review}"
        super().__init__(
            f"{thing} is run by process {pid} on {host}; wait for it, or stop it first"
        )


class JobStopped(TrialogError):
    """A job stopped because its log failed, or because its disk was full. `folder` is the job's."""

    def __init__(self, job: str, folder: Path, reason: str) -> None:
        self.job = job
        self.reason = reason
        super().__init__(_stopped(f"job {job}", reason, f"resume {_word(folder)}"))


class ReviewStopped(JobStopped):
    """The same of a review. `folder` is that of the job or trial that is reviewed."""

    def __init__(self, review: str, folder: Path, reason: str) -> None:
        self.job = review
        self.reason = reason
        command = f"review run {_word(folder)} --resume {review}"
        TrialogError.__init__(self, _stopped(f"review {review}", reason, command))


class RegradeStopped(JobStopped):
    """The same of a regrade."""

    def __init__(self, regrade: str, job: str, folder: Path, reason: str) -> None:
        self.job = job
        self.reason = reason
        command = f"regrade {_word(folder)} --resume"
        TrialogError.__init__(self, _stopped(f"regrade {regrade}", reason, command))


def _word(folder: Path) -> str:
    """A folder for a command line. A name alone may be another job's in another log."""
    return shlex.quote(os.path.normpath(folder))


def _stopped(what: str, reason: str, command: str) -> str:
    return f"{what} stopped: {reason}; once that is mended, `trialog {command}` goes on"


class SandboxError(TrialogError):
    """A sandbox could not do what was asked."""

    category = "sandbox_failed"


class SandboxUnavailable(SandboxError):
    """There is no engine, or this machine forbids what the sandbox needs."""

    category = "sandbox_unavailable"


class LimitsRefused(SandboxError):
    """A limit can't be held here, and the user asked for refusal rather than a warning."""

    category = "limits_refused"


class ImageError(SandboxError):
    """There is no such image, or it can't be built."""

    category = "image_unavailable"


class BuildTimeout(ImageError):
    """Building or pulling the image took longer than its deadline."""

    category = "build_timeout"


class TransferFailed(SandboxError):
    """What a sandbox is to begin with could not be brought into it, or out of the one before."""

    category = "transfer_failed"

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what}: {reason}")


class WorkTooLarge(TransferFailed):
    """The agent left more than may be brought over; another try of the same work is no use."""

    category = "work_too_large"


class SandboxStartTimeout(SandboxError):
    """The sandbox did not come up within its deadline."""

    category = "start_timeout"


class SandboxGone(SandboxError):
    """The sandbox went away under the engine's hands."""

    category = "sandbox_lost"


def log_error_in(error: Exception) -> LogError | None:
    """The log's error that an error is, or one in a group; null where it is another."""
    if isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error).exceptions
        return next((found for one in inner if (found := log_error_in(one))), None)
    return error if isinstance(error, LogError) else None
