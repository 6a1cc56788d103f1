"""What is wrong with a project, each fault at its file and line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..errors import ConfigError


class Fault(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One fault. Faults sort by file, then line."""

    file: str
    """Absolute."""
    line: int
    """From 1."""
    message: str

    def shown(self, here: Path | None = None) -> str:
        """``file:line: message``; the file as seen from a folder, where that is no detour."""
        file = self.file
        if here is not None:
            relative = os.path.relpath(file, here)
            file = file if relative.startswith("../..") else relative
        return f"{file}:{self.line}: {self.message}"


class ProjectError(ConfigError):
    """A project, or the part of it that was asked for, can't be used; all its faults at once."""

    def __init__(self, what: str, faults: Iterable[Fault]) -> None:
        self.what = what
        self.faults = sorted(set(faults))
        if len(self.faults) == 1:
            super().__init__(self.faults[0].shown())
        else:
            lines = "".join(f"\n  {fault.shown()}" for fault in self.faults)
            super().__init__(f"{len(self.faults)} faults in {what}:{lines}")
