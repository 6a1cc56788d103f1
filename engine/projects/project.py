"""A project: its resources by name, read when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ..errors import ConfigError, TaskError
from ..tasks.files import LEFT_OUT
from .faults import Fault, ProjectError
from .importing import Space
from .manifests import (
    PROJECT_FILE,
    read_agent,
    read_environment,
    read_project,
    read_task,
    read_verifier,
)
from .model import (
    AgentManifest,
    EnvironmentManifest,
    ProjectManifest,
    TaskManifest,
    VerifierManifest,
)
from .modules import SourceError
from .reader import Faults, nearest
from .resources import ProjectAgent, ProjectTask, ProjectVerifier, project_verifier

Kind: TypeAlias = Literal["environment", "task", "verifier", "agent"]
KINDS: tuple[Kind, ...] = ("environment", "task", "verifier", "agent")

_READERS: dict[Kind, Callable[[Path, Path, Faults], Any]] = {
    "environment": read_environment,
    "task": read_task,
    "verifier": read_verifier,
    "agent": read_agent,
}


class Project:
    """A project's folder. Its manifests are read when they are first asked for, and once."""

    def __init__(self, manifest: ProjectManifest) -> None:
        self.manifest = manifest
        self.root = manifest.folder
        self.name = manifest.name
        self._read: dict[tuple[Kind, str], tuple[Any, list[Fault]]] = {}
        self._spaces: dict[Path, Space] = {}

    @property
    def defaults(self) -> dict[str, Any]:
        """Settings of jobs, below those of the command line."""
        return self.manifest.defaults

    def names(self, kind: Kind) -> list[str]:
        """The names of its resources of a kind, sorted; each is a folder's."""
        return names_in(self.root, kind)

    def file(self, kind: Kind, name: str) -> Path:
        """Where the manifest of a resource is, or would be."""
        return self.root / f"{kind}s" / name / f"{kind}.yaml"

    def environment(self, name: str) -> EnvironmentManifest:
        """An environment's manifest. Raises ProjectError, and ConfigError for an unknown name."""
        return cast("EnvironmentManifest", self._manifest("environment", name))

    def verifier(self, name: str) -> ProjectVerifier:
        """A verifier. Raises as `environment` does."""
        manifest = cast("VerifierManifest", self._manifest("verifier", name))
        with _sources(f"verifier {name!r}"):
            return project_verifier(self, manifest)

    def agent(self, name: str) -> ProjectAgent:
        """An agent. Raises as `environment` does."""
        manifest = cast("AgentManifest", self._manifest("agent", name))
        with _sources(f"agent {name!r}"):
            return ProjectAgent(self, manifest)

    def task(self, name: str) -> ProjectTask:
        """A task, with its environment and verifiers. Raises as `environment` does, with the
        faults of everything that the task needs."""
        self._known("task", name)
        faults = self.task_faults(name)
        if faults:
            raise ProjectError(f"task {name!r}", faults)
        manifest, _ = self.read("task", name)
        task = cast("TaskManifest", manifest)
        with _sources(f"task {name!r}"):
            return ProjectTask(
                self,
                task,
                self.environment(task.environment) if task.environment else None,
                [self.verifier(each) for each in task.verifiers],
            )

    def read(self, kind: Kind, name: str) -> tuple[Any, list[Fault]]:
        """A resource's manifest, null when it can't be used at all, and its own faults."""
        if (kind, name) not in self._read:
            faults = Faults()
            file = self.file(kind, name)
            manifest = None
            if file.is_file():
                manifest = _READERS[kind](file, self.root, faults)
            else:
                faults.add(file, 1, self._why_missing(file))
            self._read[kind, name] = manifest, faults.found
        return self._read[kind, name]

    def task_faults(self, name: str) -> list[Fault]:
        """What is wrong with a task's manifest and those of all that it leads to."""
        manifest, own = self.read("task", name)
        found = list(own)
        if manifest is not None:
            found += self.reference_faults(manifest)
            if manifest.environment in self.names("environment"):
                found += self.read("environment", manifest.environment)[1]
            for each in manifest.verifiers:
                if each in self.names("verifier"):
                    found += self.read("verifier", each)[1]
        return found

    def reference_faults(self, task: TaskManifest) -> list[Fault]:
        """Where a task leads to something that is not there, or that can't judge it."""
        faults = Faults()
        environments, verifiers = self.names("environment"), self.names("verifier")
        if task.environment is not None and task.environment not in environments:
            faults.add(
                task.file,
                task.line("environment"),
                f"environment: there is no environment {task.environment!r}; "
                f"{nearest(task.environment, environments)}",
            )
        manifests: list[VerifierManifest | None] = []
        for index, name in enumerate(task.verifiers):
            if name in verifiers:
                manifest, own = self.read("verifier", name)
                manifests.append(None if own else manifest)
                continue
            manifests.append(None)
            key = f"verifiers[{index}]"
            faults.add(
                task.file,
                task.line(key),
                f"{key}: there is no verifier {name!r}; {nearest(name, verifiers)}",
            )
        known = [manifest for manifest in manifests if manifest is not None]
        if len(known) == len(manifests):
            scoring = [manifest for manifest in known if manifest.scores]
            if known and not scoring:
                faults.add(
                    task.file,
                    task.line("verifiers"),
                    "verifiers: none of them has a check, so nothing would score the task",
                )
            elif known and not sum(manifest.weight for manifest in scoring) > 0:
                faults.add(
                    task.file,
                    task.line("verifiers"),
                    "verifiers: the weights of those that score sum to 0",
                )
        return faults.found

    def space(self, folder: Path) -> Space:
        """The modules of a resource."""
        if folder not in self._spaces:
            self._spaces[folder] = Space(folder, self.root)
        return self._spaces[folder]

    def close(self) -> None:
        """Forget all modules that were imported from it."""
        for space in self._spaces.values():
            space.close()
        self._spaces.clear()

    def _known(self, kind: Kind, name: str) -> None:
        names = self.names(kind)
        if name not in names:
            raise ConfigError(
                f"project {self.name!r} has no {kind} {name!r}; {nearest(name, names)}",
                file=self.root,
            )

    def _manifest(self, kind: Kind, name: str) -> object:
        self._known(kind, name)
        manifest, faults = self.read(kind, name)
        if faults:
            raise ProjectError(f"{kind} {name!r}", faults)
        return manifest

    def _why_missing(self, file: Path) -> str:
        other = file.with_suffix(".yml")
        if other.is_file():
            return f"{other.name} is not read; rename it to {file.name}"
        return (
            f"the folder {file.parent.name}/ has no {file.name}; write one, or move the folder out "
            f"of {file.parent.parent.name}/"
        )


