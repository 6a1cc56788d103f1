"""Who made a sandbox: a label that tells later whether its engine still runs.

A process id alone is reused; with the machine's boot and the process's start it is not.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_FIRST_PID_NAMESPACE = 4026531836
"""The kernel's own number for it; processes in a container are in another one."""


class Owner(NamedTuple):
    """An engine's process. Written as ``host:pid:start``."""

    host: str
    pid: int
    start: str
    """Tells it from an earlier or later process with the same id."""

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.start}"


def parse_owner(label: str) -> Owner | None:
    """Read an owner's label; None when this is not one."""
    parts = label.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not parts[1].isascii() or not parts[1].isdigit():
        return None
    return Owner(parts[0], int(parts[1]), parts[2])


def this_process() -> Owner:
    """The owner that this process is. Reads files the first time."""
    return _owner(os.getpid())


@functools.cache
def _owner(pid: int) -> Owner:
    return Owner(this_host(), pid, process_start(pid) or "")


@functools.cache
def this_host() -> str:
    """Where process ids mean what they mean here: the host, or one container on it."""
    name = socket.gethostname().replace(":", "-") or "localhost"
    try:
        namespace = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return name
    return name if namespace == _FIRST_PID_NAMESPACE else f"{name}~{namespace}"


def process_start(pid: int) -> str | None:
    """When a process began, as a text that no other process of this host has with this id.

    None when it does not run; one that has ended and is only waited for does not run.
    """
    if pid <= 0:
        return None
    try:
        line = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except FileNotFoundError:
        return None if (_PROC / "self").exists() else _start_by_ps(pid)
    except ProcessLookupError:
        return None
    fields = line.rpartition(")")[2].split()  # the name before it may hold anything
    if fields[0] in ("Z", "X", "x"):
        return None
    return f"{_boot()}.{fields[19]}"


def is_dead(owner: Owner) -> bool:
    """Whether an owner is of this host and runs no more. One of another host is never dead."""
    return owner.host == this_host() and process_start(owner.pid) != owner.start


@functools.cache
def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip().partition("-")[0]
    except OSError:
        return "0"


def _start_by_ps(pid: int) -> str | None:
    """Where there is no /proc (macOS)."""
    try:
        asked = subprocess.run(
            ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    state, _, start = asked.stdout.strip().partition(" ")
    return None if not start or state.startswith("Z") else start.strip().replace(":", ".")
