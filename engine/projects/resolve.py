"""From the words of a command line to tasks: of a project, or in folders of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

from ..errors import ConfigError
from ..tasks.dataset import find_tasks
from ..tasks.load import is_task_folder
from ..tasks.model import Task
from .faults import Fault, ProjectError
from .project import Project, load_project, project_root
from .reader import nearest
from .resources import ProjectTask

AnyTask: TypeAlias = Task | ProjectTask


def resolve_words(
    words: Sequence[str],
    here: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    limit: int | None = None,
) -> list[AnyTask]:
    """The tasks that the words stand for, in their order; blocks.

    A word is the name of a task of the project around `here`, a task's folder, or a folder of
    task folders (a project's folder: all of its tasks). `include`, `exclude` and `limit` choose
    among all of them. Raises ConfigError, and ProjectError with the faults of every chosen task.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"expected a number of tasks above 0, found {limit}", key="--limit")
    projects = _Projects(here)
    named = [projects.named(word) for word in words]
    places = [Path(os.path.join(here, word)) for word in words]
    for word, tasks, place in zip(words, named, places, strict=True):
        if not tasks and os.sep not in word and not place.exists():
            projects.refuse(word)
    if not any(named):
        return [*find_tasks(places, include=include, exclude=exclude, limit=limit)]
    found: list[AnyTask | tuple[Project, str]] = []
    for tasks, place in zip(named, places, strict=True):
        found += tasks or find_tasks([place])
    return _loaded(_chosen(found, include, exclude, limit))


class _Projects:
    """The project around here, and those that words lead into; each is loaded once."""

    def __init__(self, here: Path) -> None:
        self._here = here
        self._loaded: dict[Path, Project] = {}

    def named(self, word: str) -> list[tuple[Project, str]]:
        """The projects' tasks that a word stands for; none when it stands for something else."""
        around = project_root(self._here)
        if around is not None and os.sep not in word:
            project = self._project(around)
            if word in project.names("task"):
                return [(project, word)]
        place = Path(os.path.abspath(os.path.join(self._here, word)))
        root = project_root(place)
        if root is None or not place.is_dir() or is_task_folder(place):
            return []
        project = self._project(root)
        if place in (root, root / "tasks"):
            return [(project, name) for name in project.names("task")]
        if place.parent == root / "tasks" and place.name in project.names("task"):
            return [(project, place.name)]
        return []

    def refuse(self, word: str) -> None:
        """Raise ConfigError for a name that is no task of the project around here."""
        around = project_root(self._here)
        if around is None:
            return
        project = self._project(around)
        raise ConfigError(
            f"there is no task {word!r} in the project {project.name!r}, and no such folder; "
            f"{nearest(word, project.names('task'))}"
        )

    def _project(self, root: Path) -> Project:
        if root not in self._loaded:
            self._loaded[root] = load_project(root)
        return self._loaded[root]


def _chosen(
    found: Sequence[AnyTask | tuple[Project, str]],
    include: Sequence[str],
    exclude: Sequence[str],
    limit: int | None,
) -> list[AnyTask | tuple[Project, str]]:
    chosen: dict[str, tuple[Path, AnyTask | tuple[Project, str]]] = {}
    for one in found:
        name, path = _identity(one)
        if include and not any(fnmatchcase(name, pattern) for pattern in include):
            continue
        if any(fnmatchcase(name, pattern) for pattern in exclude):
            continue
        other = chosen.setdefault(name, (path, one))[0]
        if other != path:
            raise ConfigError(
                f"two tasks are named {name}: {other} and {path}; rename one folder, or run them "
                "as two jobs"
            )
    if not chosen:
        names = ", ".join(_identity(one)[0] for one in found[:5])
        raise ConfigError(
            f"no task is left of {len(found)} ({names}{', …' if len(found) > 5 else ''})",
            key="--include" if include else "--exclude",
        )
    return [one for _, one in chosen.values()][:limit]


def _identity(one: AnyTask | tuple[Project, str]) -> tuple[str, Path]:
    if isinstance(one, tuple):
        project, name = one
        return name, project.file("task", name).parent
    return one.name, one.path


def _loaded(chosen: Sequence[AnyTask | tuple[Project, str]]) -> list[AnyTask]:
    tasks: list[AnyTask] = []
    broken: dict[str, list[Fault]] = {}
    for one in chosen:
        if not isinstance(one, tuple):
            tasks.append(one)
            continue
        project, name = one
        try:
            tasks.append(project.task(name))
        except ProjectError as error:
            broken[error.what] = error.faults
    if broken:
        what = " and ".join(broken) if len(broken) < 3 else f"{len(broken)} tasks"
        raise ProjectError(what, [fault for faults in broken.values() for fault in faults])
    return tasks