@contextmanager
def _sources(what: str) -> Generator[None]:
    """What can't be read of a resource's files, as a fault of it."""
    try:
        yield
    except SourceError as error:
        fault = Fault(file=str(error.file), line=error.line, message=error.reason)
        raise ProjectError(what, [fault]) from None
    except TaskError as error:
        raise ConfigError(f"{what}: {error}") from None


def names_in(root: Path, kind: Kind) -> list[str]:
    """The names of a project's resources of a kind, sorted."""
    folder = root / f"{kind}s"
    if not folder.is_dir():
        return []
    return sorted(
        item.name
        for item in folder.iterdir()
        if item.is_dir() and item.name not in LEFT_OUT and not item.name.startswith(".")
    )


def project_root(start: Path) -> Path | None:
    """The nearest folder from here upward that has a trialog.yaml."""
    here = Path(os.path.abspath(start))
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    return None


def projects_around(tasks: Iterable[str]) -> set[Path]:
    """The folders of the projects that are around here or around one of the tasks."""
    roots = (project_root(Path(place)) for place in (".", *tasks))
    return {root for root in roots if root is not None}


def load_project(start: Path) -> Project:
    """The project that a folder is in; blocks. Raises ConfigError where there is none, and
    ProjectError for a trialog.yaml that can't be used."""
    root = project_root(start)
    if root is None:
        raise ConfigError(
            f"there is no {PROJECT_FILE} here or in a folder above; `trialog init NAME` makes a "
            "project",
            file=start,
        )
    faults = Faults()
    manifest = read_project(root.resolve() / PROJECT_FILE, faults)
    if manifest is None or faults.found:
        raise ProjectError(PROJECT_FILE, faults.found)
    return Project(manifest)


def project_defaults(here: Path) -> dict[str, Any]:
    """The settings of jobs that the project around here has; none where there is no project."""
    return load_project(here).defaults if project_root(here) is not None else {}


def project_review(here: Path) -> dict[str, str]:
    """What the project around here says of reviews; nothing where there is no project."""
    return load_project(here).manifest.review if project_root(here) is not None else {}
