"""What a verifier's files say of pytest. They are the task's own: no agent has touched them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

VARIABLES = ("TRIALOG_PYTEST", "BENCHFLOW_PYTEST")

_ASKS = re.compile(rb"\$\{?(?:TRIALOG|BENCHFLOW)_PYTEST(?![A-Za-z0-9_])")
_OTHER = re.compile(rb"(?<![\w$.-])(?:-m\s*)?(?:pytest|py\.test)(?![\w.-])")
_ISOLATED = re.compile(
    rb"python[\d.]*\s+(?:-\S+\s+)*-[A-Za-z]*[IE][A-Za-z]*\s+(?:-[XW]\s*\S+\s+|-\S+\s+)*"
    rb"(?:-m\s*|\S*/)(?:pytest|py\.test)(?![\w-])"
)
_LONGEST = 8 * 1024 * 1024
"""Bytes of a file that are read; a longer test asks in its first part."""


class Asked(msgspec.Struct, frozen=True):
    """What a verifier does with pytest."""

    protected: bool = False
    """It asks for the protected one."""
    other: bool = False
    """It may run another one as well, into which the guard has to be loaded."""
    isolated: bool = False
    """It runs another one in a way that keeps the guard out (``python3 -I -m pytest``)."""


def asked_by(texts: Iterable[bytes], env: Iterable[str] = ()) -> Asked:
    """From the verifier's files; `env` are the values of `verifier.env` as they are written."""
    protected = any(_ASKS.search(value.encode("utf-8", "replace")) for value in env)
    other = isolated = False
    for text in texts:
        protected = protected or _ASKS.search(text) is not None
        other = other or _OTHER.search(text) is not None
        isolated = isolated or _ISOLATED.search(text) is not None
    return Asked(protected, other, isolated)


def texts_of(folder: Path) -> Iterator[bytes]:
    """The files below a folder of the engine's own, each up to a limit. Blocks. Raises OSError."""
    for here, _, names in os.walk(folder):
        for name in names:
            path = Path(here, name)
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    yield file.read(_LONGEST)
