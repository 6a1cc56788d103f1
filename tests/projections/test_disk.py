"""Files on disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import anyio
import pytest

from trialog.events.errors import said
from trialog.events.values import blob_ref
from trialog.projections.disk import (
    PART,
    PARTS,
    entries,
    exists,
    files_lock,
    fresh_part,
    holds_blob,
    lock_path,
    place,
    put,
    put_folder,
    walk,
)
from trialog.projections.errors import FilesUnwritable


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    """What is missing on the way to a file is made, and nothing is left beside it."""
    assert put(tmp_path, "a/b/c.txt", b"x")

    assert b"x" == (tmp_path / "a/b/c.txt").read_bytes()
    assert ["a/b/c.txt"] == list(walk(tmp_path))


def test_a_file_that_is_right_is_not_touched(tmp_path: Path) -> None:
    """The same bytes again write nothing."""
    put(tmp_path, "a.txt", b"x")
    before = (tmp_path / "a.txt").stat()

    assert not put(tmp_path, "a.txt", b"x")

    assert before.st_ino == (tmp_path / "a.txt").stat().st_ino
    assert put(tmp_path, "a.txt", b"y")
    assert before.st_ino != (tmp_path / "a.txt").stat().st_ino


def test_a_reader_sees_the_old_file_or_the_new(tmp_path: Path) -> None:
    """A file that a reader has open is replaced, never changed."""
    put(tmp_path, "a.txt", b"old")
    with (tmp_path / "a.txt").open("rb") as reader:
        put(tmp_path, "a.txt", b"new!")
        assert b"old" == reader.read()


def test_what_a_killed_writer_left_goes(tmp_path: Path) -> None:
    """A part that was never renamed is in nobody's way."""
    (tmp_path / PART).write_bytes(b"half")

    put(tmp_path, "a.txt", b"x")

    assert ["a.txt"] == entries(tmp_path)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rename fails, the old file stays and the part goes."""
    put(tmp_path, "a.txt", b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="broken"):
        put(tmp_path, "a.txt", b"new")

    assert b"old" == (tmp_path / "a.txt").read_bytes()
    assert ["a.txt"] == entries(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Where nothing can be written, the error says what and how to go on."""

    def fail(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FilesUnwritable, match="trialog rebuild") as caught:
        put(tmp_path, "a.txt", b"x")

    assert tmp_path / "a.txt" == caught.value.path
    assert said(OSError(number, "no")) == caught.value.reason
    assert [] == entries(tmp_path)


def test_a_folder_comes_with_all_its_files(tmp_path: Path) -> None:
    """A new folder is there with its files at once; one that is there already is left alone."""
    files = {"a.txt": b"x", "b.txt": b""}

    assert put_folder(tmp_path / "job", "t", files)
    assert not put_folder(tmp_path / "job", "t", {"a.txt": b"y"})

    assert ["t/a.txt", "t/b.txt"] == list(walk(tmp_path / "job"))
    assert files == {name: (tmp_path / "job/t" / name).read_bytes() for name in files}


@pytest.mark.parametrize("left", ["folder", "file", "link"])
def test_a_planted_folder_is_not_written_through(tmp_path: Path, left: str) -> None:
    """What a killed writer, or anybody, left under the folder's first name goes."""
    job, outside = tmp_path / "job", tmp_path / "outside"
    job.mkdir()
    outside.mkdir()
    match left:
        case "folder":
            put(job, f"{PARTS}/half.txt", b"half")
        case "file":
            put(job, PARTS, b"half")
        case _:
            (job / PARTS).symlink_to(outside)

    assert put_folder(job, "t", {"a.txt": b"x"})

    assert ["t/a.txt"] == list(walk(job))
    assert [] == entries(outside)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_folder_that_fails_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Where the rename fails nothing is left of it; a full disk says so."""

    def fail(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FilesUnwritable if number == errno.ENOSPC else OSError):
        put_folder(tmp_path, "t", {"a.txt": b"x"})

    assert [] == entries(tmp_path)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link on the way to a file is refused by name; the place it leads to is not touched."""
    outside, folder = tmp_path / "outside", tmp_path / "job"
    outside.mkdir()
    folder.mkdir()
    (folder / "artifacts").symlink_to(outside)

    with pytest.raises(OSError, match=r"a link is in the way.*: '/"):
        put(folder, "artifacts/a.txt", b"x")

    assert [] == entries(outside)


