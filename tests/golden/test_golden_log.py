"""Logs of earlier releases: they are read, they verify, and nothing in them is touched."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from helpers.fakes import CountingIds, TickingClock
from helpers.logs import check_chain, everything
from helpers.samples import BLOB
from trialog.events.codec import KINDS, decode, encode
from trialog.events.envelope import new_event
from trialog.events.kinds import JobCancelled, WarningRaised
from trialog.events.log import EventLog
from trialog.events.open import open_log
from trialog.events.values import blob_ref

V1 = Path(__file__).with_name("v1")
LARGE = bytes(range(256)) * 256
# Repeated here on purpose, so that the fixture's own file can't drift.
HEAD_OF_TRIAL = "cc93475cc9aa8b7de76ddbfa5ac3ea45923fde49211e6db0cc8f4e45aff412c7"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    """A copy of the log of format 1: SQLite leaves small files beside a log that was read."""
    shutil.copytree(V1, tmp_path / "v1")
    async with open_log(tmp_path / "v1" / "trialog.db", readonly=True) as opened:
        yield opened


async def test_every_event_is_read_and_verifies(log: EventLog) -> None:
    """All kinds, bare and full; what is encoded today is the same text."""
    stored = await everything(log)

    check_chain(stored)
    assert set(KINDS) == {e.kind for e in stored}
    assert {2, 4} == set(Counter(e.kind for e in stored).values())
    for e in stored:
        assert e.data == encode(decode(e))
    assert "golden-1" == log.log_id


async def test_the_heads_are_what_they_were(log: EventLog) -> None:
    """Versions and hashes of each stream."""
    heads = json.loads((V1 / "heads.json").read_text())

    assert list(heads) == await log.streams()
    for stream, head in heads.items():
        found = await log.head(stream)
        assert head == {"version": found.version, "hash": found.hash.hex()}
    assert HEAD_OF_TRIAL == heads["trial/golden-1"]["hash"]


async def test_its_blobs_are_found(log: EventLog) -> None:
    """One in the database, one in a file."""
    for data in (BLOB, LARGE):
        assert data == await log.blobs.get(blob_ref(data))
    (file,) = (f for f in (V1 / "blobs").rglob("*") if f.is_file())
    assert file.name == hashlib.sha256(LARGE).hexdigest()


async def test_its_text_is_what_was_written(log: EventLog) -> None:
    """Separators and controls of every sort; and a clock that stepped back."""
    first, second = await log.read("trial/gölden-2")
    payload = decode(first)
    assert isinstance(payload, WarningRaised)
    assert (
        "\u2028 \u2029 \u0085 \v \f \x1c \x1d \x1e \r \r\n \t \x00 \ufffd \U0001f600"
        == payload.message
    )
    assert first.at == second.at


async def test_it_can_be_continued(tmp_path: Path) -> None:
    """A copy of it takes new events, and none of the old ones changes."""
    shutil.copytree(V1, tmp_path / "v1")
    async with open_log(tmp_path / "v1" / "trialog.db", create=False) as log:
        before = await everything(log)
        new = new_event(JobCancelled(), TickingClock(), CountingIds())
        new = type(new)(id="new", at=new.at, payload=new.payload)
        await log.append("job/golden", 24, [new])
        after = await everything(log)
    check_chain(after)
    assert before == after[:-1]


def test_one_changed_byte_is_seen(tmp_path: Path) -> None:
    """The check of hashes above is not for nothing."""
    path = tmp_path / "trialog.db"
    shutil.copyfile(V1 / "trialog.db", path)
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER events_are_never_changed")
        db.execute("UPDATE events SET data = replace(data, 'a reason', 'a Reason')")
    db.close()

    async def read() -> None:
        async with open_log(path, readonly=True) as log:
            check_chain(await everything(log))

    with pytest.raises(AssertionError):
        anyio.run(read)
