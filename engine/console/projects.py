"""For authors of projects: first files, and the check of everything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..projects.project import KINDS, Kind, Project, load_project
from ..projects.template import JudgedBy, init_project, init_resource
from ..projects.validate import validate, validate_verifier
from .failure import EXIT_FAILED, EXIT_OK
from .session import Request
from .text import escaped, plural

__all__ = ("make_project", "make_resource", "validate_project")


def make_project(request: Request, path: Path) -> int:
    """``trialog init``; gives the exit code."""
    written = init_project(Path(request.here, path))
    _tell(request, written)
    task, agent = (
        next(file.parent.name for file in written if file.name == name)
        for name in ("task.yaml", "agent.yaml")
    )
    request.terminal.message(
        f"note: in {escaped(path)}, `trialog validate` checks it, and "
        f"`trialog run {task} -a {agent}` runs it"
    )
    return EXIT_OK


def make_resource(
    request: Request,
    kind: Kind,
    name: str,
    *,
    installed: bool = False,
    judged_by: JudgedBy = "deterministic",
) -> int:
    """``trialog KIND init``; gives the exit code."""
    project = load_project(request.here)
    _tell(request, init_resource(project, kind, name, installed=installed, judged_by=judged_by))
    uses = {
        "environment": "; a task names it as its `environment`",
        "verifier": "; a task lists it under `verifiers`, and `trialog verifier try` needs none",
        "agent": f"; `trialog run TASK -a {escaped(name)}` runs it",
    }
    request.terminal.message(
        f"note: change it to your own; `trialog validate` checks it{uses.get(kind, '')}"
    )
    return EXIT_OK


def validate_project(request: Request, *, verifier: str | None = None) -> int:
    """``trialog validate`` and ``trialog verifier validate``; gives the exit code."""
    terminal = request.terminal
    project = load_project(request.here)
    if verifier is None:
        faults = validate(project)
    else:
        faults = validate_verifier(project, verifier)
    if terminal.json:
        terminal.data({"project": project.name, "ok": not faults, "faults": faults})
        return EXIT_FAILED if faults else EXIT_OK
    for fault in faults:
        terminal.line(escaped(fault.shown(request.here)))
    if faults:
        terminal.message(f"error: {plural(len(faults), 'fault')}")
        return EXIT_FAILED
    terminal.line(f"ok: {f'verifier {verifier}' if verifier else _counted(project)}")
    return EXIT_OK


def _counted(project: Project) -> str:
    counts = ", ".join(plural(len(project.names(kind)), kind) for kind in KINDS)
    return f"project {escaped(project.name)}: {counts}"


def _tell(request: Request, written: Sequence[Path]) -> None:
    for file in written:
        request.terminal.line(escaped(os.path.relpath(file, request.here)))
