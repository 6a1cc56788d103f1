"""From new events to rows and back."""

from __future__ import annotations

import msgspec

from helpers.samples import events
from trialog.events.drafts import recorded
from trialog.events.memory import MemoryLog


async def test_what_was_appended_needs_no_reading() -> None:
    """The events of an append, as they were given, are those that a read gives."""
    log = MemoryLog()
    await log.append("trial/1", 0, events(2))
    before = (await log.read("trial/1"))[-1]
    new = events(3)
    appended = await log.append("trial/1", 2, new)
    assert recorded(before, new, appended) == (await log.read("trial/1"))[2:]


async def test_what_was_stored_otherwise_is_to_be_read() -> None:
    """The hash tells that another event came between, or that the log has another text."""
    log = MemoryLog()
    await log.append("trial/1", 0, events(2))
    first, before = await log.read("trial/1")
    new = events(1)
    appended = await log.append("trial/1", 2, new)
    assert recorded(before, new, appended) is not None
    assert recorded(first, new, appended) is None
    assert (
        recorded(msgspec.structs.replace(before, at="2200-01-01T00:00:00.000000Z"), new, appended)
        is None
    )
