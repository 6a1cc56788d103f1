"""Taking out what a task declares to be kept, and what the agent put under /logs/artifacts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from anyio import to_thread

from ...events.clock import Clock
from ...events.kinds import ArtifactsSaved, WarningRaised
from ...events.kinds.parts import SkippedPath
from ...events.kinds.trial import Artifact
from ...events.log import BlobStore
from ...events.values import storable, without_surrogates
from ..archive import copy_out
from ..errors import SandboxError, SandboxGone
from ..sandbox.protocol import Sandbox, TreeTooLarge
from ..tasks.model import DeclaredArtifact

if TYPE_CHECKING:
    from .saving import Saving

ARTIFACTS_CAP = 256 * 1024 * 1024
"""Bytes of one declared artifact, or of /logs/artifacts."""


async def save_artifacts(
    sandbox: Sandbox, what: Saving, *, blobs: BlobStore, clock: Clock
) -> tuple[ArtifactsSaved, list[WarningRaised]]:
    """Copy declared files and /logs/artifacts out and keep them as blobs. Raises SandboxGone.

    Declared ones come first: what an agent puts under /logs/artifacts takes no place of theirs.
    """
    begun = clock.monotonic()
    folder = what.scratch / "artifacts"
    skipped: list[SkippedPath] = []
    places: dict[str, str] = {}
    warnings: list[WarningRaised] = []
    for artifact in what.declared:
        source = artifact.source
        if not source.startswith("/"):
            source = f"{what.workspace.rstrip('/')}/{source}"
        place = _place(artifact, source, what.workspace)
        places[place] = source
        try:
            await to_thread.run_sync(_make_parent, folder / place)
            missed = await sandbox.copy_file(source, folder / place, cap=ARTIFACTS_CAP)
        except SandboxGone:
            raise
        except (TreeTooLarge, SandboxError, OSError) as error:
            missed = [_failed(source, error)]
        skipped += missed
        warnings += [
            WarningRaised(
                code="artifact_skipped",
                message=f"artifact {miss.path} was not kept: {miss.reason}",
                path=miss.path,
            )
            for miss in missed[:10]
        ]
    declared, logged, found = await to_thread.run_sync(_add_logged, folder, what.artifacts_folder)
    skipped += logged
    paths = _paths([name for _, name, _ in found])
    artifacts: list[Artifact] = []
    for file, name, mode in found:
        inside = _source(name, places) if name in declared else None
        artifacts.append(await _keep(file, name, paths[name], mode, blobs, inside))
    saved = ArtifactsSaved(
        artifacts=artifacts, skipped=skipped, duration=round(clock.monotonic() - begun, 6)
    )
    return saved, warnings


def why(error: Exception) -> str:
    """An error's reason, without what it was about."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _source(name: str, places: Mapping[str, str]) -> str | None:
    """Where a copied file was inside, by the places of the declared files and folders."""
    for place, source in places.items():
        if name == place or name.startswith(f"{place}/"):
            return source.rstrip("/") + name[len(place) :]
    return None


def _add_logged(
    folder: Path, source: Path
) -> tuple[set[str], list[SkippedPath], list[tuple[Path, str, int]]]:
    """Copy what was logged beside what was declared: names of that, what was skipped, all files."""
    declared = {name for _, name, _ in _list_files(folder)}
    skipped = _copy_logged(source, folder)
    return declared, skipped, _list_files(folder)


def _copy_logged(source: Path, destination: Path) -> list[SkippedPath]:
    destination.mkdir(exist_ok=True)
    try:
        with os.scandir(source) as entries:
            if not any(entries):
                return []
        return copy_out(source, ".", destination, ARTIFACTS_CAP)
    except (TreeTooLarge, OSError) as error:
        own_doing = isinstance(error, PermissionError)  # the agent may have taken the rights away
        return [_failed("/logs/artifacts", error, failed=not own_doing)]


def _failed(path: str, error: Exception, *, failed: bool = True) -> SkippedPath:
    too_large = isinstance(error, TreeTooLarge)
    return SkippedPath(path=path, reason=why(error), failed=failed, too_large=too_large)


def _place(artifact: DeclaredArtifact, source: str, workspace: str) -> str:
    """Where an artifact goes below the trial's artifacts/."""
    if artifact.destination is not None:
        path = PurePosixPath(artifact.destination)
    elif PurePosixPath(source).is_relative_to(workspace):
        path = PurePosixPath(source).relative_to(workspace)
    else:
        path = PurePosixPath(source)
    parts = [part for part in path.parts if part not in ("/", "..")]
    return "/".join(parts) or PurePosixPath(workspace).name or "workspace"


def _make_parent(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)


def _list_files(folder: Path) -> list[tuple[Path, str, int]]:
    """The regular files of our own copy: path, name below the folder, permission bits."""
    found: list[tuple[Path, str, int]] = []
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(here, name)
            if path.is_file() and not path.is_symlink():
                found.append((path, str(path.relative_to(folder)), path.stat().st_mode & 0o777))
    return sorted(found, key=lambda file: file[1])


def _paths(names: Sequence[str]) -> dict[str, str]:
    """A path that UTF-8 can hold for each name, and for no two the same."""
    ordered = sorted(names, key=lambda name: without_surrogates(name)[1] is not None)
    return dict(zip(ordered, storable(dict.fromkeys(ordered)), strict=True))


async def _keep(
    file: Path, name: str, path: str, mode: int, blobs: BlobStore, source: str | None
) -> Artifact:
    ref = await blobs.put_file(file)
    raw = without_surrogates(name)[1]
    return Artifact(
        path=path,
        blob=ref,
        mode=mode,
        sha256=ref.blob.removeprefix("sha256:"),
        size=ref.size,
        source=None if source is None else without_surrogates(source)[0],
        raw_path=None if raw is None else await blobs.put(raw),
    )
