"""Unpacking an archive: nothing is ever written outside of the folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ..errors import SandboxError
from .headers import FILE, FOLDER, HARD_LINK, LINK, Entry
from .members import Member, members
from .walk import FOLDER_FLAGS, open_folder
from .writing import CHUNK, cancellation_check


class ArchiveUnsafe(SandboxError):
    """An archive names something outside of its tree, or goes through a link."""

    def __init__(self, archive: Path, path: bytes, reason: str) -> None:
        self.archive = archive
        self.path = path
        super().__init__(f"{archive}: entry {path.decode('utf-8', 'replace')!r}: {reason}")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into an empty folder that exists.

    Modes and times are restored, owners too where this process is root. Raises ArchiveUnsafe for
    an archive that this project would not have written.
    """
    check = cancellation_check()
    place = _Place(archive, open_folder(folder))
    try:
        for member in members(archive):
            check()
            entry = member.entry
            if not entry.path:
                place.own = entry
                continue
            parts = entry.path.split(b"/")
            if any(part in (b"", b".", b"..") for part in parts):
                raise ArchiveUnsafe(archive, entry.path, "not a plain relative path")
            try:
                place.go(parts[:-1])
                place.add(parts[-1], entry, member)
            except (FileExistsError, NotADirectoryError) as error:
                raise ArchiveUnsafe(archive, entry.path, str(error.strerror)) from error
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise ArchiveUnsafe(archive, entry.path, "it leads through a link") from error
                raise
        place.finish()
    finally:
        place.close()


class _Place:
    """Where the unpacking stands: a folder's descriptor and the way to it.

    Folders get their modes and times when they are left, for a read-only one could not be filled.
    """

    def __init__(self, archive: Path, root: int) -> None:
        self._archive = archive
        self._root = root
        self._fd = os.dup(root)
        self._way: list[tuple[bytes, Entry | None]] = []
        self.own: Entry | None = None

    def go(self, parts: list[bytes]) -> None:
        """Go to a folder, leaving others on the way up."""
        shared = 0
        for (name, _), part in zip(self._way, parts, strict=False):
            if name != part:
                break
            shared += 1
        while len(self._way) > shared:
            self._leave()
        for part in parts[shared:]:  # a folder that has no entry of its own
            self._enter(part, None)

    def add(self, name: bytes, entry: Entry, member: Member) -> None:
        """Make what the entry says, here."""
        if entry.kind == FOLDER:
            os.mkdir(name, 0o700, dir_fd=self._fd)
            self._enter(name, entry)
        elif entry.kind == FILE:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(name, flags, 0o600, dir_fd=self._fd)
            try:
                while data := member.read(CHUNK):
                    _write(fd, data)
                _apply(fd, entry)
            finally:
                os.close(fd)
        elif entry.kind == LINK:
            os.symlink(entry.link, name, dir_fd=self._fd)
            if os.geteuid() == 0:
                os.chown(name, entry.uid, entry.gid, dir_fd=self._fd, follow_symlinks=False)
            times = (entry.mtime, entry.mtime)
            os.utime(name, ns=times, dir_fd=self._fd, follow_symlinks=False)
        elif entry.kind == HARD_LINK:
            self._link(name, entry)

    def finish(self) -> None:
        """Give the folders that are still open their modes and times."""
        while self._way:
            self._leave()
        if self.own is not None:
            _apply(self._root, self.own)

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._fd)
        os.close(self._root)

    def _enter(self, name: bytes, entry: Entry | None) -> None:
        try:
            below = os.open(name, FOLDER_FLAGS, dir_fd=self._fd)
        except FileNotFoundError:
            os.mkdir(name, 0o755, dir_fd=self._fd)
            below = os.open(name, FOLDER_FLAGS, dir_fd=self._fd)
        os.close(self._fd)
        self._fd = below
        self._way.append((name, entry))

    def _leave(self) -> None:
        above = os.open("..", FOLDER_FLAGS, dir_fd=self._fd)
        _, entry = self._way.pop()
        try:
            if entry is not None:
                _apply(self._fd, entry)
        finally:
            os.close(self._fd)
            self._fd = above

    def _link(self, name: bytes, entry: Entry) -> None:
        parts = entry.link.split(b"/")
        if any(part in (b"", b".", b"..") for part in parts):
            raise ArchiveUnsafe(self._archive, entry.path, "a hard link that leaves the tree")
        fd = os.dup(self._root)
        try:
            for part in parts[:-1]:
                below = os.open(part, FOLDER_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = below
            os.link(parts[-1], name, src_dir_fd=fd, dst_dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError as error:
            raise ArchiveUnsafe(self._archive, entry.path, "a hard link to nothing") from error
        finally:
            os.close(fd)


def _apply(fd: int, entry: Entry) -> None:
    if os.geteuid() == 0:
        os.fchown(fd, entry.uid, entry.gid)
    os.fchmod(fd, entry.mode)
    os.utime(fd, ns=(entry.mtime, entry.mtime))


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
