"""Following one phase from its start to its end: deadlines, output, cancellation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, cast

import anyio

from ...errors import SandboxError, SandboxStartTimeout
from ..protocol import Command
from .phase import PhaseOutput
from .ways import Way

KILL_TIMEOUT = 10.0
"""Seconds within which a killed container must have ended."""

FAULT_GRACE = 3.0
"""Seconds for killing a phase that could not start, or whose output could not be followed."""

OUTPUT_GRACE = 5.0
"""Seconds for the rest of the output to come after the exit."""

EndedBy = Literal["exit", "timeout", "idle"]


class Following:
    """One phase that is run. `kill` ends all in the container.

    `stop` is what a deadline does, by default the same. `prepare` is awaited when the phase has
    been started.
    """

    def __init__(
        self,
        way: Way,
        printed: PhaseOutput,
        command: Command,
        kill: Callable[[], Awaitable[object]],
        stop: Callable[[], Awaitable[object]] | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._way = way
        self._printed = printed
        self._command = command
        self._kill = kill
        self._stop_phase = stop or kill
        self._prepare = prepare
        self._starting = anyio.CancelScope(shield=True)
        self._started = anyio.Event()
        self._begun = anyio.Event()
        self._output_over = anyio.Event()
        self._done = anyio.Event()
        self._stopped = False
        self._fault: BaseException | None = None
        self._last_output = 0.0
        self._begun_at = 0.0
        self.code: int | None = None
        """The exit code that the engine told; null while it did not."""
        self.duration = 0.0

    async def run(self, stopping: Callable[[], Awaitable[None]]) -> EndedBy:
        """Run to the end. `stopping` is awaited before a phase that runs too long is killed.

        Whatever way this ends, nothing of the phase runs any more, save when it raises that the
        container could not be stopped.
        """
        ended_by: EndedBy = "exit"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow)
            try:
                ended_by = await self._watch()
                if ended_by != "exit":
                    await stopping()
                    await self._stop()
                self.duration = anyio.current_time() - self._begun_at
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self._stop_at_once(KILL_TIMEOUT)
                raise
            except Exception as error:
                self._fault = self._fault or error
            tasks.cancel_scope.cancel()
        if self._fault is not None:
            with anyio.CancelScope(shield=True):
                await self._stop_at_once(FAULT_GRACE)
            raise self._fault
        return ended_by

    async def _watch(self) -> EndedBy:
        """Wait for the end, or the first deadline that passes before it."""
        command = self._command
        with anyio.move_on_after(command.start_timeout):
            await self._begun.wait()
        if not self._begun.is_set():
            self._starting.deadline = anyio.current_time() + FAULT_GRACE / 2
            raise SandboxStartTimeout(
                f"the sandbox's first process did not run within {command.start_timeout:g} s"
            )
        self._begun_at = self._last_output = anyio.current_time()
        while not self._done.is_set():
            ends: list[tuple[float, EndedBy]] = []
            if command.timeout is not None:
                ends.append((self._begun_at + command.timeout, "timeout"))
            if command.idle_timeout is not None:
                ends.append((self._last_output + command.idle_timeout, "idle"))
            end, why = min(ends, default=(float("inf"), "timeout"))
            with anyio.CancelScope(deadline=end):
                await self._done.wait()
            late = self._last_output if why == "idle" else self._begun_at
            allowed = command.idle_timeout if why == "idle" else command.timeout
            if allowed is not None and anyio.current_time() - late >= allowed:
                if not self._done.is_set() and not self._printed.ended:
                    if why == "idle" and command.quiet_for is not None:
                        quiet = max(0.0, await command.quiet_for())
                        if quiet < allowed:
                            self._last_output = anyio.current_time() - quiet
                            continue
                    return why
                if not await self._ends_soon():
                    return why  # it only said that it had ended
        return "exit"

    async def _ends_soon(self) -> bool:
        with anyio.move_on_after(OUTPUT_GRACE):
            await self._done.wait()
        return self._done.is_set()

    async def _stop(self) -> None:
        self._stopped = True
        for stop in dict.fromkeys((self._stop_phase, self._kill)):
            with anyio.move_on_after(KILL_TIMEOUT):
                await stop()
                await self._done.wait()
            if self._done.is_set():
                return
        raise SandboxError(f"the sandbox could not be stopped within {KILL_TIMEOUT:g} s")

    async def _stop_at_once(self, within: float) -> None:
        """Try to end all, without a word of what it was.

        A start that is under way is waited for: what it starts must be killed too.
        """
        self._starting.deadline = min(self._starting.deadline, anyio.current_time() + within / 2)
        with anyio.move_on_after(within):
            await self._started.wait()
            try:
                await self._kill()
            except SandboxError:
                return  # it is gone, or the engine is: the removal says so

    async def _follow(self) -> None:
        try:
            with self._starting:
                try:
                    await self._way.begin()
                finally:
                    self._started.set()
                if self._prepare is not None:
                    await self._prepare()
            if self._starting.cancelled_caught:
                return
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                if not self._way.ends_with_report:
                    await self._wait_for_exit()
        except* Exception as faults:
            self._fault = self._fault or _first(faults)
        finally:
            self._begun.set()
            self._done.set()
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await self._way.close()

    async def _read(self) -> None:
        while (data := await self._way.read()) is not None:
            if self._printed.feed(data):
                self._last_output = anyio.current_time()
            if self._printed.begun:
                self._begun.set()
            if self._printed.ended and self._way.ends_with_report:
                break
        self._printed.close()
        self._output_over.set()
        if self._way.ends_with_report:
            if not self._printed.ended and not self._stopped:
                self.code = await self._way.exit_code()
            self._done.set()

    async def _wait_for_exit(self) -> None:
        self.code = await self._way.exit_code()
        with anyio.move_on_after(OUTPUT_GRACE):
            await self._output_over.wait()
        self._done.set()


def _first(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        inner = cast("tuple[BaseException, ...]", fault.exceptions)
        fault = inner[0]
    return fault
