"""Group commit: one transaction for all that is queued, and none that waits for more."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from helpers.logs import check_chain, everything
from helpers.samples import events
from trialog.events.errors import VersionConflict
from trialog.events.log import EventLog
from trialog.events.open import open_log
from trialog.events.sqlite import transaction, writer
from trialog.events.sqlite.pace import MOST
from trialog.events.sqlite.sql import QUERY
from trialog.events.sqlite.transaction import Committer


class Gate:
    """Counts the commits of the first log that has any, and holds each until it is let through."""

    def __init__(self) -> None:
        self.committer: Committer | None = None
        self.sizes: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.arrived = threading.Semaphore(0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Before every commit."""
    made = Gate()
    commit = Committer.commit

    def held(self: Committer, appends: Any, *more: Any) -> Any:
        made.committer = made.committer or self
        if self is made.committer:
            made.sizes.append(len(appends))
            made.arrived.release()
            made.open.wait(30)
        return commit(self, appends, *more)

    monkeypatch.setattr(Committer, "commit", held)
    yield made
    made.open.set()


@pytest.fixture
async def log(tmp_path: Path, gate: Gate) -> AsyncIterator[EventLog]:
    """A log whose commits can be held."""
    async with open_log(tmp_path / "trialog.db") as opened:
        yield opened


async def hold(gate: Gate, log: EventLog, stream: str, version: int = 0) -> Any:
    """An append whose commit has begun and does not end."""
    while gate.arrived.acquire(blocking=False):
        pass
    gate.open.clear()
    ticket = log.append(stream, version, events(1))
    await anyio.to_thread.run_sync(gate.arrived.acquire)
    return ticket


async def test_what_gathers_during_a_commit_is_the_next_one(log: EventLog, gate: Gate) -> None:
    """A thousand appends, one transaction; the first had not waited for them."""
    first = await hold(gate, log, "job/a")
    tickets = [log.append(f"trial/{n}", 0, events(1)) for n in range(1000)]
    blob = log.blobs.put(b"small")

    gate.open.set()

    assert 1 == (await first).last
    assert list(range(2, 1002)) == [(await ticket).last for ticket in tickets]
    assert [1, 1000] == gate.sizes
    assert b"small" == await log.blobs.get(await blob)
    check_chain(await everything(log))


async def test_a_blob_is_durable_no_later_than_what_names_it(log: EventLog, gate: Gate) -> None:
    """A blob in the queue goes into the transaction of the appends queued after it."""
    first = await hold(gate, log, "job/a")
    done: list[str] = []

    async def put() -> None:
        await log.blobs.put(b"small")
        done.append("blob")

    async def append() -> None:
        await log.append("job/b", 0, events(1))
        done.append("event")

    async with anyio.create_task_group() as group:
        group.start_soon(put)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(append)
        await anyio.wait_all_tasks_blocked()
        gate.open.set()
    await first

    assert {"blob", "event"} == set(done)
    assert [1, 1] == gate.sizes


async def test_a_failure_reaches_what_was_queued_meanwhile(log: EventLog, gate: Gate) -> None:
    """On its own stream; what is queued on others is written."""
    gate.open.set()
    await log.append("job/a", 0, events(1))
    failing = await hold(gate, log, "job/a", 0)
    follower = log.append("job/a", 1, events(1))
    other = log.append("job/b", 0, events(1))

    gate.open.set()

    with pytest.raises(VersionConflict):
        await failing
    with pytest.raises(VersionConflict):
        await follower
    assert 2 == (await other).last


