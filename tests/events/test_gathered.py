"""Reads that many ask for at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from helpers.samples import events
from trialog.events.envelope import RecordedEvent
from trialog.events.errors import LogCorrupt
from trialog.events.gathered import GatheredReads
from trialog.events.memory import MemoryLog


class SlowLog(MemoryLog):
    """A log whose reads of many streams wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.open = anyio.Event()
        self.corrupt: str | None = None

    async def read(
        self, stream: str, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """Refuses the stream that is at fault."""
        if stream == self.corrupt:
            raise LogCorrupt(stream, "it is broken")
        return await super().read(stream, after=after, limit=limit)

    async def read_each(self, streams: Sequence[str]) -> list[list[RecordedEvent]]:
        """Remembers what was asked for."""
        self.asked.append(list(streams))
        await self.open.wait()
        return [await self.read(stream) for stream in streams]


@pytest.fixture
async def log() -> SlowLog:
    """Four streams, of one to four events."""
    made = SlowLog()
    for number in range(1, 5):
        await made.append(f"trial/{number}", 0, events(number))
    return made


async def read_all(log: SlowLog, streams: Sequence[str]) -> dict[str, int | str]:
    """How many events each has, or why it can't be read; all are asked for at the same time."""
    reads, found = GatheredReads(log), dict[str, int | str]()

    async def one(stream: str) -> None:
        try:
            found[stream] = len(await reads.read(stream))
        except LogCorrupt as error:
            found[stream] = str(error)

    async with anyio.create_task_group() as tasks:
        for stream in streams:
            tasks.start_soon(one, stream)
        await anyio.wait_all_tasks_blocked()
        log.open.set()
    return found


STREAMS = [f"trial/{number}" for number in range(1, 5)]


async def test_what_many_ask_for_is_read_together(log: SlowLog) -> None:
    """Everyone gets the stream that he asked for."""
    assert {stream: n for n, stream in enumerate(STREAMS, 1)} == await read_all(log, STREAMS)
    assert [STREAMS] == log.asked


async def test_a_stream_at_fault_harms_no_other(log: SlowLog) -> None:
    """Those that were read with it are read alone."""
    log.corrupt = "trial/3"

    found = await read_all(log, STREAMS)

    assert "it is broken" in str(found.pop("trial/3"))
    assert {"trial/1": 1, "trial/2": 2, "trial/4": 4} == found


async def test_a_reader_who_is_cancelled_leaves_the_others_theirs(log: SlowLog) -> None:
    """His read was theirs too; one of them reads in his place."""
    reads, found = GatheredReads(log), dict[str, int]()

    async def one(stream: str) -> None:
        found[stream] = len(await reads.read(stream))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "trial/1")
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as doomed:
                for stream in STREAMS[1:]:
                    tasks.start_soon(one, stream)
                doomed.start_soon(one, "trial/2")
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        log.open.set()

    assert {stream: n for n, stream in enumerate(STREAMS, 1)} == found


async def test_a_leader_who_is_cancelled_is_followed(log: SlowLog) -> None:
    """The read that he began is begun again by the next."""
    reads, found = GatheredReads(log), list[int]()

    async def one(stream: str) -> None:
        found.append(len(await reads.read(stream)))

    async with anyio.create_task_group() as tasks, anyio.create_task_group() as doomed:
        doomed.start_soon(one, "trial/1")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(one, "trial/2")
        await anyio.wait_all_tasks_blocked()
        doomed.cancel_scope.cancel()
        log.open.set()

    assert [2] == found
    assert "trial/2" in log.asked[-1]
