"""Finding tasks: folders of tasks, choosing by name, all faults at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError, TaskError
from .files import SOLUTION_NAMES, VERIFIER_NAMES, Bounds, present
from .load import OLDER_LAYOUT, is_older_layout, is_task_folder, load_task
from .model import Task
from .names import safe_name

_TRACES = (
    "instruction.md",
    *(f"{name}/test.sh" for name in VERIFIER_NAMES),
    *(f"{name}/solve.sh" for name in SOLUTION_NAMES),
)
"""What only a task has: a folder with one of these and no settings file is a broken task."""


class TasksError(TaskError):
    """Some of the chosen tasks can't be used; the message has every one's fault."""

    def __init__(
        self,
        errors: Sequence[TaskError],
        chosen: int,
        *,
        names: Sequence[str] = (),
        others: Sequence[Task] = (),
    ) -> None:
        self.errors = list(errors)
        self.names = list(names)
        """Of the tasks, as ``--exclude`` takes them."""
        self.chosen = chosen
        self.others = list(others)
        """The chosen tasks that are not known to be at fault."""
        lines = "".join(f"\n  {error}" for error in errors)
        super().__init__(f"{len(errors)} of {chosen} tasks can't be used:{lines}")

    def joined(self, faults: Mapping[str, TaskError]) -> TasksError:
        """With the faults of others, by their tasks' names."""
        return TasksError(
            [*self.errors, *faults.values()],
            self.chosen,
            names=[*self.names, *faults],
            others=[task for task in self.others if task.name not in faults],
        )


class _Candidate(NamedTuple):
    path: Path
    dataset: Path | None

    @property
    def name(self) -> str:
        return safe_name(self.path.name)


def find_tasks(
    paths: Iterable[Path | str],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    limit: int | None = None,
) -> list[Task]:
    """The tasks that the paths name: each a task folder, or a folder of task folders.

    A folder of tasks is searched one level deep, in the order of names; the paths keep theirs.
    `include` and `exclude` are patterns (``*``, ``?``, ``[…]``) for names, `limit` takes the first
    so many of what is left. Raises TasksError with the faults of all chosen tasks (of a single
    task its own TaskError), and ConfigError when nothing is left or two different
    folders have the same name.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"expected a number of tasks above 0, found {limit}", key="--limit")
    candidates = _unique(_candidates(paths))
    chosen = [one for one in candidates if _matches(one, include or ["*"])]
    chosen = [one for one in chosen if not _matches(one, exclude)][:limit]
    if not chosen:
        names = ", ".join(one.name for one in candidates[:5])
        raise ConfigError(
            f"no task is left of {len(candidates)} ({names}{', …' if len(candidates) > 5 else ''})",
            key="--include" if include else "--exclude",
        )
    _refuse_same_names(chosen)
    tasks: list[Task] = []
    errors: list[TaskError] = []
    broken: list[str] = []
    for one in chosen:
        try:
            tasks.append(load_task(one.path, dataset=one.dataset))
        except TaskError as error:
            errors.append(error)
            broken.append(one.name)
    if errors:
        if len(chosen) == 1:
            raise errors[0]
        raise TasksError(errors, len(chosen), names=broken, others=tasks)
    return tasks


def _candidates(paths: Iterable[Path | str]) -> list[_Candidate]:
    found: list[_Candidate] = []
    for given in paths:
        path = Path(os.path.abspath(given))
        if path.is_dir() and not is_task_folder(path) and not _is_broken_task(path):
            found.extend(_members(path))
        else:
            found.append(_Candidate(path, None))
    if not found:
        raise ConfigError("no task was named; give a task's folder or a folder of tasks")
    return found


def _members(dataset: Path) -> list[_Candidate]:
    """The task folders of a dataset; links are followed inside it only."""
    try:
        items = sorted(dataset.iterdir(), key=lambda item: os.fsencode(item.name))
    except OSError as error:
        raise TaskError(f"can't be listed: {error.strerror}", file=dataset) from None
    found: list[_Candidate] = []
    bounds = Bounds(dataset.resolve(), dataset.resolve())
    for item in items:
        if item.name.startswith(".") or not item.is_dir():
            continue
        if is_task_folder(item) or _is_broken_task(item):
            if item.is_symlink():
                bounds.follow(item)
            found.append(_Candidate(item, dataset))
    if not found:
        raise TaskError(_why_none([item for item in items if item.is_dir()]), file=dataset)
    return found


def _why_none(folders: Sequence[Path]) -> str:
    """What is in a folder without task folders, and what may have been meant."""
    older = [folder.name for folder in folders if is_older_layout(folder)]
    if older:
        return (
            f"no task that can be read, but {len(older)} with a task.yaml and a run-tests.sh, such "
            f"as {older[0]}, {OLDER_LAYOUT}"
        )
    said = "neither a task (no task.md, no task.toml) nor a folder of task folders"
    deeper = [folder for folder in folders if _holds_tasks(folder)]
    if len(deeper) == 1:
        return f"{said}; did you mean {deeper[0]}?"
    if deeper:
        names = ", ".join(folder.name for folder in deeper[:3])
        more = ", …" if len(deeper) > 3 else ""
        return f"{said}; there are some one level deeper, so give these folders: {names}{more}"
    tasks = next((folder for folder in folders if folder.name == "tasks"), None)
    return said if tasks is None else f"{said}; did you mean {tasks}?"


def _holds_tasks(folder: Path) -> bool:
    if folder.name.startswith("."):
        return False
    try:
        return any(is_task_folder(item) or is_older_layout(item) for item in folder.iterdir())
    except OSError:
        return False


def _is_broken_task(path: Path) -> bool:
    return any(present(path / trace) for trace in _TRACES)


def _unique(candidates: list[_Candidate]) -> list[_Candidate]:
    """Without the same path given twice; its first place counts, and a dataset over none."""
    found: dict[Path, _Candidate] = {}
    for one in candidates:
        known = found.setdefault(one.path, one)
        if known.dataset is None:
            found[one.path] = one
    return list(found.values())


def _matches(one: _Candidate, patterns: Iterable[str]) -> bool:
    return any(
        fnmatchcase(name, pattern) for pattern in patterns for name in (one.name, one.path.name)
    )


def _refuse_same_names(chosen: list[_Candidate]) -> None:
    seen: dict[str, Path] = {}
    for one in chosen:
        other = seen.setdefault(one.name, one.path)
        if other != one.path:
            raise ConfigError(
                f"two tasks are named {one.name}: {other} and {one.path}; "
                "rename one folder, or run them as two jobs"
            )
