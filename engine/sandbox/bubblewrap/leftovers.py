"""Processes of a phase, as the phase itself or the host sees them."""

from __future__ import annotations

import os
from pathlib import Path

from ....events.kinds.parts import Process

FIRST = 1
"""The id of a phase's first process, inside."""


def parse_left(report: bytes) -> list[Process]:
    """What a phase's first process reported: lines ``left`` and a line of /proc/ID/stat."""
    found: dict[int, str] = {}
    for line in report.decode("utf-8", "replace").splitlines():
        word, _, stat = line.partition(" ")
        pid, _, rest = stat.partition(" (")
        if word != "left" or not pid.isdigit() or int(pid) == FIRST:
            continue
        name, closed, fields = rest.rpartition(") ")
        if closed and fields[:1] in ("Z", "X"):
            continue
        found[int(pid)] = name if closed else rest
    return [Process(pid=pid, name=name) for pid, name in sorted(found.items())]


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
    return [Process(pid=pid, name=name) for pid, name in sorted(found.items())]
