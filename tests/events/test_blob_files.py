"""Blobs as files: durable before they are told of, checked whenever they are read."""

from __future__ import annotations

import fcntl
import os
import random
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from trialog.events import blobs as module
from trialog.events.blobs import FILE_LIMIT, BlobFolder, MemoryBlobs
from trialog.events.errors import BlobAltered, BlobMissing, LogUnavailable
from trialog.events.log import EventLog
from trialog.events.open import open_log
from trialog.events.values import BlobRef, blob_ref

SMALL = b"small"
LARGE = random.Random(1).randbytes(FILE_LIMIT + 100)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    """A log with a small and a large blob."""
    async with open_log(tmp_path / "trialog.db") as opened:
        await opened.blobs.put(SMALL)
        await opened.blobs.put(LARGE)
        yield opened


def place(tmp_path: Path, data: bytes) -> Path:
    """Where a large blob lies."""
    return BlobFolder(tmp_path / "blobs").path(blob_ref(data).blob.removeprefix("sha256:"))


def alter_small(path: Path) -> None:
    """Change a blob in the database behind the trigger's back."""
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER blobs_are_never_changed")
        db.execute("UPDATE blobs SET data = ?", (b"smell",))
    db.close()


async def test_an_altered_blob_is_named(log: EventLog, tmp_path: Path) -> None:
    """One byte is enough, in a file or in the database; no copy of it is left."""
    file = place(tmp_path, LARGE)
    changed = LARGE[:-1] + bytes([LARGE[-1] ^ 1])
    assert LARGE == await log.blobs.get(blob_ref(LARGE))
    await anyio.Path(file).write_bytes(changed)
    await anyio.to_thread.run_sync(alter_small, tmp_path / "trialog.db")

    for data, found in ((LARGE, changed), (SMALL, b"smell")):
        ref = blob_ref(data)
        with pytest.raises(BlobAltered, match=f"{ref.blob} .* was altered") as e:
            await log.blobs.get(ref)
        assert (ref.blob, blob_ref(found).blob) == (e.value.digest, e.value.found)
        with pytest.raises(BlobAltered):
            await log.blobs.copy_to(ref, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()


async def test_from_64_kib_on_a_blob_is_a_file(log: EventLog, tmp_path: Path) -> None:
    """A byte less lies in the database."""
    for size, is_file in ((65_535, False), (65_536, True)):
        await log.blobs.put(bytes(size))
        assert is_file == place(tmp_path, bytes(size)).exists()


async def test_a_removed_file_is_missing(log: EventLog, tmp_path: Path) -> None:
    """Where it should lie is said."""
    place(tmp_path, LARGE).unlink()
    assert not await log.blobs.has(blob_ref(LARGE))
    with pytest.raises(BlobMissing, match="blobs"):
        await log.blobs.get(blob_ref(LARGE))


@pytest.mark.parametrize(("put", "what"), [
    (os.mkfifo, "a FIFO"),
    (os.mkdir, "a folder"),
    (lambda path: os.symlink("../copy", path), "a symbolic link"),
    (lambda path: os.symlink("nowhere", path), "a symbolic link"),
    (lambda path: os.mknod(path, stat.S_IFSOCK | 0o600), "a socket"),
])  # fmt: skip
async def test_what_is_no_file_is_no_blob(
    log: EventLog, tmp_path: Path, put: Callable[[Path], None], what: str
) -> None:
    """Something else of a blob's name is not waited for and not followed; it is named."""
    path, ref = place(tmp_path, LARGE), blob_ref(LARGE)
    await anyio.Path(path).rename(path.parent.parent / "copy")
    await anyio.to_thread.run_sync(put, path)

    assert not await log.blobs.has(ref)
    for action in (
        log.blobs.get(ref), log.blobs.check(ref), log.blobs.copy_to(ref, tmp_path / "copy"),
    ):  # fmt: skip
        with anyio.fail_after(20), pytest.raises(BlobMissing, match=f"{ref.blob} .*{what}"):
            await action
    assert not (tmp_path / "copy").exists()
    if what != "a folder":
        await log.blobs.put(LARGE)
        assert LARGE == await log.blobs.get(ref)


async def test_a_check_is_of_the_bytes(log: EventLog, tmp_path: Path) -> None:
    """Large and small blobs are compared with their names."""
    for data in (SMALL, LARGE):
        await log.blobs.check(blob_ref(data))
    place(tmp_path, LARGE).write_bytes(LARGE[1:])
    await anyio.to_thread.run_sync(alter_small, tmp_path / "trialog.db")
    for data in (SMALL, LARGE):
        with pytest.raises(BlobAltered):
            await log.blobs.check(blob_ref(data))
    with pytest.raises(BlobMissing):
        await log.blobs.check(blob_ref(b"other"))


async def test_a_blob_that_may_not_be_read(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another error of the system's stays what it is."""

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.os, "open", refuse)
    with pytest.raises(PermissionError):
        await log.blobs.check(blob_ref(LARGE))


async def test_a_cut_off_file_is_put_right(log: EventLog, tmp_path: Path) -> None:
    """The same bytes, put again, replace a file of another length."""
    place(tmp_path, LARGE).write_bytes(LARGE[:10])
    await log.blobs.put(LARGE)
    assert LARGE == await log.blobs.get(blob_ref(LARGE))


async def test_a_wrong_size_in_a_reference_finds_the_blob(log: EventLog) -> None:
    """It is the hash that names a blob."""
    for data, size in ((SMALL, FILE_LIMIT), (LARGE, 1)):
        assert data == await log.blobs.get(BlobRef(blob=blob_ref(data).blob, size=size))


async def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    """The log's failure, with the reason; appending goes on."""
    (tmp_path / "blobs").write_text("in the way")
    async with open_log(tmp_path / "trialog.db") as log:
        with pytest.raises(LogUnavailable, match=r"a blob can't be stored: .*: File exists"):
            await log.blobs.put(LARGE)
        assert SMALL == await log.blobs.get(await log.blobs.put(SMALL))


def test_a_file_is_synced_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the bytes, then the name, then the folders; also for bytes that were there."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def spy_fsync(fd: int) -> None:
        steps.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).relative_to(tmp_path)}")
        fsync(fd)

    def spy_replace(source: Path, target: Path) -> Path:
        steps.append(f"name {target.relative_to(tmp_path)}")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(Path, "replace", spy_replace)
    folder = BlobFolder(tmp_path / "blobs")
    digest = folder.put(LARGE).blob.removeprefix("sha256:")
    first, steps[:] = list(steps), []

    named = first.index(f"name blobs/sha256/{digest[:2]}/{digest}")
    assert first[named - 3].startswith("sync blobs/tmp/")
    assert ["sync blobs", "sync blobs/sha256"] == first[named - 2 : named]  # folders that were made
    assert [f"sync blobs/sha256/{digest[:2]}", "sync blobs/sha256"] == first[named + 1 :]
    folder.put(LARGE)
    assert [f"sync blobs/sha256/{digest[:2]}", "sync blobs/sha256"] == steps
    assert [] == list((tmp_path / "blobs" / "tmp").iterdir())


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    """But not what another process is still writing."""
    temporary = tmp_path / "blobs" / "tmp"
    temporary.mkdir(parents=True)
    (temporary / "dead").write_bytes(b"x")
    (temporary / "folder").mkdir()
    os.mkfifo(temporary / "fifo")
    with (temporary / "alive").open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        folder = BlobFolder(tmp_path / "blobs")
        folder.put(LARGE)
        assert {"alive", "folder", "fifo"} == {f.name for f in temporary.iterdir()}
        (temporary / "later").write_bytes(b"x")
        folder.put(LARGE[:-1])  # once is enough
        assert (temporary / "later").exists()


