"""App hosts as processes of this machine, and a pool of those that are free."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import Process

from ..authoring.task import TaskView
from ..errors import SandboxGone, SandboxUnavailable
from .connection import DEADLINE, Host, HostedWorld
from .main import descendants
from .source import WorldSource

START_DEADLINE = 30.0
"""Seconds for an app host to come up."""

KEPT_FREE = 8
"""App hosts that are kept for the next trials when nobody needs them."""

_LAST_WORDS = 4096
_ENDING = 2.0

PACKAGE_ROOT = Path(__file__).absolute().parents[3]
"""The folder that the package `trialog` is in."""

VERSION = ".".join(platform.python_version_tuple()[:2])
"""The engine's Python, without the last number."""

_INSTALLED = Path(msgspec.__file__).absolute().parents[1]

BOOT = """\
import sys
if sys.version_info < (3, 11):
    sys.exit("the app host needs Python 3.11 or later, found " + sys.version.split()[0])
sys.path.insert(0, sys.argv[1])
try:
    import msgspec
except ImportError:
    sys.path.append(sys.argv[2])
    try:
        import msgspec
    except ImportError as error:
        sys.exit("the app host needs the package msgspec: install it, or use Python " + sys.argv[3]
            + ", for which the engine brings its own; found " + sys.version.split()[0]
            + ": " + str(error))
from trialog.engine.worlds.main import main
main()
"""
"""Runs an app host. Its words: the folder with the package trialog, one with the engine's own
msgspec, and the engine's version of Python."""


ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the order of a set is a part of the world
    "PYTHONDONTWRITEBYTECODE": "1",
}


class HostPool:
    """App hosts that are free, by what they have inside."""

    def __init__(self, *, keep: int = KEPT_FREE) -> None:
        self._free: list[tuple[str, Host]] = []
        self._keep = keep
        self._closed = False

    async def open(
        self,
        key: str,
        start: Callable[[], Awaitable[Host]],
        source: WorldSource,
        task: TaskView,
        *,
        seed: int,
        deadline: float,
    ) -> HostedWorld:
        """A world in a free host, or in one that is started. Raises AppFault, SandboxError."""
        host = self._take(key)
        if host is None:
            host = await start()
        try:
            world = await host.open(source, task, seed=seed, deadline=deadline)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await host.kill()
            raise

        async def give_back(freed: Host) -> None:
            await self._give_back(key, freed)

        return world.on_close(give_back)

    def _take(self, key: str) -> Host | None:
        for place, (found, host) in enumerate(self._free):
            if found == key:
                del self._free[place]
                return host
        return None

    async def _give_back(self, key: str, host: Host) -> None:
        if not host.usable:
            return
        if self._closed:
            await host.kill()
            return
        self._free.append((key, host))
        if len(self._free) > self._keep:
            await self._free.pop(0)[1].kill()

    async def aclose(self) -> None:
        """End the hosts that are free; the others end with their worlds."""
        self._closed = True
        while self._free:
            await self._free.pop()[1].kill()


class ProcessWorlds:
    """Worlds in plain processes of this machine, as this user: for apps that are trusted.

    A process has a session of its own and none of the engine's environment. `deadline`: seconds
    for each action, query or reset.
    """

    backend = "process"

    def __init__(self, *, deadline: float = DEADLINE) -> None:
        self._deadline = deadline
        self._pool = HostPool()

    async def open(
        self, source: WorldSource, task: TaskView, *, seed: int, trial: str
    ) -> HostedWorld:
        """The world of one trial, not reset yet. Raises AppFault, SandboxError."""
        return await self._pool.open(
            "", _start_here, source, task, seed=seed, deadline=self._deadline
        )

    async def aclose(self) -> None:
        """End the processes that are free."""
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()


async def _start_here() -> Host:
    words = [sys.executable, "-s", "-P", "-c", BOOT, str(PACKAGE_ROOT), str(_INSTALLED), VERSION]
    env = {"PATH": os.defpath, **ENVIRONMENT}
    return await start_host(words, env)


async def start_host(words: list[str], env: Mapping[str, str]) -> Host:
    """Start an app host's program. Raises SandboxError."""
    host = Host(await ProcessChannel.start(words, env))
    await host.greet(START_DEADLINE)
    return host


class ProcessChannel:
    """An app host's pipes; see Channel."""

    def __init__(self, process: Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._words: str | None = None

    @classmethod
    async def start(cls, words: list[str], env: Mapping[str, str]) -> ProcessChannel:
        """Start a program in a session of its own. Raises SandboxUnavailable."""
        errors = await to_thread.run_sync(tempfile.TemporaryFile)
        try:
            process = await anyio.open_process(
                words, stderr=errors, env=dict(env), start_new_session=True, cwd="/"
            )
        except OSError as error:
            errors.close()
            raise SandboxUnavailable(f"{words[0]} can't be started: {error}") from error
        return cls(process, errors)

    async def send(self, data: bytes) -> None:
        """See Channel."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise SandboxGone("its process has ended") from error

    async def receive(self) -> bytes:
        """See Channel."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return b""

    async def kill(self) -> None:
        """See Channel. A host that reads the end of its input ends its worlds, then itself."""
        if self._words is not None:
            return
        self._words = ""
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError, anyio.BrokenResourceError):
            await process.stdin.aclose()
        with anyio.move_on_after(_ENDING):
            await process.wait()
        if process.returncode is None:
            below = await to_thread.run_sync(descendants, process.pid)
            for pid in (process.pid, *below):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await process.wait()
        await process.aclose()
        self._words = await to_thread.run_sync(self._read_words)

    async def last_words(self) -> str:
        """See Channel."""
        return self._words or ""

    def _read_words(self) -> str:
        with self._errors as errors:
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _LAST_WORDS))
            return errors.read().decode("utf-8", "replace").strip()
