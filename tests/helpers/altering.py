"""What nobody may do to a log: its rows changed and deleted, past its triggers."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def change(folder: Path, sql: str, *values: object) -> None:
    """Do to the log's file what its triggers forbid."""
    with sqlite3.connect(folder / "trialog.db") as db:
        for name in ("events_are_never_changed", "events_are_never_deleted"):
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
        db.execute("DROP TRIGGER IF EXISTS blobs_are_never_changed")
        assert db.execute(sql, values).rowcount == 1
    db.close()


def change_event(folder: Path, stream: str, version: int, assignment: str) -> None:
    """Change one row."""
    change(
        folder,
        f"UPDATE events SET {assignment} WHERE version = ? AND stream = "
        "(SELECT id FROM streams WHERE name = ?)",
        version,
        stream,
    )


def cut(folder: Path, stream: str, version: int) -> None:
    """Remove a stream's events from a version on, as nothing in the chain can tell."""
    with sqlite3.connect(folder / "trialog.db") as db:
        db.execute("DROP TRIGGER IF EXISTS events_are_never_deleted")
        db.execute(
            "DELETE FROM events WHERE version >= ? AND stream = "
            "(SELECT id FROM streams WHERE name = ?)",
            (version, stream),
        )
    db.close()
