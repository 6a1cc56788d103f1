"""The verifiers of a regrade, taken once when it is planned: tasks as they are now, or as run."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread
from msgspec.structs import replace

from ...events.kinds.job import TaskSnapshot
from ...events.log import BlobStore
from ..errors import ConfigError, TaskError
from ..job.episode_loading import pack_episode_task
from ..job.episode_task import EpisodeTask
from ..job.tasks import take
from ..projects.project import Project, load_project, project_root
from ..tasks.dataset import find_tasks
from ..tasks.load import is_task_folder, load_task
from ..tasks.model import Task


class Taken(NamedTuple):
    """The tasks that verifiers come from."""

    snapshots: list[TaskSnapshot]
    gone: dict[str, str]
    """Why a task can't be had any more, by its name."""


class _Gone(Exception):
    """A task is not where it was, or not below --tasks-root."""


async def take_as_run(
    recorded: Sequence[TaskSnapshot], needed: Collection[str], blobs: BlobStore
) -> Taken:
    """The tasks exactly as the job took them when it started."""
    snapshots: list[TaskSnapshot] = []
    gone: dict[str, str] = {}
    for snapshot in recorded:
        if snapshot.task not in needed:
            continue
        if await blobs.has(snapshot.snapshot):
            snapshots.append(snapshot)
        else:
            gone[snapshot.task] = (
                f"blob {snapshot.snapshot.blob}, the job's own copy of the task, is missing"
            )
    return Taken(snapshots, gone)


async def take_current(
    recorded: Sequence[TaskSnapshot],
    needed: Collection[str],
    blobs: BlobStore,
    tasks_root: Path | None,
) -> Taken:
    """The tasks as they are now: below `tasks_root`, else where they were when the job started.

    Raises ConfigError for a task that is there and can't be used.
    """
    projects = _Projects()
    snapshots: list[TaskSnapshot] = []
    gone: dict[str, str] = {}
    for snapshot in recorded:
        if snapshot.task not in needed:
            continue
        find: Callable[[], Task | EpisodeTask] = (
            partial(_project_task, snapshot, tasks_root, projects)
            if snapshot.layout == "project"
            else partial(_script_task, snapshot, tasks_root)
        )
        try:
            task = await to_thread.run_sync(find)
        except _Gone as error:
            gone[snapshot.task] = str(error)
        else:
            (taken,) = await take([task], blobs)
            snapshots.append(replace(taken, task=snapshot.task))
    return Taken(snapshots, gone)


def _script_task(snapshot: TaskSnapshot, tasks_root: Path | None) -> Task:
    if tasks_root is not None:
        if is_task_folder(tasks_root):
            task = load_task(tasks_root)
            if task.name != snapshot.task:
                raise _Gone(f"--tasks-root {tasks_root} is the task {task.name}, not this one")
            return task
        try:
            (task,) = find_tasks([tasks_root], include=[glob.escape(snapshot.task)])
        except TaskError:
            raise
        except ConfigError:
            raise _Gone(f"there is no task {snapshot.task} in {tasks_root}") from None
        return task
    path = Path(snapshot.path)
    if not is_task_folder(path):
        raise _Gone(f"there is no task in {path} any more; `--tasks-root DIR` names another place")
    dataset = Path(snapshot.dataset) if snapshot.dataset else None
    return load_task(path, dataset=dataset if dataset is None or dataset.is_dir() else None)


class _Projects:
    """Projects by their roots, each read once."""

    def __init__(self) -> None:
        self._loaded: dict[Path, Project] = {}

    def at(self, root: Path) -> Project:
        if root not in self._loaded:
            self._loaded[root] = load_project(root)
        return self._loaded[root]


def _project_task(
    snapshot: TaskSnapshot, tasks_root: Path | None, projects: _Projects
) -> EpisodeTask:
    place = tasks_root if tasks_root is not None else Path(snapshot.path)
    root = project_root(place) if tasks_root is not None or place.exists() else None
    if root is None:
        raise _Gone(f"there is no project in {place} any more; `--tasks-root DIR` names another")
    project = projects.at(root)
    if snapshot.task not in project.names("task"):
        raise _Gone(f"the project in {root} has no task {snapshot.task}")
    return pack_episode_task(project.task(snapshot.task))
