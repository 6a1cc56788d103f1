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
    inside, that it is wanted or not as a file is. Raises OSError.
    """
    found: list[str] = []
    waiting = [""]
    while waiting:
        here = waiting.pop()
        try:
            listed = _listed(f"{top}{here}")
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # nothing is looked for so deep
                continue
            raise
        for name, is_folder, is_link in listed:
            path = f"{prefix}{here}/{name}"
            if path in skip:
                continue
            whole = not is_folder or (
                stands_for_all is not None and stands_for_all(f"{top}{here}/{name}", path)
            )
            if whole and (wanted(path) or (is_link and _leads(f"{top}{here}/{name}", links))):
                found.append(path)
            if is_folder:
                waiting.append(f"{here}/{name}")
    return found


def _leads(link: str, links: Callable[[bytes], bool] | None) -> bool:
    return links is not None and links(os.readlink(os.fsencode(link)))


def _listed(folder: str) -> list[tuple[str, bool, bool]]:
    """Names in a folder, whether each is a folder, and whether a link.

    One's own folder is entered whatever its mode.
    """
    try:
        return _scanned(folder)
    except PermissionError:
        mode = stat.S_IMODE(os.lstat(folder).st_mode)
        if mode & 0o500 == 0o500:
            raise
        os.chmod(folder, mode | 0o700)
        try:
            return _scanned(folder)
        finally:
            os.chmod(folder, mode)


def _scanned(folder: str) -> list[tuple[str, bool, bool]]:
    with os.scandir(folder) as entries:
        return [(e.name, e.is_dir(follow_symlinks=False), e.is_symlink()) for e in entries]


def seen(parent: int, name: bytes, cap: int) -> FileSeen:
    """What an entry of an open folder is. Raises OSError."""
    try:
        mode = os.lstat(name, dir_fd=parent).st_mode
    except FileNotFoundError:
        return FileSeen(kind="missing")
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
