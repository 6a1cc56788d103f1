"""Rows of the events table as recorded events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, TypeAlias

from ..envelope import RecordedEvent
from .sql import QUERY

Row: TypeAlias = tuple[Any, ...]
"""A row of the events table with its columns in order."""


class StreamNames:
    """Names by number; what was read once is never read again, for it never changes."""

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
                name = names[number] = found[0]
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
        return events
