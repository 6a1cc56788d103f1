"""Streams in pages."""

from __future__ import annotations

import pytest

from helpers.given import action, fill, started
from trialog.events import pages as pages_module
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log
from trialog.events.pages import each_event, pages


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
async def test_pages_are_the_stream(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Whatever the pages' size, they are all events in order, and none is empty."""
    monkeypatch.setattr(pages_module, "PAGE", size)
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await fill(log, {"trial/t": [started(), *(action() for _ in range(5))]})

        found = [page async for page in pages(log, "trial/t")]

        whole = await log.read("trial/t")
        assert whole == [event for page in found for event in page]
        assert whole == [event async for event in each_event(log, "trial/t")]
        assert set(map(len, found)) <= {size, 6 % size or size}
        assert [] == [page async for page in pages(log, "trial/other")]
