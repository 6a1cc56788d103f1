"""Whether a stream is what was appended: its hash chain, and the blobs that its events name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from .envelope import RecordedEvent
from .errors import LogCorrupt
from .hashing import event_hash, first_previous
from .values import BlobRef


class ChainCheck:
    """Follows the hash chain of one stream, from its first event on."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._hash = first_previous(stream)
        self._position = 0
        self.version = 0
        """Of the last event that fits."""

    def follow(self, events: Iterable[RecordedEvent]) -> None:
        """Check the stream's next events.

        Raises LogCorrupt with stream and version at the first that does not fit.
        """
        stream, version = self._stream, self.version
        for event in events:
            version += 1
            if event.version != version:
                raise LogCorrupt(
                    self._place(version), f"this event is missing; the next is {event.version}"
                )
            try:
                # By place: names would cost more than a twentieth.
                found = event_hash(
                    self._hash, stream, version, event.kind, event.schema, event.id, event.at,
                    event.causation, event.ignorable, event.data,
                )  # fmt: skip
            except UnicodeEncodeError as error:
                raise LogCorrupt(
                    self._place(version),
                    f"position {event.position}: the log was changed here: data is not UTF-8",
                ) from error
            if found != event.hash:
                raise LogCorrupt(
                    self._place(version),
                    f"position {event.position}: the log was changed here: the stored hash is not "
                    "that of this event after the one before it",
                )
            if event.position <= self._position:  # no part of the hash
                raise LogCorrupt(
                    self._place(version),
                    f"position {event.position}: the log was changed here: positions begin at 1 "
                    f"and rise, and that of the event before it is {self._position or 'none'}",
                )
            self.version, self._hash, self._position = version, found, event.position

    def _place(self, version: int) -> str:
        return f"stream {self._stream!r} version {version}"


def check_chain(events: list[RecordedEvent]) -> None:
    """Check a stream that was read from its first event on; see `ChainCheck.follow`."""
    if events:
        ChainCheck(events[0].stream).follow(events)


def named_blobs(data: str) -> Iterator[BlobRef]:
    """The blobs that a stored payload names; none for what is no JSON."""
    if '"$blob"' not in data:
        return
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return
    waiting: list[Any] = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            name, size = fields.get("$blob"), fields.get("size")
            if len(fields) == 2 and isinstance(name, str) and isinstance(size, int):
                yield BlobRef(blob=name, size=size)
            else:
                waiting += fields.values()
        elif isinstance(value, list):
            waiting += value
