"""A sandbox whose phases can call the trial's model: the same for every agent that runs in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec.structs import replace

from ....events.kinds.parts import SkippedPath
from ...sandbox.protocol import Command, Exit, FileSeen, GivenFile, Python, Sandbox, Tree
from .gateway import Gateway


class SandboxWithGateway:
    """Serves the gateway while a phase runs, and tells the phase where it is."""

    def __init__(self, sandbox: Sandbox, gateway: Gateway) -> None:
        self._sandbox = sandbox
        self._gateway = gateway

    async def run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        """Run a phase. Calls count as signs of life, and the key goes over what others are set."""

        async def quiet_for() -> float:
            own = math.inf if command.quiet_for is None else await command.quiet_for()
            return min(own, self._gateway.quiet())

        ended: Exit | Exception
        async with self._gateway.serving(self._sandbox) as (listener, variables):
            given = replace(
                command, env={**command.env, **variables}, listener=listener, quiet_for=quiet_for
            )
            try:
                ended = await self._sandbox.run(given, output)
            except Exception as error:  # as it is, outside of the gateway's tasks
                ended = error
        if isinstance(ended, Exception):
            raise ended
        return ended

    # Everything else is the sandbox's own.

    @property
    def id(self) -> str:
        """See Sandbox."""
        return self._sandbox.id

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """See Sandbox."""
        return self._sandbox.warnings

    @property
    def own_loopback(self) -> bool:
        """See Sandbox."""
        return self._sandbox.own_loopback

    async def save_tree(self, path: str, destination: Path, *, cap: int) -> Tree:
        """See Sandbox."""
        return await self._sandbox.save_tree(path, destination, cap=cap)

    async def copy_file(self, path: str, destination: Path, *, cap: int) -> list[SkippedPath]:
        """See Sandbox."""
        return await self._sandbox.copy_file(path, destination, cap=cap)

    async def put_files(self, files: Sequence[GivenFile]) -> None:
        """See Sandbox."""
        await self._sandbox.put_files(files)

    async def changed_outside(self) -> list[str] | None:
        """See Sandbox."""
        return await self._sandbox.changed_outside()

    def still(self) -> AbstractAsyncContextManager[None]:
        """See Sandbox."""
        return self._sandbox.still()

    async def changed(self, wanted: Callable[[str], bool]) -> list[str] | None:
        """See Sandbox."""
        return await self._sandbox.changed(wanted)

    async def look(self, path: str, *, cap: int, in_image: bool = False) -> FileSeen:
        """See Sandbox."""
        return await self._sandbox.look(path, cap=cap, in_image=in_image)

    async def put_back(self, path: str) -> None:
        """See Sandbox."""
        await self._sandbox.put_back(path)

    async def replace(self, path: str, data: bytes) -> None:
        """See Sandbox."""
        await self._sandbox.replace(path, data)

    async def find_python(self) -> Python | None:
        """See Sandbox."""
        return await self._sandbox.find_python()

    async def remove(self) -> None:
        """See Sandbox."""
        await self._sandbox.remove()
