"""Several processes on one log, killed and slow ones among them."""

from __future__ import annotations

import random
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import anyio
import pytest

from helpers.logs import append_future, check_chain, everything
from helpers.processes import run, said, start
from helpers.samples import event, events
from trialog.events.envelope import RecordedEvent
from trialog.events.errors import LogUnavailable, VersionConflict
from trialog.events.open import open_log
from trialog.events.sqlite import connection
from trialog.events.sqlite.reader import Readers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log goes."""
    return tmp_path / "trialog.db"


async def in_thread(function: partial[object]) -> None:
    """Run something that blocks beside the loop."""
    await anyio.to_thread.run_sync(function)


async def test_two_processes_append_to_one_log(path: Path) -> None:
    """Both get what they asked for; the log has no hole and every hash holds."""
    async with open_log(path) as log, anyio.create_task_group() as group:
        for name in ("trial/x", "trial/y"):
            group.start_soon(in_thread, partial(run, "append", path, name, 3, 60, 100))
        for number in range(60):
            await log.append("trial/z", number, events(1))

    async with open_log(path) as log:
        stored = await everything(log)
        assert {"trial/x": 180, "trial/y": 180, "trial/z": 60} == {
            name: (await log.head(name)).version for name in await log.streams()
        }
    check_chain(stored)


async def test_many_processes_may_create_one_log(path: Path) -> None:
    """Whoever comes first makes it; nobody fails, and all see one log."""
    async with anyio.create_task_group() as group:
        for number in range(6):
            words = ("append", path, f"trial/{number}", 1, 1, 1)
            group.start_soon(in_thread, partial(run, *words))

    async with open_log(path) as log:
        assert 6 == await log.last_position()


async def test_what_is_remembered_of_a_stream_is_checked(path: Path) -> None:
    """Another process's append makes an expected version stale, or the right one."""
    async with open_log(path) as mine, open_log(path) as other:
        await mine.append("job/a", 0, events(1))
        await other.append("job/a", 1, events(1))

        with pytest.raises(VersionConflict, match="at version 2, not at the expected 1"):
            await mine.append("job/a", 1, events(1))
        await other.append("job/a", 2, events(1))
        assert 4 == (await mine.append("job/a", 3, events(1))).version
        await other.append("job/b", 0, events(1))
        # Neither has seen the other's last append; both places are right.
        first, second = (mine.append("job/a", 4, events(1)), other.append("job/b", 1, events(1)))
        assert (5, 2) == ((await first).version, (await second).version)
        # A retry of what the other one stored.
        again = event()
        await other.append("job/a", 5, [again])
        assert 6 == (await mine.append("job/a", 5, [again])).version
        check_chain(await everything(mine))


def kill_after(child: subprocess.Popen[str], acknowledgements: int) -> list[int]:
    """Kill a child once it has said so many versions; all that it could still say."""
    versions: list[int] = []
    for line in said(child):
        versions.append(line["version"])
        if len(versions) == acknowledgements:
            child.kill()
    return versions


