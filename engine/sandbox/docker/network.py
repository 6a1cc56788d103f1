"""The network of this process's sandboxes that may use one."""

from __future__ import annotations

import secrets
from typing import Any

import anyio

from .api import Engine
from .labels import own_labels

NONE = "none"
"""The network of those that have none."""


class OwnNetwork:
    """A bridge for all of them, made when the first needs it; they can't reach each other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = anyio.Lock()
        self._made: str | None = None

    async def name(self) -> str:
        """The network's name."""
        async with self._lock:
            if self._made is None:
                name = f"trialog-{secrets.token_hex(6)}"
                options = {} if self._engine.is_podman else _APART
                request: dict[str, Any] = {
                    "Name": name,
                    "Driver": "bridge",
                    "Labels": own_labels(),
                    "Options": options,
                }
                await self._engine.json("POST", "networks/create", data=request)
                self._made = name
            return self._made

    async def lend(self, container: str) -> None:
        """Put a container that has no network, and does not run, into this one."""
        await self._move(container, NONE, await self.name())

    async def take_back(self, container: str) -> None:
        """Take it out again. Without any it might be put into another at its next start, so it is
        put into the one that is none."""
        await self._move(container, await self.name(), NONE)

    async def _move(self, container: str, out_of: str, into: str) -> None:
        for way, name in (("disconnect", out_of), ("connect", into)):
            data = {"Container": container}
            await self._engine.json("POST", f"networks/{name}/{way}", data=data)

    async def remove(self) -> None:
        """Remove it; what still uses it keeps it, until it is reaped."""
        if self._made is not None:
            await self._engine.remove_network(self._made)
            self._made = None


_APART = {"com.docker.network.bridge.enable_icc": "false"}
