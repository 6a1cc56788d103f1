"""A shell in the sandbox that runs one command after the other.

A phase of a sandbox is one command, so the phase's command is a driver: it reads from a pipe in
the task's folder, which is mounted read-only, which file to run next, and prints a frame when it
began and when it ended. Everything else that comes is what the commands print. Each command is a
process of its own that starts in the workspace: files stay, variables and `cd` don't, and what was
put into the background runs on until the phase ends.

All of it but the pipe is the agent's to break. That harms only its own work: the engine's side has
a deadline for everything, and a driver that was killed is started again in a new phase.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup

from ....events.errors import TrialogError
from ....events.kinds.parts import Process
from ...output import Captured, OutputCapture
from ...redact import Redactor
from ...sandbox.protocol import Command, Exit, Sandbox
from .frames import Frame, FrameReader

CLOSING_SEC = 5.0
"""For the driver to end by itself; then it is ended."""

STOPPING_SEC = 10.0
"""Between the moment that a command is stopped and the moment that it has ended."""

MOST_STARTS = 5
"""Times that a driver is started."""

DRIVER = r"""
# Runs commands for the engine: a line on the pipe `calls` is a number and a word for the frames.
here=$1
exec 2>/dev/null  # its own remarks are no output of a command's
if command -v bash >/dev/null 2>&1; then shell=bash; else shell=sh; fi
# Without setsid only a command's first process can be stopped before the phase ends.
if command -v setsid >/dev/null 2>&1; then apart=setsid; else apart=; fi
exec 3<"$here/calls" 4<"$here/stops"
( while read -r pid <&4; do kill -KILL "-$pid" || kill -KILL "$pid"; done ) >/dev/null &
stopper=$!
while read -r number word <&3; do
  $apart $shell "$here/$number.sh" </dev/null 2>&1 3<&- 4<&- &
  pid=$!
  printf '\n%s begun %s\n' "$word" "$pid"
  wait "$pid"
  printf '\n%s ended %s\n' "$word" "$?"
done
exec 3<&- 4<&-
kill -KILL "$stopper"
wait "$stopper"
exit 0
"""


class ShellLost(TrialogError):
    """There is no shell any more, and no further one is started."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a command."""

    output: Captured
    code: int | None
    """Null where it did not end by itself."""
    timed_out: bool = False
    shell_ended: bool = False
    """The driver ended under it, and with it all that ran."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the shell's files are."""

    folder: Path
    """Of the host."""
    inside: str
    """The same, as the sandbox sees it."""


class Shell:
    """A shell, from its first command to `close`. Runs one command at a time."""

    def __init__(
        self,
        sandbox: Sandbox,
        place: Place,
        phase: Callable[[list[str]], Command],
        group: TaskGroup,
        *,
        limit: int,
        redactor: Redactor | None,
        printed: Callable[[bytes], None],
    ) -> None:
        """`phase` makes the driver's phase out of its words; `limit` is in bytes of a command's
        output; `printed` is told all output as it comes."""
        self._sandbox = sandbox
        self._place = place
        self._phase = phase
        self._group = group
        self._limit = limit
        self._redactor = redactor
        self._printed = printed
        self._starts = 0
        self._calls = 0
        self._driver: _Driver | None = None
        self._capture = self._new_capture()
        self.left: list[Process] = []
        """Processes that had to be ended with their phase."""

    async def run(self, command: str, seconds: float) -> Ran:
        """Run a command. Raises ShellLost, SandboxError."""
        driver = self._driver
        if driver is None or driver.over.is_set():
            driver = await self._start()
        self._calls += 1
        await to_thread.run_sync(_write, driver.place.folder / f"{self._calls}.sh", command)
        word = secrets.token_hex(16)
        call = _Call()
        driver.ask(self._calls, word, call)
        timed_out = False
        with anyio.move_on_after(seconds) as deadline:
            await call.ended.wait()
        if deadline.cancelled_caught:
            timed_out = True
            driver.stop(call)
            with anyio.move_on_after(STOPPING_SEC) as patience:
                await call.ended.wait()
            if patience.cancelled_caught:
                await driver.end()
        if driver.error is not None:
            raise driver.error
        capture, self._capture = self._capture, self._new_capture()
        return Ran(
            output=capture.finish(),
            code=None if timed_out else call.code,
            timed_out=timed_out,
            shell_ended=driver.over.is_set(),
        )

    async def close(self) -> None:
        """End the shell and all that runs in it. Raises SandboxError where its phase failed."""
        if self._driver is not None:
            await self._driver.end()
            if self._driver.error is not None:
                raise self._driver.error

    async def _start(self) -> _Driver:
        if self._starts == MOST_STARTS:
            raise ShellLost(f"the shell was ended from inside {MOST_STARTS} times")
        self._starts += 1
        name = f"shell-{self._starts}"
        place = Place(folder=self._place.folder / name, inside=f"{self._place.inside}/{name}")
        calls, stops = await to_thread.run_sync(_make, place.folder)
        driver = self._driver = _Driver(place, calls, stops, self._take)
        command = self._phase(["/bin/sh", f"{place.inside}/driver.sh", place.inside])
        self._group.start_soon(self._keep, driver, command)
        return driver

    async def _keep(self, driver: _Driver, command: Command) -> None:
        await driver.keep(self._sandbox, command)
        if driver.exit is not None:
            self.left += driver.exit.left

    def _take(self, data: bytes) -> None:
        self._capture.feed(data)
        self._printed(data)

    def _new_capture(self) -> OutputCapture:
        return OutputCapture(self._limit, redactor=self._redactor)


