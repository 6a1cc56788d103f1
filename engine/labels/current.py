"""A verifier as its files have it now, and the tasks of a job as the job took them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from anyio import to_thread

from ...events.kinds.job import TaskSnapshot
from ...events.log import BlobStore
from ...projections.episode import TaskData
from ..authoring.verifiers import AgentVerifier
from ..errors import ConfigError
from ..hooks.protocol import HookSource
from ..projects.project import Project, load_project, project_root
from ..projects.resources import ProjectVerifier
from ..projects.snapshot import unpack_project_task


class CurrentVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier that is about to be tried or applied."""

    name: str
    kind: str
    version: str
    digest: str
    weight: float
    origin: str
    """Which files these are, for a person."""
    source: HookSource | None
    """Where its code is; null for judges and people."""
    judge: AgentVerifier | None


class JobTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as its job took it."""

    data: TaskData
    verifiers: list[str]


def as_current(verifier: ProjectVerifier, origin: str) -> CurrentVerifier:
    """A project's verifier."""
    written = verifier.verifier
    return CurrentVerifier(
        name=verifier.name,
        kind=written.kind,
        version=written.version,
        digest=verifier.digest,
        weight=written.weight,
        origin=origin,
        source=verifier.source,
        judge=written if isinstance(written, AgentVerifier) else None,
    )


def find_verifier(
    name: str, *, tasks_root: Path | None, here: Path, recorded: Sequence[Path]
) -> CurrentVerifier | None:
    """The verifier of that name; blocks. None where no project is left that it could be in.

    It is taken from the project of `tasks_root`, else from that which `here` is in, else from
    where the job's tasks were (`recorded`). Raises ConfigError where the chosen project has no
    such verifier, or its files can't be used.
    """
    if tasks_root is not None:
        return as_current(load_project(tasks_root).verifier(name), f"--tasks-root {tasks_root}")
    lacking: Project | None = None
    for place in (here, *recorded):
        root = project_root(place) if place.exists() else None
        if root is None:
            continue
        project = load_project(root)
        if name in project.names("verifier"):
            return as_current(project.verifier(name), str(root))
        lacking = lacking or project
    if lacking is not None:
        lacking.verifier(name)  # raises, and names what there is
    return None


async def job_tasks(
    snapshots: Sequence[TaskSnapshot], blobs: BlobStore
) -> dict[str, JobTask | None]:
    """The job's tasks by name; null for those that have a script in place of verifiers."""
    found: dict[str, JobTask | None] = {}
    for snapshot in snapshots:
        found[snapshot.task] = None
        if snapshot.layout == "project":
            data = await blobs.get(snapshot.snapshot)
            found[snapshot.task] = await to_thread.run_sync(_unpack, data)
    return found


def imported_tasks(names: Iterable[str]) -> dict[str, JobTask | None]:
    """Tasks of a job that another system ran: of these the log has no more than the names."""
    return {name: JobTask(data=TaskData(name=name), verifiers=[]) for name in names}


def _unpack(data: bytes) -> JobTask:
    with tempfile.TemporaryDirectory(prefix="trialog-labels-") as folder:
        task = unpack_project_task(data, Path(folder) / "task")
        view = msgspec.structs.asdict(task.view)
        return JobTask(
            data=msgspec.convert(view, TaskData), verifiers=list(task.manifest.verifiers)
        )


async def recorded_verifier(
    name: str, snapshots: Sequence[TaskSnapshot], tasks: dict[str, JobTask | None],
    blobs: BlobStore, folder: Path,
) -> CurrentVerifier:  # fmt: skip
    """The verifier as the job took it, unpacked below `folder`, for when its files are gone.

    Raises ConfigError for a name that no task of the job has.
    """
    for number, snapshot in enumerate(snapshots):
        task = tasks[snapshot.task]
        if task is not None and name in task.verifiers:
            data = await blobs.get(snapshot.snapshot)
            return await to_thread.run_sync(_recorded, data, folder / str(number), name)
    known = sorted({one for task in tasks.values() if task for one in task.verifiers})
    raise ConfigError(
        f"there is no verifier {name!r}: no project is here or where the job's tasks were, and "
        f"the job's own are: {', '.join(known) or 'none'}; give the project with --tasks-root"
    )


def _recorded(data: bytes, folder: Path, name: str) -> CurrentVerifier:
    task = unpack_project_task(data, folder)
    verifier = next(one for one in task.verifiers if one.name == name)
    return as_current(verifier, "the job's own copy")
