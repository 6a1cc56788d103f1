"""A walk over a tree that may be hostile: by folder descriptors, no link is ever followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .writing import Skips

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

LONGEST_PATH = 16 * 1024
"""Bytes of a path in a tree; what lies deeper is skipped, so that names alone can't fill a disk."""

OPEN_FOLDERS = 64
"""Folders above the current one that stay open; the ones further up are opened again."""

_OTHER_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Found(NamedTuple):
    """One entry of a tree."""

    path: bytes
    """Relative to the tree's folder; empty for the folder itself."""
    name: bytes
    folder: int
    """A descriptor of the folder it lies in; open until the walk goes on."""
    status: os.stat_result


class _Level:
    """A folder on the way from the tree's own folder to the current one."""

    def __init__(self, fd: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        self.fd: int | None = fd
        self.name = name
        self.path = path
        self.identity = (status.st_dev, status.st_ino)
        self.names = iter(sorted(os.fsencode(name) for name in os.listdir(fd)))

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def walk(root: int, skips: Skips) -> Iterator[Found]:
    """Files, links and folders below `root` in the order of their paths' components.

    A folder comes before what is in it. What can't be kept or read is noted in `skips`.
    """
    levels = [_Level(os.dup(root), b"", b"", os.fstat(root))]
    try:
        while levels:
            level = levels[-1]
            if level.fd is None:
                _open_again(levels, skips)
                if level.fd is None:
                    levels.pop()
                    continue
            name = next(level.names, None)
            if name is None:
                levels.pop().close()
                continue
            path = level.path + b"/" + name if level.path else name
            if len(path) > LONGEST_PATH:
                skips.add(path[:1024], "its path is too long")
                continue
            below = None
            try:
                status = os.lstat(name, dir_fd=level.fd)
                if stat.S_ISDIR(status.st_mode):
                    below = _enter(level.fd, name, path, status)
            except OSError as error:
                skips.add(path, reason_of(error))
                continue
            other = _OTHER_KINDS.get(stat.S_IFMT(status.st_mode))
            if other is not None:
                skips.add(path, other)
                continue
            try:
                yield Found(path, name, level.fd, status)
            finally:
                if below is not None:
                    levels.append(below)
            if below is not None and len(levels) > OPEN_FOLDERS + 1:  # the first one stays open
                levels[-1 - OPEN_FOLDERS].close()
    finally:
        for level in levels:
            level.close()


def open_file(found: Found) -> int | None:
    """A descriptor of a regular file that the walk found; None when it was swapped meanwhile."""
    fd = os.open(found.name, FILE_FLAGS, dir_fd=found.folder)
    now = os.fstat(fd)
    if (now.st_dev, now.st_ino) != (found.status.st_dev, found.status.st_ino):
        os.close(fd)
        return None
    return fd


def open_folder(folder: Path) -> int:
    """A descriptor of a folder; its last component may not be a link."""
    return os.open(folder, FOLDER_FLAGS)


def reason_of(error: OSError) -> str:
    """Why something could not be read, in a few words."""
    match error.errno:
        case errno.ENOENT:
            return "it vanished while the tree was read"
        case errno.EACCES | errno.EPERM:
            return "it may not be read"
        case errno.ELOOP | errno.ENOTDIR:
            return "it changed while the tree was read"
        case _:
            return f"it could not be read: {error.strerror}"


def _enter(folder: int, name: bytes, path: bytes, status: os.stat_result) -> _Level:
    fd = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    now = os.fstat(fd)
    if (now.st_dev, now.st_ino) != (status.st_dev, status.st_ino):
        os.close(fd)
        raise OSError(errno.ENOTDIR, "another folder took its place")
    try:
        return _Level(fd, name, path, now)
    except BaseException:
        os.close(fd)
        raise


def _open_again(levels: list[_Level], skips: Skips) -> None:
    """Open the lowest folders of the way again, from the tree's own folder on."""
    first = max(1, len(levels) - OPEN_FOLDERS)
    assert levels[0].fd is not None
    fd = os.dup(levels[0].fd)
    for index, level in enumerate(levels[1:], start=1):
        try:
            below = os.open(level.name, FOLDER_FLAGS, dir_fd=fd)
        except OSError as error:
            os.close(fd)
            skips.add(level.path, reason_of(error))
            return
        os.close(fd)
        fd = below
        now = os.fstat(fd)
        if (now.st_dev, now.st_ino) != level.identity:
            os.close(fd)
            skips.add(level.path, "it changed while the tree was read")
            return
        if index >= first and level.fd is None:
            level.fd = os.dup(fd)
    os.close(fd)
