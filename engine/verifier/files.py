"""Reading what a verifier wrote to its folder, which may be anything but a plain small file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import msgspec

REWARD_TEXT = "reward.txt"
REWARD_JSON = "reward.json"
REWARD_DETAILS = "reward-details.json"
CTRF = "ctrf.json"

REWARD_CAP = 1024 * 1024
"""Bytes of a reward file; a larger one is not read."""
DETAILS_CAP = 16 * 1024 * 1024
"""Bytes of a file that is only kept."""

CAPS = {
    REWARD_TEXT: REWARD_CAP,
    REWARD_JSON: REWARD_CAP,
    REWARD_DETAILS: DETAILS_CAP,
    CTRF: DETAILS_CAP,
}
"""The files that are looked for, and how large each may be."""

NOT_PERMITTED = "may not be read"
"""Reason for a file of another user's that this process has no right to."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileRead(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it was found."""

    name: str
    data: bytes | None = None
    """Null when it can't be used."""
    reason: str | None = None
    """Why it can't be used: goes on from the file's name (`is a symbolic link`)."""


class RewardFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What lay in the verifier's folder. Null: there was no such file."""

    text: FileRead | None = None
    json: FileRead | None = None
    details: FileRead | None = None
    ctrf: FileRead | None = None

    def found(self) -> list[FileRead]:
        """Those that are there, in the order in which they are looked for."""
        return [f for f in (self.text, self.json, self.details, self.ctrf) if f is not None]


def read_reward_files(folder: Path) -> RewardFiles:
    """Read the reward files below a folder of the host; blocks, but never for long.

    Only regular files are opened, and no link is followed. Raises OSError where the folder itself
    is gone.
    """
    fd = _open_folder(folder)
    try:
        read = {name: _read(fd, name, cap) for name, cap in CAPS.items()}
    finally:
        os.close(fd)
    return RewardFiles(
        text=read[REWARD_TEXT],
        json=read[REWARD_JSON],
        details=read[REWARD_DETAILS],
        ctrf=read[CTRF],
    )


def _open_folder(folder: Path) -> int:
    try:
        return os.open(folder, _FOLDER)
    except PermissionError:
        # The verifier took the rights from a folder that is ours.
        os.chmod(folder, 0o700)
        return os.open(folder, _FOLDER)


def _read(folder: int, name: str, cap: int) -> FileRead | None:
    try:
        return _read_regular(folder, name, cap)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return FileRead(name=name, reason=NOT_PERMITTED)
        return FileRead(name=name, reason=f"can't be read: {error.strerror}")


def _read_regular(folder: int, name: str, cap: int) -> FileRead:
    status = os.lstat(name, dir_fd=folder)
    if not stat.S_ISREG(status.st_mode):  # looked at before it is opened: devices act on it
        return FileRead(name=name, reason=f"is {kind_of(status.st_mode)}, not a regular file")
    if status.st_size > cap:
        return FileRead(name=name, reason=f"is over {cap // (1024 * 1024)} MiB")
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o600, dir_fd=folder)
        fd = os.open(name, _FILE, dir_fd=folder)
    try:
        if not os.path.samestat(status, os.fstat(fd)):
            return FileRead(name=name, reason="changed while it was read")
        data = _read_all(fd, cap)
    finally:
        os.close(fd)
    if data is None:
        return FileRead(name=name, reason=f"is over {cap // (1024 * 1024)} MiB")
    return FileRead(name=name, data=data)


def _read_all(fd: int, cap: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while part := os.read(fd, 1024 * 1024):
        size += len(part)
        if size > cap:
            return None
        parts.append(part)
    return b"".join(parts)


def kind_of(mode: int) -> str:
    """What a path is that is no regular file, with its article."""
    match stat.S_IFMT(mode):
        case stat.S_IFLNK:
            return "a symbolic link"
        case stat.S_IFDIR:
            return "a folder"
        case stat.S_IFIFO:
            return "a named pipe"
        case stat.S_IFSOCK:
            return "a socket"
        case _:
            return "a device"
