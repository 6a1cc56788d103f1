"""Values of others on their way into an event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trialog.engine.stored import store_json, store_text
from trialog.events.memory import MemoryLog
from trialog.events.values import INLINE_LIMIT, BlobRef, unescape

FORGED = {"$blob": "sha256:0", "size": 1, "$$k": [{"$": None}]}


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, FORGED, {"a": FORGED}])
@pytest.mark.parametrize("room", [INLINE_LIMIT, 0])
async def test_json_comes_back(value: Any, room: int) -> None:
    """A value reads back the same from an event and from a blob, and forges no reference."""
    blobs = MemoryLog().blobs
    stored = await store_json(value, blobs, room=room)
    assert isinstance(stored, BlobRef) == (room == 0)
    if isinstance(stored, BlobRef):
        stored = json.loads(await blobs.get(stored))
    assert "$blob" not in (stored if isinstance(stored, dict) else {})
    assert unescape(stored) == value


async def test_text_over_the_limit_is_a_blob() -> None:
    """Text of up to 16 KiB, counted as UTF-8, stays in the event."""
    blobs = MemoryLog().blobs
    short = "é" * (INLINE_LIMIT // 2)
    assert await store_text(short, blobs) == short
    stored = await store_text(short + "x", blobs)
    assert isinstance(stored, BlobRef)
    assert await blobs.get(stored) == (short + "x").encode()


@pytest.mark.parametrize("size", [1, INLINE_LIMIT])
async def test_text_that_is_no_unicode(size: int) -> None:
    """A lone surrogate is stored as U+FFFD, in an event and in a blob, in values and in keys."""
    blobs = MemoryLog().blobs
    value = await store_json({"k\udcff": "\ud800" * size}, blobs)
    text = await store_text("a\ud800" * size, blobs)
    if isinstance(value, BlobRef) and isinstance(text, BlobRef):
        value, text = json.loads(await blobs.get(value)), (await blobs.get(text)).decode()
    assert (value, text) == ({"k\ufffd": "\ufffd" * size}, "a\ufffd" * size)
