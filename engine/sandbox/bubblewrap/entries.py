"""Single entries of a sandbox's own folders, seen from outside while nothing runs in it.

All of these folders began empty, so what is in them is changed, and the way back is to remove it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...archive.inside import find_paths, parent_of, rewrite, seen
from ...archive.removal import remove_entry
from ..protocol import FileSeen
from .layout import Layout, is_system

_VARIABLE = "/var/tmp"  # noqa: S108


def find_changed(
    layout: Layout, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
) -> list[str]:
    """Wanted paths in them; see the sandbox's protocol. Blocks."""
    skip = frozenset([*layout.folders, *(mount.target for mount in layout.mounts)])
    found: list[str] = []
    for target, folder in layout.folders.items():
        found += find_paths(folder, target, wanted, skip, links=links)
    return sorted(found)


def look(layout: Layout, path: str, cap: int, *, in_image: bool) -> FileSeen:
    """What is at a path; the host's own system is the image. Blocks. Raises OSError."""
    try:
        if path == _VARIABLE:
            return FileSeen(kind="link", data=b"../tmp")  # as the layout makes it
        if is_system(path):
            with parent_of(Path("/"), path) as (parent, name):
                return seen(parent, name, cap)
        if in_image:
            return FileSeen(kind="missing")
        place, rest = _place(layout, path)
        if not rest:
            return FileSeen(kind="folder")
        with parent_of(place, rest) as (parent, name):
            return seen(parent, name, cap)
    except (FileNotFoundError, NotADirectoryError):
        return FileSeen(kind="missing")


def put_back(layout: Layout, path: str) -> None:
    """Remove what is at a path. Blocks. Raises OSError."""
    with parent_of(*_place(layout, path)) as (parent, name):
        status = os.fstat(parent)
        if status.st_mode & 0o700 != 0o700:
            os.fchmod(parent, status.st_mode & 0o7777 | 0o700)
        remove_entry(parent, name)


def replace(layout: Layout, path: str, data: bytes) -> None:
    """Give a file other bytes. Blocks. Raises OSError."""
    rewrite(*_place(layout, path), data)


def _place(layout: Layout, path: str) -> tuple[Path, str]:
    place = layout.host_place(path)
    if place is None:
        raise PermissionError(f"{path} is the host's own, not the sandbox's")
    return place
