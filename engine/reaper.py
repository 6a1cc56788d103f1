"""Removal of sandboxes, off the trials' path: a stuck one holds nobody up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
import structlog
from anyio.abc import TaskGroup

from .sandbox.protocol import Sandbox

Removed = Callable[[float, str | None], Awaitable[None]]
"""Told when a sandbox is gone: the seconds it took, or why it is not gone."""

TRIES = 2


class Reaper:
    """Removes what it is given, each within a deadline; leaving the context waits for all."""

    def __init__(self, *, deadline: float, at_once: int = 8) -> None:
        self.deadline = deadline
        self.left: list[str] = []
        """Sandboxes that could not be removed; `trialog clean` finds them by their labels."""
        self._slots = anyio.CapacityLimiter(at_once)
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._tasks is not None
        return await self._tasks.__aexit__(kind, error, traceback)

    def take(self, sandbox: Sandbox, removed: Removed) -> None:
        """Remove a sandbox in the background, whatever is cancelled meanwhile."""
        assert self._tasks is not None
        self._tasks.start_soon(self._remove, sandbox, removed, name=f"remove {sandbox.id}")

    async def _remove(self, sandbox: Sandbox, removed: Removed) -> None:
        log = structlog.get_logger()
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
                log.warning("sandbox not removed", sandbox=sandbox.id, why=error, attempt=attempt)
            if error is not None:
                self.left.append(sandbox.id)
            await removed(anyio.current_time() - begun, error)
