"""A full disk, and one that fails to sync: nothing acknowledged is lost, nothing else is told."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from helpers.logs import check_chain, everything
from helpers.processes import mounted, run
from helpers.samples import events
from trialog.events.errors import LogPoisoned, LogUnavailable
from trialog.events.filesystem import is_full
from trialog.events.open import open_log
from trialog.events.sqlite import transaction
from trialog.events.sqlite.connection import poisoned, translated
from trialog.events.sqlite.transaction import Committer


def test_a_full_disk(tmp_path: Path) -> None:
    """The failing append and all later ones are refused; with room made, the log goes on."""
    script = f"""
        mount -t tmpfs -o size=2m tmpfs {tmp_path}
        head -c 900000 /dev/zero > {tmp_path}/ballast"""
    words = ("full", tmp_path / "trialog.db", tmp_path / "ballast")

    blob, first, second, reopened = run(*words, before=mounted(script))

    # A blob that finds no room leaves nothing, and the log goes on.
    assert "the disk is full (No space left on device); make room" in blob["message"]
    for failed in (first, second):
        assert ("failed", "LogPoisoned") == (failed["what"], failed["error"])
        assert "the disk is full; make room" in failed["message"]
    assert first["after"] > 10
    # Every acknowledged event is there; one more may be, but never a part of one.
    assert reopened["version"] in (first["after"], first["after"] + 1)
    assert reopened["version"] + 1 == reopened["next"]
    assert reopened["blob"]
    assert 0 == reopened["temporary"]
    rows = reopened["rows"]
    assert list(range(1, reopened["next"] + 1)) == [row[0] for row in rows]
    assert all(row[1] == "job/a" and row[3] > 10_000 for row in rows)


async def test_a_failed_sync_poisons_the_writer(tmp_path: Path) -> None:
    """No retry turns it into a success; what is queued and what comes later fails as well."""
    path = tmp_path / "trialog.db"
    words = ("append", path, "job/a", 2, 20, 1000, "fail-sync=7")

    lines = await anyio.to_thread.run_sync(run, *words)

    told = [line for line in lines if line["what"] == "acknowledged"]
    failed = [line for line in lines if line["what"] == "failed"]
    assert [2 * n for n in range(1, 8)] == [line["version"] for line in told]
    assert ["LogPoisoned"] * 3 == [line["error"] for line in failed]
    assert all("the disk failed to read or write" in line["message"] for line in failed)
    async with open_log(path) as log:
        stored = await everything(log)
        check_chain(stored)
        assert len(stored) in (14, 16)
        await log.append("job/a", len(stored), events(1))


async def test_whatever_goes_wrong_in_a_commit_poisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is no error of SQLite's; reading goes on, and so does a log opened anew."""
    path = tmp_path / "trialog.db"
    async with open_log(path) as log:
        await log.append("job/a", 0, events(1))

        def fail(*_: object) -> None:
            raise MemoryError("no memory")

        with monkeypatch.context() as patch:
            patch.setattr(transaction, "insert_rows", fail)
            tickets = [log.append("job/a", 1, events(1)), log.append("job/b", 0, events(1))]
            for ticket in tickets:
                with pytest.raises(LogPoisoned, match=r"a write failed.*no memory"):
                    await ticket
        with pytest.raises(LogPoisoned, match="a write failed"):
            await log.append("job/b", 0, events(1))
        with pytest.raises(LogPoisoned, match="a write failed"):
            await log.blobs.put(b"small")
        with pytest.raises(LogPoisoned, match="a write failed"):
            await log.blobs.put(bytes(100_000))
        assert 1 == await log.last_position()

    async with open_log(path) as log:
        assert 2 == (await log.append("job/a", 1, events(1))).version


async def test_what_is_queued_when_a_write_fails_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends and blobs that wait behind the failing commit."""
    async with open_log(tmp_path / "trialog.db") as log:
        entered = anyio.Event()
        go_on = threading.Event()

        def fail(*_: object) -> None:
            anyio.from_thread.run_sync(entered.set, token=token)
            go_on.wait(10)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

        token = anyio.lowlevel.current_token()
        monkeypatch.setattr(Committer, "commit", fail)
        first = log.append("job/a", 0, events(1))
        await entered.wait()
        second = log.append("job/b", 0, events(1))
        errors: list[LogUnavailable] = []

        async def put() -> None:
            with pytest.raises(LogPoisoned) as e:
                await log.blobs.put(b"small")
            errors.append(e.value)

        async with anyio.create_task_group() as group:
            group.start_soon(put)
            await anyio.wait_all_tasks_blocked()
            go_on.set()
            for ticket in (first, second):
                with pytest.raises(LogPoisoned, match="the disk failed"):
                    await ticket
        assert 1 == len(errors)


@pytest.mark.parametrize(
    ("blocks", "files", "full"),
    [(0, 9, True), (4, 9, True), (1000, 9, False), (1000, 0, True)],
)
def test_no_room_is_told_from_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, files: int, full: bool
) -> None:
    """SQLite says "disk I/O error" of both; without blocks or inodes it is a full disk."""
    room = SimpleNamespace(f_bfree=blocks, f_bavail=blocks, f_frsize=4096, f_files=9, f_ffree=files)
    monkeypatch.setattr("os.statvfs", lambda _: room)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    for made in (translated(error, tmp_path / "log"), poisoned(error, tmp_path / "log")):
        assert isinstance(made, LogUnavailable)
        assert made.full == full
        assert ("the disk is full; make room" in str(made)) == full
        assert ("the disk failed to read or write" in str(made)) != full


def test_a_place_that_is_gone_is_not_full(tmp_path: Path) -> None:
    """What can't be looked at is not said to be full."""
    assert not is_full(tmp_path / "gone")
