"""Removing a tree that may be hostile: thousands deep, folders that may not be entered.

Others may go on changing it meanwhile: what has gone is fine, and what has come again is removed
again, a bounded number of times.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from .walk import FOLDER_FLAGS

DEEP = 32
"""Folders so far down are moved to the top and emptied there, so that depth needs no memory."""

ROUNDS = 100
"""How often in all what others filled at the same time is emptied again."""

_CHANGED = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_FILLED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


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
    """Remove an entry of an open folder, with all that is in it. One not there is fine.

    Raises OSError, also where others fill it quicker than it is emptied.
    """
    _Removal().run(parent, name)


class _Removal:
    def __init__(self) -> None:
        self._top = -1
        self._waiting: list[bytes] = []
        self._rounds = ROUNDS

    def run(self, parent: int, name: bytes) -> None:
        while True:
            try:
                self._top = _enter(parent, name)
            except FileNotFoundError:
                return
            except NotADirectoryError:
                with contextlib.suppress(*_CHANGED):
                    os.unlink(name, dir_fd=parent)
                    return
                self._again()
                continue
            try:
                self._empty(self._top, 0)
                while self._waiting:
                    with contextlib.suppress(*_CHANGED):
                        self._remove(self._top, self._waiting.pop(), 0)
            finally:
                os.close(self._top)
            if self._removed(parent, name):
                return
            name = _renamed(parent, name, parent)

    def _empty(self, fd: int, depth: int) -> None:
        with os.scandir(fd) as entries:
            listed = [(os.fsencode(e.name), e.is_dir(follow_symlinks=False)) for e in entries]
        for name, is_folder in listed:
            with contextlib.suppress(*_CHANGED):
                if not is_folder:
                    os.unlink(name, dir_fd=fd)
                elif depth < DEEP:
                    self._remove(fd, name, depth)
                else:
                    os.close(_enter(fd, name))
                    self._set_aside(fd, name)

    def _remove(self, parent: int, name: bytes, depth: int) -> None:
        fd = _enter(parent, name)
        try:
            self._empty(fd, depth + 1)
        finally:
            os.close(fd)
        if not self._removed(parent, name):
            self._set_aside(parent, name)

    def _removed(self, parent: int, name: bytes) -> bool:
        """Whether a folder that was emptied is gone: something may have come into it since."""
        try:
            os.rmdir(name, dir_fd=parent)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno not in _FILLED:
                raise
            self._again()
            return False
        return True

    def _again(self) -> None:
        self._rounds -= 1
        if self._rounds == 0:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    def _set_aside(self, fd: int, name: bytes) -> None:
        self._waiting.append(_renamed(fd, name, self._top))


def _renamed(parent: int, name: bytes, to: int) -> bytes:
    """Move an entry to a name that nobody knows, so that nothing more is put into it."""
    place = b".removing-" + secrets.token_hex(16).encode()
    with contextlib.suppress(FileNotFoundError):
        os.rename(name, place, src_dir_fd=parent, dst_dir_fd=to)
    return place


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
