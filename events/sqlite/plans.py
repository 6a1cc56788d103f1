"""Appends settled before their turn: on the event loop, by what is remembered of the streams.

While one batch is being stored, the rows of the next are chained and laid out as they are queued.
What is remembered may be out of date, since other processes append too. That is always found out:
they move the last position, and the table takes rows at the next position only.
"""

from __future__ import annotations

from ..envelope import Appended
from .rows import MOST_ROWS, PLACES, Known
from .tickets import Append


class Heads:
    """Where the log and its streams stand, once all that is planned is stored."""

    def __init__(self) -> None:
        self.position = -1
        self.streams: dict[str, Known] = {}

    def forget(self, position: int = -1) -> None:
        """The database has to be asked again; of its last position too, unless it is given."""
        self.position = position
        self.streams = {}


class Plan:
    """What one statement stores, and what to tell once it has."""

    __slots__ = ("appends", "outcomes", "values")

    def __init__(self) -> None:
        self.appends: list[Append] = []
        self.outcomes: list[Appended] = []
        self.values: list[object] = []

    @property
    def rows(self) -> int:
        """How many events it stores."""
        return len(self.values) // PLACES

    def add(self, append: Append, heads: Heads) -> bool:
        """Settle an append; False where this plan is full, or the database has to be asked."""
        stream, drafts = append.stream, append.drafts
        known = heads.streams.get(stream)
        if (
            known is None
            or known.tail.version != append.expected
            or len(self.values) + len(drafts) * PLACES > MOST_ROWS * PLACES
        ):
            return False
        outcome = known.add_rows(self.values, heads.position + 1, stream, drafts)
        heads.position = outcome.last
        self.appends.append(append)
        self.outcomes.append(outcome)
        return True

    def split(self, count: int) -> Plan:
        """Keep the first appends; gives the others as a plan to be stored after this one."""
        rest = Plan()
        rows = sum(len(append.drafts) for append in self.appends[:count])
        rest.appends, self.appends = self.appends[count:], self.appends[:count]
        rest.outcomes, self.outcomes = self.outcomes[count:], self.outcomes[:count]
        rest.values, self.values = self.values[rows * PLACES :], self.values[: rows * PLACES]
        return rest
