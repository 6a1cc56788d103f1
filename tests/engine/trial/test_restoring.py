"""Saved work, put back where it can be graded."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from anyio import to_thread

from trialog.engine.trial.restoring import ArtifactUnsafe, fetched_archive, restore_artifacts
from trialog.events.errors import BlobAltered, BlobMissing
from trialog.events.kinds.trial import Artifact
from trialog.events.log import BlobStore
from trialog.events.memory import MemoryLog
from trialog.events.open import open_log
from trialog.events.values import BlobRef


async def artifact(blobs: BlobStore, path: str, data: bytes, mode: int | None = None) -> Artifact:
    """A saved file."""
    ref = await blobs.put(data)
    return Artifact(path=path, blob=ref, mode=mode, sha256=ref.blob[7:], size=ref.size)


async def test_artifacts_come_back(tmp_path: Path) -> None:
    """Each has its bytes and its mode, and any user inside may read it."""
    blobs = MemoryLog().blobs
    saved = [
        await artifact(blobs, "deep/er/run.sh", b"#!/bin/sh\n", 0o750),
        await artifact(blobs, "closed", b"x", 0o600),
        await artifact(blobs, "deep/old", b"without a mode"),
    ]
    await restore_artifacts(saved, blobs, tmp_path)
    found = {
        str(path.relative_to(tmp_path)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(tmp_path.rglob("*"))
        if path.is_file()
    }
    assert found == {
        "closed": (0o644, b"x"),
        "deep/er/run.sh": (0o754, b"#!/bin/sh\n"),
        "deep/old": (0o644, b"without a mode"),
    }
    assert stat.S_IMODE((tmp_path / "deep" / "er").stat().st_mode) == 0o777


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", "."])
async def test_no_artifact_leaves_its_folder(tmp_path: Path, path: str) -> None:
    """A recorded path that leads out is refused before anything is written."""
    folder = tmp_path / "in"
    folder.mkdir()
    blobs = MemoryLog().blobs
    saved = [await artifact(blobs, "good", b""), await artifact(blobs, path, b"bad")]
    with pytest.raises(ArtifactUnsafe) as refused:
        await restore_artifacts(saved, blobs, folder)
    assert refused.value.category == "transfer_failed"
    assert list(tmp_path.rglob("*")) == [folder]


@pytest.mark.parametrize("data", [b"small", b"an archive" * 10_000])
async def test_archive_is_there_for_as_long_as_it_is_needed(tmp_path: Path, data: bytes) -> None:
    """It can be read more than once, and nothing of it is left afterwards, a small one's never."""
    scratch = tmp_path / "scratch"
    async with open_log(tmp_path / "trialog.db") as log:
        ref = await log.blobs.put(data)
        async with fetched_archive(ref, log.blobs, scratch) as fetched:
            assert [data, data] == [fetched.read_bytes() for _ in range(2)]
            assert scratch.exists() is (len(data) > 5)
    assert [] == list(scratch.rglob("*"))


async def test_archive_is_checked(tmp_path: Path) -> None:
    """An archive that is missing, or whose bytes were altered, is reported by name."""
    async with open_log(tmp_path / "trialog.db") as log:
        ref = await log.blobs.put(b"an archive" * 10_000)
        (file,) = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
        file.chmod(0o600)
        await to_thread.run_sync(file.write_bytes, b"another")
        with pytest.raises(BlobAltered, match=ref.blob):
            async with fetched_archive(ref, log.blobs, tmp_path):
                pass
        gone = BlobRef(blob="sha256:" + "0" * 64, size=5)
        with pytest.raises(BlobMissing, match="0000"):
            async with fetched_archive(gone, log.blobs, tmp_path):
                pass
