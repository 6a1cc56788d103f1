"""Stored texts that are not UTF-8, as only a disk or a hand leaves them, cost what they are in."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from helpers.given import agent_finished, fill, started
from helpers.logs import alter, everything
from trialog.events.checking import check_chain, named_blobs
from trialog.events.codec import decode, decode_as
from trialog.events.errors import LogCorrupt
from trialog.events.log import EventLog
from trialog.events.open import open_log
from trialog.events.payload import Payload

PLACE = "stream 'trial/a' version 2"


class Shape(Payload, frozen=True):
    """No field of interest."""


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    """A log with two streams of two events."""
    async with open_log(tmp_path / "trialog.db") as log:
        await fill(log, {f"trial/{name}": [started(), agent_finished()] for name in "ab"})
        yield log


async def test_data(log: EventLog, tmp_path: Path) -> None:
    """Neither decoding nor the chain takes it, both name the place; all other events are as ever,
    and its bytes are there."""
    before = await everything(log)
    alter(tmp_path / "trialog.db", "trial/a", 2, "data = cast(x'7bff' AS TEXT)")
    [one, lost], other = await log.read_each(["trial/a", "trial/b"])
    assert [one, *other] == [before[0], *before[2:]]
    assert lost.data.encode(errors="surrogateescape") == b"{\xff"
    with pytest.raises(LogCorrupt, match=f"^{PLACE}: data is not UTF-8"):
        decode(lost)
    with pytest.raises(LogCorrupt, match=f"^{PLACE}: data is not UTF-8"):
        decode_as(lost, Shape)
    with pytest.raises(LogCorrupt, match=f"^{PLACE}: position 2: .*data is not UTF-8"):
        check_chain([one, lost])
    assert decode(other[1]) == agent_finished()
    assert [e.position for e in await everything(log)] == [1, 2, 3, 4]


async def test_blobs_in_data(log: EventLog, tmp_path: Path) -> None:
    """It names no blobs, whatever it looks like."""
    data = b'{"$blob":"\xff","size":1}'.hex()
    alter(tmp_path / "trialog.db", "trial/a", 2, f"data = cast(x'{data}' AS TEXT)")
    assert list(named_blobs((await log.read("trial/a"))[1].data)) == []


@pytest.mark.parametrize("column", ["kind", "id", "at", "causation"])
async def test_other_columns(log: EventLog, tmp_path: Path, column: str) -> None:
    """Of these the stream can't be read, and others can."""
    alter(tmp_path / "trialog.db", "trial/a", 2, f"{column} = cast(x'61ff' AS TEXT)")
    with pytest.raises(LogCorrupt, match=f"^{PLACE}: position 2: .*{column} is not UTF-8"):
        await log.read("trial/a")
    assert [decode(e) for e in await log.read("trial/b")] == [started(), agent_finished()]


async def test_names_of_streams(log: EventLog, tmp_path: Path) -> None:
    """They are named as they are."""
    with sqlite3.connect(tmp_path / "trialog.db") as db:
        db.execute("DROP TRIGGER IF EXISTS streams_are_never_changed")
        db.execute("UPDATE streams SET name = cast(x'61ff' AS TEXT) WHERE name = 'trial/a'")
    db.close()
    for read in (log.streams(), everything(log)):
        with pytest.raises(LogCorrupt, match=r"^stream 'a\\udcff': .*its name is not UTF-8"):
            await read


async def test_other_errors(log: EventLog, tmp_path: Path) -> None:
    """What SQLite can't do for another reason is told as ever."""
    alter(tmp_path / "trialog.db", "trial/a", 2, "data = '{'")
    with sqlite3.connect(tmp_path / "trialog.db") as db:
        db.execute("ALTER TABLE events RENAME TO gone")
    db.close()
    with pytest.raises(Exception, match="no such table"):
        await log.read("trial/a")