def test_a_sweep_between_making_and_locking_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is made anew."""
    flock = fcntl.flock
    swept: list[Path] = []

    def sweep_first(file: Any, how: int) -> None:
        if not swept:
            swept.append(Path(file.name))
            swept[0].unlink()
        flock(file, how)

    monkeypatch.setattr(module.fcntl, "flock", sweep_first)
    folder = BlobFolder(tmp_path / "blobs")
    ref = folder.put(LARGE)
    assert swept
    assert LARGE == folder.read(ref)


async def test_memory_is_checked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even there a blob is compared with its name."""
    store = MemoryBlobs()
    ref = await store.put(SMALL)
    for digest in store._blobs:
        store._blobs[digest] = b"smell"
    with pytest.raises(BlobAltered, match="in memory was altered"):
        await store.get(ref)


async def test_writing_in_small_pieces_stays_flat(tmp_path: Path) -> None:
    """What is gathered in memory is under the limit, however long the blob becomes."""
    async with open_log(tmp_path / "trialog.db") as log:
        async with log.blobs.writer() as writer:
            for _ in range(400):
                await writer.write(bytes(1000))
                assert len(writer._pending) < FILE_LIMIT  # type: ignore[attr-defined]
            ref = await writer.commit()
        assert blob_ref(bytes(400_000)) == ref
