"""The hash that chains a stream's events.

SHA-256 over the previous hash, then each field as an 8-byte big-endian length and its bytes.
Integers are decimal ASCII, null is empty, booleans are ``0`` or ``1``, and the previous hash is
32 raw bytes without a length. `position` is left out, so that a stream copied into another log
keeps its hashes. A test vector is in docs/event-log.md.
"""

from __future__ import annotations

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
    parts = [previous]
    for text in (
        stream, str(version), kind, str(schema), id, at, causation or "",
        "1" if ignorable else "0", data,
    ):  # fmt: skip
        raw = text.encode()
        parts.append(len(raw).to_bytes(8, "big"))
        parts.append(raw)
    return sha256(b"".join(parts)).digest()
