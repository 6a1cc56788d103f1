"""Removing a tree that may be hostile: thousands deep, folders that may not be entered."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .walk import FOLDER_FLAGS

DEEP = 32
"""Folders so far down are moved to the top and emptied there, so that depth needs no memory."""


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it; links are removed, not followed. One not there is fine."""
    try:
        parent = os.open(folder.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        remove_entry(parent, os.fsencode(folder.name))
    finally:
        os.close(parent)


def remove_entry(parent: int, name: bytes) -> None:
    """Remove an entry of an open folder, with all that is in it. One not there is fine."""
    try:
        top = _enter(parent, name)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)
        return
    try:
        _Removal(top).run()
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


class _Removal:
    def __init__(self, top: int) -> None:
        self._top = top
        self._moved = 0
        self._waiting: list[bytes] = []

    def run(self) -> None:
        self._empty(self._top, 0)
        while self._waiting:
            name = self._waiting.pop()
            fd = _enter(self._top, name)
            try:
                self._empty(fd, 1)
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=self._top)

    def _empty(self, fd: int, depth: int) -> None:
        with os.scandir(fd) as entries:
            listed = [(os.fsencode(e.name), e.is_dir(follow_symlinks=False)) for e in entries]
        for name, is_folder in listed:
            if not is_folder:
                os.unlink(name, dir_fd=fd)
                continue
            below = _enter(fd, name)
            try:
                if depth < DEEP:
                    self._empty(below, depth + 1)
                else:
                    self._set_aside(fd, name)
                    continue
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=fd)

    def _set_aside(self, fd: int, name: bytes) -> None:
        while True:
            self._moved += 1
            place = b".removing-%d" % self._moved
            try:
                os.lstat(place, dir_fd=self._top)
            except FileNotFoundError:
                break
        os.rename(name, place, src_dir_fd=fd, dst_dir_fd=self._top)
        self._waiting.append(place)


def _enter(parent: int, name: bytes) -> int:
    """Open a folder so that its entries can be removed, whatever its mode was."""
    try:
        fd = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)
    status = os.fstat(fd)
    if stat.S_IMODE(status.st_mode) & 0o700 != 0o700 and status.st_uid == os.geteuid():
        os.fchmod(fd, 0o700)
    return fd
