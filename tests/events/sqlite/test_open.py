"""Opening a log: what is refused says why, and what to do."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from helpers.processes import ALONE, mounted, run
from helpers.samples import events
from trialog.events import filesystem
from trialog.events.errors import LogCorrupt, LogError, LogTooNew, LogUnavailable
from trialog.events.open import memory_log, open_log
from trialog.events.sqlite import connection
from trialog.events.sqlite.store import SqliteLog


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A log with two events, closed."""
    where = tmp_path / "trialog.db"
    async with open_log(where) as log:
        await log.append("job/a", 0, events(2))
    return where


async def refusal(path: Path, **how: bool) -> LogError:
    """Why a log can't be opened; whoever opens it is told the same way to read and to write."""
    with pytest.raises(LogError) as e:
        async with open_log(path, **how):
            pass
    assert str(path) in str(e.value)
    return e.value


async def test_a_log_and_its_folder_are_made(tmp_path: Path) -> None:
    """Folders above it too, whatever their names; then it is the same log when opened again."""
    path = tmp_path / "jobs ?#%ü\udcff" / "more" / "trialog.db"

    async with open_log(path) as log:
        name = log.log_id
        await log.append("job/a", 0, events(1))

    async with open_log(str(path)) as log:
        assert (name, 1) == (log.log_id, await log.last_position())
    assert ["trialog.db"] == [f.name for f in path.parent.iterdir()]


async def test_a_log_may_be_given_its_name(tmp_path: Path) -> None:
    """For fixtures; else it is random."""
    async with open_log(tmp_path / "a.db", log_id="mine") as log:
        assert "mine" == log.log_id
    async with open_log(tmp_path / "b.db") as one, memory_log() as two:
        assert len(one.log_id) == len(two.log_id) == 32
        assert one.log_id != two.log_id


async def test_a_log_that_must_be_there(tmp_path: Path) -> None:
    """A wrong path is not made into a new log."""
    path = tmp_path / "none.db"
    assert "there is no log here" in str(await refusal(path, create=False))
    assert "there is no log here" in str(await refusal(path, readonly=True))
    assert [] == list(tmp_path.iterdir())


async def test_an_empty_file_is_made_into_a_log(tmp_path: Path) -> None:
    """But not when it is opened to read."""
    path = tmp_path / "trialog.db"
    path.touch()
    assert "not a trialog log" in str(await refusal(path, readonly=True))
    async with open_log(path) as log:
        assert 0 == await log.last_position()


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_directory(tmp_path: Path, readonly: bool) -> None:
    """The file in it must be named."""
    assert "it is a directory; name the file" in str(await refusal(tmp_path, readonly=readonly))


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_file_of_another_kind(tmp_path: Path, readonly: bool) -> None:
    """Nothing is written to it."""
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)
    assert "it is not an SQLite database" in str(await refusal(path, readonly=readonly))
    assert "Dear diary, " * 100 == path.read_text()


@pytest.mark.parametrize("readonly", [False, True])
async def test_another_programs_database(tmp_path: Path, readonly: bool) -> None:
    """It is left as it is."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (a)")
    db.close()
    before = path.read_bytes()
    assert "not a trialog log" in str(await refusal(path, readonly=readonly))
    assert before == path.read_bytes()


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_newer_format_is_refused(path: Path, readonly: bool) -> None:
    """With both numbers."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()

    error = await refusal(path, readonly=readonly)

    assert isinstance(error, LogTooNew)
    assert (7, 1) == (error.found, error.known)
    assert "has format 7; this release reads up to format 1: use a newer trialog" in str(error)


async def test_the_format_is_stated_twice(path: Path) -> None:
    """`user_version` and the meta table must agree."""
    with sqlite3.connect(path) as db:
        assert ("1",) == db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        assert (1,) == db.execute("PRAGMA user_version").fetchone()
        db.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
    db.close()
    assert isinstance(await refusal(path), LogCorrupt)


async def test_a_damaged_file(path: Path) -> None:
    """Damage that SQLite finds is named as such."""
    async with open_log(path) as log:
        await log.append("job/a", 2, events(2000))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (os.path.getsize(path) - 4096))

    with pytest.raises(LogCorrupt, match="the file is damaged"):
        async with open_log(path, readonly=True) as log:
            await log.read("job/a")


async def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    """A file stands where a folder should be."""
    (tmp_path / "jobs").write_text("")
    error = await refusal(tmp_path / "jobs" / "trialog.db")
    assert "its folder can't be made" in str(error)


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:40 / /data rw - nfs4 server:/export rw
32 31 0:41 / /data/local rw shared:2 master:3 - xfs /dev/vdb rw
33 22 0:42 / /with\\040space rw - fuse.sshfs me@host: rw
34 22 0:43 / /twice rw - cifs //server/share rw
35 34 254:1 / /twice rw - ext4 /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/data", "nfs4"),
        ("/data/jobs", "nfs4"),
        ("/data/local/jobs", None),
        ("/database", None),
        ("/with space/jobs", "fuse.sshfs"),
        ("/twice/jobs", None),
        ("/", None),
    ],
)
def test_the_file_system_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, kind: str | None
) -> None:
    """The innermost mount counts, and the last of those in one place."""
    (tmp_path / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "mountinfo")
    assert kind == filesystem.network_filesystem(Path(folder))


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_network_file_system_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, readonly: bool
) -> None:
    """By its type's name."""
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:40 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", table)
    assert "network file system (nfs4)" in str(await refusal(path, readonly=readonly))
    table.unlink()  # a system that doesn't tell
    async with open_log(path) as log:
        assert 2 == await log.last_position()


