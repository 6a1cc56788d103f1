"""The two ways to run a phase's first process in a container.

Directly: as the container's own main process, so that the kernel ends all else with it. By exec:
beside an image's entrypoint, or as another user; then the container is killed after the phase.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

import anyio

from ...errors import SandboxError
from .api import Engine, EngineRefused, Output
from .phase import CONTROL, SCRIPT

COMMAND = ["/bin/sh", f"{CONTROL}/{SCRIPT}"]
KILLED = 137
"""Exit code of what was killed, as the end of a container's first process kills all the others."""
KEEP_ALIVE = ["/bin/sh", "-c", "while :; do sleep 3600; done"]
"""What an entrypoint is given to run, while phases run beside it."""


class Way(Protocol):
    """How a phase's first process is started, followed and ended."""

    ends_with_report: bool
    """The script's report ends the phase; else the container's exit does."""

    async def begin(self) -> None:
        """Start it."""
        ...

    async def read(self) -> bytes | None:
        """The next bytes it printed; None at the end."""
        ...

    async def exit_code(self) -> int | None:
        """Its exit code, as the engine tells it, once it has ended. Null where nobody knows."""
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...


class Direct:
    """The container's main process is the phase's."""

    ends_with_report = False

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        self._output = engine.attach(container)
        self._stack = AsyncExitStack()
        self._code: Callable[[], Awaitable[int]] | None = None

    async def begin(self) -> None:
        """Both the output and the exit are asked for before the start: nothing is missed."""
        self._code = await self._stack.enter_async_context(self._engine.next_exit(self._container))
        await self._output.open()
        self._stack.push_async_callback(self._output.close)
        await self._engine.start(self._container)

    async def read(self) -> bytes | None:
        """The next bytes it printed; None at the end."""
        return await self._output.read()

    async def exit_code(self) -> int | None:
        """Wait for the container's exit."""
        assert self._code is not None
        return await self._code()

    async def close(self) -> None:
        """Give connections back."""
        await self._stack.aclose()


class ByExec:
    """The phase runs beside the image's entrypoint."""

    ends_with_report = True

    def __init__(self, engine: Engine, container: str, user: str | None) -> None:
        self._engine = engine
        self._container = container
        self._user = user
        self._ident = ""
        self._output: Output | None = None

    async def begin(self) -> None:
        """Start the container, so that its entrypoint runs, and the phase's process in it."""
        await self._engine.start(self._container)
        try:
            self._ident = await self._engine.exec(self._container, COMMAND, self._user)
            self._output = self._engine.exec_output(self._ident)
            await self._output.open()
        except EngineRefused as error:
            await self._check_entrypoint(error)
            raise

    async def read(self) -> bytes | None:
        """The next bytes it printed; None at the end."""
        assert self._output is not None
        return await self._output.read()

    async def exit_code(self) -> int | None:
        """Asked when the output is over without a report: something ended the script."""
        await self._check_entrypoint(None)
        code = None
        with anyio.move_on_after(5):
            while code is None:  # the engine has no call that waits for it
                code = await self._engine.exec_code(self._ident)
                if code is None:
                    await anyio.sleep(0.05)
        if code == KILLED:  # maybe by the entrypoint's end, which the engine notes a little later
            for _ in range(20):
                await self._check_entrypoint(None)
                await anyio.sleep(0.05)
        return code

    async def close(self) -> None:
        """Give connections back."""
        if self._output is not None:
            await self._output.close()

    async def _check_entrypoint(self, error: EngineRefused | None) -> None:
        state = (await self._engine.inspect(self._container))["State"]
        if state["Running"]:
            return
        said = await self._engine.last_lines(self._container, 10)
        raise SandboxError(
            f"the image's ENTRYPOINT ended by itself with exit code {state['ExitCode']}; it must "
            "run the command that it is given, or stay up"
            + (f". Its last output:\n{said}" if said else "")
        ) from error
