"""What the log needs to know of the disk it lies on. Everything here blocks."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")

NETWORK = frozenset({
    "9p", "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "lustre", "ncpfs",
    "nfs", "nfs4", "smb3", "smbfs",
})  # fmt: skip
"""File systems on which SQLite's write-ahead log is not safe: its index is shared memory."""

_NEEDED = 64 * 1024
"""Bytes; the index of SQLite's write-ahead log begins with 32 KiB, and some blocks come with it."""


def network_filesystem(path: Path) -> str | None:
    """The type of the network file system that `path` lies on, or None.

    Only Linux tells; elsewhere the answer is None.
    """
    _, kind = mount_of(path)
    return kind if kind in NETWORK else None


def mount_of(path: Path) -> tuple[str, str]:
    """Where the file system that `path` lies on is mounted, and its type; empty where not told."""
    try:
        table = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return "", ""
    real = os.path.realpath(path)
    best = ""
    kind = ""
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), before.split()[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # a later mount hides an earlier one
            best, kind = point, after.split()[0]
    return best, kind


def is_full(path: Path) -> bool:
    """Whether the file system that `path` lies on has no room for what a log needs to be opened."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return blocks * found.f_frsize < _NEEDED or (found.f_files > 0 and found.f_ffree == 0)


def make_folder(path: Path) -> None:
    """Make a folder and its parents durably: a power cut doesn't take them away again."""
    missing: list[Path] = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Make the folder's entries durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
