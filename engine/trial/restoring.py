"""Saved work, put back where it can be graded: a workspace's archive and the artifacts.

A workspace is restored by the sandbox itself (`SandboxSpec.workspace`): exactly what was saved,
with owners, modes, times and links, and nothing of the image's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from anyio import to_thread

from ...events.kinds.trial import Artifact
from ...events.log import BlobStore
from ...events.values import BlobRef
from ..errors import SandboxError


class ArtifactUnsafe(SandboxError):
    """A recorded artifact's path leads out of the artifacts' folder; nothing was written."""

    category = "transfer_failed"

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"artifact {path!r} has no place below /logs/artifacts")


async def fetch_archive(archive: BlobRef, blobs: BlobStore, scratch: Path) -> Path:
    """A saved workspace's archive as a file below `scratch`, checked against its hash.

    It is what `SandboxSpec.workspace` takes; once the sandbox is made, it may go. Raises
    BlobMissing and BlobAltered.
    """
    place = scratch / "saved.tar.zst"
    await blobs.copy_to(archive, place)
    return place


async def restore_artifacts(artifacts: Sequence[Artifact], blobs: BlobStore, folder: Path) -> None:
    """Put saved artifacts into the host's folder behind /logs/artifacts.

    They keep their modes, but that every user inside may read them: whose they were is not saved.
    The folder is the engine's own, and nothing of an agent's has been in it. Raises ArtifactUnsafe
    before anything is written, BlobMissing and BlobAltered.
    """
    places: list[Path] = []
    for artifact in artifacts:
        path = PurePosixPath(artifact.path)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ArtifactUnsafe(artifact.path)
        places.append(folder / path)
    for artifact, place in zip(artifacts, places, strict=True):
        await to_thread.run_sync(_make_parents, folder, place)
        await blobs.copy_to(artifact.blob, place)
        mode = 0o644 if artifact.mode is None else artifact.mode & 0o777 | 0o444
        await to_thread.run_sync(os.chmod, place, mode)


def _make_parents(folder: Path, place: Path) -> None:
    """Folders that any user inside may read and write, as the one that they lie in."""
    for parent in reversed(place.parents[: -len(folder.parts)]):
        if not parent.exists():
            parent.mkdir()
            parent.chmod(0o777)
