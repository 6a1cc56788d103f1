"""A command at work: its terminal, its log, and where it was started."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from ...events.log import EventLog
from ..location import LogPlace, NotFound, find_log
from .terminal import Terminal

__all__ = ("Request", "Session", "opened", "shown_path")


class Request(NamedTuple):
    """What every command is given."""

    terminal: Terminal
    here: Path
    environ: Mapping[str, str]
    log: str | None = None
    jobs_folder: str | None = None


class Session(NamedTuple):
    """A request with its log open."""

    request: Request
    place: LogPlace
    log: EventLog
    log_id: str

    @property
    def terminal(self) -> Terminal:
        """Both streams."""
        return self.request.terminal

    def shown(self, folder: Path) -> str:
        """A folder's path for people: as short as `trialog` in this folder understands it."""
        return shown_path(folder, self.request)


def shown_path(path: Path, request: Request) -> str:
    """A path as it was given: below the given folder of jobs, or seen from here."""
    if request.jobs_folder:
        base = Path(request.here, request.jobs_folder)
        if path.is_relative_to(base):
            return str(Path(request.jobs_folder) / path.relative_to(base))
    relative = os.path.relpath(path, request.here)
    return str(path) if relative.startswith("../../..") else relative
