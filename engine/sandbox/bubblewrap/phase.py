"""One bwrap process and everything below it: started, watched, ended."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
from anyio import CancelScope, to_thread

from ....events.kinds.parts import Process
from ...errors import SandboxError, SandboxGone, SandboxUnavailable
from ..left import number
from .keeping import KEEPER, Beside, drain, end_command
from .leftovers import child_of_halted, in_namespace_of, parse_left

STOP_DEADLINE = 5.0
"""Seconds for a killed command's shell to say that it has ended; then its phase is killed whole."""

KILLED = 137

_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})

KILL_DEADLINE = 20.0
"""Seconds for the kernel to end what was killed."""

REPORT_LIMIT = 1024 * 1024
CHUNK = 64 * 1024

BWRAP = "bwrap"

_BLOCK, _ARGS, _STATUS, _REPORT = 6, 7, 8, 9
"""Descriptors of the bwrap process; it closes all but the last, for its child's reports."""

_DRIVER = """
trap : HUP INT QUIT TERM USR1 USR2 ALRM PIPE
echo started >&9
( exec "$@" ) 2>&1 9>&-
code=$?
for each in /proc/[0-9]*/stat; do
  if read -r line <"$each"; then echo "left $line" >&9; fi
done
exit "$code"
"""
"""The first process inside. Its own error output and its reports go to descriptor 9's pipe."""


