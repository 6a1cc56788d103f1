"""A hint for ext4: which folders don't belong together."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path

_FLAGS = struct.calcsize("l")
_GET_FLAGS = 2 << 30 | _FLAGS << 16 | ord("f") << 8 | 1
_SET_FLAGS = 1 << 30 | _FLAGS << 16 | ord("f") << 8 | 2
_TOP = 0x20000
"""What `chattr +T` sets, with Linux's FS_IOC_GETFLAGS and FS_IOC_SETFLAGS."""


def keep_apart(folder: Path) -> None:
    """Have the folders that are made in this one lie apart from each other on the disk.

    Where ext4 has no journal, a new file costs a look at every one that was removed beside it in
    the last minutes, and trials remove all that they make. Other file systems don't know the hint.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = int.from_bytes(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS))[:4], sys.byteorder)
        if not flags & _TOP:
            fcntl.ioctl(fd, _SET_FLAGS, (flags | _TOP).to_bytes(_FLAGS, sys.byteorder))
    except OSError:
        pass  # another file system, or another's folder
    finally:
        os.close(fd)
