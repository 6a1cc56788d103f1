"""Parts of a git repository that lead to where other settings and hooks are."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Awaitable, Callable

from ...sandbox.protocol import FileSeen
from . import git

Look = Callable[[str], Awaitable[FileSeen]]
LookTwice = Callable[[str], Awaitable[tuple[FileSeen, FileSeen]]]
"""What is at a path now, and what the image has there."""


async def is_no_repository(config: str, look: Look) -> bool:
    """Whether a file called config is none of a bare repository's."""
    return (await look(f"{config.rpartition('/')[0]}/HEAD")).kind == "missing"


async def leads_to_programs(path: str, now: FileSeen, look: LookTwice) -> bool:
    """Whether a .git or commondir leads to settings or hooks by which git runs programs."""
    target = now.data
    if now.kind == "file" and not path.endswith("/commondir"):
        target = git.git_folder(now.data or b"")
    if target is None:
        return False
    places = [_joined(path.rpartition("/")[0], target)]
    common, _ = await look(f"{places[0]}/commondir")
    if common.data is not None:
        places.append(_joined(places[0], common.data))
    for place in places:
        if await _runs_programs(place, look):
            return True
    return False


def _joined(folder: str, target: bytes) -> str:
    return posixpath.normpath(posixpath.join(folder, os.fsdecode(target.strip())))


async def _runs_programs(folder: str, look: LookTwice) -> bool:
    for name in ("", "config", "config.worktree", "hooks"):
        now, _ = await look(f"{folder}/{name}".rstrip("/"))
        if now.kind == "link" or (now.data and git.without_programs(now.data) is not None):
            return True
    for name in git.HOOKS:
        now, image = await look(f"{folder}/hooks/{name}")
        if now.kind != "missing" and (now.kind, now.sha256) != (image.kind, image.sha256):
            return True
    return False
