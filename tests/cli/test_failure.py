"""How errors end a command."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from trialog.engine.console.failure import exit_code, lines, unwrapped
from trialog.engine.errors import (
    ConfigError,
    JobLocked,
    JobStopped,
    RegradeStopped,
    ReviewStopped,
    SandboxError,
    SandboxUnavailable,
    TaskError,
)
from trialog.engine.tasks.dataset import TasksError
from trialog.events.errors import LogUnavailable


def told(error: BaseException, **environ: str) -> list[str]:
    """The lines that a person reads."""
    return list(lines(error, environ))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (SandboxUnavailable("x"), 2),
        (JobLocked("j", 1, "h"), 2),
        (LogUnavailable("x", "y"), 2),
        (SandboxError("x"), 1),
        (ValueError("x"), 1),
        (KeyboardInterrupt(), 130),
        (ExceptionGroup("g", [ConfigError("x"), ConfigError("y")]), 2),
        (BaseExceptionGroup("g", [ValueError("x"), KeyboardInterrupt()]), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    """2 for what the user can mend, 1 for our own faults, 130 for an interruption."""
    assert exit_code(unwrapped(error)) == code


def test_error_and_hint() -> None:
    """What is wrong is the error; what to do next, after the last semicolon, is the hint."""
    error = ConfigError("unknown agent 'x'; did you mean y?", key="--agent")
    assert told(error) == ["error: --agent: unknown agent 'x'", "hint: did you mean y?"]


def test_groups_are_unwrapped_once() -> None:
    """Errors within groups are told one by one, equal ones once."""
    error = ExceptionGroup("a", [ConfigError("x"), ExceptionGroup("b", [ConfigError("x")])])
    assert told(error) == ["error: x"]


def test_our_own_fault() -> None:
    """A fault of the engine's says where, and that it is to be reported; no traceback."""
    try:
        raise ValueError("odd \x1b[2J")  # noqa: TRY301 - it needs a place
    except ValueError as error:
        first, hint = told(error)
    assert first.startswith(r"error: ValueError: odd \x1b[2J (")
    assert "test_failure.py" in first
    assert "report" in hint


def test_traceback_on_request() -> None:
    """TRIALOG_DEBUG=1 shows the traceback before the error."""
    assert told(ConfigError("x"), TRIALOG_DEBUG="1")[-1] == "error: x"
    assert len(told(ConfigError("x"), TRIALOG_DEBUG="1")) > 1


def test_several_broken_tasks() -> None:
    """All broken tasks are named, each on a line of its own; the others can be run without."""
    error = TasksError([TaskError("a\nb"), TaskError("c")], 3, names=["x y", "c"])
    assert told(error) == [
        "error: 2 of 3 tasks can't be used", r"  a\nb", "  c",
        "hint: run the others with --exclude 'x y' --exclude c",
    ]  # fmt: skip
    many = TasksError([TaskError("a")] * 6, 7, names=list("abcdef"))
    assert told(many)[-1] == "hint: run the others with --exclude GLOB"
    every = TasksError([TaskError("a"), TaskError("b")], 2, names=["a", "b"])
    assert not told(every)[-1].startswith("hint")


def test_a_semicolon_of_another_error_is_none() -> None:
    """Only messages that are made so are cut into error and hint."""
    assert told(LogUnavailable("x", "a; b")) == ["error: log x: a; b"]


def test_system_errors_name_the_file() -> None:
    """An error of the operating system is told by file and reason."""
    assert told(PermissionError(13, "Permission denied", "/x\ny")) == [
        r"error: /x\ny: Permission denied"
    ]


def test_hostile_message() -> None:
    """Names in messages can't control the terminal."""
    assert told(ConfigError("task \x1b]0;x\x07")) == [r"error: task \x1b]0;x\x07"]


def test_a_full_disk(tmp_path: Path) -> None:
    """It is told as one, with the disk, what is safe and what to do, whatever error it came as."""
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "gone" / "file"))
    first, note, hint = told(full)
    assert first == f"error: {tmp_path}/gone/file: the disk is full (No space left on device)"
    assert note.startswith("note: the disk is /")
    assert note.endswith("free by now; what the log has is kept")
    assert hint == "hint: make room, then run the same command again"

    stopped = RegradeStopped("R", "J", Path("/a b/jobs/J"), "the disk is full")
    stopped.__cause__ = LogUnavailable(tmp_path / "trialog.db", "x", full=True)
    assert told(stopped)[1].startswith("note: the disk is /")
    assert told(stopped)[2:] == [
        "hint: once that is mended, `trialog regrade '/a b/jobs/J' --resume` goes on"
    ]
    assert told(LogUnavailable(tmp_path / "trialog.db", "x")) == [
        f"error: log {tmp_path}/trialog.db: x"
    ]


def test_what_goes_on_is_named_by_its_folder() -> None:
    """A hint that is copied reaches the same job or review from any folder, whatever its name."""
    assert told(JobStopped("J", Path("/a b/jobs/J"), "x")) == [
        "error: job J stopped: x",
        "hint: once that is mended, `trialog resume '/a b/jobs/J'` goes on",
    ]
    assert told(ReviewStopped("R", Path("/a b/J/reviews/R/../.."), "x")) == [
        "error: review R stopped: x",
        "hint: once that is mended, `trialog review run '/a b/J' --resume R` goes on",
    ]


def test_a_full_disk_without_a_place() -> None:
    """Where no error names a file, no disk is made up."""
    assert told(OSError(errno.EDQUOT, "Disk quota exceeded"))[:2] == [
        "error: the disk is full (Disk quota exceeded)", "note: what the log has is kept",
    ]  # fmt: skip


def test_who_runs_it() -> None:
    """A review that another process runs is not called a job."""
    assert "error: review 20261130T-1 is run by process 1 on h" in told(
        JobLocked("review-20261130T-1", 1, "h")
    )
    assert "error: job 2026-review-x is run by process 1 on h" in told(
        JobLocked("2026-review-x", 1, "h")
    )
