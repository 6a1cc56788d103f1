"""Taking an agent's work out of its sandbox: artifacts and workspace, into the blob store."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
from anyio import to_thread

from ...events.clock import Clock
from ...events.kinds import TrialEvent, WarningRaised, WorkspaceSaved
from ...events.log import BlobStore
from ...events.values import INLINE_LIMIT, BlobRef, without_surrogates
from ..archive import find_secrets_in_archive
from ..errors import SandboxError, SandboxGone
from ..redact import Redactor
from ..sandbox.protocol import Sandbox, Tree, TreeTooLarge
from ..tasks.model import DeclaredArtifact
from .artifacts import save_artifacts, why
from .state import lost_artifact, named

MEBIBYTE = 1024 * 1024
_SYSTEM = re.compile(
    r"/(usr/(local/)?)?(s?bin|lib(32|64|x32|exec)?)/|/etc/(ld\.so|environment|profile|bash\.bashrc)"
)
"""Where programs, libraries and what steers them lie."""

_CACHE = re.compile(r".*/__pycache__(/.*)?")
"""Written by every Python that may; before grading those of the image's modules are taken away."""


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
    apart: bool = False
    """It is graded in a sandbox of its own: the workspace is packed even if it is not kept."""


class Saved(NamedTuple):
    """What came of saving a trial's work."""

    events: list[TrialEvent]
    archive: Path | None
    """The packed workspace, below the scratch folder; null where there is none."""
    lost: str | None
    """What was there and could not be taken out, and why: nothing elsewhere can be graded by it."""
    too_large: bool = False
    """That is over the limit."""


async def save_work(
    sandbox: Sandbox, what: Saving, *, blobs: BlobStore, clock: Clock, redactor: Redactor
) -> Saved:
    """Save artifacts and workspace; what can't be saved is a warning. Raises SandboxGone."""
    events: list[TrialEvent] = []
    archive: Path | None = None
    lost: str | None = None
    too_large = False
    with anyio.move_on_after(what.timeout) as deadline:
        saved, warnings = await save_artifacts(sandbox, what, blobs=blobs, clock=clock)
        events += [saved, *warnings]
        if (artifact := lost_artifact(saved, what.workspace)) is not None:
            lost, too_large = named(artifact), artifact.too_large
        if what.keep_workspace or what.apart:
            archive = what.scratch / "workspace.tar.zst"
            packed = await _pack_workspace(sandbox, what, archive, clock)
            if isinstance(packed, str):
                if lost is None:
                    lost, too_large = f"workspace {what.workspace}: {packed}", packed == _over(what)
                archive = None
                events.append(_not_saved(packed))
            elif what.keep_workspace:
                events += await _keep_workspace(packed, archive, what, blobs, clock, redactor)
    if deadline.cancelled_caught:
        reason = f"saving the work took longer than {what.timeout:g} s and was given up"
        events.append(WarningRaised(code="save_timeout", message=reason))
        archive, lost = None, lost or f"workspace {what.workspace}: {reason}"
    return Saved(events, archive, lost, too_large)


class _Packed(NamedTuple):
    tree: Tree
    outside: list[str] | None
    """Paths that were changed outside the workspace; null where that can't be told."""
    begun: float


async def _pack_workspace(
    sandbox: Sandbox, what: Saving, archive: Path, clock: Clock
) -> _Packed | str:
    """Pack the workspace; the reason where that can't be done."""
    begun = clock.monotonic()
    outside: list[str] | None = None
    packed: list[Tree | Exception] = []

    async def look_outside() -> None:
        nonlocal outside
        with contextlib.suppress(SandboxError):  # packing meets the same and says so
            outside = await sandbox.changed_outside()

    async def pack() -> None:
        try:
            packed.append(await sandbox.save_tree(what.workspace, archive, cap=what.cap))
        except (SandboxError, TreeTooLarge, OSError) as error:
            packed.append(error)

    async with anyio.create_task_group() as both:
        both.start_soon(look_outside)
        both.start_soon(pack)
    match packed:
        case [Tree() as tree]:
            return _Packed(tree, outside, begun)
        case [SandboxGone() as gone]:
            raise gone
        case [TreeTooLarge()]:
            return _over(what)
        case [Exception() as error]:
            return why(error)
        case _:
            raise AssertionError("packing gave nothing")


def _over(what: Saving) -> str:
    return f"it holds more than {what.cap // MEBIBYTE} MiB (--workspace-cap-mb)"


async def _keep_workspace(
    packed: _Packed, archive: Path, what: Saving, blobs: BlobStore, clock: Clock, redactor: Redactor
) -> list[TrialEvent]:
    tree, outside, begun = packed
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
        *(() if what.apart else _system_changed(outside or [])),
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

    Basic ones are put back before grading, and that is told apart. Honest work installs packages,
    so it is no more than a warning.
    """
    changed = [path for path in outside if _SYSTEM.match(path) and not _CACHE.fullmatch(path)]
    if not changed:
        return []
    named = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return [
        WarningRaised(
            code="system_changed",
            message=f"the agent changed programs or libraries of the system: {named}",
            path=changed[0],
        )
    ]


def _not_saved(reason: str) -> WarningRaised:
    return WarningRaised(
        code="workspace_not_saved",
        message=f"the workspace was not saved: {reason}; the trial can't be graded again from it",
    )
