"""Errors of the log. The tree:

    TrialogError
      LogError
        VersionConflict      the stream moved on: expected and current version
        EventIdConflict      an event id is taken by other content
        EventInvalid         an event that could not be read back once it was stored
        LogUnavailable       the log can't be opened, read or written here and now
          LogPoisoned        a write failed; this writer acknowledges nothing more
        LogTooNew            the log's format is newer than this program's
        LogCorrupt           stored bytes are not what the format allows
          UnknownEvent       a kind or schema that this program can't decode
        BlobMissing          a blob that an event names is not there
        BlobAltered          a blob's bytes are not what its name says

Each carries its facts as attributes and says what to do next where there is something to do.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the system's errors that mean that there is no room."""


def said(error: BaseException) -> str:
    """An error in words: the system's without its number, and paths as people write them."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    what = error.strerror
    if error.errno in DISK_FULL:
        what = f"the disk is full ({what})"
    named = [one for one in (error.filename, error.filename2) if one and not isinstance(one, int)]
    place = " → ".join(map(os.fsdecode, named))
    return f"{place}: {what}" if place else what


class TrialogError(Exception):
    """Base of all errors that this project raises on purpose."""


class LogError(TrialogError):
    """Base of the log's errors."""


class VersionConflict(LogError):
    """Another writer appended to the stream first."""

    def __init__(self, stream: str, expected: int, current: int) -> None:
        self.stream = stream
        self.expected = expected
        self.current = current
        super().__init__(
            f"stream {stream!r} is at version {current}, not at the expected {expected}; "
            "read it again and decide anew"
        )


class EventIdConflict(LogError):
    """An event id that is stored already came again with other content or in another place."""

    def __init__(self, event_id: str, stream: str, reason: str) -> None:
        self.event_id = event_id
        self.stream = stream
        self.reason = reason
        super().__init__(f"event {event_id} offered to stream {stream!r} is refused: {reason}")


class EventInvalid(LogError):
    """An event that could not be read back once it was stored; nothing was written."""

    def __init__(self, kind: str, reason: str) -> None:
        self.kind = kind
        self.reason = reason
        super().__init__(f"a {kind} event is refused: {reason}")


class LogUnavailable(LogError):
    """The log can't be opened, read or written; `full` where that is for want of room."""

    def __init__(self, path: Path | str, reason: str, *, full: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.full = full
        super().__init__(f"log {path}: {reason}")


class LogPoisoned(LogUnavailable):
    """A write or sync failed; this writer acknowledges nothing more.

    What was not acknowledged may be stored, but never in part: open the log again, and read.
    """


class LogTooNew(LogError):
    """The log was written by a later release with a newer format."""

    def __init__(self, path: Path | str, found: int, known: int) -> None:
        self.path = path
        self.found = found
        self.known = known
        super().__init__(
            f"log {path} has format {found}; this release reads up to format {known}: "
            "use a newer trialog"
        )


class LogCorrupt(LogError):
    """Stored bytes are not what the format allows."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where}: {reason}")


class UnknownEvent(LogCorrupt):
    """A kind, or a schema of a known kind, that this release can't decode."""

    def __init__(self, where: str, kind: str, schema: int, position: int | None) -> None:
        self.kind = kind
        self.schema = schema
        self.position = position
        super().__init__(
            where,
            f"position {position}: this release doesn't know kind {kind!r} with schema {schema}, "
            "and the event may not be passed over; use the release that wrote it",
        )


class BlobMissing(LogError):
    """A blob that an event names is not in the store."""

    def __init__(self, digest: str, place: str) -> None:
        self.digest = digest
        self.place = place
        super().__init__(f"blob {digest} is missing from {place}")


class BlobAltered(LogError):
    """A blob's bytes no longer have the hash that names them."""

    def __init__(self, digest: str, found: str, place: str) -> None:
        self.digest = digest
        self.found = found
        self.place = place
        super().__init__(f"blob {digest} in {place} was altered: its bytes hash to {found}")
