"""What is wrong with a job: its files, and behind them its part of the log and of the blobs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec
from anyio import to_thread

from ..events.checking import named_blobs
from ..events.codec import decode_as
from ..events.envelope import RecordedEvent
from ..events.errors import BlobMissing, LogCorrupt, LogError, said
from ..events.kinds import BlobsPruned
from ..events.log import EventLog
from ..events.pages import pages
from ..events.values import BlobRef


class Difference(msgspec.Struct, frozen=True):
    """A file that is not as the log has it; or a place where log or blobs are not as written."""

    path: str
    """Below the job's folder; the stream and version of what is `altered`; the name of a blob."""
    what: Literal["missing", "differs", "extra", "blocked", "altered", "blob"]
    """`extra`: the log knows nothing of it. `blocked`: the log can't give it, `detail` says why.
    `altered`: the first event of a stream that does not fit its hash chain, or a stream without the
    event that JobFinished recorded as its last. `blob`: a blob that is
    missing or altered; `detail` has the event that names it."""
    detail: str | None = None

    @property
    def harmless(self) -> bool:
        """Nothing is wrong with the job: this file is somebody else's."""
        return self.what == "extra"

    @property
    def behind(self) -> bool:
        """The log or a blob is at fault, which no rebuild puts right."""
        return self.what in ("altered", "blob")

    def __str__(self) -> str:
        return f"{self.what}: {self.path}" + (f" ({self.detail})" if self.detail else "")


class Audit:
    """Gathers what is wrong with the log and the blobs behind a job's files, each place once."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._checked: set[str] = set()
        self._given_up: set[str] = set()
        self._altered: set[str] = set()
        self.found: list[Difference] = []

    async def job(self, job: str) -> None:
        """Check the blobs that the job's own events name. To be called first: it also learns which
        workspaces were given up."""
        async for events in pages(self._log, f"job/{job}"):
            self._given_up.update(await to_thread.run_sync(_given_up, events))
            await self.blobs(events)

    async def stream(self, stream: str) -> None:
        """The same for all of a stream's events, whatever is wrong with it, if they can be read."""
        try:
            events = await self._log.read(stream)
        except LogCorrupt as corrupt:
            self.altered(corrupt)
            return
        await self.blobs(events)

    async def blobs(self, events: Sequence[RecordedEvent]) -> None:
        """Check every blob that these events name, unless it was checked before."""
        for ref, event in await to_thread.run_sync(self._new, events):
            try:
                await self._log.blobs.check(ref)
            except (LogError, OSError) as error:
                if isinstance(error, BlobMissing) and ref.blob in self._given_up:
                    continue
                named = f"named by {event.kind}, stream {event.stream!r} version {event.version}"
                self.found.append(Difference(ref.blob, "blob", f"{said(error)}; {named}"))

    def altered(self, place: LogCorrupt) -> None:
        """Note where a stream is not what was appended."""
        if place.where not in self._altered:
            self._altered.add(place.where)
            self.found.append(Difference(place.where, "altered", place.reason))

    def _new(self, events: Sequence[RecordedEvent]) -> list[tuple[BlobRef, RecordedEvent]]:
        found: list[tuple[BlobRef, RecordedEvent]] = []
        for event in events:
            for ref in named_blobs(event.data):
                if ref.blob not in self._checked:
                    self._checked.add(ref.blob)
                    found.append((ref, event))
        return found


class _Pruned(msgspec.Struct):
    blobs: list[str]


def _given_up(events: Sequence[RecordedEvent]) -> set[str]:
    found: set[str] = set()
    for event in events:
        if event.kind == BlobsPruned.__name__:
            with suppress(LogCorrupt):
                found.update(decode_as(event, _Pruned).blobs)
    return found