class _Call:
    """A command that the driver was told to run."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.code: int | None = None
        self.ended = anyio.Event()


class _Driver:
    """One phase, and the pipes to what runs in it."""

    def __init__(self, place: Place, calls: int, stops: int, take: Callable[[bytes], None]) -> None:
        self.place = place
        self.over = anyio.Event()
        self.exit: Exit | None = None
        self.error: Exception | None = None
        self._calls, self._stops = calls, stops
        self._take = take
        self._frames = FrameReader()
        self._call: _Call | None = None
        self._scope = anyio.CancelScope()
        self._open = True

    def ask(self, number: int, word: str, call: _Call) -> None:
        """Tell the driver to run a file. A call ends at the latest with the phase."""
        self._call = call
        self._frames.expect(word)
        self._write(self._calls, f"{number} {word}\n")
        if self.over.is_set():
            call.ended.set()

    def stop(self, call: _Call) -> None:
        """Stop what runs."""
        if call.pid is not None:
            self._write(self._stops, f"{call.pid}\n")

    async def keep(self, sandbox: Sandbox, command: Command) -> None:
        """The phase, from its start to its end."""
        try:
            with self._scope:
                self.exit = await sandbox.run(command, self._feed)
        except TrialogError as error:
            self.error = error
        finally:
            self._end_pipes()
            if held := self._frames.finish():
                self._take(held)
            self.over.set()
            if self._call is not None:
                self._call.ended.set()

    async def end(self) -> None:
        """End the phase: in good order where the driver still hears."""
        if self._call is not None and not self._call.ended.is_set():
            self.stop(self._call)
        self._end_pipes()
        with anyio.move_on_after(CLOSING_SEC) as patience:
            await self.over.wait()
        if patience.cancelled_caught:
            self._scope.cancel()
            await self.over.wait()

    def _feed(self, data: bytes) -> None:
        for piece in self._frames.feed(data):
            if isinstance(piece, Frame):
                self._framed(piece)
            else:
                self._take(piece)

    def _framed(self, frame: Frame) -> None:
        call = self._call
        if call is None or call.ended.is_set():
            return
        if frame.what == "begun":
            call.pid = frame.number
        else:
            call.code = frame.number
            call.ended.set()

    def _write(self, pipe: int, line: str) -> None:
        if self._open:
            with suppress(BlockingIOError):  # nobody reads any more; a deadline will tell
                os.write(pipe, line.encode())

    def _end_pipes(self) -> None:
        if self._open:
            self._open = False
            os.close(self._calls)
            os.close(self._stops)


def _make(folder: Path) -> tuple[int, int]:
    """The driver and its pipes, open for writing; blocks."""
    folder.mkdir()
    folder.chmod(0o755)
    _write(folder / "driver.sh", DRIVER)
    pipes: list[int] = []
    for name in ("calls", "stops"):
        os.mkfifo(folder / name)
        (folder / name).chmod(0o644)
        # Both ways, so that it opens before anyone reads, and a write finds a reader.
        pipes.append(os.open(folder / name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    return pipes[0], pipes[1]


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))
    path.chmod(0o644)
