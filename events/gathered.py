"""Reads that many ask for at the same time, in one hop to a thread.

A stream is read in a fraction of the time that the way to the thread and back takes.
"""

from __future__ import annotations

from typing import Protocol

import anyio

from .envelope import RecordedEvent
from .errors import LogError
from .log import EventLog


class Reads(Protocol):
    """Gives whole streams; a log does."""

    async def read(self, stream: str) -> list[RecordedEvent]:
        """A stream's events."""
        ...


class _Wanted:
    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.events: list[RecordedEvent] | None = None
        self.alone = False
        """One of those that it was read with is at fault."""


class GatheredReads:
    """Reads of one log: what is asked for while a read is under way is the next one, together."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._wanted: list[_Wanted] = []
        self._turn = anyio.Lock()

    async def read(self, stream: str) -> list[RecordedEvent]:
        """See EventLog.read. A fault of the log's is raised for the stream that has it alone."""
        wanted = _Wanted(stream)
        self._wanted.append(wanted)
        async with self._turn:
            if wanted.events is None and not wanted.alone:
                await self._read()
        if wanted.events is None:
            return await self._log.read(stream)
        return wanted.events

    async def _read(self) -> None:
        gathered, self._wanted = self._wanted, []
        try:
            read = await self._log.read_each([one.stream for one in gathered])
        except LogError:
            for one in gathered:
                one.alone = True
        except BaseException:  # cancelled; the others are read by the next of them
            self._wanted[:0] = gathered
            raise
        else:
            for one, events in zip(gathered, read, strict=True):
                one.events = events
