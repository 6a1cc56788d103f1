"""How a batch of appends is settled, the same in every store.

The appends of a batch are settled in the order in which they were queued. When one fails, those
queued after it on its stream fail with it, for they were decided upon as if it had succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from .drafts import Draft, Tail, difference
from .envelope import Appended, RecordedEvent
from .errors import EventIdConflict, LogError, VersionConflict


class Place(NamedTuple):
    """Where an event id is stored."""

    id: str
    stream: str
    version: int


class Ledger(Protocol):
    """What a store gives to settle appends on, inside one transaction."""

    def tail(self, stream: str) -> Tail:
        """The stream's last event, those of this batch included."""
        ...

    def stored(self, stream: str, first: int, last: int) -> list[RecordedEvent]:
        """The stream's events with versions `first` … `last`, those of this batch included."""
        ...

    def taken(self, drafts: Sequence[Draft]) -> Place | None:
        """The place of the first id that is stored already, before events get a new place.

        A store whose table refuses a second one may answer None at first, and settle the whole
        batch again when its table refused.
        """
        ...

    def find(self, drafts: Sequence[Draft]) -> Place | None:
        """The place of the first id that is stored already."""
        ...

    def add(self, stream: str, tail: Tail, drafts: Sequence[Draft]) -> Appended:
        """Store the events after the stream's tail."""
        ...


class Request(Protocol):
    """One append, as it was queued."""

    stream: str
    expected: int
    drafts: list[Draft]


def settle(ledger: Ledger, requests: Sequence[Request]) -> list[Appended | LogError]:
    """The outcome of each request, in order."""
    failed: dict[str, LogError] = {}
    outcomes: list[Appended | LogError] = []
    for request in requests:
        outcome = failed.get(request.stream) or _settle(ledger, request)
        if isinstance(outcome, LogError):
            failed[request.stream] = outcome
        outcomes.append(outcome)
    return outcomes


def _settle(ledger: Ledger, request: Request) -> Appended | LogError:
    stream, expected, drafts = request.stream, request.expected, request.drafts
    tail = ledger.tail(stream)
    if expected != tail.version:
        if 0 <= expected < tail.version:
            return _repeated(ledger, request, tail.version)
        return VersionConflict(stream, expected, tail.version)
    place = ledger.taken(drafts)
    if place is not None:
        return _taken(stream, place)
    return ledger.add(stream, tail, drafts)


def _repeated(ledger: Ledger, request: Request, current: int) -> Appended | LogError:
    """The answer to an append at a place that is taken: perhaps by the very same events."""
    stream, expected, drafts = request.stream, request.expected, request.drafts
    stored = ledger.stored(stream, expected, expected + len(drafts))
    before = stored.pop(0).at if expected else ""
    if [draft.id for draft in drafts] != [event.id for event in stored]:
        place = ledger.find(drafts)
        if place is not None:
            return _taken(stream, place)
        return VersionConflict(stream, expected, current)
    for draft, event in zip(drafts, stored, strict=True):
        what = difference(draft, before, event)
        if what is not None:
            reason = f"version {event.version} has this id and another {what}"
            return EventIdConflict(draft.id, stream, reason)
        before = event.at
    return Appended(stored[0].position, stored[-1].position, stored[-1].version, stored[-1].hash)


def _taken(stream: str, place: Place) -> EventIdConflict:
    where = f"version {place.version} of stream {place.stream!r}"
    return EventIdConflict(place.id, stream, f"it is the id of {where}")
