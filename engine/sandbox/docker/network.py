"""The network of this process's sandboxes that may use one."""

from __future__ import annotations

import secrets
from typing import Any

import anyio

from .api import Engine
from .labels import own_labels


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

    async def remove(self) -> None:
        """Remove it; what still uses it keeps it, until it is reaped."""
        if self._made is not None:
            await self._engine.remove_network(self._made)
            self._made = None


_APART = {"com.docker.network.bridge.enable_icc": "false"}
