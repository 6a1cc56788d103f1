"""What was changed in a container outside its workspace.

The engine's own answer may walk the whole image twice, seconds for each container. Where this
process may read the container's writable layer, walking that alone costs milliseconds.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import anyio
from anyio import to_thread

from ..protocol import Image
from .api import Engine

SLOWEST = 5.0
"""Seconds for the engine's own answer. An image that takes longer is not asked about again."""

_MODIFIED = 0
ADDED = 1
"""Kind of a change: the image has nothing there."""


class Layers(NamedTuple):
    """Where an overlay keeps a container's files on this machine."""

    upper: Path
    lower: list[Path]


class Changes:
    """Finds changes, by the way that this engine and machine allow."""

    def __init__(self) -> None:
        self._too_slow: set[str | None] = set()

    async def outside(
        self,
        engine: Engine,
        container: str,
        inside: list[str],
        image: Image,
        layers: Layers | None,
    ) -> list[str] | None:
        """Changed paths outside of some folders, sorted; None where it can't be told."""
        if layers is not None:
            found = await to_thread.run_sync(walk_layer, layers, inside)
            if found is not None:
                return found
        rows = await self.rows(engine, container, image.digest)
        return None if rows is None else listed(rows, inside)

    async def rows(
        self, engine: Engine, container: str, image: str | None
    ) -> list[tuple[str, int]] | None:
        """The engine's own answer, paths and kinds of change; None where it takes too long."""
        if image in self._too_slow:
            return None
        with anyio.move_on_after(SLOWEST):
            rows: list[dict[str, Any]] = (
                await engine.json("GET", f"containers/{container}/changes") or []
            )
            return [(row["Path"], row["Kind"]) for row in rows]
        self._too_slow.add(image)
        return None


def overlay(inspected: dict[str, Any]) -> Layers | None:
    """A container's layers, where it has an overlay."""
    driver: dict[str, Any] = inspected.get("GraphDriver") or {}
    data: dict[str, str] = driver.get("Data") or {}
    if "overlay" not in str(driver.get("Name", "")) or not data.get("UpperDir"):
        return None
    lower = [Path(part) for part in data.get("LowerDir", "").split(":") if part]
    return Layers(Path(data["UpperDir"]), lower)


def listed(rows: list[tuple[str, int]], inside: list[str]) -> list[str]:
    """Of the engine's answer, what lies outside and is no mere way to a change further down."""
    roots = _plain(inside)
    ways = {str(above) for path, _ in rows for above in PurePosixPath(path).parents}
    return sorted(
        path
        for path, kind in rows
        if not _is_inside(path, roots)
        and not _leads_to(path, roots)
        and not (kind == _MODIFIED and path in ways)
    )


def walk_layer(layers: Layers, inside: list[str]) -> list[str] | None:
    """Changed paths in a writable layer; None where this process may not read it all."""
    roots = _plain(inside)
    found: list[str] = []

    def walk(folder: str, path: str) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                below = f"{path}/{entry.name}"
                if _is_inside(below, roots):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if not _leads_to(below, roots) and not (
                    is_folder and _same_folder(layers, below, entry.stat(follow_symlinks=False))
                ):
                    found.append(below)
                if is_folder:
                    walk(entry.path, below)

    try:
        walk(str(layers.upper), "")
    except (OSError, RecursionError):
        return None
    return sorted(found)


def _same_folder(layers: Layers, path: str, upper: os.stat_result) -> bool:
    """Whether a folder is in the writable layer only because something in it changed."""
    for lower in layers.lower:
        try:
            below = os.lstat(f"{lower}{path}")
        except OSError:
            continue
        return (
            stat.S_ISDIR(below.st_mode)
            and below.st_mode == upper.st_mode
            and (below.st_uid, below.st_gid) == (upper.st_uid, upper.st_gid)
        )
    return False


def _plain(paths: list[str]) -> list[str]:
    return [path.rstrip("/") for path in paths]


def _is_inside(path: str, roots: list[str]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)


def _leads_to(path: str, roots: list[str]) -> bool:
    return any(root.startswith(path + "/") for root in roots)
