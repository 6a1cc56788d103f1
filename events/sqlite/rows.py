"""Rows of the events table: laid out to be inserted, and read back as recorded events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from ..drafts import Draft, Tail, chain
from ..envelope import Appended, RecordedEvent
from ..errors import LogCorrupt
from ..values import without_surrogates
from .sql import QUERY

MOST_ROWS = 512
"""Rows that one statement inserts."""

PLACES = 11
"""Columns."""

NAMES = 1000
"""Streams whose names are remembered; a log may have any number of them."""

Row: TypeAlias = tuple[Any, ...]
"""A row of the events table with its columns in order."""


class StreamNames:
    """Names by number; what was read is kept for a while, for it never changes."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def recorded(self, db: sqlite3.Connection, rows: Iterable[Row]) -> list[RecordedEvent]:
        """Rows as events."""
        names = self._names
        events: list[RecordedEvent] = []
        for row in rows:
            number = row[1]
            name = names.get(number)
            if name is None:
                found = db.execute(QUERY["stream_name"], (number,)).fetchone()
                if len(names) >= NAMES:
                    names.clear()
                name = names[number] = checked_name(found[0])
            events.append(
                RecordedEvent(
                    position=row[0],
                    stream=name,
                    version=row[2],
                    kind=row[3],
                    schema=row[4],
                    id=row[5],
                    at=row[6],
                    causation=row[7],
                    ignorable=row[8] != 0,
                    data=row[9],
                    hash=row[10],
                )
            )
        if db.text_factory is not str:  # there is a text that is not UTF-8
            for event in events:
                _check_texts(event)
        return events


def _check_texts(event: RecordedEvent) -> None:
    """Raise LogCorrupt for texts that are not UTF-8, but of `data`, which its readers check."""
    for name in ("kind", "id", "at", "causation"):
        if not _is_utf8(getattr(event, name) or ""):
            raise LogCorrupt(
                f"stream {event.stream!r} version {event.version}",
                f"position {event.position}: the log was changed here: {name} is not UTF-8",
            )


def checked_name(stream: str) -> str:
    """A stream's name. Raises LogCorrupt for one that is not UTF-8."""
    if not _is_utf8(stream):
        raise LogCorrupt(f"stream {stream!r}", "the log was changed here: its name is not UTF-8")
    return stream


def _is_utf8(text: str) -> bool:
    return without_surrogates(text)[1] is None


@dataclass(slots=True)
class Known:
    """What is remembered of a stream: its number and its last event."""

    number: int
    tail: Tail

    def add_rows(
        self, values: list[object], first: int, stream: str, drafts: Sequence[Draft]
    ) -> Appended:
        """Lay out the stream's next events behind those in `values`, from the position `first`."""
        number, tail, position = self.number, self.tail, first
        version, at, hash = tail.version, tail.at, tail.hash
        for draft, version, at, hash in chain(stream, tail, drafts):
            values += (
                position, number, version, draft.kind, draft.schema, draft.id, at,
                draft.causation or "", 1 if draft.ignorable else 0, draft.data, bytearray(hash),
            )  # fmt: skip
            position += 1
        self.tail = Tail(version, hash, at)
        return Appended(first, position - 1, version, hash)


def insert_rows(db: sqlite3.Connection, values: list[object]) -> None:
    """Store rows in as few statements as may be. Up to MOST_ROWS, one: a transaction by itself."""
    for start in range(0, len(values), MOST_ROWS * PLACES):
        some = values[start : start + MOST_ROWS * PLACES]
        rows = len(some) // PLACES
        if rows <= 64:
            db.execute(_insert("add_events", rows), some)
        else:  # Few sizes are kept prepared; the rest is filled with zeros.
            rows = -(-rows // 64) * 64
            some += [0] * (rows * PLACES - len(some))
            db.execute(_insert("add_many_events", rows), some)


_ROW = {
    "add_events": "(?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?)",
    "add_many_events": "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
}


@cache
def _insert(query: str, rows: int) -> str:
    return QUERY[query].format(rows=", ".join([_ROW[query]] * rows))
