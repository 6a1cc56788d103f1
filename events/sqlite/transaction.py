"""One group commit: a batch of appends and blobs in one transaction, in the writer's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress

from ..drafts import Draft, Tail, empty_tail
from ..envelope import Appended, RecordedEvent
from ..errors import LogError
from ..ledger import Place, settle
from .plans import Heads, Plan
from .rows import Known, StreamNames, insert_rows
from .sql import QUERY
from .tickets import Append, Blob

CACHED = 10_000
"""Streams whose last event is remembered; a log may have any number of them."""

SMALL = 16
"""Events; a commit of fewer waits for the disk above all."""

SMALL_COMMITS = 100
"""So many of them and the write-ahead log is written again from its start; see `tidy`."""


class Committer:
    """Commits batches on one connection."""

    def __init__(self, db: sqlite3.Connection, heads: Heads) -> None:
        self._db = db
        self._heads = heads
        self._names = StreamNames()
        self._small_commits = 0
        # Of the batch under way:
        self._next = 0
        self._values: list[object] = []
        self._check_ids = False

    def commit(
        self,
        appends: Sequence[Append],
        plans: Sequence[Plan],
        blobs: Sequence[Blob],
        started: Callable[[], object] | None = None,
    ) -> Sequence[Appended | LogError]:
        """Store a batch; it is on disk when this returns.

        `started` is called before a plan is stored: from then on this thread does without Python's
        lock. Raises sqlite3.Error when nothing was stored; IntegrityError for a plan, when what
        was remembered is out of date or an id came a second time.
        """
        if plans or not appends:
            return self._store(plans, blobs, started)
        try:
            return self._settle(appends, blobs, check_ids=False)
        except sqlite3.IntegrityError:
            # An id came a second time. Look for it, request by request.
            return self._settle(appends, blobs, check_ids=True)

    def tidy(self, events: int) -> None:
        """After each commit, of so many events: now and then, bring the write-ahead log home.

        The disk syncs what is written over older bytes in half the time of what makes a file
        longer, for then the file system has its own journal to write. Large commits are left to
        SQLite: they would copy far more pages, and wait for one sync in many events.
        """
        if events < SMALL:
            self._small_commits += 1
            if self._small_commits >= SMALL_COMMITS:
                self._small_commits = 0
                with suppress(sqlite3.Error):  # All is stored; SQLite itself passes over it, too.
                    self._db.execute(QUERY["checkpoint"]).fetchall()

    def _store(
        self, plans: Sequence[Plan], blobs: Sequence[Blob], started: Callable[[], object] | None
    ) -> Sequence[Appended]:
        if started is not None:
            started()
        if len(plans) == 1 and not blobs:
            # One statement is a transaction by itself. Between the statements of a longer one
            # this thread may have to wait for Python's lock.
            insert_rows(self._db, plans[0].values)
            return plans[0].outcomes
        with self._transaction():
            self._add_blobs(blobs)
            for plan in plans:
                insert_rows(self._db, plan.values)
        return [outcome for plan in plans for outcome in plan.outcomes]

    def _settle(
        self, appends: Sequence[Append], blobs: Sequence[Blob], *, check_ids: bool
    ) -> list[Appended | LogError]:
        heads = self._heads
        try:
            with self._transaction():
                last = self._db.execute(QUERY["last_position"]).fetchone()[0]
                if last != heads.position or len(heads.streams) > CACHED:
                    # Another process has appended since; or enough is remembered.
                    heads.forget(last)
                self._next = last + 1
                self._values = []
                self._check_ids = check_ids
                self._add_blobs(blobs)
                outcomes = settle(self, appends)
                self._insert()
        except BaseException:
            heads.forget()  # of this batch some was remembered already
            raise
        heads.position = self._next - 1
        return outcomes

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._db.execute(QUERY["begin"])
        try:
            yield
            self._db.execute(QUERY["commit"])
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute(QUERY["rollback"])
            raise

    def _add_blobs(self, blobs: Sequence[Blob]) -> None:
        rows = [(blob.digest, len(blob.data), blob.data) for blob in blobs]
        self._db.executemany(QUERY["add_blob"], rows)

    def _insert(self) -> None:
        values, self._values = self._values, []
        insert_rows(self._db, values)

    # What `settle` asks for.

    def tail(self, stream: str) -> Tail:
        """The stream's last event."""
        known = self._heads.streams.get(stream)
        if known is None:
            found = self._db.execute(QUERY["stream_number"], (stream,)).fetchone()
            if found is None:
                return empty_tail(stream)
            known = Known(found[0], Tail(*self._db.execute(QUERY["tail"], found).fetchone()))
            self._heads.streams[stream] = known
        return known.tail

    def stored(self, stream: str, first: int, last: int) -> list[RecordedEvent]:
        """The stream's events from one version to another."""
        self._insert()
        rows = self._db.execute(
            QUERY["stored_versions"], (self._heads.streams[stream].number, first, last)
        ).fetchall()
        return self._names.recorded(self._db, rows)

    def find(self, drafts: Sequence[Draft]) -> Place | None:
        """The place of the first id that is stored already."""
        self._insert()
        for draft in drafts:
            found = self._db.execute(QUERY["find_event"], (draft.id,)).fetchone()
            if found is not None:
                return Place(*found)
        return None

    def taken(self, drafts: Sequence[Draft]) -> Place | None:
        """The same for a new place; at first the table's own index is trusted to refuse."""
        return self.find(drafts) if self._check_ids else None

    def add(self, stream: str, tail: Tail, drafts: Sequence[Draft]) -> Appended:
        """Queue the rows."""
        known = self._heads.streams.get(stream)
        if known is None:
            number = self._db.execute(QUERY["add_stream"], (stream,)).fetchone()[0]
            known = self._heads.streams[stream] = Known(number, tail)
        outcome = known.add_rows(self._values, self._next, stream, drafts)
        self._next = outcome.last + 1
        return outcome
