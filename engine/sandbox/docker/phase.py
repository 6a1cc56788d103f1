"""A phase's first process: a shell script, and what it reports in its output.

The script runs the command as its child, reports what is left when the child has ended, and ends
with the child's exit code. Its reports are lines that begin with a mark of the phase's own; all
else is the command's output. A command that reads the mark and prints it shortens its own phase,
which it could do by ending as well.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence

from ....events.kinds.parts import Process
from ..left import named, number

CONTROL = "/.trialog-phase"
"""Where the folder with the script is seen inside, read-only."""

SCRIPT = "phase"
STDIN = "stdin"

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = frozenset(
    "BASHOPTS BASH_VERSINFO EUID FUNCNAME GROUPS IFS LINENO OPTIND PPID RANDOM SECONDS SHELLOPTS"
    " UID _".split()
)
"""Names that some shells don't let a script set, or that change how it works."""

_MOST_REPORTED = 1024 * 1024
"""Bytes; thousands of processes fit."""
_MOST_EARLY = 2000


def new_mark() -> str:
    """A mark that no output holds by chance."""
    return secrets.token_hex(16)


def script(
    mark: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    workdir: str,
    *,
    stays: bool = False,
    gate: str | None = None,
) -> bytes:
    """The shell script of a phase. Only the shell's own commands are used, no program of the image.

    One that `stays` after its report keeps a reader at the other end of what the command left, as
    long as that goes on printing: an engine takes the output away from what it sees as ended.

    With a `gate`, a pipe in the control folder, nothing is done before a line can be read there.

    The first process's own error output goes nowhere: shells comment there on killed children.
    """
    exports: list[str] = []
    unusual: list[str] = []
    for name, value in env.items():
        if _PLAIN_NAME.fullmatch(name) and name not in _SHELLS_OWN:
            exports.append(f"export {name}={_quote(value)}")
        else:
            unusual.append(_quote(f"{name}={value}"))
    command = " ".join(_quote(word) for word in argv)
    if unusual:
        command = f"/usr/bin/env {' '.join(unusual)} {command}"
    folder = _quote(workdir)
    lines = [
        "exec 2>/dev/null",
        *([] if gate is None else [f"read -r go <{CONTROL}/{gate} || exit 125"]),
        f"report() {{ printf '\\036{mark} %s\\n' \"$1\"; }}",
        "processes() {",
        "  for each in /proc/[0-9]*/stat; do",
        '    if read -r line <"$each"; then report "$1 $line"; fi',
        "  done",
        "}",
        "processes before",
        'report "begin $$"',
        f"[ -d {folder} ] || mkdir -p -- {folder}",
        "(",
        "exec 2>&1",
        f"cd -- {folder} || exit 126",
        "unset OLDPWD",
        *exports,
        f"exec {command}",
        f") <{CONTROL}/{STDIN}",
        "code=$?",
        "processes left",
        'report "end $code"',
        "while :; do sleep 3600; done" if stays else 'exit "$code"',
    ]
    return "\n".join(lines).encode("utf-8", "surrogateescape") + b"\n"


def _quote(word: str) -> str:
    return shlex.quote(word)


class PhaseOutput:
    """Takes the script's reports out of a phase's output and passes the rest on."""

    def __init__(self, mark: str, output: Callable[[bytes], None]) -> None:
        self._mark = b"\x1e" + mark.encode() + b" "
        self._output = output
        self._held = b""
        self._reported = 0
        self._before: dict[tuple[int, str], str] = {}
        self._left: dict[tuple[int, str], str] = {}
        self._own: int | None = None
        self._early = b""
        self.code: int | None = None
        """The command's exit code, once the script has reported the end."""

    @property
    def begun(self) -> bool:
        """The phase's first process has run."""
        return self._own is not None

    @property
    def first(self) -> int | None:
        """The phase's first process, by its id inside; null before it has begun."""
        return self._own

    @property
    def ended(self) -> bool:
        """The command has ended."""
        return self.code is not None

    @property
    def early(self) -> str:
        """What was printed before the script began, by something else then: an error."""
        return self._early.decode("utf-8", "replace").strip()

    @property
    def left(self) -> list[Process]:
        """Processes that the command left, in the order of their ids, as the sandbox has it."""
        return named(
            (pid, name)
            for (pid, start), name in self._left.items()
            if (pid, start) not in self._before
        )

    @property
    def before(self) -> list[str]:
        """Names of the processes that were there before the command (an entrypoint's)."""
        return list(self._before.values())

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; whether any of them were the command's."""
        data = self._held + data
        self._held = b""
        passed = False
        while True:
            place = data.find(self._mark)
            if place < 0:
                kept = _overlap(data, self._mark)
                self._held = data[len(data) - kept :]
                return self._pass(data[: len(data) - kept]) or passed
            passed = self._pass(data[:place]) or passed
            data = data[place:]
            end = data.find(b"\n")
            if end < 0:
                if len(data) <= _MOST_REPORTED:
                    self._held = data
                return passed
            self._take(data[len(self._mark) : end])
            data = data[end + 1 :]

    def close(self) -> None:
        """The output is over: what was held back is the command's."""
        held, self._held = self._held, b""
        if not held.startswith(self._mark):
            self._pass(held)

    def _pass(self, data: bytes) -> bool:
        """Pass on what was printed before the command's end; later prints are of no phase."""
        if not data or self.ended:
            return False
        if not self.begun:
            self._early = (self._early + data)[-_MOST_EARLY:]
            return False
        self._output(data)
        return True

    def _take(self, report: bytes) -> None:
        if self.ended:
            return
        self._reported += len(report)
        word, _, rest = report.decode("utf-8", "replace").partition(" ")
        told = number(rest)
        if word == "begin" and told is not None and self._own is None:
            self._own = told
            self._before = {key: name for key, name in self._before.items() if key[0] != self._own}
        elif word == "end" and told is not None:
            self.code = told
        elif word in ("before", "left") and self._reported <= _MOST_REPORTED:
            found = _process(rest)
            if found is not None and found[0] != self._own:
                kept = self._before if word == "before" and not self.begun else self._left
                kept[found[0], found[2]] = found[1]


def _overlap(data: bytes, mark: bytes) -> int:
    """How many bytes at the end of some data may be the beginning of a mark."""
    tail = data[-(len(mark) - 1) :]
    place = tail.find(mark[:1])
    while place >= 0:
        if mark.startswith(tail[place:]):
            return len(tail) - place
        place = tail.find(mark[:1], place + 1)
    return 0


def _process(stat: str) -> tuple[int, str, str] | None:
    """Id, name and start of a line of /proc/ID/stat; None for one that has ended already."""
    text, _, rest = stat.partition(" ")
    pid = number(text)
    name, closed, fields = rest.rpartition(") ")
    if pid is None:
        return None
    if not closed:  # a name with a line end in it: the rest of the line is missing
        return pid, rest.removeprefix("("), ""
    parts = fields.split()
    if parts and parts[0] in ("Z", "X"):
        return None
    return pid, name.removeprefix("("), parts[19] if len(parts) > 19 else ""
