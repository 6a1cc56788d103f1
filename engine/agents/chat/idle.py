"""Ending an agent of which nothing is heard."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio


class IdleWatch:
    """Cancels `scope` once nothing was heard for so many seconds (null: never).

    What counts is a piece of a model's answer, what commands print, and the beginning and the end
    of each call and command. Waits of the engine's own do not: for a free slot, or before a try.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._heard_at = anyio.current_time()
        self._pauses = 0
        self.scope = anyio.CancelScope()

    @property
    def ended(self) -> bool:
        """Whether it has ended the agent."""
        return self.scope.cancelled_caught

    def heard(self) -> None:
        """Something was heard."""
        self._heard_at = anyio.current_time()

    @contextmanager
    def pausing(self) -> Generator[None]:
        """Around a wait that is the engine's own."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.heard()

    async def run(self) -> None:
        """Watch, until cancelled or at the end of patience."""
        if self._seconds is None:
            return
        while True:
            if self._pauses:
                self.heard()
            left = self._heard_at + self._seconds - anyio.current_time()
            if left <= 0:
                self.scope.cancel()
                return
            await anyio.sleep(left)
