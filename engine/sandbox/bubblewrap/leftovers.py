"""Processes of a phase, as the phase itself or the host sees them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ....events.kinds.parts import Process
from ..left import named, number

FIRST = 1
"""The id of a phase's first process, inside."""


def parse_left(report: bytes) -> list[Process]:
    """What a phase's first process reported: lines ``left`` and a line of /proc/ID/stat.

    Others inside can write into the same pipe.
    """
    found: dict[int, str] = {}
    for line in report.decode("utf-8", "replace").splitlines():
        word, _, stat = line.partition(" ")
        text, _, rest = stat.partition(" (")
        pid = number(text)
        if word != "left" or pid is None or pid == FIRST:
            continue
        name, closed, fields = rest.rpartition(") ")
        if closed and fields[:1] in ("Z", "X"):
            continue
        found[pid] = name if closed else rest
    return named(found.items())


def in_namespace_of(first: int) -> list[Process]:
    """The other processes of a process namespace, by the id of its first one on the host."""
    found: dict[int, str] = {}
    try:
        namespace = os.readlink(f"/proc/{first}/ns/pid")
    except OSError:
        return []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == first:
            continue
        try:
            if os.readlink(entry / "ns/pid") != namespace:
                continue
            status = (entry / "status").read_text("utf-8", "replace")
        except OSError:
            continue
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if not fields.get("State", "Z").startswith(("Z", "X")):
            found[int(fields["NSpid"].split()[-1])] = fields["Name"]
    return named(found.items())


def child_of_halted(parent: int) -> int | None:
    """The child of a process that is being halted, once it is; None when it has none or is gone."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        state = _stat(parent)
        if state is None or state[0] in ("Z", "X"):
            return None
        if state[0] in ("T", "t"):
            break
        time.sleep(0.001)  # in a worker thread
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state = _stat(int(entry.name))
            if state is not None and state[1] == parent:
                return int(entry.name)
    return None


def _stat(pid: int) -> tuple[str, int] | None:
    """A process's state and its parent."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line.rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[1])
