"""Errors of the projections. Below the log's own TrialogError:

TrialogError
  JobUnknown       the log has no such job
  FilesUnwritable  the files can't be written here and now
  FolderTaken      the folder for a copy of the files holds something already
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events.errors import TrialogError

if TYPE_CHECKING:
    from pathlib import Path


class JobUnknown(TrialogError):
    """The log has no such job."""

    def __init__(self, job: str, position: int | None = None) -> None:
        self.job = job
        self.position = position
        place = "" if position is None else f" up to position {position}"
        super().__init__(
            f"the log has no job {job!r}{place}; is it another log's? See --log and TRIALOG_LOG"
        )


class FilesUnwritable(TrialogError):
    """A folder can't be written at all: the disk is full, or read-only. The log has everything."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        self.what = f"{path}: {reason}"
        super().__init__(f"{self.what}; mend that, then `trialog rebuild` writes the files")


class FolderTaken(TrialogError):
    """The folder for a copy of the files is not empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} is not empty; name a folder that is, or one that does not exist")
