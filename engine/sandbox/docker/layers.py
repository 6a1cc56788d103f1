"""A stopped container's files as its overlay keeps them on this machine.

What a container changed lies in its upper folder; below it are the image's own. To take a change
away is to remove it there. It is a stranger's folder: no link in it is ever followed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread

from ...archive.inside import find_paths, parent_of, rewrite, seen
from ...archive.removal import remove_entry
from ..protocol import FileSeen
from .changes import Layers

_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
_REDIRECT = ("trusted.overlay.redirect", "user.overlay.redirect")
_KEPT_ATTRIBUTES = ("security.capability",)
_NOTHING = (FileNotFoundError, NotADirectoryError)


class Place(NamedTuple):
    """A folder of this machine that is seen inside at a path of its own."""

    target: str
    source: Path


class LayeredFiles:
    """`volume` is where a restored workspace lies; `mounts` are passed over."""

    def __init__(self, layers: Layers, volume: Place | None, mounts: list[str]) -> None:
        self._layers = layers
        self._volume = volume
        self._mounts = frozenset(mounts)

    def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str]:
        """Paths of the upper folder and of the volume; see the sandbox's protocol. Blocks."""
        found: list[str] = []
        skip = self._mounts
        if self._volume is not None:
            place = self._volume
            found += find_paths(place.source, place.target, wanted, skip, links=links)
            skip |= {self._volume.target}
        upper = self._layers.upper
        found += find_paths(upper, "", wanted, skip, self._took_a_place, links=links)
        return sorted(found)

    def _took_a_place(self, folder: str, path: str) -> bool:
        """Whether a folder hides what the image has at its path."""
        for name in (*_OPAQUE, *_REDIRECT):
            with contextlib.suppress(OSError):
                found = os.getxattr(folder, name, follow_symlinks=False)
                if name in _REDIRECT or found == b"y":
                    return self._in_image(path) is not None
        return False

    def look(self, path: str, cap: int, *, in_image: bool) -> FileSeen:
        """What is at a path; see the sandbox's protocol. Blocks."""
        if in_image:
            layer = self._in_image(path)
            return FileSeen(kind="missing") if layer is None else _look_in(layer, path, cap)
        root, rest = self._root(path)
        found = _look_in(root, rest, cap)
        if found.kind != "missing" or root != self._layers.upper:
            return found
        if _whited_out(root, rest) or self._hidden(rest):
            return found
        return self.look(path, cap, in_image=True)

    def put_back(self, path: str) -> None:
        """Make a path as the image has it. Blocks. Raises OSError."""
        root, rest = self._root(path)
        with contextlib.suppress(*_NOTHING), parent_of(root, rest) as (parent, name):
            remove_entry(parent, name)
        layer = self._in_image(path)
        if layer is not None and (root != self._layers.upper or self._hidden(rest)):
            _copy(layer, path, root, rest)

    def replace(self, path: str, data: bytes) -> None:
        """Give a file other bytes. Blocks. Raises OSError."""
        root, rest = self._root(path)
        rewrite(root, rest, data)

    def _root(self, path: str) -> tuple[Path, str]:
        volume = self._volume
        if volume is not None and path.startswith(volume.target.rstrip("/") + "/"):
            return volume.source, path[len(volume.target.rstrip("/")) :]
        return self._layers.upper, path

    def _hidden(self, path: str) -> bool:
        """Whether something above a path in the upper folder hides the image's."""
        parts = path.strip("/").split("/")[:-1]
        for count in range(1, len(parts) + 1):
            above = "/" + "/".join(parts[:count])
            place = f"{self._layers.upper}{above}"
            try:
                mode = os.lstat(place).st_mode
            except _NOTHING:
                return False
            if not stat.S_ISDIR(mode):
                return True
            for name in _OPAQUE:
                with contextlib.suppress(OSError):
                    if os.getxattr(place, name, follow_symlinks=False) == b"y":
                        return True
        return False

    def _in_image(self, path: str) -> Path | None:
        """The image's layer that has a path; no link above it is followed."""
        for lower in self._layers.lower:
            try:
                with parent_of(lower, path) as (parent, name):
                    status = os.lstat(name, dir_fd=parent)
            except FileNotFoundError:
                if _covered(lower, path):
                    return None
                continue
            except OSError:
                return None
            return None if _is_whiteout(status) else lower
        return None


class OverlayFiles:
    """The same off the event loop."""

    def __init__(self, files: LayeredFiles) -> None:
        self._files = files

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """Changed paths; None where this process may not read them."""
        try:
            return await to_thread.run_sync(partial(self._files.changed, wanted, links=links))
        except PermissionError:
            return None

    async def look(self, path: str, cap: int, *, in_image: bool = False) -> FileSeen:
        """What is at a path."""
        return await to_thread.run_sync(partial(self._files.look, path, cap, in_image=in_image))

    async def put_back(self, path: str) -> None:
        """Make a path as the image has it."""
        await to_thread.run_sync(self._files.put_back, path)

    async def replace(self, path: str, data: bytes) -> None:
        """Give a file other bytes."""
        await to_thread.run_sync(self._files.replace, path, data)

    async def aclose(self) -> None:
        """Nothing to give back."""


def _covered(lower: Path, path: str) -> bool:
    """Whether a layer hides what those below it have at a path that it lacks itself."""
    parts = path.strip("/").split("/")[:-1]
    for count in range(1, len(parts) + 1):
        place = f"{lower}/{'/'.join(parts[:count])}"
        try:
            status = os.lstat(place)
        except OSError:
            return False
        if not stat.S_ISDIR(status.st_mode):
            return True
        for name in _OPAQUE:
            with contextlib.suppress(OSError):
                if os.getxattr(place, name, follow_symlinks=False) == b"y":
                    return True
    return False


def _look_in(root: Path, path: str, cap: int) -> FileSeen:
    try:
        with parent_of(root, path) as (parent, name):
            found = seen(parent, name, cap)
            if found.kind == "other" and _is_whiteout(os.lstat(name, dir_fd=parent)):
                return FileSeen(kind="missing")
            return found
    except _NOTHING:
        return FileSeen(kind="missing")


def _whited_out(root: Path, path: str) -> bool:
    try:
        with parent_of(root, path) as (parent, name):
            return _is_whiteout(os.lstat(name, dir_fd=parent))
    except _NOTHING:
        return False


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _copy_owned(source: str, target: str) -> None:
    shutil.copy2(source, target, follow_symlinks=False)
    status = os.lstat(source)
    os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)


def _copy(layer: Path, path: str, root: Path, rest: str) -> None:
    """Copy an entry of the image's to where it would be hidden; its folders must be there."""
    source = Path(f"{layer}{path}")
    with parent_of(root, rest) as (parent, name):
        target = Path(f"/proc/self/fd/{parent}", os.fsdecode(name))
        status = os.lstat(source)
        if stat.S_ISDIR(status.st_mode):
            shutil.copytree(source, target, symlinks=True, copy_function=_copy_owned)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            os.chmod(target, stat.S_IMODE(status.st_mode))
            for attribute in _KEPT_ATTRIBUTES:
                with contextlib.suppress(OSError):
                    os.setxattr(target, attribute, os.getxattr(source, attribute))
