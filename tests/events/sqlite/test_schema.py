"""The table itself: only growing, and readable without this project."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from helpers.samples import events
from trialog.events.open import open_log

COLUMNS = "position, stream, version, kind, schema, id, at, causation, ignorable, data, hash"
INSERT = f"INTO events ({COLUMNS}) VALUES "
REST = "'JobCancelled', 1, '{id}', '2026-01-01T00:00:00.000000Z', NULL, 0, '{{}}', x'00')"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A log of two streams with three and two events, opened with nothing but SQLite."""
    path = tmp_path / "trialog.db"

    async def fill() -> None:
        async with open_log(path) as log:
            await log.append("job/a", 0, events(3))
            await log.append("job/b", 0, events(2))
            await log.blobs.put(b"small")

    anyio.run(fill)
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def row(position: object, stream: int, version: int, id: str = "new") -> str:
    """The values of an insert."""
    return f"({position}, {stream}, {version}, " + REST.format(id=id)


def taken(db: sqlite3.Connection) -> str:
    """An id that is stored."""
    return str(db.execute("SELECT id FROM events WHERE position = 2").fetchone()[0])


def contents(db: sqlite3.Connection) -> list[object]:
    """All that must not change."""
    return [
        db.execute(f"SELECT * FROM {table}").fetchall() for table in ("log", "streams", "blobs")
    ]


def test_an_event_in_its_place_is_taken(db: sqlite3.Connection) -> None:
    """So it is not for nothing that the others below are refused."""
    db.execute("INSERT " + INSERT + row(6, 1, 4))
    assert (6,) == db.execute("SELECT count(*) FROM events").fetchone()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET data = '{}' WHERE position = 2",
        "UPDATE OR REPLACE events SET id = 'x' WHERE position = 5",
        "UPDATE events SET position = 9 WHERE position = 5",
        "DELETE FROM events WHERE position = 5",
        "DELETE FROM events",
        "UPDATE streams SET name = 'job/c'",
        "DELETE FROM streams",
        "INSERT INTO streams (name) VALUES ('job/a')",
        "INSERT OR REPLACE INTO streams (id, name) VALUES (1, 'job/c')",
        "INSERT OR REPLACE INTO streams (id, name) VALUES (9, 'job/a')",
        "UPDATE blobs SET data = x'00'",
        "INSERT INTO events SELECT * FROM events WHERE position = 1",
        *(
            f"INSERT {how}{INSERT}{values}"
            for how in ("", "OR REPLACE ", "OR IGNORE ", "OR ROLLBACK ", "OR FAIL ")
            for values in (
                row(2, 1, 4),
                row(7, 1, 4),
                row(0, 1, 4),
                row(-1, 1, 4),
                row("NULL", 1, 4),
                row(6, 1, 2),
                row(6, 1, 4, id="TAKEN"),
            )
        ),
        f"INSERT {INSERT}{row(2, 1, 4)} ON CONFLICT DO UPDATE SET data = '[]'",
    ],
)
def test_the_database_refuses_it(db: sqlite3.Connection, statement: str) -> None:
    """No update, no delete, no replacing, and an insert only in the next place."""
    before = contents(db)

    with pytest.raises(sqlite3.IntegrityError):
        db.execute(statement.replace("TAKEN", taken(db)))

    assert before == contents(db)


def test_types_are_strict(db: sqlite3.Connection) -> None:
    """A number can't stand where text must, nor bytes."""
    for wrong in ("x'7B7D'", "NULL"):
        values = row(6, 1, 4).replace("'{}'", wrong)
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(f"INSERT {INSERT}{values}")


def test_people_see_names_and_hex(db: sqlite3.Connection) -> None:
    """The view `log` is the events table with stream names, and hashes as text."""
    rows = db.execute("SELECT * FROM log ORDER BY position").fetchall()

    assert ["job/a"] * 3 + ["job/b"] * 2 == [r[1] for r in rows]
    hashes = [r[0].hex() for r in db.execute("SELECT hash FROM events ORDER BY position")]
    assert hashes == [r[-1] for r in rows]
    columns = [c[0] for c in db.execute("SELECT * FROM log").description]
    assert COLUMNS.split(", ") == columns
    assert ("number 0",) == db.execute(
        "SELECT json_extract(data, '$.message') FROM log WHERE position = 1"
    ).fetchone()


def test_the_settings_that_make_it_durable(db: sqlite3.Connection) -> None:
    """The file is marked as a log, and is in write-ahead mode for whoever opens it."""
    assert (0x7472_6C67,) == db.execute("PRAGMA application_id").fetchone()
    assert ("wal",) == db.execute("PRAGMA journal_mode").fetchone()
    assert [("ok",)] == db.execute("PRAGMA integrity_check").fetchall()
