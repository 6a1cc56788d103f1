"""One group commit: a batch of appends and blobs in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
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


class Plan(NamedTuple):
    """One statement that stores a batch, and what to tell once it is stored."""

    statement: str
    values: list[object]
    outcomes: list[Appended | LogError]


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

    def plan(self, requests: Sequence[Request]) -> Plan | None:
        """Settle the requests by what is remembered, without asking the database.

        Runs on the event loop, while no commit is under way. None where that is not possible.
        """
        if self._position < 0 or any(request.stream not in self._tails for request in requests):
            return None
        if sum(len(request.drafts) for request in requests) > MOST_ROWS:
            return None
        self._begin()
        try:
            outcomes = settle(self, requests)
        except _LookUp:
            return None
        if any(isinstance(outcome, LogError) for outcome in outcomes):
            return None  # what is remembered may be too old to refuse anything by it
        values, self._values = self._values, []
        return Plan(*_statement(values), outcomes)

    def commit(
        self,
        plan: Plan | None,
        requests: Sequence[Request],
        blobs: Sequence[Blob],
        started: Callable[[], None] | None = None,
    ) -> list[Appended | LogError]:
        """Store a plan, or settle the requests in a transaction; on disk when this returns.

        A plan is one statement, which is a transaction by itself: between the statements of a
        longer one this thread may have to wait for Python's lock. `started` is called before it.
        Raises sqlite3.Error when nothing was stored.
        """
        if plan is not None:
            if started is not None:
                started()
            with suppress(sqlite3.IntegrityError):
                self._db.execute(plan.statement, plan.values)
                self._end()
                return plan.outcomes
        try:
            return self._transaction(requests, blobs, check_ids=False)
        except sqlite3.IntegrityError:
            # An id came a second time. Look for it, request by request.
            return self._transaction(requests, blobs, check_ids=True)

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
            self._db.execute(*_statement(values[start : start + MOST_ROWS * _PLACES]))

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


def _statement(values: list[object]) -> tuple[str, list[object]]:
    """What inserts these rows. Few sizes are kept prepared; the rest is filled with nulls."""
    rows = len(values) // _PLACES
    if rows > 64:
        rows = -(-rows // 64) * 64
        values += [None] * (rows * _PLACES - len(values))
    return _insert(rows), values


@cache
def _insert(rows: int) -> str:
    return QUERY["add_events"].format(rows=", ".join([_ROW] * rows))
