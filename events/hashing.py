"""The hash that chains a stream's events.

SHA-256 over the previous hash, then each field as an 8-byte big-endian length and its bytes.
Integers are decimal ASCII, null is empty, booleans are ``0`` or ``1``, and the previous hash is
32 raw bytes without a length. `position` is left out, so that a stream copied into another log
keeps its hashes. A test vector is in docs/event-log.md.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256


def first_previous(stream: str) -> bytes:
    """The previous hash of a stream's first event: the SHA-256 of the stream's name."""
    return sha256(stream.encode()).digest()


def event_hash(
    previous: bytes,
    *,
    stream: str,
    version: int,
    kind: str,
    schema: int,
    id: str,
    at: str,
    causation: str | None,
    ignorable: bool,
    data: str,
) -> bytes:
    """The 32-byte hash of one event after `previous`."""
    event = id.encode()
    time = at.encode()
    stored = data.encode()
    return sha256(
        b"".join((
            previous,
            _measured(stream),
            _measured_number(version),
            _measured_kind(kind, schema),
            len(event).to_bytes(8, "big"),
            event,
            len(time).to_bytes(8, "big"),
            time,
            _measured_rest(causation, ignorable),
            len(stored).to_bytes(8, "big"),
            stored,
        ))
    ).digest()  # fmt: skip


@lru_cache(2048)
def _measured(text: str) -> bytes:
    """A field that comes again and again: its length and its bytes."""
    raw = text.encode()
    return len(raw).to_bytes(8, "big") + raw


@lru_cache(1024)
def _measured_number(number: int) -> bytes:
    return _measured(str(number))


@lru_cache
def _measured_kind(kind: str, schema: int) -> bytes:
    return _measured(kind) + _measured_number(schema)


@lru_cache
def _measured_rest(causation: str | None, ignorable: bool) -> bytes:
    return _measured(causation or "") + _measured("1" if ignorable else "0")