class Phase:
    """A phase that was started. Everything of it ends when its first process does."""

    def __init__(
        self, pid: int, output: int, report: int, gate: int | None, *, keep: bool = False
    ) -> None:
        self._keep = keep
        self._over = anyio.Event()
        """Of a phase to keep: its command has ended."""
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._output = output
        self._report = report
        self._gate = gate
        self._reported = b""
        self._inner: int | None = None
        self._inner_pidfd: int | None = None
        self._started = anyio.Event()
        self._known = anyio.Event()
        self._output_error: Exception | None = None
        self._stopped = False
        self._status: int | None = None
        self.printed_at = anyio.current_time()
        """When output came last, or the phase was started."""

    @classmethod
    def start(
        cls,
        name: str,
        argv: list[str],
        options: int,
        stdin: int,
        *,
        stray: list[int],
        gated: bool,
        keep: bool = False,
        beside: Beside | None = None,
        program: str = BWRAP,
    ) -> Phase:
        """Start a command by bwrap with options from a descriptor; both descriptors are closed.

        The `stray` descriptors of this process are not handed on. A gated phase runs nothing until
        it is prepared. One to `keep` goes on when its command has ended, and the one `beside`
        it enters its network. This must be the event loop's own thread: bwrap ends with the thread
        that started it, so that it never outlives us.
        """
        opened = [options, stdin]
        try:
            output, output_end = os.pipe2(os.O_CLOEXEC)
            opened += [output, output_end]
            report, report_end = os.pipe2(os.O_CLOEXEC)
            opened += [report, report_end]
            gate: int | None = None
            wanted = {0: stdin, 1: output_end, _ARGS: options}
            wanted |= dict.fromkeys((2, _STATUS, _REPORT), report_end)
            words = [name, "--args", str(_ARGS), "--json-status-fd", str(_STATUS)]
            if gated:
                gate_end, gate = os.pipe2(os.O_CLOEXEC)
                opened += [gate_end, gate]
                wanted[_BLOCK] = gate_end
                words += ["--block-fd", str(_BLOCK)]
            driver = KEEPER if keep else _DRIVER
            words += ["--new-session", "--", "/bin/sh", "-c", driver, name, *argv]
            os.set_blocking(output, False)
            os.set_blocking(report, False)
            if beside is not None:
                words = beside.words(words[1:])
                wanted |= beside.descriptors
                program = words[0]
            pid = _spawn(program, words, wanted, stray)
        except FileNotFoundError:
            _close(opened)
            raise SandboxUnavailable(
                "there is no bwrap on PATH; install the package bubblewrap, or use --sandbox docker"
            ) from None
        except BaseException:
            _close(opened)
            raise
        kept = {output, report, gate}
        _close([fd for fd in opened if fd not in kept])
        return cls(pid, output, report, gate, keep=keep)

    @property
    def inner(self) -> int | None:
        """The first process's id on the host, once it is known."""
        return self._inner

    async def watch(
        self,
        take: Callable[[bytes], None],
        *,
        prepare: Callable[[int], Awaitable[None]],
        start_timeout: float,
        seconds: float | None,
        idle_seconds: float | None,
        quiet_for: Callable[[], Awaitable[float]] | None = None,
    ) -> Literal["exit", "timeout", "idle", "start"]:
        """Read until the phase has ended or a deadline has passed; `start` for the first one.

        `prepare` is awaited with the first process's id before a gated phase runs anything.
        """
        begun = anyio.current_time()
        why: Literal["exit", "timeout", "idle", "start"] = "exit"
        unprepared: SandboxError | None = None
        async with anyio.create_task_group() as readers:
            readers.start_soon(self._read_report)
            readers.start_soon(self._read_output, take, readers.cancel_scope)
            with anyio.move_on_after(start_timeout) as starting:
                try:
                    await self._start(prepare)
                except SandboxError as error:  # raised outside of the group, which would wrap it
                    unprepared = error
            if starting.cancelled_caught:
                why = "start"
            elif unprepared is None:
                why = await self._until(begun, seconds, idle_seconds, quiet_for)
                if self._keep and why != "exit":
                    await self._end_command()
            readers.cancel_scope.cancel()
        if unprepared is not None:
            raise unprepared
        if self._output_error is not None:
            raise self._output_error
        return why

    async def _start(self, prepare: Callable[[int], Awaitable[None]]) -> None:
        await self._known.wait()
        if self._gate is not None:
            if self._inner is not None:
                await prepare(self._inner)
            os.close(self._gate)  # bwrap reads its end, and goes on
            self._gate = None
        await self._started.wait()

    async def _until(
        self,
        begun: float,
        seconds: float | None,
        idle_seconds: float | None,
        quiet_for: Callable[[], Awaitable[float]] | None,
    ) -> Literal["exit", "timeout", "idle"]:
        while True:
            end = float("inf") if seconds is None else begun + seconds
            idle = float("inf") if idle_seconds is None else self.printed_at + idle_seconds
            with anyio.move_on_at(min(end, idle)) as waiting:
                if self._keep:
                    await self._over.wait()
                else:
                    await anyio.wait_readable(self._pidfd)
            if not waiting.cancelled_caught:
                return "exit"
            now = anyio.current_time()
            if now >= end:
                return "timeout"
            if idle_seconds is not None and now >= self.printed_at + idle_seconds:
                quiet = idle_seconds if quiet_for is None else max(0.0, await quiet_for())
                if quiet >= idle_seconds:
                    return "idle"
                self.printed_at = now - quiet

    async def _read_output(self, take: Callable[[bytes], None], scope: CancelScope) -> None:
        try:
            while True:
                await anyio.wait_readable(self._output)
                data = os.read(self._output, CHUNK)
                if not data:
                    return
                self.printed_at = anyio.current_time()
                take(data)
        except Exception as error:  # the taker's own fault; the phase must be ended first
            self._output_error = error
            scope.cancel()

    async def _read_report(self) -> None:
        try:
            while True:
                await anyio.wait_readable(self._report)
                data = os.read(self._report, CHUNK)
                if not data:
                    self._over.set()
                    return
                self._take_report(data)
        finally:
            self._known.set()
            self._started.set()

    def _take_report(self, data: bytes) -> None:
        if len(self._reported) < REPORT_LIMIT:
            self._reported += data
        if self._keep and self._has_ended:
            self._over.set()
        if self._started.is_set():
            return  # from here on the phase could write reports of its own
        if not self._known.is_set():
            for line in self._reported.splitlines():
                if line.startswith(b"{") and b"child-pid" in line and line.endswith(b"}"):
                    self._inner = int(json.loads(line)["child-pid"])
                    self._inner_pidfd = _pidfd(self._inner)
                    self._known.set()
        if b"started\n" in self._reported:
            self._started.set()

    async def kill(self) -> list[Process]:
        """Kill all of the phase, and wait until it is dead; what was killed beside the first."""
        killed: list[Process] = []
        with CancelScope(shield=True):
            self._stopped = True
            if self._status is None and self._inner is not None:
                killed = await to_thread.run_sync(in_namespace_of, self._inner)
            if self._inner is None and self._status is None:
                await self._find_inner()
            for fd in (self._inner_pidfd, self._pidfd):
                if fd is not None:
                    _signal(fd, signal.SIGKILL)
            with anyio.move_on_after(KILL_DEADLINE) as deadline:
                for fd in (self._inner_pidfd, self._pidfd):
                    if fd is not None:
                        await anyio.wait_readable(fd)
            if deadline.cancelled_caught:
                raise SandboxError(
                    f"process {self._inner} did not end within {KILL_DEADLINE:g} s of being killed"
                )
        return killed

    @property
    def _has_ended(self) -> bool:
        """The command of a phase to keep has."""
        return b"\nended " in self._reported or b"\nover\n" in self._reported

    async def _end_command(self) -> None:
        """End the command of a phase to keep, and wait for its shell to say so."""
        shell = _number(self._reported, b"first")
        if shell is not None and self._inner is not None:
            await to_thread.run_sync(end_command, self._inner, shell)
            with anyio.move_on_after(STOP_DEADLINE):
                await self._over.wait()

    @property
    def stays(self) -> bool:
        """What the command left is there still, and the command is not."""
        if not self._keep or self._stopped or not self._has_ended:
            return False
        return not select.select([self._pidfd], [], [], 0)[0]

    def go_on(self, take: Callable[[bytes], None]) -> int:
        """The exit code of a command that has ended while its phase stays.

        What was printed until now is taken; what comes later goes nowhere.
        """
        self._take_rest(take)
        self._drain_report()
        drain(os.dup(self._output))
        code = _number(self._reported, b"ended")
        return KILLED if code is None else code

    async def _find_inner(self) -> None:
        """Find a first process that bwrap has not told of yet; bwrap is halted meanwhile.

        It would not end with bwrap in the moment between its birth and its wish to do so.
        """
        _signal(self._pidfd, signal.SIGSTOP)
        self._inner = await to_thread.run_sync(child_of_halted, self._pid)
        if self._inner is not None:
            self._inner_pidfd = _pidfd(self._inner)

    def ended(self, take: Callable[[bytes], None]) -> int:
        """The exit code, after the rest of the output was taken. The phase must be dead."""
        self._take_rest(take)
        self._drain_report()
        if self._status is None:
            self._status = os.waitpid(self._pid, 0)[1]
        code = os.waitstatus_to_exitcode(self._status)
        if code < 0 and not self._stopped:
            raise SandboxGone(f"bwrap was killed from outside by signal {-code}")
        return code

    def _take_rest(self, take: Callable[[bytes], None]) -> None:
        for _ in range(64):
            try:
                data = os.read(self._output, CHUNK)
            except BlockingIOError:
                break  # someone outside holds the pipe, or what stays does
            if not data:
                break
            take(data)

    def _drain_report(self) -> None:
        for _ in range(64):
            try:
                data = os.read(self._report, CHUNK)
            except BlockingIOError:
                return
            if not data:
                return
            self._take_report(data)

    @property
    def has_started(self) -> bool:
        """The phase's first process has run."""
        return b"started\n" in self._reported

    @property
    def complaint(self) -> str:
        """What bwrap said when it could not start the phase."""
        lines = self._reported.decode("utf-8", "replace").splitlines()
        told = [line.removeprefix("bwrap: ") for line in lines if not line.startswith("{")]
        return "; ".join(told) or "bwrap ended without a word"

    @property
    def left(self) -> list[Process]:
        """What the command left, as the first process saw it."""
        shell = _number(self._reported, b"first") if self._keep else None
        return [process for process in parse_left(self._reported) if process.pid != shell]

    def close(self) -> None:
        """Give the descriptors back, and collect the process."""
        if self._status is None:
            try:
                self._status = os.waitpid(self._pid, os.WNOHANG)[1]
            except ChildProcessError:
                self._status = 0
        fds = [self._pidfd, self._inner_pidfd, self._output, self._report, self._gate]
        _close([fd for fd in fds if fd is not None])


def _number(reported: bytes, word: bytes) -> int | None:
    """The number in the first line that begins with a word."""
    for line in reported.splitlines():
        first, _, rest = line.partition(b" ")
        if first == word:
            return number(rest.decode("ascii", "replace"))
    return None


def _spawn(program: str, words: list[str], wanted: dict[int, int], stray: list[int]) -> int:
    """Start bwrap with these descriptors and no other, in a session of its own."""
    # Raised first, so that none lies where another one goes.
    raised = {to: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for to, fd in wanted.items()}
    try:
        return os.posix_spawnp(
            program,
            words,
            {},
            file_actions=[
                *((os.POSIX_SPAWN_CLOSE, fd) for fd in stray),
                *((os.POSIX_SPAWN_DUP2, fd, to) for to, fd in raised.items()),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_SIGNALS,
        )
    finally:
        _close(list(raised.values()))


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _signal(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return


def _close(fds: list[int]) -> None:
    for fd in dict.fromkeys(fds):
        os.close(fd)
