"""A stream in pages: one of any length need not be in memory as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .envelope import RecordedEvent
from .log import EventLog

PAGE = 200
"""Events that are read at a time."""


async def pages(log: EventLog, stream: str) -> AsyncIterator[list[RecordedEvent]]:
    """A stream's events in order, so many at a time; none of a stream that does not exist."""
    after, full = 0, True
    while full:
        events = await log.read(stream, after=after, limit=PAGE)
        if events:
            yield events
            after = events[-1].version
        full = len(events) == PAGE


async def each_event(log: EventLog, stream: str) -> AsyncIterator[RecordedEvent]:
    """The same, one by one."""
    async for page in pages(log, stream):
        for event in page:
            yield event
