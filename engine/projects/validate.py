"""Checking a whole project: every manifest, every reference, every function imported."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, cast

import msgspec

from ..errors import TaskError
from .faults import Fault, ProjectError
from .files import resource_entries
from .manifests import TOTAL_REWARD
from .model import AgentManifest, EnvironmentManifest, TaskManifest, VerifierManifest
from .modules import SourceError
from .probe import Found, Question, Role
from .project import KINDS, Project

IMPORT_SECONDS = 30.0
"""How long a file may take to import."""


class _Asked(NamedTuple):
    """A question, and where in the manifests its answer belongs."""

    question: Question
    file: Path
    line: int
    key: str
    app_lines: tuple[int, ...] = ()
    tasks: tuple[TaskManifest, ...] = ()


def validate(project: Project, *, seconds: float = IMPORT_SECONDS) -> list[Fault]:
    """Every fault of a project, sorted by file and line; blocks.

    Functions and classes are imported in a process of their own, each within `seconds`.
    """
    faults: list[Fault] = []
    asked: list[_Asked] = []
    for kind in KINDS:
        for name in project.names(kind):
            manifest, found = project.read(kind, name)
            faults += found
            if isinstance(manifest, TaskManifest):
                faults += project.reference_faults(manifest)
            if manifest is None or found or isinstance(manifest, TaskManifest):
                continue
            unread = list(_unread(project, manifest))
            faults += unread
            if not unread:
                asked += _questions(project, manifest)
    faults += _answers(asked, project.root, seconds)
    return sorted(set(faults))


def validate_verifier(
    project: Project, name: str, *, seconds: float = IMPORT_SECONDS
) -> list[Fault]:
    """Every fault of one verifier. Raises ConfigError for a name that the project does not have."""
    try:
        manifest = project.verifier(name).manifest
    except ProjectError as error:
        return error.faults
    return sorted(set(_answers(list(_questions(project, manifest)), project.root, seconds)))


def _unread(project: Project, manifest: object) -> Iterator[Fault]:
    """What of a resource's files can't be read, or is no Python."""
    coded = cast("EnvironmentManifest | VerifierManifest | AgentManifest", manifest)
    try:
        resource_entries(coded, project.root)
    except SourceError as error:
        yield Fault(file=str(error.file), line=error.line, message=error.reason)
    except TaskError as error:
        message = str(error).removeprefix(f"{error.file}: ")
        yield Fault(file=str(error.file or coded.file), line=1, message=message)


def _questions(project: Project, manifest: object) -> Iterator[_Asked]:
    root = str(project.root)
    match manifest:
        case EnvironmentManifest():
            tasks = [
                task
                for name in project.names("task")
                if isinstance(task := project.read("task", name)[0], TaskManifest)
                and task.environment == manifest.name
            ]
            question = Question(
                role="environment",
                folder=str(manifest.folder),
                root=root,
                apps=manifest.apps,
                states={task.name: task.initial_state for task in tasks},
            )
            lines = tuple(
                manifest.line(f"apps[{index}].python") for index in range(len(manifest.apps))
            )
            yield _Asked(
                question, manifest.file, manifest.line("apps"), "apps", lines, tuple(tasks)
            )
        case VerifierManifest():
            roles: tuple[Role, ...] = ("check", "reward", "hindsight")
            for role in roles:
                reference: object = getattr(manifest, role)
                if isinstance(reference, str) and reference != TOTAL_REWARD:
                    question = Question(
                        role=role, folder=str(manifest.folder), root=root, reference=reference
                    )
                    yield _Asked(question, manifest.file, manifest.line(role), role)
        case AgentManifest() if manifest.python is not None:
            question = Question(
                role="policy", folder=str(manifest.folder), root=root, reference=manifest.python
            )
            yield _Asked(question, manifest.file, manifest.line("python"), "python")
        case _:
            pass


def _answers(asked: list[_Asked], root: Path, seconds: float) -> Iterator[Fault]:
    if not asked:
        return
    ended: set[tuple[str, str]] = set()
    with _Prober(root, seconds) as prober:
        for one in asked:
            file = (one.question.folder, one.question.reference.partition(":")[0])
            if file in ended:
                continue  # told already, and it would end the process again
            for found in prober.ask(one.question):
                if found.ended:
                    ended.add(file)
                yield _fault(one, found)


def _fault(asked: _Asked, found: Found) -> Fault:
    """A finding at its place."""
    if found.file is not None:
        return Fault(file=found.file, line=found.line, message=found.message)
    task = next((task for task in asked.tasks if task.name == found.task), None)
    if task is not None:
        return Fault(file=str(task.file), line=task.line("initial_state"), message=found.message)
    line, key = asked.line, asked.key
    if found.app is not None:
        line, key = asked.app_lines[found.app], f"apps[{found.app}].python"
    return Fault(file=str(asked.file), line=line, message=f"{key}: {found.message}")


class _Prober:
    """The process that imports; started again whenever a file has ended it."""

    def __init__(self, root: Path, seconds: float) -> None:
        self._root = root
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Prober:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def ask(self, question: Question) -> list[Found]:
        """What is wrong with what the question names."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(question) + b"\n")
            process.stdin.flush()
            line = self._line(process.stdout.fileno())
        except BrokenPipeError:
            line = b""
        if line is not None and line.endswith(b"\n"):
            return msgspec.json.decode(line, type=list[Found])
        status = self._end()
        if line is None:
            return [Found(message=f"importing it took over {self._seconds:g} seconds", ended=True)]
        return [Found(message=f"importing it ended the process ({_how(status)})", ended=True)]

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", probe_module()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._root,
            start_new_session=True,
        )
        return self._process

    def _line(self, stream: int) -> bytes | None:
        """The next line; what there is of it at the end; None when it does not come in time."""
        parts = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not parts.endswith(b"\n"):
                if not selector.select(self._seconds):
                    return None
                chunk = os.read(stream, 65536)
                if not chunk:
                    break
                parts += chunk
        return bytes(parts)

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        with process:
            if process.stdin is not None:
                process.stdin.close()
            try:
                status = process.wait(0.5)
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.wait()
            return status


def _how(status: int | None) -> str:
    if status is None:
        return "without a word"
    return f"signal {-status}" if status < 0 else f"exit code {status}"


def probe_module() -> str:
    """The name that the process runs by."""
    return f"{__package__}.probe"
