"""Taking an agent's work out of its sandbox: artifacts and workspace, into the blob store."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import anyio
import msgspec
from anyio import to_thread

from ...events.clock import Clock
from ...events.kinds import ArtifactsSaved, TrialEvent, WarningRaised, WorkspaceSaved
from ...events.kinds.parts import SkippedPath
from ...events.kinds.trial import Artifact
from ...events.log import BlobStore
from ...events.values import INLINE_LIMIT, BlobRef, without_surrogates
from ..archive import copy_out, find_secrets_in_archive
from ..errors import SandboxGone
from ..redact import Redactor
from ..sandbox.protocol import Sandbox, Tree, TreeTooLarge
from ..tasks.model import DeclaredArtifact

MEBIBYTE = 1024 * 1024
_SYSTEM = re.compile(
    r"/(usr/(local/)?)?(s?bin|lib(32|64|x32|exec)?)/|/etc/(ld\.so|environment|profile|bash\.bashrc)"
)
"""Where programs, libraries and what steers them lie."""
ARTIFACTS_CAP = 256 * MEBIBYTE
"""Bytes of all artifacts of a trial together."""


class Saving(NamedTuple):
    """What of a trial is saved, and how much of it."""

    workspace: str
    declared: Sequence[DeclaredArtifact]
    artifacts_folder: Path
    """The host's folder behind /logs/artifacts."""
    scratch: Path
    keep_workspace: bool
    cap: int
    """Bytes of the workspace."""
    timeout: float
    """Seconds for artifacts and workspace together."""


async def save_work(
    sandbox: Sandbox, what: Saving, *, blobs: BlobStore, clock: Clock, redactor: Redactor
) -> list[TrialEvent]:
    """Save artifacts and workspace; what can't be saved is a warning. Raises SandboxGone."""
    events: list[TrialEvent] = []
    with anyio.move_on_after(what.timeout) as deadline:
        events += await _save_artifacts(sandbox, what, blobs=blobs, clock=clock)
        if what.keep_workspace:
            events += await _save_workspace(
                sandbox, what, blobs=blobs, clock=clock, redactor=redactor
            )
    if deadline.cancelled_caught:
        events.append(
            WarningRaised(
                code="save_timeout",
                message=f"saving the work took longer than {what.timeout:g} s and was given up",
            )
        )
    return events


async def _save_artifacts(
    sandbox: Sandbox, what: Saving, *, blobs: BlobStore, clock: Clock
) -> list[TrialEvent]:
    begun = clock.monotonic()
    folder = what.scratch / "artifacts"
    skipped = await to_thread.run_sync(_copy_logged, what.artifacts_folder, folder)
    warnings: list[TrialEvent] = []
    for artifact in what.declared:
        source = artifact.source
        if not source.startswith("/"):
            source = f"{what.workspace.rstrip('/')}/{source}"
        destination = folder / _place(artifact, source, what.workspace)
        try:
            await to_thread.run_sync(_make_parent, destination)
            missed = await sandbox.copy_file(source, destination, cap=ARTIFACTS_CAP)
        except TreeTooLarge as error:
            missed = [SkippedPath(path=source, reason=str(error))]
        except OSError as error:
            missed = [SkippedPath(path=source, reason=error.strerror or str(error))]
        skipped += missed
        warnings += [
            WarningRaised(
                code="artifact_skipped",
                message=f"artifact {miss.path} was not kept: {miss.reason}",
                path=miss.path,
            )
            for miss in missed[:10]
        ]
    found = await to_thread.run_sync(_list_files, folder)
    artifacts = [await _keep(path, name, mode, blobs) for path, name, mode in found]
    saved = ArtifactsSaved(
        artifacts=artifacts, skipped=skipped, duration=round(clock.monotonic() - begun, 6)
    )
    return [saved, *warnings]


def _copy_logged(source: Path, destination: Path) -> list[SkippedPath]:
    try:
        if not any(os.scandir(source)):
            destination.mkdir()
            return []
    except OSError as error:
        destination.mkdir()
        return [SkippedPath(path="/logs/artifacts", reason=error.strerror or str(error))]
    try:
        return copy_out(source, ".", destination, ARTIFACTS_CAP)
    except TreeTooLarge as error:
        destination.mkdir(exist_ok=True)
        return [SkippedPath(path="/logs/artifacts", reason=str(error))]


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


async def _keep(path: Path, name: str, mode: int, blobs: BlobStore) -> Artifact:
    ref = await blobs.put_file(path)
    return Artifact(
        path=without_surrogates(name)[0],
        blob=ref,
        mode=mode,
        sha256=ref.blob.removeprefix("sha256:"),
        size=ref.size,
    )


async def _save_workspace(
    sandbox: Sandbox, what: Saving, *, blobs: BlobStore, clock: Clock, redactor: Redactor
) -> list[TrialEvent]:
    begun = clock.monotonic()
    archive = what.scratch / "workspace.tar.zst"
    outside: list[str] | None = None
    packed: list[Tree | Exception] = []

    async def look_outside() -> None:
        nonlocal outside
        with contextlib.suppress(SandboxGone):  # packing meets the same and says so
            outside = await sandbox.changed_outside()

    async def pack() -> None:
        try:
            packed.append(await sandbox.save_tree(what.workspace, archive, cap=what.cap))
        except (SandboxGone, TreeTooLarge, OSError) as error:
            packed.append(error)

    async with anyio.create_task_group() as both:
        both.start_soon(look_outside)
        both.start_soon(pack)
    match packed:
        case [Tree() as tree]:
            pass
        case [SandboxGone() as gone]:
            raise gone
        case [Exception() as error]:
            return [_not_saved(error, what)]
        case _:
            raise AssertionError("packing gave nothing")
    ref = await blobs.put_file(archive)
    listed: list[str] | BlobRef | None = outside
    if outside is not None:
        outside = [without_surrogates(path)[0] for path in outside]
        encoded = msgspec.json.encode(outside)
        listed = await blobs.put(encoded) if len(encoded) > INLINE_LIMIT else outside
    saved = WorkspaceSaved(
        archive=ref,
        size=tree.size,
        files=tree.files,
        skipped=tree.skipped,
        outside=listed,
        duration=round(clock.monotonic() - begun, 6),
    )
    secrets = (
        []
        if redactor.empty
        else await to_thread.run_sync(find_secrets_in_archive, archive, redactor)
    )
    return [
        saved,
        *_system_changed(outside or []),
        *(
            WarningRaised(
                code="secret_in_workspace",
                message=f"a secret's value lies in the saved workspace: {path}",
                path=path,
            )
            for path in secrets
        ),
    ]


def _system_changed(outside: Sequence[str]) -> list[WarningRaised]:
    """A warning where programs or libraries of the system are not the image's any more.

    The verifier runs with them. Honest work installs packages, so it is no more than a warning.
    """
    changed = [path for path in outside if _SYSTEM.match(path)]
    if not changed:
        return []
    named = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return [
        WarningRaised(
            code="system_changed",
            message=f"the agent changed programs or libraries that the verifier runs with: {named}",
            path=changed[0],
        )
    ]


def _not_saved(error: Exception, what: Saving) -> WarningRaised:
    if isinstance(error, TreeTooLarge):
        reason = f"it holds more than {what.cap // MEBIBYTE} MiB (--workspace-cap-mb)"
    elif isinstance(error, OSError):
        reason = error.strerror or str(error)
    else:
        reason = str(error)
    return WarningRaised(
        code="workspace_not_saved",
        message=f"the workspace was not saved: {reason}; the trial can't be graded again from it",
    )
