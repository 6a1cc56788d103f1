"""Connections to a log's file: opened, checked, and their errors in the log's own words.

Everything here blocks; it runs in worker threads.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard

from ..errors import LogCorrupt, LogError, LogPoisoned, LogTooNew, LogUnavailable, said
from ..filesystem import is_full, make_folder, network_filesystem
from .sql import QUERY, schema

FORMAT = 1
"""The newest format that this release knows; `user_version` and the meta table hold a log's own."""

APPLICATION_ID = 0x7472_6C67
"""``trlg``; tells a log from any other SQLite file."""

BUSY_SECONDS = 10.0
"""How long a writer waits for another process's transaction."""

_OLDEST_SQLITE = (3, 37, 0)  # strict tables

_WHY = {
    sqlite3.SQLITE_BUSY: f"another process has held it locked for over {BUSY_SECONDS:g} s; "
    "find what writes to it, or try again",
    sqlite3.SQLITE_LOCKED: "another connection has it locked; try again",
    sqlite3.SQLITE_READONLY: "it is read-only; change its permissions, or open it only to read",
    sqlite3.SQLITE_FULL: "the disk is full; make room, then open the log again",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; is the path right?",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened; check the path and its permissions",
    sqlite3.SQLITE_PERM: "access is denied; check its permissions",
}


def why(error: sqlite3.Error, code: int) -> str:
    """What an SQLite error means for the user of a log."""
    return f"{_WHY[code]} ({error})" if code in _WHY else f"SQLite says: {error}"


def code_of(error: BaseException, path: Path) -> int:
    """An SQLite error's number; what has no room to be opened or mapped is a full disk, too."""
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and is_full(path.parent):
        return sqlite3.SQLITE_FULL
    return code


def is_busy(error: BaseException) -> TypeGuard[sqlite3.OperationalError]:
    """Whether another process holds the log; then nothing was begun, and nothing has failed."""
    return (
        isinstance(error, sqlite3.OperationalError)
        and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    )


def is_no_text(error: sqlite3.Error) -> bool:
    """Whether a stored text is not UTF-8; Python's module has no number for it."""
    return isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error)


def as_stored(raw: bytes) -> str:
    """A stored text; of bytes that are not UTF-8 each is a lone surrogate, so that none is lost."""
    return raw.decode(errors="surrogateescape")


def translated(error: sqlite3.Error, path: Path) -> LogError:
    """An SQLite error as one of the log's."""
    code = code_of(error, path)
    if code == sqlite3.SQLITE_CORRUPT:
        return LogCorrupt(f"log {path}", f"the file is damaged: {error}")
    return LogUnavailable(path, why(error, code), full=code == sqlite3.SQLITE_FULL)


def poisoned(error: BaseException, path: Path) -> LogPoisoned:
    """The error of everything that is queued when a write fails, and of all that comes later."""
    code = code_of(error, path)
    reason = (
        why(error, code)
        if isinstance(error, sqlite3.Error)
        else f"{type(error).__name__}: {said(error)}"
    )
    return LogPoisoned(
        path,
        f"a write failed, so this writer acknowledges nothing more: {reason}",
        full=code == sqlite3.SQLITE_FULL,
    )


def open_writer(path: Path, *, create: bool, log_id: str) -> sqlite3.Connection:
    """A connection that may write; makes the log, named `log_id`, where there is none."""
    _check_place(path)
    if not path.exists():
        if not create:
            raise LogUnavailable(path, "there is no log here; check the path")
        try:
            make_folder(path.parent)
        except OSError as error:
            raise LogUnavailable(path, f"its folder can't be made: {said(error)}") from error
    for needed in (path, path.parent):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise LogUnavailable(path, f"{needed} is read-only; {_ONLY_READ}")
    try:
        db = _connect(path, "rwc" if create else "rw", timeout=BUSY_SECONDS)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    try:
        if _version(db, path) == 0:
            _create(db, path, log_id)
        _use_wal(db, path)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = ON")  # macOS only: fsync alone doesn't reach the disk there
        db.execute("PRAGMA wal_autocheckpoint = 8000")
        # A sync that failed may have left a whole transaction that is in the system's cache and
        # not on the disk. Copied into the database file now, it is written and synced once more.
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:
        db.close()
        raise translated(error, path) from error
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that only reads; it works where neither file nor folder can be written."""
    _check_place(path)
    if not path.exists():
        raise LogUnavailable(path, "there is no log here; check the path")
    try:
        return _open_reader(path, "ro")
    except sqlite3.OperationalError as error:
        wal = path.with_name(path.name + "-wal")
        with suppress(OSError, sqlite3.Error):
            if not wal.exists() or wal.stat().st_size == 0:
                # Nothing is being written, and SQLite can't make its index of the (empty)
                # write-ahead log in this folder: the file is all there is.
                return _open_reader(path, "ro&immutable=1")
        raise translated(error, path) from error
    except sqlite3.Error as error:
        raise translated(error, path) from error


def read_log_id(db: sqlite3.Connection) -> str:
    """The random name that the log got when it was made."""
    return str(db.execute(QUERY["log_id"]).fetchone()[0])


_ONLY_READ = "change its permissions, or open the log only to read"


def _open_reader(path: Path, mode: str) -> sqlite3.Connection:
    db = _connect(path, mode, timeout=BUSY_SECONDS)
    try:
        version = _version(db, path)
        db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    if version == 0:
        db.close()
        raise _not_a_log(path)
    return db


def _connect(path: Path, mode: str, *, timeout: float) -> sqlite3.Connection:
    # One thread at a time uses a connection, but not always the same one.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _check_place(path: Path) -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        raise LogUnavailable(
            path, f"SQLite {oldest} or newer is needed; this Python has {sqlite3.sqlite_version}"
        )
    if path.is_dir():
        raise LogUnavailable(path, "it is a directory; name the file in it, such as trialog.db")
    kind = network_filesystem(path.parent)
    if kind is not None:
        raise LogUnavailable(
            path,
            f"it lies on a network file system ({kind}), where SQLite can't keep it safe; "
            "put the log on a local disk",
        )


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The log's format; 0 for an empty file."""
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    application = int(db.execute("PRAGMA application_id").fetchone()[0])
    if application != APPLICATION_ID:
        if found or application or db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            raise _not_a_log(path)
        return 0
    if found > FORMAT:
        raise LogTooNew(path, found, FORMAT)
    stated = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
    if stated != (str(found),):
        raise LogCorrupt(
            f"log {path}", f"user_version says format {found}, the meta table says {stated}"
        )
    return found


def _not_a_log(path: Path) -> LogUnavailable:
    return LogUnavailable(path, "it is an SQLite database, but not a trialog log")


def _use_wal(db: sqlite3.Connection, path: Path) -> None:
    """Switch to the write-ahead log. Two processes that do so at once have to take turns, and
    SQLite doesn't wait by itself here."""
    deadline = time.monotonic() + BUSY_SECONDS
    mode = None
    while mode is None:
        try:
            mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise LogUnavailable(
            path, "its file system can't hold a write-ahead log; put it on a local disk"
        )


def _create(db: sqlite3.Connection, path: Path, log_id: str) -> None:
    _use_wal(db, path)
    db.execute("BEGIN IMMEDIATE")
    try:
        if _version(db, path) == 0:  # else another process was quicker
            for statement in schema():
                db.execute(statement)
            db.executemany(
                "INSERT INTO meta (key, value) VALUES (?, ?)",
                [("format", str(FORMAT)), ("log_id", log_id)],
            )
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
