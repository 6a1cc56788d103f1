"""A program in a sandbox that ``--keep-sandbox`` left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from ...events.codec import decode_known
from ...events.kinds import SandboxRemoved, SandboxStarted
from ...events.log import EventLog
from ..errors import CommandRefused, ConfigError, SandboxGone
from ..job.place import APART, KEPT
from .session import Request, opened

__all__ = ("kept_trials", "run_in_kept")


_ADVICE = "`trialog run --keep-sandbox` leaves sandboxes in place, until `trialog clean`"


async def run_in_kept(request: Request, trial: str, command: Sequence[str]) -> int:
    """``trialog exec``; gives the program's own exit code."""
    words = list(command[1:] if command[:1] == ["--"] else command)
    if not words:
        raise ConfigError("no program was given; write `trialog exec TRIAL -- CMD`")
    async with opened(request, trial) as session:
        name = await session.trial(trial)
        sandbox = await _kept_sandbox(session.log, name)
    try:
        if sandbox.backend == "docker":
            from ..sandbox.docker import exec_in as exec_in_container

            return await exec_in_container(sandbox.sandbox_id, words, workdir=sandbox.workspace)
        from ..sandbox.bubblewrap import exec_in

        apart = anyio.Path(session.place.folder / KEPT / f"{name}{APART}")
        kept = Path(apart) if await apart.exists() else session.place.folder / KEPT / name
        return await exec_in(kept, words)
    except SandboxGone as error:
        raise CommandRefused(f"the sandbox of trial {name} is gone: {error}; {_ADVICE}") from error


async def kept_trials(jobs_folder: Path) -> frozenset[str]:
    """Trials of which a sandbox is still there."""

    def listed() -> frozenset[str]:
        try:
            return frozenset(n.removesuffix(APART) for n in os.listdir(jobs_folder / KEPT))
        except OSError:
            return frozenset()

    return await to_thread.run_sync(listed)


async def _kept_sandbox(log: EventLog, trial: str) -> SandboxStarted:
    """The trial's newest sandbox. Raises CommandRefused where it is not there any more."""
    sandbox: SandboxStarted | None = None
    for event in await log.read(f"trial/{trial}"):
        match decode_known(event):
            case SandboxStarted() as started:
                sandbox = started
            case SandboxRemoved(kept=False):
                sandbox = None
            case _:
                pass
    if sandbox is None:
        raise CommandRefused(f"the sandbox of trial {trial} was removed; {_ADVICE}")
    return sandbox