@pytest.mark.parametrize("seed", range(6))
async def test_a_killed_writer_loses_nothing_acknowledged(path: Path, seed: int) -> None:
    """What was acknowledged is there; what was not is there whole or not at all."""
    count = random.Random(seed).randrange(1, 60)
    with start("append", path, "trial/x", 3, 100_000, 200 * 4**seed) as child:
        versions = await anyio.to_thread.run_sync(kill_after, child, count)
    assert -9 == child.returncode
    assert len(versions) >= count

    async with open_log(path) as log:
        stored = await everything(log)
        check_chain(stored)
        assert len(stored) >= versions[-1]
        assert 0 == len(stored) % 3
        await log.append("trial/x", len(stored), events(1))


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a transaction with one event open."""
    anyio.run(partial(_write_some, path))
    with start("hold", path) as child:
        assert {"what": "holding", "position": 3} == next(said(child))
        yield child
        child.kill()


async def _write_some(path: Path) -> None:
    async with open_log(path) as log:
        await log.append("job/a", 0, events(2))


def tell(child: subprocess.Popen[str], word: str) -> None:
    """Let the holder go."""
    assert child.stdin is not None
    child.stdin.write(f"{word}\n")
    child.stdin.flush()
    assert {"what": "ended"} == next(said(child))


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_a_slow_writer_is_waited_for_and_never_skipped(
    path: Path, holder: subprocess.Popen[str], end: str
) -> None:
    """Readers and followers go on while it holds the log; then its event has its own place."""
    got: list[RecordedEvent] = []
    caught_up = anyio.Event()

    async def follow() -> None:
        async with aclosing(log.subscribe()) as batches:
            async for batch in batches:
                got.extend(batch)
                caught_up.set()
                if len(got) == (6 if end == "COMMIT" else 5):
                    return

    async with open_log(path) as log, anyio.create_task_group() as group:
        group.start_soon(follow)
        ticket = log.append("job/b", 0, events(3))
        await caught_up.wait()
        # The follower is not stalled, and nobody reads what is not committed.
        assert [1, 2] == [e.position for e in got]
        assert 2 == await log.last_position()
        await anyio.to_thread.run_sync(tell, holder, end)
        done = await ticket

    assert (4 if end == "COMMIT" else 3) == done.first
    assert list(range(1, done.last + 1)) == [e.position for e in got]
    assert ("job/slow" in {e.stream for e in got}) == (end == "COMMIT")


async def test_a_log_that_stays_locked_is_named(
    path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append fails with a clear error and leaves nothing; afterwards the log goes on."""
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.2)
    async with open_log(path) as log:
        tickets = [log.append("job/a", 2, events(1)), log.append("job/a", 3, events(1))]
        blob = log.blobs.put(b"small")
        for waiting in (*tickets, blob):
            with pytest.raises(LogUnavailable, match="another process has held it locked"):
                await waiting
        assert 2 == await log.last_position()

        await anyio.to_thread.run_sync(tell, holder, "ROLLBACK")
        assert 3 == (await log.append("job/a", 2, events(1))).version


async def test_a_follower_sees_what_another_process_appends(path: Path) -> None:
    """A subscription does not depend on being told."""
    got: list[RecordedEvent] = []

    async def follow(streams: list[str] | None) -> None:
        async with aclosing(log.subscribe(streams=streams)) as batches:
            async for batch in batches:
                got.extend(batch)
                if batch[-1].version == 40:
                    return

    async with open_log(path) as log, anyio.create_task_group() as group:
        group.start_soon(follow, None)
        group.start_soon(follow, ["trial/x"])
        await in_thread(partial(run, "append", path, "trial/x", 2, 20, 100))

    assert sorted([*range(1, 41)] * 2) == sorted(e.position for e in got)


async def test_what_comes_between_two_reads_is_not_skipped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower of some streams reads twice; an event that is committed in between comes too."""
    await _write_some(path)
    last = Readers.last
    asked: list[int] = []

    def commit_first(self: Readers, db: sqlite3.Connection) -> int:
        if not asked:
            append_future(path, "job/a")
        asked.append(1)
        return last(self, db)

    async with open_log(path) as log, aclosing(log.subscribe(after=2, streams=["job/a"])) as found:
        monkeypatch.setattr(Readers, "last", commit_first)
        with anyio.fail_after(20):
            (event,) = await anext(found)
    assert asked
    assert (3, "FutureThing") == (event.position, event.kind)


async def test_a_follower_does_not_keep_the_write_ahead_log(path: Path) -> None:
    """Between two batches no read transaction is open, however slow the follower is."""
    async with open_log(path) as log:
        await log.append("job/a", 0, events(1500))
        async with aclosing(log.subscribe()) as batches:
            await anext(batches)
            await log.append("job/b", 0, events(1))

            def truncate() -> tuple[int, int, int]:
                with sqlite3.connect(path) as db:
                    busy: tuple[int, int, int] = db.execute(
                        "PRAGMA wal_checkpoint(TRUNCATE)"
                    ).fetchone()
                db.close()
                return busy

            assert (0, 0, 0) == await anyio.to_thread.run_sync(truncate)
            assert 0 == path.with_name("trialog.db-wal").stat().st_size
