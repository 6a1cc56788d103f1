"""What is wrong with a project, each fault at its file and line."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ..errors import ConfigError

PREFIX = "_trialog_space_"
"""How the names begin that authors' modules have in this process; see importing.py."""

UNIMPORTABLE = "can't be imported: "


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


@contextmanager
def imports(what: str, root: Path, manifest: Path, line: int) -> Generator[None]:
    """Whatever the project's own code raises while it is imported, as a fault at its line.

    Raises ProjectError; our own ConfigErrors come through as they are.
    """
    try:
        yield
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:
        place, message = raised(error, root)
        file, at = place or (str(manifest), line)
        raise ProjectError(what, [Fault(file=file, line=at, message=message)]) from error


def raised(error: BaseException, root: Path) -> tuple[tuple[str, int] | None, str]:
    """Where in the project's own files an import failed (null: nowhere there), and how."""
    if isinstance(error, SyntaxError) and error.filename:
        return (error.filename, error.lineno or 1), f"no valid Python: {error.msg}"
    message = UNIMPORTABLE + traceback.format_exception_only(error)[-1].strip()
    message = re.sub(rf"\b{PREFIX}\d+\.", "", message)  # names as they were written
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(root):
            return (frame.filename, frame.lineno or 1), message
    return None, message
