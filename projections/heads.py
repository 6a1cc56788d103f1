"""Where the executions' streams stood when their job finished, as its JobFinished recorded it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from ..events.codec import decode_as
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, LogError
from ..events.kinds import JobFinished
from ..events.kinds.job import Head
from ..events.values import BlobRef


class RecordedHeads:
    """The last events of a job's executions. A hash chain alone can't tell that its end is gone."""

    def __init__(self) -> None:
        self._heads: dict[str, set[tuple[int, bytes]]] = {}

    def feed(self, events: Iterable[RecordedEvent]) -> list[BlobRef]:
        """More of the job's own events. Gives the blobs that further heads are in, for `listed`.

        What can't be read of them tells nothing: it is found where it lies.
        """
        blobs: list[BlobRef] = []
        for event in events:
            if event.kind == JobFinished.__name__:
                with suppress(LogError, ValueError):
                    heads = decode_as(event, _Finished).heads
                    if isinstance(heads, BlobRef):
                        blobs.append(heads)
                    else:
                        self._know(heads)
        return blobs

    def listed(self, data: bytes) -> None:
        """The heads in such a blob."""
        with suppress(ValueError):
            self._know(msgspec.json.decode(data, type=list[Head]))

    def _know(self, heads: Iterable[Head]) -> None:
        for head in heads:
            if head.version:
                known = self._heads.setdefault(head.trial, set())
                known.add((head.version, bytes.fromhex(head.hash)))

    def check(self, trial: str, events: Iterable[RecordedEvent]) -> None:
        """Raise LogCorrupt where an execution's stream is without an event that was recorded.

        More may follow: a regrade, a review or labels. `events` may begin with those of executions
        that it goes on from.
        """
        recorded = self._heads.get(trial)
        if recorded is None:
            return
        stream = f"trial/{trial}"
        hashes = {event.version: event.hash for event in events if event.stream == stream}
        for version, hash in sorted(recorded):
            if hashes.get(version) != hash:
                what = "has another event than" if version in hashes else "ends before"
                raise LogCorrupt(
                    f"stream {stream!r}",
                    f"it {what} what JobFinished recorded: version {version}, hash {hash.hex()}",
                )


class _Finished(msgspec.Struct):
    heads: list[Head] | BlobRef
