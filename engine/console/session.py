"""A command at work: its terminal, its log, and where it was started."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread

from ...events.log import EventLog
from ..location import LogPlace, NotFound, find_job, find_log, find_trial
from .terminal import Terminal

__all__ = ("Request", "Session", "author", "opened", "place_of")


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

    @property
    def terminal(self) -> Terminal:
        """Both streams."""
        return self.request.terminal

    async def job(self, text: str) -> str:
        """The id of the job that the user named."""
        return await find_job(self.log, self.place, text, self.request.here)

    async def trial(self, text: str) -> str:
        """The name of the trial that the user named."""
        return await find_trial(self.log, self.place, text, self.request.here)

    async def job_or_trial(self, text: str) -> tuple[str, bool]:
        """The job of that name if there is one, else the trial; and whether it is a job."""
        try:
            return await self.job(text), True
        except NotFound as no_job:
            try:
                return await self.trial(text), False
            except NotFound as no_trial:
                raise (no_trial if "fits" in str(no_trial) else no_job) from None

    def shown(self, path: Path) -> str:
        """A path for people: below the folder as it was given, else as seen from here."""
        given, here = self.request.jobs_folder or self.request.log, self.request.here
        if given and path.is_relative_to(self.place.folder):
            base = Path(given) if self.request.jobs_folder else Path(given).parent
            return str(base / path.relative_to(self.place.folder))
        relative = os.path.relpath(path, here)
        return str(path) if relative.startswith("../../..") else relative


@asynccontextmanager
async def opened(
    request: Request, thing: str | None = None, *, readonly: bool = True, create: bool = False
) -> AsyncGenerator[Session]:
    """The log of a command, open. `thing` is the job or trial that it was given.

    Raises NotFound where there is no log and none is to be made.
    """
    from ...events.open import open_log

    place = await to_thread.run_sync(place_of, request, thing)
    if not create and not await to_thread.run_sync(place.path.exists):
        raise NotFound(
            f"there is no log at {place.path} ({place.reason}); "
            "give the log with --log, or run the command where jobs/ is"
        )
    async with open_log(place.path, readonly=readonly, create=create) as log:
        yield Session(request, place, log)


def place_of(request: Request, thing: str | None) -> LogPlace:
    """Which log a command means; blocks."""
    return find_log(
        log=request.log,
        jobs_folder=request.jobs_folder,
        thing=thing,
        environ=request.environ,
        here=request.here,
    )


def author() -> str:
    """Who is at work, for what goes into the log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"uid {os.getuid()}"
