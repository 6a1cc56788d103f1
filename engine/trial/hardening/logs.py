"""Links that an agent left among its logs and artifacts, which the host's folders hold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from anyio import to_thread

from ....events.kinds import TamperFound
from ....events.log import BlobStore
from ...archive.inside import find_paths, parent_of, seen
from ...archive.removal import remove_entry
from ...sandbox.protocol import FileSeen, Sandbox
from ..folders import tamper_found
from .links import Look, end_of, may_lead
from .races import settled


async def clear_logs(
    sandbox: Sandbox, folders: Mapping[str, Path], places: Sequence[str], blobs: BlobStore
) -> list[TamperFound]:
    """Take away what leads into some places. `folders` are the host's, by their paths inside.

    Raises OSError, SandboxGone.
    """

    async def look(path: str) -> FileSeen:
        for target, folder in folders.items():
            if path == target:
                return FileSeen(kind="folder")
            if path.startswith(f"{target}/"):
                return await to_thread.run_sync(_look, folder, path[len(target) :])
        return await sandbox.look(path, cap=0)

    found: list[TamperFound] = []
    links = await to_thread.run_sync(_all_links, folders, places)
    for target, folder in folders.items():
        for path in links[target]:
            if await settled(partial(_take_away, path, folder, path[len(target) :], look, places)):
                what = "a link to where the verifier's files are; taken away"
                found.append(await tamper_found(os.fsencode(path), None, what, blobs))
    return found


async def _take_away(
    path: str, folder: Path, rest: str, look: Look, places: Sequence[str]
) -> bool | None:
    """Remove a link if it leads into some places, or above them; whether it did."""
    link = await look(path)
    if link.kind != "link" or link.data is None:
        return None
    end = await end_of(path, link.data, look, places)
    if end is not None and not any(
        f"{place}/".startswith(f"{end.rstrip('/')}/") for place in places
    ):
        return None
    await to_thread.run_sync(_remove, folder, rest)
    return True


def _all_links(folders: Mapping[str, Path], places: Sequence[str]) -> dict[str, list[str]]:
    return {target: _links(folder, target, places) for target, folder in folders.items()}


def _links(folder: Path, target: str, places: Sequence[str]) -> list[str]:
    leads = partial(may_lead, places=places)
    try:
        return sorted(find_paths(folder, target, lambda _: False, frozenset(), links=leads))
    except FileNotFoundError:
        return []


def _look(folder: Path, rest: str) -> FileSeen:
    try:
        with parent_of(folder, rest) as (parent, name):
            return seen(parent, name, 0)
    except (FileNotFoundError, NotADirectoryError):
        return FileSeen(kind="missing")


def _remove(folder: Path, rest: str) -> None:
    with parent_of(folder, rest) as (parent, name):
        remove_entry(parent, name)
