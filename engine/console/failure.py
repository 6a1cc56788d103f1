"""Errors as a person reads them, and the exit code of each."""

from __future__ import annotations

import shlex
import shutil
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from ...events.errors import LogError, TrialogError, said
from ...events.filesystem import mount_of
from ..errors import (
    CommandRefused,
    ConfigError,
    JobStopped,
    SandboxUnavailable,
)
from ..full_disk import full_disk_in, place_of_full_disk
from ..location import NotFound
from ..projects.faults import ProjectError
from ..reviews.rubric import RubricError
from ..tasks.dataset import TasksError
from .text import escaped, memory

__all__ = (
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_USAGE",
    "exit_code",
    "lines",
    "nobody_reads",
    "unwrapped",
)

EXIT_OK = 0
EXIT_FAILED = 1
"""Some trials errored or have no score, or a check found something."""
EXIT_USAGE = 2
"""The command or its configuration is wrong, or can't be had on this machine."""
EXIT_INTERRUPTED = 130

_NAMED = 5
REPORT_TO = "this is a fault of trialog's own: please report it with what TRIALOG_DEBUG=1 prints"


def unwrapped(error: BaseException) -> list[BaseException]:
    """The errors within exception groups, each message once; our own before cancellations."""
    found = list(_leaves(error))
    real = [one for one in found if not isinstance(one, KeyboardInterrupt)]
    kept: dict[tuple[type, str], BaseException] = {}
    for one in real or found:
        kept.setdefault((type(one), str(one)), one)
    return list(kept.values())


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)  # its parameter is not checked
        for inner in group.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def nobody_reads(error: BaseException) -> bool:
    """Whether a command ended because its reader had enough, as `head` has."""
    return all(isinstance(one, BrokenPipeError) for one in unwrapped(error))


def exit_code(errors: list[BaseException]) -> int:
    """The exit code of a command that ended with these errors."""
    if any(isinstance(error, KeyboardInterrupt) for error in errors):
        return EXIT_INTERRUPTED
    usage = (ConfigError, CommandRefused, SandboxUnavailable, LogError, NotFound)
    return EXIT_USAGE if all(isinstance(error, usage) for error in errors) else EXIT_FAILED


def lines(error: BaseException, environ: Mapping[str, str]) -> Iterator[str]:
    """``error: …`` lines and a hint; a traceback only with TRIALOG_DEBUG=1."""
    if environ.get("TRIALOG_DEBUG") == "1":
        yield from "".join(traceback.format_exception(error)).rstrip().split("\n")
    for one in unwrapped(error):
        told = list(_one(one))
        if (full := full_disk_in(one)) is not None:
            told[1:1] = _of_the_disk(full)
            if not told[-1].startswith("hint: "):
                told.append("hint: make room, then run the same command again")
        yield from told


def _of_the_disk(error: BaseException) -> Iterator[str]:
    """Which disk it is, what room it has by now, and what is safe."""
    kept = "what the log has is kept"
    place = place_of_full_disk(error)
    if place is None:
        yield f"note: {kept}"
        return
    here = next(one for one in (place.absolute(), *place.absolute().parents) if one.exists())
    room = shutil.disk_usage(here)
    point, kind = mount_of(here)
    name = f"{point} ({kind})" if point else str(here)
    yield (
        f"note: the disk is {escaped(name)}: {memory(room.free)} of {memory(room.total)} "
        f"free by now; {kept}"
    )


def _one(error: BaseException) -> Iterator[str]:
    match error:
        case KeyboardInterrupt():
            yield "error: interrupted"
        case TasksError():
            yield f"error: {len(error.errors)} of {error.chosen} tasks can't be used"
            for one in error.errors:
                yield f"  {escaped(one)}"
            if len(error.errors) < error.chosen:
                some = " ".join(f"--exclude {shlex.quote(name)}" for name in error.names[:_NAMED])
                if len(error.names) > _NAMED or not some:
                    some = "--exclude GLOB"
                yield f"hint: run the others with {escaped(some)}"
        case ProjectError() if len(error.faults) > 1:
            yield f"error: {len(error.faults)} faults in {escaped(error.what)}"
            for fault in error.faults:
                yield f"  {escaped(fault.shown(Path.cwd()))}"
        case RubricError() if len(error.faults) > 1:
            yield f"error: {len(error.faults)} faults in {escaped(error.file)}"
            for line in error.faults:
                yield f"  {escaped(line)}"
            yield f"hint: {escaped(error.advice)}"
        case ConfigError() | CommandRefused() | JobStopped() | SandboxUnavailable() | NotFound():
            # In these messages what to do next follows the last semicolon.
            message, semicolon, advice = str(error).rpartition("; ")
            yield f"error: {escaped(message if semicolon else error)}"
            if semicolon:
                yield f"hint: {escaped(advice)}"
        case TrialogError():
            yield f"error: {escaped(error)}"
        case OSError() if error.strerror:
            yield f"error: {escaped(said(error))}"
        case _:
            yield f"error: {type(error).__name__}: {escaped(error)}{_where(error)}"
            yield f"hint: {REPORT_TO}"


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "trialog" in frame.filename]
    return "".join(f" ({frame.filename}:{frame.lineno})" for frame in (ours or frames)[-1:])


def usage(message: str, command: str) -> Iterator[str]:
    """A wrong word on the command line."""
    text = message.replace("\n\t", " ").rstrip(".")
    text = text[:1].lower() + text[1:]
    yield f"error: {escaped(text)}"
    yield f"hint: `{command} --help` shows what can be given"


def write(text: Iterator[str]) -> None:
    """Print on standard error, without anything that could fail again."""
    for line in text:
        print(line, file=sys.stderr)  # noqa: T201
