"""App hosts in namespaces of their own, by bubblewrap."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import anyio
from anyio import to_thread

from ...events.kinds.parts import Limits
from ..archive import remove_tree
from ..authoring.task import TaskView
from ..errors import SandboxError
from ..sandbox.bubblewrap.etc import copy_etc
from ..sandbox.bubblewrap.layout import PATH, Layout, home_folder
from ..sandbox.protocol import Image, Mount, SandboxSpec
from .connection import DEADLINE, Host, HostedWorld
from .inside import LIB, VENDOR, Inside, seen_inside
from .process import BOOT, ENVIRONMENT, VERSION, HostPool, start_host
from .source import WorldSource

WORKDIR = "/world"


class BubblewrapWorlds:
    """Worlds that see nothing but their own code: no network, no other process, no project.

    `scratch` is a folder of the host for them alone, which exists. The apps run by the engine's own
    Python, and can import what is installed for it.
    """

    backend = "bubblewrap"

    def __init__(self, scratch: Path, *, deadline: float = DEADLINE) -> None:
        self._scratch = scratch
        self._deadline = deadline
        self._inside = Inside(scratch / "inside")
        self._pool = HostPool()
        self._etc: Path | None = None
        self._lock = anyio.Lock()

    async def open(
        self, source: WorldSource, task: TaskView, *, seed: int, trial: str
    ) -> HostedWorld:
        """The world of one trial, not reset yet. Raises AppFault, SandboxError, ConfigError."""
        if source.image is not None:
            raise SandboxError(
                f"environment {source.name} needs the image {source.image}, and bubblewrap runs "
                "apps on the host's system; use --sandbox docker"
            )
        return await self._pool.open(
            str(source.root),
            lambda: self._start(source),
            await to_thread.run_sync(seen_inside, source),
            task,
            seed=seed,
            deadline=self._deadline,
        )

    async def _start(self, source: WorldSource) -> Host:
        try:
            mounts = await self._inside.mounts(source)
            async with self._lock:
                if self._etc is None:
                    self._etc = await to_thread.run_sync(self._make_etc)
            words = await to_thread.run_sync(self._words, mounts, self._etc)
        except OSError as error:
            raise SandboxError(f"the app host's folders can't be made: {error}") from error
        return await start_host(words, {"PATH": PATH})

    def _make_etc(self) -> Path:
        etc = self._scratch.absolute() / "etc"
        copy_etc(etc, home_folder())
        return etc

    def _words(self, mounts: list[Mount], etc: Path) -> list[str]:
        own = self._scratch.absolute() / f"host-{secrets.token_hex(8)}"
        own.mkdir(mode=0o700)
        spec = SandboxSpec(
            job="",
            trial="",
            log_id="",
            image=Image(name=None),
            workdir=WORKDIR,
            limits=Limits(network=False),
            mounts=[*mounts, *_python_mounts()],
            scratch=own,
        )
        layout = Layout(spec, own, etc)
        layout.make()
        environment = {"PATH": PATH, "HOME": layout.home, **ENVIRONMENT}
        python = [sys.executable, "-s", "-P", "-c", BOOT, LIB, VENDOR, VERSION]
        return ["bwrap", *layout.arguments(environment), "--", *python]

    async def aclose(self) -> None:
        """End the hosts that are free, and remove the folders."""
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()
            await to_thread.run_sync(remove_tree, self._scratch)


def _python_mounts() -> list[Mount]:
    """This Python and what is installed for it, where they are not in the system's folders."""
    places = dict.fromkeys([Path(sys.base_prefix), Path(sys.prefix)])
    return [
        Mount(source=place, target=str(place), readonly=True)
        for place in places
        if not place.is_relative_to("/usr")
    ]
