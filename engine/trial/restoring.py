"""Saved work, put back where it can be graded: a workspace's archive and the artifacts.

A workspace is restored by the sandbox itself (`SandboxSpec.workspace`): exactly what was saved,
with owners, modes, times and links, and nothing of the image's. Artifacts go back to where they
were, as files that everybody may read.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path, PurePosixPath

from anyio import CancelScope, to_thread

from ...events.blobs import FILE_LIMIT
from ...events.kinds.trial import Artifact
from ...events.log import BlobStore
from ...events.values import BlobRef
from ..errors import SandboxError
from ..memory_file import memory_file
from ..sandbox.protocol import GivenFile


class ArtifactUnsafe(SandboxError):
    """A recorded artifact's path leads out of the artifacts' folder; nothing was written."""

    category = "transfer_failed"

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"artifact {path!r} has no place below /logs/artifacts")


@asynccontextmanager
async def fetched_archive(
    archive: BlobRef, blobs: BlobStore, scratch: Path
) -> AsyncGenerator[Path]:
    """A saved workspace's archive as a file, checked against its hash; it goes afterwards.

    It is what `SandboxSpec.workspace` takes. A small one lies in memory alone, another one below
    `scratch`, which is made for it. Raises BlobMissing and BlobAltered.
    """
    if archive.size < FILE_LIMIT:
        held = await to_thread.run_sync(memory_file, await blobs.get(archive))
        try:
            yield Path(f"/proc/self/fd/{held}")
        finally:
            os.close(held)
        return
    await to_thread.run_sync(make_private, scratch)
    place = scratch / "saved.tar.zst"
    await blobs.copy_to(archive, place)
    try:
        yield place
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(place.unlink)


def make_private(folder: Path) -> None:
    """Make a folder that no other user may enter, unless it is there; blocks."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


async def restore_artifacts(artifacts: Sequence[Artifact], blobs: BlobStore, folder: Path) -> None:
    """Put saved artifacts that were under /logs/artifacts into the host's folder behind it.

    They keep their modes, but that every user inside may read them: whose they were is not saved.
    The folder is the engine's own, and nothing of an agent's has been in it. Raises ArtifactUnsafe
    before anything is written, BlobMissing and BlobAltered.
    """
    artifacts = [artifact for artifact in artifacts if artifact.source is None]
    places: list[Path] = []
    for artifact in artifacts:
        raw = artifact.raw_path
        path = PurePosixPath(artifact.path if raw is None else os.fsdecode(await blobs.get(raw)))
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ArtifactUnsafe(artifact.path)
        places.append(folder / path)
    for artifact, place in zip(artifacts, places, strict=True):
        await to_thread.run_sync(_make_parents, folder, place)
        await blobs.copy_to(artifact.blob, place)
        await to_thread.run_sync(os.chmod, place, _mode(artifact))


async def declared_files(
    artifacts: Sequence[Artifact], blobs: BlobStore, *, scratch: Path, but_for: Sequence[str]
) -> list[GivenFile]:
    """Saved artifacts that the task declared, as files below `scratch` for a sandbox to be given.

    Those in or below the paths of `but_for` are left out: they come with the workspace, or lie
    where nothing of an agent's may be. Raises BlobMissing and BlobAltered.
    """
    folder = scratch / "declared"
    files: list[GivenFile] = []
    for artifact in artifacts:
        if artifact.source is None or _is_below(artifact.source, but_for):
            continue
        if not files:
            await to_thread.run_sync(partial(folder.mkdir, exist_ok=True))
        place = folder / str(len(files))
        await blobs.copy_to(artifact.blob, place)
        files.append(GivenFile(source=place, path=artifact.source, mode=_mode(artifact)))
    return files


def _mode(artifact: Artifact) -> int:
    return 0o644 if artifact.mode is None else artifact.mode & 0o777 | 0o444


def _is_below(path: str, folders: Sequence[str]) -> bool:
    place = PurePosixPath(posixpath.normpath(path))
    return any(place.is_relative_to(folder) for folder in folders)


def _make_parents(folder: Path, place: Path) -> None:
    """Folders that any user inside may read and write, as the one that they lie in."""
    for parent in reversed(place.parents[: -len(folder.parts)]):
        if not parent.exists():
            parent.mkdir()
            parent.chmod(0o777)
