"""Where the apps of a job's environments live: in this process, or hosted in one of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from anyio import to_thread

from ..authoring.task import TaskView
from ..errors import SandboxError
from ..worlds.protocol import WorldClient
from ..worlds.source import WorldSource
from .config import JobConfig
from .episode_task import EpisodeTask, Worlds


class Hosts(Protocol):
    """Makes worlds in processes of their own; see engine/worlds."""

    @property
    def backend(self) -> str:
        """As in SandboxStarted."""
        ...

    async def open(
        self, source: WorldSource, task: TaskView, *, seed: int, trial: str
    ) -> WorldClient:
        """The world of one trial, not reset yet."""
        ...

    async def aclose(self) -> None:
        """End what is left."""
        ...


class HostedWorlds:
    """Worlds whose code is never imported into the engine."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self.backend = hosts.backend

    async def make(self, task: EpisodeTask, *, seed: int, trial: str) -> WorldClient:
        """See Worlds. Raises SandboxError, AppFault."""
        if task.world is None:
            raise SandboxError(
                f"task {task.view.name} comes from plain Python, whose apps run in this process; "
                "use --in-process, or a project"
            )
        return await self._hosts.open(task.world, task.view, seed=seed, trial=trial)


@asynccontextmanager
async def open_worlds(
    tasks: Iterable[object], config: JobConfig, given: Worlds, scratch: Path
) -> AsyncGenerator[Worlds]:
    """The worlds that a job's environment tasks run in."""
    needed = any(isinstance(task, EpisodeTask) for task in tasks)
    if config.in_process or not needed:
        yield given
        return
    folder = scratch / "worlds"
    await to_thread.run_sync(_make, folder)
    hosts = await _hosts(config, folder)
    try:
        yield HostedWorlds(hosts)
    finally:
        await hosts.aclose()


async def _hosts(config: JobConfig, folder: Path) -> Hosts:
    if config.sandbox == "docker":
        from ..worlds.docker import DockerWorlds

        return await DockerWorlds.connect(folder, default_image=config.image)
    from ..worlds.bubblewrap import BubblewrapWorlds

    return BubblewrapWorlds(folder)


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
