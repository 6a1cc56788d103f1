"""Each store, opened for a test; and the chain of hashes, computed from its definition."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from trialog.events.envelope import RecordedEvent
from trialog.events.hashing import event_hash, first_previous
from trialog.events.log import EventLog
from trialog.events.open import memory_log, open_log

Opener: TypeAlias = Callable[[Path], AbstractAsyncContextManager[EventLog]]

STORES: dict[str, Opener] = {
    "memory": lambda folder: memory_log(),
    "sqlite": lambda folder: open_log(folder / "jobs" / "trialog.db"),
}


async def everything(log: EventLog) -> list[RecordedEvent]:
    """All events of a log."""
    return [event async for batch in log.read_all() for event in batch]


def check_chain(events: list[RecordedEvent]) -> None:
    """Positions and versions without a hole, times that never step back, and every hash."""
    assert [e.position for e in events] == list(range(1, len(events) + 1))
    heads: dict[str, tuple[int, str, bytes]] = {}
    for e in events:
        version, at, previous = heads.get(
            e.stream, (0, "", hashlib.sha256(e.stream.encode()).digest())
        )
        assert e.version == version + 1
        assert e.at >= at
        fields = [
            e.stream, str(e.version), e.kind, str(e.schema), e.id, e.at, e.causation or "",
            "01"[e.ignorable], e.data,
        ]  # fmt: skip
        raw = [field.encode() for field in fields]
        chained = previous + b"".join(len(r).to_bytes(8, "big") + r for r in raw)
        assert e.hash == hashlib.sha256(chained).digest()
        heads[e.stream] = (e.version, e.at, e.hash)


def alter(path: Path, stream: str, version: int, change: str) -> None:
    """Change a stored event behind the log's back: `change` is SQL, as ``data = '{bad'``."""
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER IF EXISTS events_are_never_changed")
        done = db.execute(
            f"UPDATE events SET {change} WHERE version = ? AND stream = "
            "(SELECT id FROM streams WHERE name = ?)",
            (version, stream),
        )
        assert done.rowcount == 1
    db.close()


def chained(events: list[RecordedEvent]) -> list[RecordedEvent]:
    """The events of one stream with the hashes that they would have been appended with."""
    found: list[RecordedEvent] = []
    previous = first_previous(events[0].stream)
    for e in events:
        previous = event_hash(
            previous, e.stream, e.version, e.kind, e.schema, e.id, e.at, e.causation, e.ignorable,
            e.data,
        )  # fmt: skip
        found.append(replace(e, hash=previous))
    return found


def append_future(path: Path, stream: str, *, ignorable: bool = False) -> None:
    """Append an event of a later release's kind to a log, with a true hash. It blocks."""
    with sqlite3.connect(path) as db:
        number, version, at, previous = db.execute(
            "SELECT stream, version, at, hash FROM events "
            "WHERE stream = (SELECT id FROM streams WHERE name = ?) ORDER BY version DESC",
            (stream,),
        ).fetchone()
        ((position,),) = db.execute("SELECT max(position) FROM events")
        fields: dict[str, Any] = {
            "version": version + 1, "kind": "FutureThing", "schema": 1, "id": f"later-{position}",
            "at": at, "causation": None, "ignorable": ignorable,
            "data": '{"kind":"FutureThing","x":1}',
        }  # fmt: skip
        hash = event_hash(previous, stream=stream, **fields)
        row = (position + 1, number, *fields.values(), hash)
        db.execute(f"INSERT INTO events VALUES ({','.join('?' * len(row))})", row)
    db.close()
