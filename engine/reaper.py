"""Removal of sandboxes, off the trials' path: a stuck one holds nobody up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from .own_log import logger
from .sandbox.protocol import Sandbox

Removed = Callable[[float, str | None], Awaitable[None]]
"""Told when a sandbox is gone: the seconds it took, or why it is not gone."""

TRIES = 2


class Reaper:
    """Removes what it is given, each within a deadline, whatever is cancelled meanwhile."""

    def __init__(self, tasks: TaskGroup, *, deadline: float, at_once: int = 8) -> None:
        self.deadline = deadline
        self.left: list[str] = []
        """Sandboxes that could not be removed; `trialog clean` finds them by their labels."""
        self._tasks = tasks
        self._slots = anyio.CapacityLimiter(at_once)

    def take(self, sandbox: Sandbox, removed: Removed) -> None:
        """Remove a sandbox in the background."""
        self._tasks.start_soon(self._remove, sandbox, removed, name=f"remove {sandbox.id}")

    async def _remove(self, sandbox: Sandbox, removed: Removed) -> None:
        with anyio.CancelScope(shield=True):
            begun = anyio.current_time()
            error: str | None = None
            for attempt in range(TRIES):
                error = None
                try:
                    async with self._slots:
                        with anyio.fail_after(self.deadline):
                            await sandbox.remove()
                except TimeoutError:
                    error = f"not removed within {self.deadline:g} s"
                except Exception as fault:  # the sandbox's own fault must not end the job
                    error = str(fault) or type(fault).__name__
                if error is None:
                    break
                logger().warning(
                    "sandbox not removed", sandbox=sandbox.id, why=error, attempt=attempt
                )
            if error is not None:
                self.left.append(sandbox.id)
            await removed(anyio.current_time() - begun, error)


@asynccontextmanager
async def reaper(*, deadline: float) -> AsyncGenerator[Reaper]:
    """A reaper; leaving the context waits until all that it was given is removed."""
    async with anyio.create_task_group() as tasks:
        yield Reaper(tasks, deadline=deadline)
