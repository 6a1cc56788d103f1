"""Ending a hook process with everything that its hooks have started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from .mark import MARK

_ROUNDS = 100
"""How often the processes are looked for anew, while there are new ones."""


def kill_tree(leader: int, mark: str) -> None:
    """Kill a session's leader and all that came of it: its group, its session, its descendants,
    and whatever carries the mark.

    They are stopped first, so that none makes another while the rest is looked for. The leader is
    not waited for, so that its id is still its own.
    """
    _signal_group(leader, signal.SIGSTOP)
    found = {leader}
    for _ in range(_ROUNDS):
        new = _below(found, leader, f"{MARK}={mark}".encode()) - found
        if not new:
            break
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        found |= new
    _signal_group(leader, signal.SIGKILL)
    for pid in found:
        _signal(pid, signal.SIGKILL)


def _below(found: set[int], session: int, mark: bytes) -> set[int]:
    """Processes whose parent was found, that are in the session, or that carry the mark."""
    parents: dict[int, int] = {}
    below: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid = int(name)
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent, _, in_session = file.read().rpartition(b")")[2].split()[:4]
            if state == b"Z":
                continue
            parents[pid] = int(parent)
            if int(in_session) == session:
                below.add(pid)
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    below.add(pid)
        except OSError:  # it has ended, or is another user's
            continue
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below | found} - below
        below |= more
        grown = bool(more)
    return below


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
