"""The hash of an event, against the format's own words."""

from __future__ import annotations

from hashlib import sha256

import pytest

from trialog.events.hashing import event_hash


def in_plain_words(previous: bytes, *fields: str) -> bytes:
    """SHA-256 over the previous hash, then each field as its length in eight bytes and itself."""
    found = sha256(previous)
    for field in fields:
        raw = field.encode()
        found.update(len(raw).to_bytes(8, "big") + raw)
    return found.digest()


@pytest.mark.parametrize("version", [1, 1023, 1024, 10**12])
@pytest.mark.parametrize("causation", [None, "0199-a"])
@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("stream", ["trial/a", "job/Straße"])
def test_every_field_is_hashed_behind_its_length(
    version: int, causation: str | None, ignorable: bool, stream: str
) -> None:
    """Whatever is kept ready between two events."""
    previous, time = bytes(range(32)), "2026-01-31T00:00:00.000000Z"
    found = event_hash(
        previous, stream, version, "ActionTaken", 12, "0199-b", time, causation, ignorable, "{…}"
    )
    assert found == in_plain_words(
        previous, stream, str(version), "ActionTaken", "12", "0199-b", time, causation or "",
        "1" if ignorable else "0", "{…}",
    )  # fmt: skip
