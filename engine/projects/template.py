"""First resources of a project: small, working, with comments that teach."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ...events.version import __version__
from ..errors import ConfigError
from ..tasks.files import present
from ..tasks.names import safe_name
from .first_files import (
    AGENT,
    ANSWER_VERIFIER,
    COUNTER,
    ENVIRONMENT,
    INSTALLED_AGENT,
    INSTALLED_PROGRAM,
    JUDGE,
    PERSON,
    POLICY,
    PROJECT,
    REACHED,
    REACHED_VERIFIER,
    RIGHT_ANSWER,
    STEADY,
    TASK,
    TASK_IN_PROJECT,
)
from .manifests import PROJECT_FILE
from .model import VerifierManifest
from .project import Kind, Project

_ANSWER = "right-answer"

JudgedBy = Literal["deterministic", "agent", "human"]
"""The kinds of verifiers."""


def init_project(path: Path) -> list[Path]:
    """Write a small whole project into a new or empty folder: the files that were written.

    Raises ConfigError for a folder that has something in it, and for a bad name.
    """
    folder = Path(os.path.abspath(path))
    name = _good(folder.name, "project")
    if present(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("is there already and not empty; give another name", file=folder)
    major, minor, *_ = __version__.split(".")
    return _write(
        folder,
        {
            PROJECT_FILE: PROJECT.format(name=name, range=f">={major}.{minor}"),
            "environments/counter/environment.yaml": ENVIRONMENT.format(name="counter"),
            "environments/counter/env.py": COUNTER,
            "tasks/count-to-ten/task.yaml": TASK,
            "verifiers/reached/verifier.yaml": REACHED_VERIFIER,
            "verifiers/reached/verify.py": REACHED,
            "agents/steady/agent.yaml": AGENT.format(name="steady"),
            "agents/steady/policy.py": STEADY,
        },
    )


def init_resource(
    project: Project,
    kind: Kind,
    name: str,
    *,
    installed: bool = False,
    judged_by: JudgedBy = "deterministic",
) -> list[Path]:
    """Write a first resource of a kind into the project: the files that were written.

    An agent is a policy in Python, or with `installed` a program that works in a sandbox. A
    verifier is code, or what `judged_by` names: a model (`agent`) or people (`human`).

    A task takes the project's first environment and the first verifier that scores; where there
    is none, one is written as well. Raises ConfigError for a name that is taken, or is none.
    """
    _good(name, kind)
    folder = project.file(kind, name).parent
    if present(folder):
        raise ConfigError(f"there is a {kind} {name!r} already; give another name", file=folder)
    match kind:
        case "environment":
            return _write(
                folder, {"environment.yaml": ENVIRONMENT.format(name=name), "env.py": COUNTER}
            )
        case "verifier" if judged_by != "deterministic":
            rubric = JUDGE if judged_by == "agent" else PERSON
            return _write(folder, {"verifier.yaml": rubric.format(name=name)})
        case "verifier":
            return _write(folder, _verifier(name))
        case "agent" if installed:
            manifest = INSTALLED_AGENT.format(name=name)
            return _write(folder, {"agent.yaml": manifest, "agent.sh": INSTALLED_PROGRAM})
        case "agent":
            return _write(folder, {"agent.yaml": AGENT.format(name=name), "policy.py": POLICY})
        case "task":
            return _task(project, folder, name)


def _verifier(name: str) -> dict[str, str]:
    return {"verifier.yaml": ANSWER_VERIFIER.format(name=name), "verify.py": RIGHT_ANSWER}


def _task(project: Project, folder: Path, name: str) -> list[Path]:
    scoring = [
        each
        for each in project.names("verifier")
        if isinstance(manifest := project.read("verifier", each)[0], VerifierManifest)
        and manifest.scores
    ]
    written: list[Path] = []
    if not scoring:
        place = project.file("verifier", _ANSWER).parent
        if present(place):
            raise ConfigError(
                f"no verifier of the project can score a task, and {_ANSWER!r} is taken; "
                "write a verifier with a check first",
                file=place,
            )
        written = _write(place, _verifier(_ANSWER))
        scoring = [_ANSWER]
    environments = project.names("environment")
    environment = f"environment: {environments[0]}" if environments else "# environment: NAME"
    text = TASK_IN_PROJECT.format(name=name, environment=environment, verifier=scoring[0])
    return [*written, *_write(folder, {"task.yaml": text})]


def _good(name: str, kind: str) -> str:
    if safe_name(name) != name:
        raise ConfigError(
            f"{name!r} is no good name for a {kind}: use up to 80 ASCII letters, digits, '.', '_' "
            "and '-', with a letter or digit first"
        )
    return name


def _write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    written: list[Path] = []
    try:
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            written.append(file)
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}", file=error.filename) from None
    return written
