"""Reading the file in which an agent's program reports, while that program may still run.

The file is the agent's, so anything may lie there, and it may change between two looks.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

ACTIONS_FILE = "actions.jsonl"


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the report."""

    data: bytes = b""
    remark: str | None = None
    """Why there is none of it."""
    denied: bool = False
    """It is another user's, and this process may not read it."""


def read_piece(folder: Path, start: int, most: int) -> Piece:
    """At most so many bytes of the report, from a place on; blocks. Raises OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        place = os.open(folder, flags | os.O_DIRECTORY)
    except OSError as error:
        return Piece(remark=f"the report can't be read: {error.strerror}")
    try:
        # Nothing is opened for reading before it is known to be a plain file: opening a device may
        # do something. The descriptor stands for the file, whatever takes its name meanwhile.
        looked_at = os.open(ACTIONS_FILE, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
        try:
            if not stat.S_ISREG(os.fstat(looked_at).st_mode):
                return Piece(remark="the report is no regular file and was not read")
            again = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(f"/proc/self/fd/{looked_at}", again)
        finally:
            os.close(looked_at)
    except FileNotFoundError:
        return Piece()
    except PermissionError as error:
        return Piece(denied=True, remark=f"the report can't be read: {error.strerror}")
    except OSError as error:
        return Piece(remark=f"the report can't be read: {error.strerror}")
    finally:
        os.close(place)
    with open(file, "rb") as report:
        report.seek(start)
        return Piece(data=report.read(most))
