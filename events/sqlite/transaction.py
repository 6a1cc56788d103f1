"""One group commit: a batch of appends and blobs in one transaction, in the writer's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ..drafts import Draft, Tail, empty_tail
from ..envelope import Appended, RecordedEvent
from ..errors import LogError
from ..ledger import Place, Request, settle
from .rows import Row, StreamNames
from .sql import QUERY

CACHED = 10_000
"""Streams whose last event is remembered; a log may have any number of them."""


class Blob(NamedTuple):
    """A small blob on its way into the database."""

    digest: str
    data: bytes


class Committer:
    """Commits batches on one connection, and remembers where the streams stand."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._names = StreamNames()
        self._position = -1
        self._tails: dict[str, Tail] = {}
        self._numbers: dict[str, int] = {}
        self._rows: list[Row] = []
        self._check_ids = False

    def commit(
        self, requests: Sequence[Request], blobs: Sequence[Blob]
    ) -> list[Appended | LogError]:
        """Settle the requests in one transaction that is on the disk when this returns.

        Raises sqlite3.Error when nothing was stored.
        """
        try:
            return self._commit(requests, blobs, check_ids=False)
        except sqlite3.IntegrityError:
            # An id came a second time. Look for it, request by request.
            return self._commit(requests, blobs, check_ids=True)

    def _commit(
        self, requests: Sequence[Request], blobs: Sequence[Blob], *, check_ids: bool
    ) -> list[Appended | LogError]:
        db = self._db
        db.execute(QUERY["begin"])
        try:
            self._check_ids = check_ids
            last = db.execute(QUERY["last_position"]).fetchone()[0]
            if last != self._position or len(self._tails) > CACHED:
                # Another process has appended since; or enough is remembered.
                self._forget()
                self._position = last
            if blobs:
                db.executemany(
                    QUERY["add_blob"],
                    [(blob.digest, len(blob.data), blob.data) for blob in blobs],
                )
            outcomes = settle(self, requests)
            self._flush()
            db.execute(QUERY["commit"])
        except BaseException:
            self._forget()
            with suppress(sqlite3.Error):
                db.execute(QUERY["rollback"])
            raise
        return outcomes

    def _forget(self) -> None:
        self._position = -1
        self._tails = {}
        self._numbers = {}
        self._rows = []

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._db.executemany(QUERY["add_event"], rows)

    # What `settle` asks for.

    def tail(self, stream: str) -> Tail:
        """The stream's last event."""
        tail = self._tails.get(stream)
        if tail is None:
            found = self._db.execute(QUERY["stream_number"], (stream,)).fetchone()
            if found is None:
                tail = empty_tail(stream)
            else:
                self._numbers[stream] = found[0]
                tail = Tail(*self._db.execute(QUERY["tail"], found).fetchone())
            self._tails[stream] = tail
        return tail

    def stored(self, stream: str, first: int, last: int) -> list[RecordedEvent]:
        """The stream's events from one version to another."""
        self._flush()
        rows = self._db.execute(QUERY["stored_versions"], (self._numbers[stream], first, last))
        return self._names.recorded(self._db, rows.fetchall())

    def find(self, drafts: Sequence[Draft]) -> Place | None:
        """The place of the first id that is stored already."""
        self._flush()
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
        first = position = self._position + 1
        for draft, tail in zip(drafts, tails, strict=True):
            kind, schema, event_id, _, causation, ignorable, data = draft
            self._rows.append(
                (
                    position, number, tail.version, kind, schema, event_id, tail.at, causation,
                    ignorable, data, tail.hash,
                )
            )  # fmt: skip
            position += 1
        self._position = position - 1
        self._tails[stream] = tails[-1]
        return first
