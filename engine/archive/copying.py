"""Copying files out of a tree that may be hostile."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...events.kinds.parts import SkippedPath
from ..sandbox.protocol import TreeTooLarge
from .walk import FILE_FLAGS, FOLDER_FLAGS, Found, open_file, open_folder, reason_of, walk
from .writing import CHUNK, Skips, cancellation_check

LONGEST_COPY = 2048
"""Bytes of a path that is copied out: longer ones would not fit below a folder of the host's."""

_A_LINK = "a link, which is not followed"


def copy_out(root_folder: Path, path: str, destination: Path, cap: int) -> list[SkippedPath]:
    """Copy a regular file, or every regular file below a folder; give back what was not copied.

    `path` is relative to `root_folder` (a leading slash is ignored) and no component of it may be
    a link. A file becomes the file `destination`, which must not exist yet, a folder the folder,
    which may. Raises TreeTooLarge over `cap` bytes in all, leaving what was copied before.
    """
    skips = Skips()
    parts = [part for part in os.fsencode(path).split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        skips.add(os.fsencode(path), "it may not contain ..")
        return skips.listed()
    copier = _Copier(cap, skips)
    fd = open_folder(root_folder)
    try:
        for index, part in enumerate(parts):
            status = os.lstat(part, dir_fd=fd)
            so_far = b"/".join(parts[: index + 1])
            if stat.S_ISLNK(status.st_mode):
                middle = index + 1 < len(parts)
                skips.add(
                    b"/".join(parts),
                    f"{so_far.decode('utf-8', 'replace')} is a link, which is not followed"
                    if middle
                    else _A_LINK,
                    os.readlink(part, dir_fd=fd),
                )
                return skips.listed()
            if not stat.S_ISDIR(status.st_mode):
                if index + 1 < len(parts):
                    skips.add(b"/".join(parts), "there is no such file")
                elif stat.S_ISREG(status.st_mode):
                    copier.file(os.open(part, FILE_FLAGS, dir_fd=fd), destination)
                else:
                    skips.add(b"/".join(parts), "not a regular file")
                return skips.listed()
            below = os.open(part, FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
        copier.folder(fd, destination, b"/".join(parts))
    except FileNotFoundError:
        skips.add(b"/".join(parts), "there is no such file")
    except PermissionError as error:
        skips.add(b"/".join(parts), reason_of(error))
    finally:
        os.close(fd)
    return skips.listed()


class _Copier:
    def __init__(self, cap: int, skips: Skips) -> None:
        self._cap = cap
        self._left = cap
        self._skips = skips
        self._check = cancellation_check()

    def folder(self, fd: int, destination: Path, path: bytes) -> None:
        destination.mkdir(exist_ok=True)
        below = Skips()
        for found in walk(fd, below):
            self._check()
            full = path + b"/" + found.path if path else found.path
            if stat.S_ISLNK(found.status.st_mode):
                target = os.readlink(found.name, dir_fd=found.folder)
                self._skips.add(full, _A_LINK, target)
            elif stat.S_ISREG(found.status.st_mode):
                self._below(found, full, destination)
        prefix = path.decode("utf-8", "replace")
        for skipped in below.listed():
            name = f"{prefix}/{skipped.path}" if prefix else skipped.path
            self._skips.add(name.encode(), skipped.reason)

    def file(self, source: int, destination: Path) -> None:
        """Copy an open file and close it."""
        try:
            status = os.fstat(source)
            if status.st_size > self._left:  # before a sparse file fills the disk
                self._claim(status.st_size)
            with open(destination, "xb") as copy:  # what is there already is not touched
                try:
                    while data := os.read(source, CHUNK):
                        self._check()
                        self._claim(len(data))
                        copy.write(data)
                    os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode) & 0o777 | 0o600)
                except BaseException:
                    destination.unlink(missing_ok=True)
                    raise
        finally:
            os.close(source)

    def _below(self, found: Found, full: bytes, destination: Path) -> None:
        if len(found.path) > LONGEST_COPY:
            self._skips.add(full[:1024], "its path is too long")
            return
        try:
            source = open_file(found)
        except OSError as error:
            self._skips.add(full, reason_of(error))
            return
        if source is None:
            self._skips.add(full, "it changed while the tree was read")
            return
        target = destination / os.fsdecode(found.path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            os.close(source)
            self._skips.add(full, f"its folder can't be made: {error.strerror}")
            return
        try:
            self.file(source, target)
        except FileExistsError:
            self._skips.add(full, "another file was copied to its place before")

    def _claim(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TreeTooLarge(self._cap)
