"""What a sandbox says is still running in it. Whoever is inside may have made that up.

So numbers are small, names are short, and there are not many of them, whatever was reported.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...events.kinds.parts import Process

MOST = 256
"""Processes that are named; more are killed all the same."""
LONGEST = 64
"""Characters of a process's name; the kernel gives 15 bytes to a program, and 63 to its own."""


def number(text: str) -> int | None:
    """A number of at most ten ASCII digits, as process ids and exit codes are."""
    return int(text) if len(text) <= 10 and text.isascii() and text.isdigit() else None


def named(found: Iterable[tuple[int, str]]) -> list[Process]:
    """The first of these processes by their ids, with names cut."""
    return [Process(pid=pid, name=name[:LONGEST]) for pid, name in sorted(found)[:MOST]]
