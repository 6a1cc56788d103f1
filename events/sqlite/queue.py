"""What waits for the writer, in the order in which it was queued."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ..envelope import Appended
from ..errors import LogError
from .plans import Heads, Plan
from .tickets import Append, BlobPut

_WORTH_HALVING = 16
"""Appends; fewer than that are committed together."""


class Batch(NamedTuple):
    """What one transaction stores."""

    appends: list[Append]
    plans: list[Plan]
    """The appends, settled; none when the database has to be asked."""
    blobs: list[BlobPut]

    @property
    def events(self) -> int:
        """How many there are."""
        if self.plans:
            return sum(plan.rows for plan in self.plans)
        return sum(len(append.drafts) for append in self.appends)


class Queue:
    """Appends that are planned, then appends that only the database can settle; and blobs.

    Nothing is planned behind an append that has yet to be settled: where its stream and the log
    will stand is not known before.
    """

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._plans: deque[Plan] = deque()
        self._unplanned: list[Append] = []
        self._blobs: list[BlobPut] = []
        self._settling = False

    def __bool__(self) -> bool:
        return bool(self._plans or self._unplanned or self._blobs)

    def add(self, append: Append) -> None:
        """Queue an append, planned if it can be."""
        plans = self._plans
        if self._settling or self._unplanned:
            self._unplanned.append(append)
        elif not (plans and plans[-1].add(append, self._heads)):
            plan = Plan()
            if plan.add(append, self._heads):
                plans.append(plan)
            else:
                self._unplanned.append(append)

    def put(self, put: BlobPut) -> None:
        """Queue a small blob, for the next batch."""
        self._blobs.append(put)

    def take(self, *, halve: bool, all_plans: bool) -> Batch:
        """The next batch.

        `halve` sets two halves of the appenders out of step. Appenders who all wait for the same
        commit leave one core idle in turn: they encode while the writer sleeps, then sleep while
        it writes. Two groups take turns instead, and stay in turn by themselves.
        """
        blobs, self._blobs = self._blobs, []
        if not self._plans:
            if not self._unplanned:
                return Batch([], [], blobs)
            appends, self._unplanned = self._unplanned, []
            if halve and len(appends) >= _WORTH_HALVING:
                half = len(appends) // 2
                self._unplanned = appends[half:]
                del appends[half:]
            self._settling = True
            return Batch(appends, [], blobs)
        if all_plans:
            plans = list(self._plans)
            self._plans.clear()
            return Batch([append for plan in plans for append in plan.appends], plans, blobs)
        plan = self._plans.popleft()
        if halve and not self._plans and len(plan.appends) >= _WORTH_HALVING:
            self._plans.append(plan.split(len(plan.appends) // 2))
        return Batch(plan.appends, [plan], blobs)

    def again(self, batch: Batch) -> None:
        """Queue a batch again that a table refused: what was remembered is out of date."""
        self._unplan()
        self._unplanned[:0] = batch.appends
        self._blobs[:0] = batch.blobs

    def settled(self, batch: Batch, outcomes: Sequence[Appended | LogError]) -> None:
        """A batch was stored, or refused by a rule of the log's."""
        if self._settling:
            self._settling = False
            self._fail_followers(batch, outcomes)
            self._plan_ahead()

    def failed(self, batch: Batch, error: LogError) -> None:
        """Nothing of a batch was stored; what was queued behind it on its streams fails too."""
        self._settling = False
        self._unplan()
        self._fail_followers(batch, [error] * len(batch.appends))

    def clear(self, error: LogError) -> None:
        """Refuse all of it."""
        self._unplan()
        for append in self._unplanned:
            append.fail(error)
        for put in self._blobs:
            put.fail(error)
        self._unplanned, self._blobs = [], []

    def _plan_ahead(self) -> None:
        waiting, self._unplanned = self._unplanned, []
        for append in waiting:
            self.add(append)

    def _unplan(self) -> None:
        self._unplanned[:0] = [append for plan in self._plans for append in plan.appends]
        self._plans.clear()
        self._heads.forget()

    def _fail_followers(self, batch: Batch, outcomes: Sequence[Appended | LogError]) -> None:
        failed: dict[str, LogError] = {}
        for append, outcome in zip(batch.appends, outcomes, strict=True):
            if isinstance(outcome, LogError):
                failed.setdefault(append.stream, outcome)
        if failed:
            kept: list[Append] = []
            for append in self._unplanned:
                error = failed.get(append.stream)
                if error is None:
                    kept.append(append)
                else:
                    append.fail(error)
            self._unplanned = kept
