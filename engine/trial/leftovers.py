"""What an agent left where a grade could be changed: named and hashed, never followed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import msgspec

from ..archive.walk import FILE_FLAGS, FOLDER_FLAGS
from ..verifier.files import kind_of

MOST_NAMED = 100
"""Leftovers that are named one by one; more are only counted."""
MOST_COUNTED = 10_000
MOST_HASHED = 64 * 1024 * 1024
"""Bytes that are hashed, over all leftovers of a folder."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that lay there."""

    path: bytes
    """Relative to the folder; empty for a remark on all of it."""
    sha256: str | None = None
    """Hex, of a regular file's bytes; null for what is none or could not be hashed."""
    what: str


def list_leftovers(folder: Path) -> list[Leftover]:
    """Everything below a folder, in bounded time and memory; what is no folder is one leftover."""
    listing = _Listing()
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            return [Leftover(path=b"", what=f"{kind_of(status.st_mode)} took the folder's place")]
        fd = _open_folder(os.fsencode(folder), None)
    except OSError as error:
        return [Leftover(path=b"", what=f"it can't be looked into: {error.strerror}")]
    try:
        listing.folder(fd, b"")
    finally:
        os.close(fd)
    return listing.found()


class _Listing:
    def __init__(self) -> None:
        self._found: list[Leftover] = []
        self._count = 0
        self._bytes = MOST_HASHED

    def found(self) -> list[Leftover]:
        more = self._count - len(self._found)
        if not more:
            return self._found
        count = f"{more} or more" if self._count >= MOST_COUNTED else str(more)
        return [*self._found, Leftover(path=b"", what=f"{count} further paths")]

    def folder(self, fd: int, prefix: bytes) -> None:
        """Note what a folder holds; folders in it too, but not what is deep below them."""
        with os.scandir(fd) as entries:
            names: list[bytes] = []
            for entry in entries:
                names.append(os.fsencode(entry.name))
                if self._count + len(names) >= MOST_COUNTED:
                    break
        for name in sorted(names):
            self._count += 1
            if len(self._found) >= MOST_NAMED:
                continue
            self._entry(fd, name, prefix + name)

    def _entry(self, fd: int, name: bytes, path: bytes) -> None:
        try:
            status = os.lstat(name, dir_fd=fd)
            if stat.S_ISREG(status.st_mode):
                self._found.append(self._file(fd, name, path, status))
            elif stat.S_ISLNK(status.st_mode):
                target = os.readlink(name, dir_fd=fd).decode("utf-8", "replace")
                what = f"a symbolic link to {target[:200]}"
                self._found.append(Leftover(path=path, what=what))
            else:
                self._found.append(Leftover(path=path, what=kind_of(status.st_mode)))
                if stat.S_ISDIR(status.st_mode) and path.count(b"/") < 16:
                    self._below(fd, name, path)
        except OSError as error:
            what = f"it can't be looked at: {error.strerror}"
            self._found.append(Leftover(path=path, what=what))

    def _below(self, fd: int, name: bytes, path: bytes) -> None:
        below = _open_folder(name, fd)
        try:
            self.folder(below, path + b"/")
        finally:
            os.close(below)

    def _file(self, fd: int, name: bytes, path: bytes, status: os.stat_result) -> Leftover:
        if status.st_size > self._bytes:
            return Leftover(path=path, what=f"a file of {status.st_size} bytes, not hashed")
        try:
            source = os.open(name, FILE_FLAGS, dir_fd=fd)
        except PermissionError:
            os.chmod(name, 0o600, dir_fd=fd)
            source = os.open(name, FILE_FLAGS, dir_fd=fd)
        try:
            digest = hashlib.sha256()
            while self._bytes > 0 and (data := os.read(source, min(self._bytes, 1024 * 1024))):
                self._bytes -= len(data)
                digest.update(data)
        finally:
            os.close(source)
        return Leftover(
            path=path, sha256=digest.hexdigest(), what=f"a file of {status.st_size} bytes"
        )


def _open_folder(name: bytes, parent: int | None) -> int:
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)
