"""Whether a log's file is still where it was opened. It blocks."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import LogPoisoned


class OpenPlace:
    """The files that a writer has open, by device and inode, and the paths that led to them.

    What is written to a file that was deleted or replaced is gone with the last process that has
    it open, though the system calls it written and synced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The write-ahead log is there as long as anybody has the database open.
        names = (os.fspath(path), f"{path}-wal")
        self._files = [(name, found) for name in names if (found := _identity(name)) is not None]

    def check(self) -> None:
        """Raise LogPoisoned unless each path still leads to the same file."""
        for name, file in self._files:
            found = _identity(name)
            if found != file:
                how = "moved or deleted" if found is None else "replaced by another file"
                raise LogPoisoned(
                    self._path,
                    f"{name} was {how} while it was written to, so this writer acknowledges "
                    "nothing more; put the file back, with its -wal file, and open the log again",
                )


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino
