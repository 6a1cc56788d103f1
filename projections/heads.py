"""Where the executions' streams stood when their job finished, as its JobFinished recorded it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from ..events.codec import decode_as
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, LogError
from ..events.kinds import JobFinished
from ..events.kinds.job import Head
from ..events.values import BlobRef
from .names import Names

SIZE = 32
"""Bytes of an event's hash."""


class RecordedHeads:
    """The last events of a job's executions. A hash chain alone can't tell that its end is gone.

    `names` are the job's executions; of each the last recorded head is kept, some 36 bytes,
    for its hash stands for all that came before.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._versions = array("I")
        self._hashes = bytearray()

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
            self._know(msgspec.json.decode(data, type=list[msgspec.Raw]))

    def _know(self, heads: Iterable[msgspec.Raw]) -> None:
        more = len(self._names) - len(self._versions)
        self._versions.extend(array("I", [0]) * more)
        self._hashes += bytes(SIZE * more)
        for raw in heads:
            with suppress(ValueError, OverflowError):
                head = msgspec.json.decode(raw, type=Head)
                number = self._names.number(head.trial)
                if number is not None and head.version > self._versions[number]:
                    hashed = bytes.fromhex(head.hash).ljust(SIZE)[:SIZE]
                    self._versions[number] = head.version
                    self._hashes[SIZE * number : SIZE * (number + 1)] = hashed

    def check(self, trial: str, events: Sequence[RecordedEvent]) -> None:
        """Raise LogCorrupt where an execution's stream is without the event that was recorded.

        More may follow: a regrade, a review or labels. `events` may begin with those of executions
        that it goes on from.
        """
        number = self._names.number(trial)
        if number is None or number >= len(self._versions):
            return
        version = self._versions[number]
        if not version:
            return
        recorded = bytes(self._hashes[SIZE * number : SIZE * (number + 1)])
        stream = f"trial/{trial}"
        there = (e for e in reversed(events) if e.stream == stream and e.version <= version)
        last = next(there, None)
        if last is None or last.version < version:
            what = "ends before"
        elif last.hash != recorded:
            what = "has another event than"
        else:
            return
        raise LogCorrupt(
            f"stream {stream!r}",
            f"it {what} what JobFinished recorded: version {version}, hash {recorded.hex()}",
        )


class _Finished(msgspec.Struct):
    heads: list[msgspec.Raw] | BlobRef
