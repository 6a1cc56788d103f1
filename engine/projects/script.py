"""Tasks that are written in plain Python, as projects: so that a job can keep them.

A verifier's functions, an environment's apps and an agent's policy come from Python files. What a
job keeps is a project that is made of these files, those that they import, and manifests that say
the same as the objects. From then on the task is one of a project like any other.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from ..authoring.environment import Environment
from ..authoring.task import Task
from ..authoring.verifiers import DeterministicVerifier, Verifier, total_reward
from ..errors import ConfigError
from ..tasks.files import Bounds, walk
from ..tasks.names import safe_name
from .faults import UNIMPORTABLE, ProjectError, imports
from .manifests import PROJECT_FILE, TOTAL_REWARD
from .modules import imported
from .places import place_of
from .project import load_project
from .resources import ProjectTask
from .snapshot import pack_project_task
from .writing import NotStored, manifest_text


def snapshot_of(task: Task, agent: Any = None, *, agent_name: str = "agent") -> bytes:
    """The snapshot of a task in plain Python, and of the policy (a class or function) if there is
    one; blocks. `unpack_project_task` gives it back as a project's task.

    Raises ConfigError for a function or class that can't be found again in a file.
    """
    with tempfile.TemporaryDirectory(prefix="trialog-script-") as folder:
        root = Path(folder).resolve()
        found = write_project(task, root, agent, agent_name=agent_name)
        return pack_project_task(found, *found.agents.values())


def write_project(
    task: Task, root: Path, agent: Any = None, *, agent_name: str = "agent"
) -> ProjectTask:
    """The same as a project in an empty folder."""
    if not task.verifiers:
        raise ConfigError(f"task {task.name!r} has no verifiers, so nothing would score it")
    writer = _Writer(root)
    writer.manifest(PROJECT_FILE, {"name": _named("task", task.name)})
    writer.environment(task.environment)
    for verifier in task.verifiers:
        writer.verifier(verifier)
    view = task.view
    writer.manifest(
        f"tasks/{task.name}/task.yaml",
        {
            "name": task.name,
            "instructions": view.instructions,
            "environment": _named("environment", task.environment.name),
            "verifiers": [verifier.name for verifier in task.verifiers],
            "expected": view.expected,
            "info": view.info or None,
            "metadata": view.metadata or None,
            "initial_state": view.initial_state,
        },
    )
    if agent is not None:
        where = f"agents/{_named('agent', agent_name)}"
        python = writer.reference(f"agent {agent_name!r}", agent, where)
        writer.manifest(f"{where}/agent.yaml", {"name": agent_name, "python": python})
    project = load_project(root)
    try:
        found = project.task(task.name)
        if agent is not None:
            found.agents[agent_name] = project.agent(agent_name)
    except ProjectError as error:
        faults = "; ".join(
            f"{Path(fault.file).parent.name}: {fault.message}" for fault in error.faults
        )
        raise ConfigError(f"task {task.name!r} can't be used: {faults}") from None
    _import_again(found)
    return found


def _import_again(task: ProjectTask) -> None:
    """Import all code once from its copy, as everything that runs it will.

    Raises ConfigError where that fails: now rather than in the middle of a job.
    """
    project = load_project(task.root)
    try:
        again = project.task(task.name)
        _ = again.task
        for verifier in again.verifiers:
            manifest = verifier.manifest
            with imports(f"verifier {verifier.name!r}", task.root, manifest.file, 1):
                for reference in (manifest.check, manifest.reward, manifest.hindsight):
                    if isinstance(reference, str) and reference != TOTAL_REWARD:
                        project.space(manifest.folder).load(reference)
        for name in task.agents:
            project.agent(name).policy()
    except ProjectError as error:
        [fault] = error.faults
        raise ConfigError(
            f"task {task.name!r}: its code can't be imported a second time: "
            f"{fault.message.removeprefix(UNIMPORTABLE)} "
            f"(line {fault.line} of {Path(fault.file).name})"
        ) from error
    finally:
        project.close()


class _Writer:
    """Writes a project's files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._copied: dict[str, Path] = {}

    def manifest(self, path: str, values: dict[str, Any]) -> None:
        """One manifest."""
        for key, value in values.items():
            try:
                values[key] = msgspec.json.decode(msgspec.json.encode(value))
                manifest_text({key: values[key]})
            except (TypeError, ValueError, msgspec.MsgspecError, NotStored) as error:
                raise ConfigError(
                    f"{key} of {path.rpartition('/')[0] or 'the task'} can't be kept: {error}; "
                    "give values that JSON has"
                ) from None
        self._write(path, manifest_text(values).encode(), None)

    def environment(self, environment: Environment) -> None:
        """An environment and its apps."""
        where = f"environments/{_named('environment', environment.name)}"
        apps = [
            {
                "python": self.reference(f"app {name!r}", kind, where),
                "name": name,
                "settings": environment.settings.get(name) or None,
                "control": kind.control,
            }
            for name, kind in environment.apps.items()
        ]
        self.manifest(
            f"{where}/environment.yaml",
            {
                "name": environment.name,
                "apps": [{k: v for k, v in app.items() if v is not None} for app in apps],
                "max_turns": environment.max_turns,
                "max_seconds": environment.max_seconds,
                "max_cost": environment.max_cost,
            },
        )

    def verifier(self, verifier: Verifier) -> None:
        """A verifier and its functions."""
        where = f"verifiers/{_named('verifier', verifier.name)}"
        common = {
            "name": verifier.name,
            "version": verifier.version,
            "kind": verifier.kind,
            "weight": verifier.weight,
        }
        if isinstance(verifier, DeterministicVerifier):
            values = self._hooks(verifier, where)
        else:
            values = {
                "model": getattr(verifier, "model", None),
                "samples": getattr(verifier, "samples", None),
                "max_cost": getattr(verifier, "max_cost", None),
                "timeout_sec": getattr(verifier, "timeout_sec", None),
                "instructions": verifier.instructions,
                "criteria": [msgspec.to_builtins(each) for each in verifier.criteria],
            }
        self.manifest(f"{where}/verifier.yaml", {**common, **values})

    def _hooks(self, verifier: DeterministicVerifier, where: str) -> dict[str, Any]:
        what = f"verifier {verifier.name!r}"
        folder = None if verifier.folder is None else Path(verifier.folder).resolve()
        if folder is not None:
            self._folder(folder, where)
        values: dict[str, Any] = {"timeout_sec": verifier.timeout_sec}
        for hook in ("check", "reward", "hindsight"):
            given: Any = getattr(verifier, hook)
            if given is None:
                continue
            if given is total_reward:
                values[hook] = TOTAL_REWARD
            elif callable(given):
                values[hook] = self.reference(f"{what}: its {hook}", given, where, folder)
            elif folder is None:
                raise ConfigError(
                    f"{what} has a command as its check, which runs in the verifier's folder; "
                    "give folder="
                )
            else:
                values[hook] = msgspec.convert(given, list[str])
        return values

    def reference(self, what: str, thing: Any, where: str, folder: Path | None = None) -> str:
        """``file.py:name`` as seen from a resource's folder, with its file copied."""
        place = place_of(what, thing)
        for file in imported([place.file], folder=folder or place.root, root=place.root):
            if folder is None or not file.is_relative_to(folder):
                self._write(file.relative_to(place.root).as_posix(), file.read_bytes(), file)
        if folder is None:
            up = "../" * (where.count("/") + 1)
            return f"{up}{place.file.relative_to(place.root).as_posix()}:{place.name}"
        if not place.file.is_relative_to(folder):
            raise ConfigError(f"{what} is not in the verifier's folder {folder}", file=place.file)
        return f"{place.file.relative_to(folder).as_posix()}:{place.name}"

    def _folder(self, folder: Path, where: str) -> None:
        for entry in walk(folder, Bounds(folder, folder), lambda _: True):
            if entry.kind == "file" and entry.path != "verifier.yaml":
                self._write(f"{where}/{entry.path}", entry.place.read_bytes(), entry.place)
                (self.root / where / entry.path).chmod(entry.mode | 0o400)

    def _write(self, path: str, data: bytes, source: Path | None) -> None:
        target = self.root / path
        if target.exists():
            if target.read_bytes() != data:
                raise ConfigError(
                    f"two files are imported as {path}, {self._copied.get(path)} and {source}; "
                    "rename one"
                )
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if source is not None:
            self._copied[path] = source


def _named(kind: str, name: str) -> str:
    """A name that a folder can have."""
    if safe_name(name) != name:
        raise ConfigError(
            f"{name!r} is no good name for a {kind}: use up to 80 ASCII letters, digits, '.', '_' "
            "and '-', with a letter or digit first"
        )
    return name
