"""One group commit: a batch of appends and blobs in one transaction, in the writer's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from ..drafts import Draft, Tail, empty_tail
from ..envelope import Appended, RecordedEvent
from ..errors import LogError
from ..ledger import Place, Request, settle
from .rows import StreamNames
from .sql import QUERY

CACHED = 10_000
"""Streams whose last event is remembered; a log may have any number of them."""

MOST_ROWS = 512
"""Rows that one statement inserts."""

_PLACES = 11
_ROW = f"({', '.join('?' * _PLACES)})"


class Blob(NamedTuple):
    """A small blob on its way into the database."""

    digest: str
    data: bytes


class _LookUp(Exception):
    """The database has to be asked, so one statement will not do."""


class Committer:
    """Commits batches on one connection, and remembers where the streams stand.

    What is remembered may be out of date, since other processes append too. That is always found
    out: they move the last position, and the table takes rows at the next position only.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._names = StreamNames()
        self._position = -1
        self._tails: dict[str, Tail] = {}
        self._numbers: dict[str, int] = {}
        # Of the batch under way:
        self._next = 0
        self._moved: dict[str, Tail] = {}
        self._values: list[object] = []
        self._inside = False
        self._check_ids = False

    def commit(
        self, requests: Sequence[Request], blobs: Sequence[Blob]
    ) -> list[Appended | LogError]:
        """Settle the requests in one transaction that is on the disk when this returns.

        Raises sqlite3.Error when nothing was stored.
        """
        if not blobs and all(request.stream in self._tails for request in requests):
            with suppress(_LookUp, sqlite3.IntegrityError):
                return self._at_once(requests)
        try:
            return self._transaction(requests, blobs, check_ids=False)
        except sqlite3.IntegrityError:
            # An id came a second time. Look for it, request by request.
            return self._transaction(requests, blobs, check_ids=True)

    def _at_once(self, requests: Sequence[Request]) -> list[Appended | LogError]:
        """The common case: one statement that is a transaction by itself.

        Between the statements of a longer transaction this thread would have to wait for Python's
        lock, with the database locked for others.
        """
        if sum(len(request.drafts) for request in requests) > MOST_ROWS:
            raise _LookUp
        self._begin()
        outcomes = settle(self, requests)
        if any(isinstance(outcome, LogError) for outcome in outcomes):
            raise _LookUp  # what is remembered may be too old to refuse anything by it
        self._insert()
        self._end()
        return outcomes

    def _transaction(
        self, requests: Sequence[Request], blobs: Sequence[Blob], *, check_ids: bool
    ) -> list[Appended | LogError]:
        db = self._db
        db.execute(QUERY["begin"])
        try:
            last = db.execute(QUERY["last_position"]).fetchone()[0]
            if last != self._position or len(self._tails) > CACHED:
                # Another process has appended since; or enough is remembered.
                self._tails = {}
                self._numbers = {}
                self._position = last
            self._begin(inside=True, check_ids=check_ids)
            if blobs:
                db.executemany(
                    QUERY["add_blob"],
                    [(blob.digest, len(blob.data), blob.data) for blob in blobs],
                )
            outcomes = settle(self, requests)
            self._insert()
            db.execute(QUERY["commit"])
        except BaseException:
            self._position = -1  # numbers of new streams were remembered too early
            with suppress(sqlite3.Error):
                db.execute(QUERY["rollback"])
            raise
        self._end()
        return outcomes

    def _begin(self, *, inside: bool = False, check_ids: bool = False) -> None:
        self._inside = inside
        self._check_ids = check_ids
        self._next = self._position + 1
        self._moved = {}
        self._values = []

    def _insert(self) -> None:
        values, self._values = self._values, []
        for start in range(0, len(values), MOST_ROWS * _PLACES):
            part = values[start : start + MOST_ROWS * _PLACES]
            rows = _rounded(len(part) // _PLACES)
            part += [None] * (rows * _PLACES - len(part))
            self._db.execute(_insert(rows), part)

    def _end(self) -> None:
        self._position = self._next - 1
        self._tails.update(self._moved)

    # What `settle` asks for.

    def tail(self, stream: str) -> Tail:
        """The stream's last event."""
        tail = self._moved.get(stream) or self._tails.get(stream)
        if tail is None:
            found = self._db.execute(QUERY["stream_number"], (stream,)).fetchone()
            if found is None:
                return empty_tail(stream)
            self._numbers[stream] = found[0]
            tail = Tail(*self._db.execute(QUERY["tail"], found).fetchone())
            self._tails[stream] = tail
        return tail

    def stored(self, stream: str, first: int, last: int) -> list[RecordedEvent]:
        """The stream's events from one version to another."""
        self._ask()
        rows = self._db.execute(
            QUERY["stored_versions"], (self._numbers[stream], first, last)
        ).fetchall()
        return self._names.recorded(self._db, rows)

    def find(self, drafts: Sequence[Draft]) -> Place | None:
        """The place of the first id that is stored already."""
        self._ask()
        for draft in drafts:
            found = self._db.execute(QUERY["find_event"], (draft.id,)).fetchone()
            if found is not None:
                return Place(*found)
        return None

    def taken(self, drafts: Sequence[Draft]) -> Place | None:
        """The same for a new place; at first the table's own index is trusted to refuse."""
        return self.find(drafts) if self._check_ids else None

    def add(self, stream: str, drafts: Sequence[Draft], tails: Sequence[Tail]) -> int:
        """Queue the rows."""
        number = self._numbers.get(stream)
        if number is None:
            number = self._db.execute(QUERY["add_stream"], (stream,)).fetchone()[0]
            self._numbers[stream] = number
        first = position = self._next
        for draft, tail in zip(drafts, tails, strict=True):
            kind, schema, event_id, _, causation, ignorable, data = draft
            version, hash_, at = tail
            self._values += (
                position, number, version, kind, schema, event_id, at, causation, ignorable,
                data, hash_,
            )  # fmt: skip
            position += 1
        self._next = position
        self._moved[stream] = tails[-1]
        return first

    def _ask(self) -> None:
        """Before the database is asked: inside a transaction, and with all rows so far in it."""
        if not self._inside:
            raise _LookUp
        self._insert()


def _rounded(rows: int) -> int:
    """Few sizes of statements are kept prepared; the rest of a statement is filled with nulls."""
    return rows if rows <= 64 else -(-rows // 64) * 64


@cache
def _insert(rows: int) -> str:
    return QUERY["add_events"].format(rows=", ".join([_ROW] * rows))
