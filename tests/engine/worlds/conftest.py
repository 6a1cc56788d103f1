"""Environments to make worlds of, and every way to make them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest
from anyio import to_thread

from helpers.images import TEST_IMAGE
from trialog.engine.authoring.task import TaskView
from trialog.engine.projects.model import AppManifest
from trialog.engine.worlds.process import ProcessWorlds
from trialog.engine.worlds.protocol import InProcessWorld, WorldClient
from trialog.engine.worlds.source import WorldSource, load_environment
from trialog.engine.worlds.world import World

DEADLINE = 20.0


class Worlds(Protocol):
    """A way to make worlds."""

    async def open(
        self, source: WorldSource, task: TaskView, *, seed: int, trial: str
    ) -> WorldClient:
        """A world."""
        ...

    async def aclose(self) -> None:
        """End."""
        ...


class InProcessWorlds:
    """Worlds in this process."""

    async def open(
        self, source: WorldSource, task: TaskView, *, seed: int, trial: str
    ) -> WorldClient:
        """A world."""
        environment = await to_thread.run_sync(load_environment, source)
        return InProcessWorld(World(environment, task, seed=seed))

    async def aclose(self) -> None:
        """Nothing to end."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project."""
    copy = tmp_path / "project"
    shutil.copytree(Path(__file__).parent / "project", copy)
    return copy


@pytest.fixture
def source(project: Path) -> Callable[..., WorldSource]:
    """The project's environment with some of its apps: `env.py:…`, by class name or manifest."""

    def make(*apps: str | AppManifest, **changes: Any) -> WorldSource:
        manifests = [
            AppManifest(python=app if ":" in app else f"env.py:{app}")
            if isinstance(app, str)
            else app
            for app in apps
        ]
        folder = project / "environments" / "desk"
        given = {"name": "desk", "folder": folder, "root": project, "apps": manifests}
        return WorldSource(**{**given, **changes})

    return make


Make = Callable[..., Awaitable[Worlds]]


@pytest.fixture
def make_one(way: str) -> Callable[..., Awaitable[Worlds]]:
    """Makes one of the ways under test."""
    if way == "docker":
        from trialog.engine.worlds.docker import DockerWorlds

        return DockerWorlds.connect
    from trialog.engine.worlds.bubblewrap import BubblewrapWorlds

    async def make(scratch: Path, *, deadline: float, default_image: str) -> Worlds:
        if way == "in-process":
            return InProcessWorlds()
        if way == "process":
            return ProcessWorlds(deadline=deadline)
        return BubblewrapWorlds(scratch, deadline=deadline)

    return make


@pytest.fixture
async def make_worlds(
    make_one: Callable[..., Awaitable[Worlds]], tmp_path: Path
) -> AsyncIterator[Make]:
    """Makes the way under test; `deadline` in seconds."""
    made: list[Worlds] = []

    async def make(deadline: float = DEADLINE, image: str = TEST_IMAGE) -> Worlds:
        scratch = tmp_path / f"worlds{len(made)}"
        await anyio.Path(scratch).mkdir()
        made.append(await make_one(scratch, deadline=deadline, default_image=image))
        return made[-1]

    yield make
    for worlds in made:
        await worlds.aclose()


@pytest.fixture
async def worlds(make_worlds: Make) -> Worlds:
    """The way under test."""
    return await make_worlds()


Open = Callable[..., Awaitable[WorldClient]]


@pytest.fixture
async def open_world(worlds: Worlds, source: Callable[..., WorldSource]) -> AsyncIterator[Open]:
    """Opens worlds with some of the project's apps, which are closed after the test."""
    opened: list[WorldClient] = []

    async def open_one(
        *apps: str | AppManifest, seed: int = 7, using: Worlds | None = None, **task: Any
    ) -> WorldClient:
        view = TaskView(**{"name": "one", **task})
        world = await (using or worlds).open(source(*apps), view, seed=seed, trial="trial")
        opened.append(world)
        return world

    yield open_one
    for world in opened:
        await world.aclose()
