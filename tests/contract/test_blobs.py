"""What every blob store has to do."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from helpers.logs import STORES
from trialog.events.blobs import FILE_LIMIT
from trialog.events.errors import BlobMissing, LogCorrupt
from trialog.events.log import BlobStore, EventLog
from trialog.events.values import BlobRef, blob_ref

SIZES = [0, 1, 1000, FILE_LIMIT - 1, FILE_LIMIT, FILE_LIMIT + 1, 3 * 1024 * 1024 + 7]


@pytest.fixture(params=STORES)
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    """An empty log in each store."""
    async with STORES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def blobs(log: EventLog) -> BlobStore:
    """Its blobs."""
    return log.blobs


def some_bytes(size: int) -> bytes:
    """The same bytes for the same size."""
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_put_comes_back(blobs: BlobStore, tmp_path: Path, size: int) -> None:
    """Under the SHA-256 of its bytes, whatever its size, into memory or a file."""
    data = some_bytes(size)
    name = BlobRef(blob=f"sha256:{hashlib.sha256(data).hexdigest()}", size=size)
    assert not await blobs.has(name)

    assert name == await blobs.put(data)

    assert await blobs.has(name)
    assert data == await blobs.get(name)
    await blobs.check(name)
    await blobs.copy_to(name, tmp_path / "copy")
    assert data == (tmp_path / "copy").read_bytes()


@pytest.mark.parametrize("size", SIZES)
async def test_a_file_is_put(blobs: BlobStore, tmp_path: Path, size: int) -> None:
    """With the name that its bytes would have got."""
    data = some_bytes(size)
    (tmp_path / "file").write_bytes(data)

    ref = await blobs.put_file(tmp_path / "file")

    assert blob_ref(data) == ref
    assert data == await blobs.get(ref)
    assert data == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("piece", [100_000, 7_001])
async def test_a_blob_is_written_in_pieces(blobs: BlobStore, size: int, piece: int) -> None:
    """Its length need not be known before."""
    data = some_bytes(size)

    async with blobs.writer() as writer:
        for start in range(0, size, piece):
            await writer.write(data[start : start + piece])
        ref = await writer.commit()

    assert blob_ref(data) == ref
    assert data == await blobs.get(ref)


@pytest.mark.parametrize("size", SIZES)
async def test_the_same_bytes_again(blobs: BlobStore, tmp_path: Path, size: int) -> None:
    """They have one name, and are stored once, whichever way they come."""
    data = some_bytes(size)
    (tmp_path / "file").write_bytes(data)

    names = {await blobs.put(data), await blobs.put(data), await blobs.put_file(tmp_path / "file")}
    async with blobs.writer() as writer:
        await writer.write(data)
        names.add(await writer.commit())

    assert {blob_ref(data)} == names
    stored = [f for f in tmp_path.rglob("*") if f.is_file() and "blobs" in f.parts]
    assert len(stored) <= 1
    assert data == await blobs.get(names.pop())


@pytest.mark.parametrize("size", [10, 200_000])
async def test_many_at_once(blobs: BlobStore, size: int) -> None:
    """Concurrent writers of different and of the same bytes do not disturb each other."""

    async def put(number: int) -> None:
        data = some_bytes(size + number % 5)
        assert data == await blobs.get(await blobs.put(data))

    async with anyio.create_task_group() as group:
        for number in range(25):
            group.start_soon(put, number)


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_missing_blob_is_named(blobs: BlobStore, tmp_path: Path, size: int) -> None:
    """It is never taken for an empty one, and no file is left where it should have gone."""
    ref = blob_ref(some_bytes(size))

    with pytest.raises(BlobMissing, match=ref.blob) as e:
        await blobs.get(ref)
    with pytest.raises(BlobMissing, match=ref.blob):
        await blobs.copy_to(ref, tmp_path / "copy")

    assert ref.blob == e.value.digest
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_copy_never_overwrites(blobs: BlobStore, tmp_path: Path, size: int) -> None:
    """The file must not exist yet."""
    ref = await blobs.put(some_bytes(size))
    (tmp_path / "mine").write_text("mine")

    with pytest.raises(FileExistsError):
        await blobs.copy_to(ref, tmp_path / "mine")

    assert "mine" == (tmp_path / "mine").read_text()


@pytest.mark.parametrize(
    "name", ["sha256:../../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "0" * 64, "", "sha256:"]
)
async def test_what_is_no_name_is_refused(blobs: BlobStore, tmp_path: Path, name: str) -> None:
    """A reference can't lead out of the store."""
    ref = BlobRef(blob=name, size=10)

    for size in (10, FILE_LIMIT):
        ref = BlobRef(blob=name, size=size)
        with pytest.raises(LogCorrupt, match="blob reference"):
            await blobs.get(ref)
        with pytest.raises(LogCorrupt, match="blob reference"):
            await blobs.has(ref)
        with pytest.raises(LogCorrupt, match="blob reference"):
            await blobs.copy_to(ref, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_writer_that_is_left_leaves_nothing(
    blobs: BlobStore, tmp_path: Path, size: int
) -> None:
    """Without a commit there is no blob, and no file, also when the writer was cancelled."""
    data = some_bytes(size)

    async with blobs.writer() as writer:
        await writer.write(data)
    with anyio.CancelScope() as scope:
        async with blobs.writer() as writer:
            await writer.write(data)
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    assert scope.cancelled_caught
    assert not await blobs.has(blob_ref(data))
    assert [] == [f for f in tmp_path.rglob("*") if f.is_file() and "blobs" in f.parts]
