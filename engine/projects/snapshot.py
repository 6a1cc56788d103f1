"""The part of a project that a job keeps of a task: every file that a later command needs.

The archive is made as those of task folders are (see `engine/tasks/snapshot.py`): sorted by path,
without times and owners, so that the same files give the same bytes. Paths start at the project's
root. In it are trialog.yaml, the task, its environment, its verifiers, the agents that play it,
and the project's modules that these import.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError, TaskError
from ..tasks.digest import digest
from ..tasks.files import Entry
from ..tasks.snapshot import extract, pack_entries
from .faults import ProjectError
from .files import file_entry
from .manifests import PROJECT_FILE, read_project
from .project import Kind, Project
from .reader import Faults
from .resources import ProjectAgent, ProjectTask

_KINDS: tuple[Kind, Kind] = ("task", "agent")


def pack_project_task(task: ProjectTask, *agents: ProjectAgent) -> bytes:
    """The snapshot of a task and the agents that play it; blocks.

    Raises TaskError when a file changed since it was loaded.
    """
    entries = {entry.path: entry for entry in task.entries}
    manifest = file_entry(task.root / PROJECT_FILE, task.root)
    entries[manifest.path] = manifest
    for agent in agents:
        if agent.project.root != task.root:
            raise ConfigError(
                f"agent {agent.name!r} is of the project {agent.project.root}, and task "
                f"{task.name!r} of {task.root}; an agent plays tasks of its own project"
            )
        entries.update({entry.path: entry for entry in agent.entries})
    packed = pack_entries(_sorted(entries))
    parts: list[ProjectTask | ProjectAgent] = [task, *agents]
    if any(digest(part.entries) != part.digest for part in parts):
        raise TaskError(
            "a file of the project changed while it was read; try again", file=task.path
        )
    return packed


def unpack_project_task(data: bytes, folder: Path) -> ProjectTask:
    """The task of a snapshot, its files extracted into a new or empty folder; blocks.

    Its digests are those of the task that was packed; its `agents` are those that were packed with
    it. A range of versions in trialog.yaml is not held against it any more. Raises TaskError for
    what is no snapshot.
    """
    extract(data, folder, name="a project's task")
    root = folder.resolve()
    faults = Faults()
    manifest = read_project(root / PROJECT_FILE, faults)
    if manifest is None:
        raise ProjectError("the snapshot", faults.found)
    project = Project(manifest)
    # A folder without a manifest is there for a module in it that something imports.
    tasks, agents = (
        [name for name in project.names(kind) if project.file(kind, name).is_file()]
        for kind in _KINDS
    )
    if len(tasks) != 1:
        raise ConfigError(f"a snapshot holds one task; found {len(tasks)}", file=root)
    task = project.task(tasks[0])
    task.agents = {name: project.agent(name) for name in agents}
    return task


def _sorted(entries: dict[str, Entry]) -> list[Entry]:
    return sorted(entries.values(), key=lambda entry: entry.key)
