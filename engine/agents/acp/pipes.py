"""The engine's ends of named pipes in a folder that the sandbox sees.

The folder is mounted read-only inside, which keeps nobody from writing into a pipe in it, only
from putting something else in its place.
"""

from __future__ import annotations

import os
from pathlib import Path

import anyio

CHUNK = 64 * 1024


class Pipe:
    """A named pipe, open both ways, so that no end waits for the other and none hears of its end.

    One task reads or writes at a time. After `finish` nothing waits any more.
    """

    def __init__(self, path: Path, mode: int) -> None:
        """Make it; blocks."""
        os.mkfifo(path)
        path.chmod(mode)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._scope: anyio.CancelScope | None = None
        self._writing = anyio.Lock()
        self._finished = False
        self._closed = False

    async def read(self) -> bytes:
        """What is there next; empty once it is finished and all was read."""
        while not self._closed:
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                if self._finished:
                    break
            with anyio.CancelScope() as self._scope:
                await anyio.wait_readable(self._fd)
        return b""

    async def write(self, data: bytes) -> None:
        """Write all of it, as fast as it is read; what comes too late is dropped."""
        rest = memoryview(data)
        async with self._writing:
            while rest and not self._finished:
                try:
                    rest = rest[os.write(self._fd, rest) :]
                except BlockingIOError:
                    with anyio.CancelScope() as self._scope:
                        await anyio.wait_writable(self._fd)

    def write_now(self, line: bytes) -> None:
        """Write a line, if there is room."""
        if not self._finished:
            try:
                os.write(self._fd, line)
            except BlockingIOError:  # nobody reads any more; a deadline will tell
                return

    def finish(self) -> None:
        """Nobody is at the other end any more, or nothing more is said to whoever is."""
        self._finished = True
        if self._scope is not None:
            self._scope.cancel()

    async def end(self) -> None:
        """Say nothing more: to whoever reads at the other end it ends."""
        self.finish()
        async with self._writing:
            self.close()

    def close(self) -> None:
        """Give it back. Nothing may be waiting."""
        if not self._closed:
            self._finished = self._closed = True
            os.close(self._fd)
