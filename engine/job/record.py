"""The writing end of a job's stream. Other processes may append to it too (``trialog cancel``)."""

from __future__ import annotations

import anyio

from ...events.clock import Clock, Ids
from ...events.envelope import Appended, NewEvent
from ...events.errors import VersionConflict
from ...events.kinds import JobEvent
from ...events.log import EventLog

ATTEMPTS = 20
"""Conflicts in a row after which something is wrong."""


def stream_of(job: str) -> str:
    """The name of a job's stream."""
    return f"job/{job}"


class JobRecord:
    """Appends to one job's stream, in the order of the calls, from many coroutines."""

    def __init__(self, log: EventLog, job: str, *, clock: Clock, ids: Ids, version: int) -> None:
        self.log = log
        self.job = job
        self.stream = stream_of(job)
        self.clock = clock
        self.ids = ids
        self._version = version
        self._lock = anyio.Lock(fast_acquire=True)  # nothing is gained by a turn of the loop

    async def tell(self, *events: JobEvent, cause: str | None = None) -> list[str]:
        """Append and wait until it is durable; gives the events' ids.

        Nothing that is told here depends on what another process has told, so that a conflict
        means only: after its events.
        """
        new = [
            NewEvent(id=self.ids.event_id(), at=self.clock.now(), payload=event, causation=cause)
            for event in events
        ]
        for _ in range(ATTEMPTS):
            async with self._lock:
                expected = self._version
                ticket = self.log.append(self.stream, expected, new)
                self._version += len(new)
            try:
                await ticket
            except VersionConflict:
                async with self._lock:
                    self._version = (await self.log.head(self.stream)).version
            else:
                return [event.id for event in new]
        raise VersionConflict(self.stream, self._version, -1)

    async def append(self, expected: int, event: JobEvent) -> Appended:
        """Append at exactly this version: for the first event, whose place is the job's name."""
        new = NewEvent(id=self.ids.event_id(), at=self.clock.now(), payload=event)
        appended = await self.log.append(self.stream, expected, [new])
        self._version = appended.version
        return appended
