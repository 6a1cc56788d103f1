"""An agent's slot, taken before its execution begins and given back once its work is saved."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio


class AgentSlot:
    """At most one of the limiter's tokens; leaving the context gives it back."""

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self._limiter = limiter
        self._taken = False

    async def take(self) -> None:
        """Wait for a token."""
        await self._limiter.acquire_on_behalf_of(self)
        self._taken = True

    def give_back(self) -> None:
        """Give the token back; again does nothing."""
        if self._taken:
            self._taken = False
            self._limiter.release_on_behalf_of(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give_back()