def test_a_link_in_a_files_place_is_replaced(tmp_path: Path) -> None:
    """A link where a file belongs is replaced, and what it led to stays."""
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "a.txt").symlink_to(tmp_path / "secret")

    assert put(tmp_path, "a.txt", b"x")

    assert not (tmp_path / "a.txt").is_symlink()
    assert b"x" == (tmp_path / "secret").read_bytes()


def test_a_planted_part_is_not_written_through(tmp_path: Path) -> None:
    """A link with the part's name is removed first."""
    (tmp_path / "secret").write_bytes(b"safe")
    (tmp_path / PART).symlink_to(tmp_path / "secret")

    put(tmp_path, "a.txt", b"x")

    assert b"safe" == (tmp_path / "secret").read_bytes()
    assert b"x" == (tmp_path / "a.txt").read_bytes()


def test_a_folder_in_a_files_place_is_an_error(tmp_path: Path) -> None:
    """A folder where a file belongs is not removed."""
    (tmp_path / "a.txt").mkdir()

    with pytest.raises(IsADirectoryError):
        put(tmp_path, "a.txt", b"x")


def test_a_blobs_file_is_known_by_its_hash(tmp_path: Path) -> None:
    """A file is the blob when size and hash are; what is no plain file is not."""
    path = tmp_path / "a"
    assert not holds_blob(path, blob_ref(b"x"))
    path.write_bytes(b"x")

    assert holds_blob(path, blob_ref(b"x"))
    assert not holds_blob(path, blob_ref(b"y"))
    assert not holds_blob(path, blob_ref(b"xx"))
    (tmp_path / "link").symlink_to(path)
    assert not holds_blob(tmp_path / "link", blob_ref(b"x"))


def test_what_is_there(tmp_path: Path) -> None:
    """Files and links are listed by relative path; links are not followed."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b/x").write_bytes(b"")
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")

    assert ["a", "dangling", "link", "b/x"] == list(walk(tmp_path))
    assert exists(tmp_path / "dangling")
    assert ["a", "b", "dangling", "link"] == entries(tmp_path)
    assert [] == entries(tmp_path / "nowhere")


def test_a_part_makes_its_folder(tmp_path: Path) -> None:
    """The folder of a file is there once its part has a name."""
    target = place(tmp_path, "a/b")

    assert target.parent / PART == fresh_part(target)
    assert target.parent.is_dir()


async def test_a_lock_orders_writers(tmp_path: Path) -> None:
    """Only one at a time writes the files of a job; another job's writer does not wait."""
    order: list[str] = []
    inside = anyio.Event()

    async def second() -> None:
        await inside.wait()
        async with files_lock(tmp_path / "other"):
            order.append("other job")
        async with files_lock(tmp_path / "job"):
            order.append("second")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second)
        async with files_lock(tmp_path / "job"):
            inside.set()
            with anyio.move_on_after(0.2):
                while True:
                    await anyio.lowlevel.checkpoint()
            order.append("first")

    assert ["other job", "first", "second"] == order


async def test_a_lock_is_free_after_an_error(tmp_path: Path) -> None:
    """Whatever ends the writing frees the lock, and the lock's file is beside the job's folder."""
    with pytest.raises(ValueError, match="broken"):
        async with files_lock(tmp_path / "job"):
            raise ValueError("broken")

    with anyio.fail_after(5):
        async with files_lock(tmp_path / "job"):
            assert await anyio.Path(lock_path(tmp_path / "job")).exists()
    assert tmp_path / ".locks" / "job.files.lock" == lock_path(tmp_path / "job")


async def test_a_lock_that_can_not_be_made(tmp_path: Path) -> None:
    """Where the lock's folder can't be made, the error names the file in its way."""
    await anyio.Path(tmp_path / ".locks").write_bytes(b"")

    with pytest.raises(OSError, match=r"\.locks"):
        async with files_lock(tmp_path / "job"):
            pass
