"""The folder with the protected pytest, or its stand-in, as the verifier sees it read-only."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...sandbox.protocol import Python
from .asking import VARIABLES

BUNDLE = Path(__file__).with_name("bundle.zip")
"""pytest and what it needs, as their wheels hold it; made by tools/bundle_pytest.py."""
INSIDE = Path(__file__).with_name("inside")

PROGRAM = "pytest"
STARTER = "start"

STAND_IN = """\
#!/bin/sh
echo 'No pytest was prepared, because nothing in this task asks for it: put the text'
echo '$TRIALOG_PYTEST into a file of the verifier (a comment is enough) or into verifier.env.'
exit 4
"""

_STARTER = """\
PYTHONPATH="{place}/guard${{PYTHONPATH:+:$PYTHONPATH}}"
PYTEST_PLUGINS="{guard}${{PYTEST_PLUGINS:+,$PYTEST_PLUGINS}}"
export PYTHONPATH PYTEST_PLUGINS
exec "$@"
"""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What the protected pytest is made for."""

    python: Python
    roots: Sequence[str]
    """Where the verifier's folder is seen inside."""
    changed: Sequence[str]
    """Top-level names among the image's packages that the agent installed or changed."""


def variables(place: str) -> dict[str, str]:
    """The variables that name the program; `place` is the folder's path inside."""
    return dict.fromkeys(VARIABLES, f"{place}/{PROGRAM}")


def fill_stand_in(folder: Path) -> None:
    """Write the program that says why there is no pytest. Blocks."""
    _write(folder / PROGRAM, STAND_IN, 0o755)


def fill(folder: Path, place: str, setup: Setup) -> str:
    """Write all that the protected pytest is made of; the name of this trial's guard. Blocks."""
    guard = f"trialog_guard_{secrets.token_hex(8)}"
    import zipfile  # slow to import, and few tasks ask for it

    with zipfile.ZipFile(BUNDLE) as bundle:
        for name in bundle.namelist():
            _write(folder / "lib" / name, bundle.read(name))
    launcher = (INSIDE / "launch.py").read_text("utf-8")
    _write(folder / PROGRAM, f"#!{setup.python.path} -IS\n{launcher}", 0o755)
    _write(folder / "own" / "trialog_protected.py", (INSIDE / "protected.py").read_text("utf-8"))
    _write(folder / "guard" / f"{guard}.py", (INSIDE / "guard.py").read_text("utf-8"))
    _write(folder / "pytest.ini", "[pytest]\n")
    settings = {
        "roots": list(setup.roots),
        "changed": sorted(setup.changed),
        "check_owner": not setup.python.judged_outside,
    }
    _write(folder / "settings.json", msgspec.json.encode(settings).decode())
    _write(folder / STARTER, _STARTER.format(place=place, guard=guard))
    return guard


def _write(file: Path, content: str | bytes, mode: int = 0o644) -> None:
    _make_folder(file.parent)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(mode)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask is
