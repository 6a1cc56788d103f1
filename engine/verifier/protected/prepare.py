"""Preparing pytest for one trial's verifier, as far as its task asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from anyio import to_thread

from ....events.errors import TrialogError
from ...sandbox.protocol import OLDEST_PYTHON, PYTHON_PLACES, Sandbox
from ...trial.folders import TOOLS_FOLDER, TrialFolders
from . import tools
from .asking import Asked
from .watch import GuardWatch

_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_NO_PACKAGE = re.compile(r"__pycache__|.*\.(?:dist-info|egg-info|pth|egg-link|virtualenv)")


class PytestNeedsPython(TrialogError):
    """The task asks for the protected pytest, and its image has nothing to run it with."""

    category = "pytest_needs_python"

    def __init__(self) -> None:
        folders = ", ".join(place.rpartition("/")[0] for place in PYTHON_PLACES)
        super().__init__(
            "the task asks for $TRIALOG_PYTEST, and its image has no root-owned python3 of at "
            f"least {'.'.join(map(str, OLDEST_PYTHON))} in {folders}; install python3 there"
        )


class GuardKeptOut(TrialogError):
    """A pytest was run into which the guard could not be loaded."""

    category = "pytest_guard_not_loaded"

    def __init__(self) -> None:
        super().__init__(
            "pytest could not load the plugin guard; run the tests with $TRIALOG_PYTEST, and no "
            "other pytest under python3 -I"
        )


class Prepared(msgspec.Struct, frozen=True):
    """What a verifier's command needs for it."""

    env: dict[str, str]
    starter: list[str]
    """Words before the command's own."""
    watch: GuardWatch


async def prepare_pytest(sandbox: Sandbox, folders: TrialFolders, asked: Asked) -> Prepared:
    """Fill the folder of tools where a verifier has asked for it; else the stand-in is there.

    Raises PytestNeedsPython, SandboxError, OSError.
    """
    variables = tools.variables(TOOLS_FOLDER)
    if not asked.protected:
        return Prepared(variables, [], GuardWatch(asked, ""))
    python = await sandbox.find_python()
    if python is None:
        raise PytestNeedsPython
    setup = tools.Setup(
        python=python,
        roots=folders.verifier_targets,
        changed=sorted(changed_packages(await sandbox.changed_outside() or [])),
    )
    guard = await to_thread.run_sync(tools.fill, folders.tools, TOOLS_FOLDER, setup)
    starter = ["/bin/sh", f"{TOOLS_FOLDER}/{tools.STARTER}"]
    return Prepared(variables, starter, GuardWatch(asked, guard))


def changed_packages(paths: Iterable[str]) -> set[str]:
    """Top-level names of the packages that these paths are of."""
    names = {match[1] for path in paths if (match := _PACKAGE.search(path))}
    return {name.partition(".")[0] for name in names if not _NO_PACKAGE.fullmatch(name)}
