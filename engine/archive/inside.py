"""Single entries below a folder that a stranger has filled: no component of a path is followed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from ..sandbox.protocol import FileSeen
from .walk import FILE_FLAGS, FOLDER_FLAGS

MOVED = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL)
"""What the system says of an entry that became another one between two looks at it."""

LOOKS = 20
"""How often an entry is looked at that changes its kind at the same time."""


@contextmanager
def parent_of(root: Path, path: str) -> Generator[tuple[int, bytes]]:
    """The open folder that a path below `root` lies in, and its name there. Raises OSError."""
    *folders, name = [os.fsencode(part) for part in path.split("/") if part]
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd, name
    finally:
        os.close(fd)


def find_paths(
    top: Path,
    prefix: str,
    wanted: Callable[[str], bool],
    skip: frozenset[str],
    stands_for_all: Callable[[str, str], bool] | None = None,
    *,
    links: Callable[[bytes], bool] | None = None,
) -> list[str]:
    """Wanted paths below a folder that is seen inside at `prefix`: of all but folders.

    Symbolic links with a target that `links` says yes to are wanted as well. `skip` are paths
    inside that are passed over. `stands_for_all` says of a folder, by its place and its path
    inside, that it is wanted or not as a file is. What others move or remove meanwhile is as if
    it were not there. Raises OSError.
    """
    found: list[str] = []
    real = os.path.realpath(top)
    waiting = [""]
    while waiting:
        here = waiting.pop()
        try:
            listed = _listed(f"{real}{here}", links is not None)
        except OSError as error:
            # Nothing is looked for so deep; the top folder is the engine's own.
            if error.errno == errno.ENAMETOOLONG or (here and error.errno in MOVED):
                continue
            raise
        for name, is_folder, target in listed:
            path = f"{prefix}{here}/{name}"
            if path in skip:
                continue
            whole = not is_folder or (
                stands_for_all is not None and stands_for_all(f"{real}{here}/{name}", path)
            )
            leads = links is not None and target is not None and links(target)
            if whole and (leads or wanted(path)):
                found.append(path)
            if is_folder:
                waiting.append(f"{here}/{name}")
    return found


def _listed(folder: str, links: bool) -> list[tuple[str, bool, bytes | None]]:
    """Names in a folder, whether each is a folder, and where it leads if it is a link.

    One's own folder is entered whatever its mode.
    """
    try:
        return _scanned(folder, links)
    except PermissionError:
        held = _held(folder, os.O_PATH)
        try:
            mode = stat.S_IMODE(os.fstat(held).st_mode)
            if mode & 0o500 == 0o500:
                raise
            os.chmod(f"/proc/self/fd/{held}", mode | 0o700)
            try:
                return _scanned(folder, links)
            finally:
                os.chmod(f"/proc/self/fd/{held}", mode)
        finally:
            os.close(held)


def _scanned(folder: str, links: bool) -> list[tuple[str, bool, bytes | None]]:
    fd = _held(folder, os.O_RDONLY)
    try:
        with os.scandir(fd) as entries:
            return [
                (
                    each.name,
                    each.is_dir(follow_symlinks=False),
                    _target(fd, each.name) if links and each.is_symlink() else None,
                )
                for each in entries
            ]
    finally:
        os.close(fd)


def _held(folder: str, flags: int) -> int:
    """A folder opened by its whole path, if no link led elsewhere meanwhile. Raises OSError."""
    fd = os.open(folder, flags | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.readlink(f"/proc/self/fd/{fd}") == folder:
        return fd
    os.close(fd)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _target(folder: int, name: str) -> bytes | None:
    try:
        return os.readlink(os.fsencode(name), dir_fd=folder)
    except OSError as error:
        if error.errno in MOVED:
            return None
        raise


def seen(parent: int, name: bytes, cap: int) -> FileSeen:
    """What an entry of an open folder is. Raises OSError."""
    looks = LOOKS
    while True:
        looks -= 1
        try:
            return _seen_once(parent, name, cap)
        except FileNotFoundError:
            return FileSeen(kind="missing")
        except OSError as error:
            if error.errno not in MOVED or not looks:
                raise


def _seen_once(parent: int, name: bytes, cap: int) -> FileSeen:
    mode = os.lstat(name, dir_fd=parent).st_mode
    if stat.S_ISLNK(mode):
        return FileSeen(kind="link", data=os.readlink(name, dir_fd=parent))
    if stat.S_ISDIR(mode):
        return FileSeen(kind="folder")
    if not stat.S_ISREG(mode):
        return FileSeen(kind="other")
    data = read(parent, name, cap)
    runs = mode & 0o111 != 0
    if data is None:
        return FileSeen(kind="file", runs=runs)
    return FileSeen(kind="file", data=data, sha256=hashlib.sha256(data).hexdigest(), runs=runs)


def read(parent: int, name: bytes, cap: int) -> bytes | None:
    """A regular file's bytes; None when there are more than `cap`. Raises OSError."""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o600, dir_fd=parent)
        fd = os.open(name, FILE_FLAGS, dir_fd=parent)
    with open(fd, "rb") as file:
        data = file.read(cap + 1)
    return None if len(data) > cap else data


def rewrite(root: Path, path: str, data: bytes) -> None:
    """Put a new file in a file's place; owner and mode are the old one's. Raises OSError."""
    with parent_of(root, path) as (parent, name):
        old = os.lstat(name, dir_fd=parent)
        new = b".trialog-new"
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, dir_fd=parent)
        with open(fd, "wb") as file:
            file.write(data)
            if os.geteuid() == 0:
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
            os.utime(fd, ns=(old.st_atime_ns, old.st_mtime_ns))
        os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
