"""Each store, opened for a test; and the chain of hashes, computed from its definition."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

from trialog.events.envelope import RecordedEvent
from trialog.events.log import EventLog
from trialog.events.open import memory_log, open_log

Opener: TypeAlias = Callable[[Path], AbstractAsyncContextManager[EventLog]]

STORES: dict[str, Opener] = {
    "memory": lambda folder: memory_log(),
    "sqlite": lambda folder: open_log(folder / "jobs" / "trialog.db"),
}


async def everything(log: EventLog) -> list[RecordedEvent]:
    """All events of a log."""
    return [event async for batch in log.read_all() for event in batch]


def check_chain(events: list[RecordedEvent]) -> None:
    """Positions and versions without a hole, times that never step back, and every hash."""
    assert [e.position for e in events] == list(range(1, len(events) + 1))
    heads: dict[str, tuple[int, str, bytes]] = {}
    for e in events:
        version, at, previous = heads.get(
            e.stream, (0, "", hashlib.sha256(e.stream.encode()).digest())
        )
        assert e.version == version + 1
        assert e.at >= at
        fields = [
            e.stream, str(e.version), e.kind, str(e.schema), e.id, e.at, e.causation or "",
            "01"[e.ignorable], e.data,
        ]  # fmt: skip
        raw = [field.encode() for field in fields]
        chained = previous + b"".join(len(r).to_bytes(8, "big") + r for r in raw)
        assert e.hash == hashlib.sha256(chained).digest()
        heads[e.stream] = (e.version, e.at, e.hash)