async def test_appenders_in_step_are_set_out_of_step(
    log: EventLog, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all of them waited for one commit, the next one takes half; on a slow disk all."""
    await log.append("job/a", 0, events(1))
    monkeypatch.setattr(writer, "_MOSTLY_WORK", 1.0)
    tickets = [log.append(f"trial/{n}", 0, events(1)) for n in range(100)]
    assert list(range(2, 102)) == [(await ticket).last for ticket in tickets]
    await anyio.wait_all_tasks_blocked()
    monkeypatch.setattr(writer, "_MOSTLY_WORK", 0.0)
    tickets = [log.append(f"trial/{n}", 1, events(1)) for n in range(100)]
    assert list(range(102, 202)) == [(await ticket).last for ticket in tickets]

    await anyio.wait_all_tasks_blocked()
    monkeypatch.setattr(writer, "_MOSTLY_WORK", 1.0)
    tickets = [log.append(f"trial/{n}", 2, events(1)) for n in range(100)]
    assert list(range(202, 302)) == [(await ticket).last for ticket in tickets]

    # The first of them was not waited with, for one alone had come before.
    assert [1, 1, 49, 50, 100, 50, 50] == gate.sizes
    check_chain(await everything(log))


async def test_who_appends_alone_does_not_wait_for_others(log: EventLog, gate: Gate) -> None:
    """His commit begins at once; what is queued in a row is one, after the first time."""
    version = 0
    for _ in range(3):
        version = (await log.append("job/a", version, events(1))).version
        await anyio.wait_all_tasks_blocked()
    while gate.arrived.acquire(blocking=False):
        pass
    gate.open.clear()
    ticket = log.append("job/a", version, events(1))
    began = gate.arrived.acquire(timeout=30)  # the loop stands still meanwhile
    second = log.append("job/a", version + 1, events(1))
    gate.open.set()

    assert began
    assert [version + 1, version + 2] == [(await ticket).version, (await second).version]
    gate.sizes.clear()
    for version in (5, 7, 9):
        await anyio.wait_all_tasks_blocked()
        tickets = [log.append("job/a", version + n, events(1)) for n in range(2)]
        assert [version + 1, version + 2] == [(await ticket).version for ticket in tickets]
    assert [2, 2, 2] == gate.sizes


async def test_a_slow_disk_is_waited_for_once(
    log: EventLog, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that gathered is one transaction there, blobs too; elsewhere it is a statement each."""
    await log.append("job/a", 0, events(1))
    for slow, sizes in ((True, [5]), (False, [2, 2, 1])):
        monkeypatch.setattr(writer, "_MOSTLY_WORK", 0.0 if slow else 1.0)
        version = (await log.head("job/a")).version
        first = await hold(gate, log, "job/a", version)
        gate.sizes.clear()
        tickets = [log.append("job/a", version + 1 + n * 200, events(200)) for n in range(5)]
        gate.open.set()
        blob = await log.blobs.put(b"slow" if slow else b"fast")
        assert version + 1001 == (await tickets[-1]).version
        assert version + 1 == (await first).version
        assert sizes == gate.sizes
        assert await log.blobs.has(blob)
    check_chain(await everything(log))


async def test_what_was_planned_behind_a_refused_batch_is_planned_anew(
    log: EventLog, gate: Gate, tmp_path: Path
) -> None:
    """Another process has appended meanwhile: only the stream that it moved is in conflict."""
    async with open_log(tmp_path / "trialog.db") as other:
        for stream in ("job/a", "job/b", "job/c"):
            await log.append(stream, 0, events(1))
        held = await hold(gate, log, "job/c", 1)
        await other.append("job/a", 1, events(1))
        stale, follower = (log.append("job/a", n, events(1)) for n in (1, 2))
        right = [log.append("job/b", 1 + n, events(1)) for n in range(3)]
        gate.sizes.clear()
        gate.open.set()

        assert 5 == (await held).last
        for ticket in (stale, follower):
            with pytest.raises(VersionConflict):
                await ticket
        assert [6, 7, 8] == [(await ticket).last for ticket in right]
        assert [6] == gate.sizes
    check_chain(await everything(log))


async def test_large_batches_follow_each_other(log: EventLog, gate: Gate) -> None:
    """The thread is at work on the next one before those who wait for the last one are told."""
    await log.append("job/a", 0, events(100))
    await log.append("job/b", 0, events(1))
    first = await hold(gate, log, "job/a", 100)
    tickets = [log.append("job/a", 101, events(100)), log.append("job/b", 1, events(600))]
    gate.open.set()
    assert 102 == (await first).last
    assert [202, 802] == [(await ticket).last for ticket in tickets]

    for version in (201, 401, 601):
        gate.open.clear()
        told = log.append("job/a", version, events(100))
        await anyio.to_thread.run_sync(gate.arrived.acquire)
        next_one = log.append("job/a", version + 100, events(100))
        gate.open.set()
        assert (await told).version + 100 == (await next_one).version
    check_chain(await everything(log))


@pytest.mark.parametrize("again", [True, False])
async def test_small_commits_are_written_over_older_ones(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """The write-ahead log begins again; it would have grown on and on."""
    wal = tmp_path / "trialog.db-wal"
    monkeypatch.setattr(transaction, "SMALL_COMMITS", 10 if again else 1_000)
    sizes: list[int] = []
    for version in range(60):
        await log.append("job/a", version, events(1))
        sizes.append(wal.stat().st_size)

    assert again is (sizes[-1] < 2 * sizes[9])
    check_chain(await everything(log))


async def test_a_reader_or_a_failure_only_puts_it_off(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads an old state keeps it, and what a checkpoint can't do loses nothing."""
    monkeypatch.setattr(transaction, "SMALL_COMMITS", 10)
    await log.append("job/a", 0, events(1))
    reader = sqlite3.connect(tmp_path / "trialog.db", isolation_level=None)
    count = "SELECT count(*) FROM events"
    reader.execute("BEGIN")
    assert (1,) == reader.execute(count).fetchone()
    for version in range(1, 30):
        await log.append("job/a", version, events(1))
    assert (1,) == reader.execute(count).fetchone()
    reader.close()
    monkeypatch.setitem(QUERY, "checkpoint", "SELECT * FROM no_such_table")
    for version in range(30, 60):
        await log.append("job/a", version, events(1))

    check_chain(await everything(log))
    assert 60 == await log.last_position()


async def test_the_loop_looks_at_all_else_while_many_are_told(log: EventLog, gate: Gate) -> None:
    """One commit acknowledges a thousand appends, a few at a time, in their order."""
    first = await hold(gate, log, "job/a")
    told: list[int] = []
    seen: list[int] = []

    async def wait(number: int) -> None:
        await log.append(f"trial/{number}", 0, events(1))
        told.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(wait, number)
        await anyio.wait_all_tasks_blocked()
        gate.open.set()
        await first
        while len(told) < 1000:
            seen.append(len(told))
            await anyio.lowlevel.checkpoint()

    assert list(range(1000)) == told
    steps = [after - before for before, after in pairwise([*seen, 1000])]
    assert [1, 1000] == gate.sizes
    assert 0 < max(steps) <= MOST
    assert len(steps) > 2


async def test_all_are_told_before_a_log_is_closed(tmp_path: Path, gate: Gate) -> None:
    """However many one commit acknowledges."""
    async with open_log(tmp_path / "trialog.db") as log:
        first = await hold(gate, log, "job/a")
        tickets = [log.append(f"trial/{n}", 0, events(1)) for n in range(1000)]
        gate.open.set()
        await first

    with anyio.fail_after(30):
        assert list(range(2, 1002)) == [(await ticket).last for ticket in tickets]


async def test_a_cancelled_job_still_closes_its_log(tmp_path: Path) -> None:
    """Leaving by cancellation writes what is queued; another process then has the file alone."""
    path = tmp_path / "other.db"
    with anyio.CancelScope() as scope:
        async with open_log(path) as log:
            for number in range(50):
                log.append("job/a", number, events(1))
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    assert scope.cancelled_caught
    assert [path] == [f for f in tmp_path.iterdir() if f.name.startswith("other")]
    async with open_log(path) as log:
        assert 50 == await log.last_position()


async def test_a_log_of_more_streams_than_are_remembered(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgetting where streams stand loses nothing."""
    monkeypatch.setattr("trialog.events.sqlite.transaction.CACHED", 5)
    monkeypatch.setattr("trialog.events.sqlite.rows.NAMES", 5)
    for number in range(40):
        await log.append(f"trial/{number}", 0, events(1))
    for number in range(40):
        await log.append(f"trial/{number}", 1, events(1))
    stored = await everything(log)
    check_chain(stored)
    assert {f"trial/{number}" for number in range(40)} == {one.stream for one in stored}
    assert 80 == len(stored)
