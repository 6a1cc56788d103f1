"""What engines that died left behind, and what was kept: sandboxes, processes, folders."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from ...events.codec import decode_or_none
from ...events.errors import LogError, said
from ...events.kinds import TrialStarted
from ...events.log import EventLog
from ..archive import remove_tree
from ..errors import JobLocked, SandboxError, SandboxUnavailable
from ..job.lock import own
from ..job.place import KEPT
from ..own_log import logger
from ..sandbox.choose import choose
from ..scratch import sweep
from .failure import EXIT_FAILED, EXIT_OK
from .session import Request, opened, place_of
from .text import escaped, plural

__all__ = ("clean_up",)


async def clean_up(request: Request, *, sandbox: str) -> int:
    """``trialog clean``; gives the exit code."""
    terminal = request.terminal
    gone: list[tuple[str, str]] = []
    code = EXIT_OK
    for name in ("docker", "bubblewrap") if sandbox == "auto" else (sandbox,):
        try:
            backend = await choose(name)
        except SandboxUnavailable as error:
            if sandbox != "auto":
                raise
            logger().info("no such sandbox here", sandbox=name, why=str(error))
            continue
        try:
            gone += [(name, thing) for thing in await backend.reap()]
        except SandboxError as error:
            terminal.message(f"error: {name}: {escaped(error)}")
            code = EXIT_FAILED
        finally:
            await backend.aclose()
    try:
        gone += [("folder", name) for name in await _folders(request)]
    except (LogError, OSError) as error:
        terminal.message(f"error: {escaped(said(error))}")
        code = EXIT_FAILED
    for kind, thing in gone:
        if terminal.json:
            terminal.data({"kind": kind, "removed": thing})
        else:
            terminal.line(f"removed ({kind}): {escaped(thing)}")
    if not terminal.json:
        terminal.line(f"{plural(len(gone), 'thing')} removed" if gone else "nothing was left")
    return code


async def _folders(request: Request) -> list[str]:
    """Remove the folders below the log's: of dead engines, and of sandboxes that were kept."""
    place = await to_thread.run_sync(place_of, request, None)
    gone = await to_thread.run_sync(sweep, place.folder)
    kept = await to_thread.run_sync(_listed, place.folder / KEPT)
    if not kept:
        return gone
    async with opened(request) as session:
        for folder in kept:
            if await _is_over(session.log, place.folder, folder.name):
                await to_thread.run_sync(remove_tree, folder)
                gone.append(f"{KEPT}/{folder.name}")
    return gone


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


async def _is_over(log: EventLog, jobs_folder: Path, trial: str) -> bool:
    """Whether no process runs the trial's job any more."""
    first = await log.read(f"trial/{trial}", limit=1)
    started = decode_or_none(first[0]) if first else None
    if not isinstance(started, TrialStarted):
        return True
    try:
        async with own(jobs_folder, started.job):
            return True
    except JobLocked:
        return False
