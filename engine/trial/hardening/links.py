"""Where a link leads that an agent left.

An answer that is a link to the expected one would be right by itself.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Awaitable, Callable, Sequence

from ...sandbox.protocol import FileSeen

MOST_STEPS = 400
"""Names that are followed; the kernel gives up after 40 links."""

_ANYWHERE = re.compile(
    r"/proc/[^/]+/(?:task/[^/]+/)?(?:(?:root|cwd)(?:/|$)|fd/[^/]+/)|/dev/fd/[^/]+/|.*/\.\.(?:/|$)"
)
"""What leads out of the kernel's own folders, by the view of whoever follows it."""
_KERNELS = ("/proc", "/dev", "/sys")

_AMONG_PROCESSES = frozenset({b"root", b"cwd", b"fd"})

Look = Callable[[str], Awaitable[FileSeen]]


def may_lead(target: bytes, places: Sequence[str]) -> bool:
    """Whether a link's own words could lead into one of some places, or above it.

    One that gets there by another link alone need not be known: that one is.
    """
    names = {os.fsencode(posixpath.basename(place)) for place in places}
    above = {os.fsencode(posixpath.basename(posixpath.dirname(place))) for place in places}
    words = target.split(b"/")
    last = next((word for word in reversed(words) if word not in (b"", b".")), b"")
    return last in above or last == b".." or not (names | _AMONG_PROCESSES).isdisjoint(words)


async def end_of(path: str, target: bytes, look: Look, places: Sequence[str]) -> str | None:
    """Where a link at `path` leads; None for into one of some places, or where that can't be told.

    The system follows nothing: each name is looked at, and one that is not there counts as a
    folder. Raises OSError.
    """
    here = "/" if target.startswith(b"/") else posixpath.dirname(path)
    names = _names(target)
    for _ in range(MOST_STEPS):
        if _is_below(here, places):
            return None
        if _is_below(here, _KERNELS):
            whole = "/".join([here, *names])
            return None if _ANYWHERE.match(whole) else whole
        if not names:
            return here
        name = names.pop(0)
        if name == "..":
            here = posixpath.dirname(here)
            continue
        below = posixpath.join(here, name)
        at_place = _is_below(below, [*places, *_KERNELS])
        seen = FileSeen(kind="folder") if at_place else await look(below)
        if seen.kind == "link" and seen.data is not None:
            names = [*_names(seen.data), *names]
            here = "/" if seen.data.startswith(b"/") else here
        else:
            here = below
    return path  # a circle


def _names(target: bytes) -> list[str]:
    return [name for name in os.fsdecode(target).split("/") if name not in ("", ".")]


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)
