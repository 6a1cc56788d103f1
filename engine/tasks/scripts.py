"""test.sh and solve.sh: which program runs them, and whether it can."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ..errors import TaskError
from .files import Bounds, chunks, regular_file

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "busybox"})
_FIRST_LINE_CAP = 4096


def interpreter(script: Path) -> list[str]:
    """The command that runs a script which has no run bit: its shebang's, else ``bash``.

    What follows the program on the shebang line is split at blanks, ``env -S`` is taken apart, and
    a carriage return at the line's end is dropped. Raises TaskError when it can't be read.
    """
    return _interpreter(next(chunks(script), b""))


def check_script(path: Path, bounds: Bounds, *, what: str) -> bytes:
    """A script's bytes. Raises TaskError when no interpreter could run it.

    Refused: what is no file, and CRLF line ends in a shell script, because the shell takes the
    carriage returns for parts of its words.
    """
    data = b"".join(chunks(regular_file(path, bounds, what=what)))
    if b"\0" in data[:_FIRST_LINE_CAP].split(b"\n", 1)[0]:
        raise TaskError(f"{what} has a NUL character in its first line; remove it", file=path)
    shell = shell_of(_interpreter(data))
    if shell is not None and is_crlf(data):
        raise TaskError(
            f"{what} has CRLF line ends, and {shell} takes the carriage returns for parts of its "
            f"commands; run: sed -i 's/\\r$//' {shlex.quote(str(path))}",
            file=path,
        )
    return data


def _interpreter(data: bytes) -> list[str]:
    first = data[:_FIRST_LINE_CAP].split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return ["bash"]
    line = first[2:].decode("utf-8", "surrogateescape").strip()
    match = re.fullmatch(r"(\S*/env)\s+(?:-S\s*|--split-string[=\s]\s*)(.+)", line)
    if match is None:
        return line.split() or ["bash"]
    try:
        return [match[1], *shlex.split(match[2])]
    except ValueError:
        return [match[1], *match[2].split()]


def shell_of(command: list[str]) -> str | None:
    """The shell that a command starts, if it starts one."""
    names = [Path(word).name for word in command]
    words = names[:1] if names[0] != "env" else names[1:]
    return next((word for word in words if word in _SHELLS), None)


def is_crlf(data: bytes) -> bool:
    """The first line ends so, or at least half of all lines do."""
    first, _, _ = data.partition(b"\n")
    return first.endswith(b"\r") or data.count(b"\r\n") * 2 >= max(data.count(b"\n"), 1)
