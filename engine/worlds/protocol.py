"""A world as the engine sees it, wherever its apps live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..authoring.app import ActionSpec
from .world import Acted, World, WorldReset


class WorldClient(Protocol):
    """The world of one trial. Every method may raise AppFault, or SandboxGone when its process is
    gone; after that the world is of no more use."""

    async def reset(self) -> WorldReset:
        """Make the world."""
        ...

    async def actions(self) -> list[ActionSpec]:
        """What an agent may do."""
        ...

    async def act(self, name: str, arguments: Mapping[str, Any], app: str | None) -> Acted:
        """Take an action."""
        ...

    async def query(self, app: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Ask a read-only action. Raises QueryRefused."""
        ...

    async def final(self) -> dict[str, Any]:
        """Each app's state now."""
        ...

    async def aclose(self) -> None:
        """End it."""
        ...


class InProcessWorld:
    """A world in the engine's own process and thread: for apps that are trusted and quick."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def reset(self) -> WorldReset:
        """See WorldClient."""
        return self._world.reset()

    async def actions(self) -> list[ActionSpec]:
        """See WorldClient."""
        return self._world.actions()

    async def act(self, name: str, arguments: Mapping[str, Any], app: str | None) -> Acted:
        """See WorldClient."""
        return self._world.act(name, arguments, app)

    async def query(self, app: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """See WorldClient."""
        return self._world.query(app, name, arguments)

    async def final(self) -> dict[str, Any]:
        """See WorldClient."""
        return self._world.final()

    async def aclose(self) -> None:
        """Nothing to end."""