async def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the version that is needed."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    assert "SQLite 3.37.0 or newer is needed" in str(await refusal(path))


async def test_a_file_system_without_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where SQLite can't have a write-ahead log, there is no log."""
    real = sqlite3.connect

    def without(place: str, **options: Any) -> sqlite3.Connection:
        return real(f"{place}&vfs=unix-dotfile", **options)

    monkeypatch.setattr(sqlite3, "connect", without)
    assert "can't hold a write-ahead log" in str(await refusal(tmp_path / "trialog.db"))


async def test_a_log_that_is_locked_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one, whose creator does not finish."""
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.1)
    path = tmp_path / "trialog.db"

    def hold() -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute("BEGIN EXCLUSIVE")
        return db

    db = await anyio.to_thread.run_sync(hold)
    try:
        assert "another process has held it locked" in str(await refusal(path))
    finally:
        await anyio.to_thread.run_sync(db.close)


def turn_back(path: Path) -> sqlite3.Connection:
    """Take a log out of write-ahead mode, and begin to read it."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("BEGIN")
    db.execute("SELECT * FROM meta").fetchall()
    return db


async def test_a_log_that_leaves_its_mode(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going back to the write-ahead log needs the file alone; whoever opens it waits for that."""
    db = await anyio.to_thread.run_sync(turn_back, path)
    with monkeypatch.context() as patch:
        patch.setattr(connection, "BUSY_SECONDS", 0.05)
        assert "another process has held it locked" in str(await refusal(path))

    # SQLite does not always wait by itself.
    waits: list[float] = []
    real = sqlite3.connect

    def impatient(*words: Any, **options: Any) -> sqlite3.Connection:
        return real(*words, **options | {"timeout": 0})

    def end(seconds: float) -> None:
        waits.append(seconds)
        db.close()

    monkeypatch.setattr(sqlite3, "connect", impatient)
    monkeypatch.setattr(time, "sleep", end)
    async with open_log(path) as log:
        assert 3 == (await log.append("job/a", 2, events(1))).version
    assert waits


async def test_a_log_that_can_not_be_opened(tmp_path: Path) -> None:
    """A link that leads nowhere."""
    path = tmp_path / "trialog.db"
    path.symlink_to(tmp_path / "gone" / "trialog.db")
    assert "it can't be opened; check the path" in str(await refusal(path))


async def test_a_new_log_that_can_not_be_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure while it is made leaves no half of it; the next one makes it."""
    path = tmp_path / "trialog.db"
    with monkeypatch.context() as patch:
        patch.setattr(connection, "schema", lambda: ["CREATE TABLE meta (key)", "NONSENSE"])
        assert 'SQLite says: near "NONSENSE"' in str(await refusal(path))
    async with open_log(path) as log:
        assert 0 == await log.last_position()


async def test_whoever_is_second_in_making_a_log_uses_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the file and the lock another process may have made it."""
    real = connection._version

    def first_says_empty(*words: Any) -> int:
        if seen:
            return real(*words)
        seen.append(1)
        return 0

    seen: list[int] = []
    monkeypatch.setattr(connection, "_version", first_says_empty)
    async with open_log(path) as log:
        assert 2 == await log.last_position()
    assert seen


async def test_modes_are_looked_at_before_anything_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names what is read-only: the file or its folder."""
    for needed in (path, path.parent):
        monkeypatch.setattr(os, "access", lambda p, mode, needed=needed: p != needed)
        assert f"{needed} is read-only; change its permissions" in str(await refusal(path))


async def test_a_file_without_a_log_beside_it_is_all_there_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where SQLite can't make its files beside a log that nobody writes, it is read without."""
    real = sqlite3.connect
    tried: list[str] = []

    def stubborn(place: str, **options: Any) -> sqlite3.Connection:
        tried.append(place.rpartition("?")[2])
        if "immutable" not in place:
            raise sqlite3.OperationalError("unable to open database file")
        return real(place, **options)

    monkeypatch.setattr(sqlite3, "connect", stubborn)
    async with open_log(path, readonly=True) as log:
        assert 2 == await log.last_position()
    assert ["mode=ro", "mode=ro&immutable=1"] == tried
    # With something in the write-ahead log that would be wrong.
    path.with_name("trialog.db-wal").write_bytes(b"x")
    assert "unable to open" in str(await refusal(path, readonly=True))


async def test_a_read_that_fails_is_the_logs_failure(path: Path) -> None:
    """No error of SQLite's comes through."""

    def fail(db: sqlite3.Connection) -> None:
        db.execute("SELECT nix")

    log = SqliteLog(path)
    await log.start(readonly=True, create=False, log_id="")
    try:
        with pytest.raises(LogUnavailable, match="no such column: nix"):
            await log._readers.run(fail)
        assert path == log.path
        assert 2 == await log.last_position()
    finally:
        await log.aclose()


async def test_closing_waits_for_reads_under_way(path: Path) -> None:
    """No connection is closed under a reader."""
    log = SqliteLog(path)
    await log.start(readonly=False, create=False, log_id="")
    inside, go_on = anyio.Event(), threading.Event()
    token = anyio.lowlevel.current_token()
    read: list[int] = []

    def slow(db: sqlite3.Connection) -> None:
        anyio.from_thread.run_sync(inside.set, token=token)
        go_on.wait(10)
        read.append(log._readers.last(db))

    async with anyio.create_task_group() as group:
        group.start_soon(log._readers.run, slow)
        await inside.wait()
        group.start_soon(log.aclose)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(LogUnavailable, match="closed"):
            await log.last_position()
        go_on.set()
    assert [2] == read


# Read-only places. Root may write anywhere, so that a plain user or a read-only mount is needed.


def check_read_only(lines: list[dict[str, str]]) -> None:
    """It was read, and each attempt to write was refused with a reason."""
    read, failed, refused = lines
    assert {"what": "read", "events": 2, "first": 1} == read
    assert "it was opened only to read" in failed["message"]
    assert "read-only" in refused["message"]


@pytest.mark.parametrize("file_mode", [0o444, 0o666])
@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
async def test_a_log_that_may_only_be_read(path: Path, file_mode: int, folder_mode: int) -> None:
    """It can be read where its file, its folder or both are read-only."""
    # Not below pytest's own folder, which a plain user may not enter.
    with tempfile.TemporaryDirectory() as name:
        folder, copy = Path(name), Path(name, "trialog.db")
        shutil.copyfile(path, copy)
        copy.chmod(file_mode)
        folder.chmod(folder_mode)
        words = ("read", copy) if os.geteuid() else ("nobody", "read", copy)
        lines = await anyio.to_thread.run_sync(run, *words)
        folder.chmod(0o755)

    if (file_mode, folder_mode) == (0o666, 0o777):
        assert "opened" == lines[-1]["what"]  # so it is the modes that matter
    else:
        check_read_only(lines)


async def test_a_log_on_a_read_only_mount(path: Path, tmp_path: Path) -> None:
    """Such as a snapshot or a disc."""
    script = f"mount --bind {tmp_path} {tmp_path}; mount -o remount,ro,bind {tmp_path}"
    lines = await anyio.to_thread.run_sync(lambda: run("read", path, before=mounted(script)))
    check_read_only(lines)
    assert "unshare" == ALONE[0]


async def test_a_killed_writers_log_on_a_read_only_mount(path: Path, tmp_path: Path) -> None:
    """What is still in the write-ahead log is read as well, or the reason is given."""
    copy = tmp_path / "copy"
    copy.mkdir()
    async with open_log(path) as log:
        await log.append("job/a", 2, events(3))
        for name in ("trialog.db", "trialog.db-wal", "trialog.db-shm"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    script = f"mount --bind {copy} {copy}; mount -o remount,ro,bind {copy}"

    lines = await anyio.to_thread.run_sync(
        lambda: run("read", copy / "trialog.db", before=mounted(script))
    )

    assert 5 == lines[0]["events"]


def in_the_file_alone(path: Path) -> int:
    """Events in the database file, without those that are only in the write-ahead log."""
    db = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
    count: int = db.execute("SELECT count(*) FROM events").fetchone()[0]
    db.close()
    return count


async def test_what_a_killed_writer_left_is_synced_once_more(path: Path, tmp_path: Path) -> None:
    """Its last sync may have failed: what it left is on the disk before anything is built on it."""
    copy = tmp_path / "copy"
    copy.mkdir()
    async with open_log(path) as log:
        await log.append("job/a", 2, events(3))
        for name in ("trialog.db", "trialog.db-wal"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    place = copy / "trialog.db"
    assert 2 == await anyio.to_thread.run_sync(in_the_file_alone, place)

    async with open_log(place) as log:
        assert 5 == await log.last_position()
        assert 5 == await anyio.to_thread.run_sync(in_the_file_alone, place)


async def test_a_log_can_be_read_while_it_is_written(path: Path) -> None:
    """A reader of its own sees each append once it is acknowledged."""
    async with open_log(path) as writer, open_log(path, readonly=True) as reader:
        assert writer.log_id == reader.log_id
        await writer.append("job/a", 2, events(1))
        assert 3 == await reader.last_position()
        ref = await writer.blobs.put(b"small")
        assert b"small" == await reader.blobs.get(ref)
        with pytest.raises(LogUnavailable, match="opened only to read"):
            await reader.append("job/a", 3, events(1))
        for size in (10, 100_000):
            with pytest.raises(LogUnavailable, match="opened only to read"):
                await reader.blobs.put(bytes(size))
        with pytest.raises(LogUnavailable, match="opened only to read"):
            async with reader.blobs.writer() as blob:
                await blob.write(bytes(100_000))
