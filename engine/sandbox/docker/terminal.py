"""A program in a kept sandbox on this process's terminal, key by key."""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from .api import Engine, Terminal
from .sandbox import DockerSandbox


async def run_on_terminal(
    engine: Engine, sandbox: DockerSandbox, argv: list[str], workdir: str
) -> int:
    """Run a program with the keyboard as its input; its exit code."""
    await sandbox.stay_up()
    try:
        terminal = await engine.exec_on_terminal(sandbox.id, argv, workdir)
        with _raw_mode():
            await terminal.open()
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_type, terminal)
                    tasks.start_soon(_follow_size, terminal)
                    while (data := await terminal.read()) is not None:
                        await anyio.to_thread.run_sync(_show, data)
                    tasks.cancel_scope.cancel()
            finally:
                await terminal.close()
        return await terminal.exit_code()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(10):
            await engine.kill(sandbox.id)


async def _type(terminal: Terminal) -> None:
    fd = sys.stdin.fileno()
    while True:
        await anyio.wait_readable(fd)
        data = os.read(fd, 4096)
        if not data:
            return
        await terminal.write(data)


async def _follow_size(terminal: Terminal) -> None:
    with anyio.open_signal_receiver(signal.SIGWINCH) as signals:
        await _resize(terminal)
        async for _ in signals:
            await _resize(terminal)


async def _resize(terminal: Terminal) -> None:
    size = os.get_terminal_size(sys.stdout.fileno())
    await terminal.resize(size.lines, size.columns)


def _show(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]


@contextmanager
def _raw_mode() -> Generator[None]:
    """Every key goes to the program inside, Ctrl-C too."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setraw(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
