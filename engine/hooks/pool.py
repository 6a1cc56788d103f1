"""A few hook processes that all trials share."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import TracebackType

import anyio
from anyio import CancelScope

from ...events.errors import TrialogError
from .asking import JobHooks
from .ending import Ending
from .job import Job
from .process import HookProcess
from .protocol import HookFault
from .wire import Outcome

_MORE = 8
"""Processes beside the usual ones while some are held up by calls that take long."""

_START = 0.2
"""Seconds that it takes to start one; so much must wait, or those at work are done as soon."""

_START_TRIES = 3
_DEATHS = 3
"""So often a work is given to another process when one ends under it and no hook is to blame."""

_LOAD_TRIES = 2
"""So often a verifier's code may bring down a process while it is loaded."""


class HooksUnavailable(TrialogError):
    """No hook process can be had, or the pool is closed."""

    category = "host_failed"


class HookPool(JobHooks):
    """Runs hooks in processes of their own: an async context manager.

    `size` processes work at once. One that is held up in a long call doesn't count while it is, and
    the works behind it go to others. `memory` is in bytes, for each process; `printed` is given
    what hooks print.
    """

    def __init__(
        self,
        *,
        size: int = 2,
        memory: int = 2 * 1024**3,
        printed: Callable[[bytes], None] | None = None,
    ) -> None:
        super().__init__()
        self._size = size
        self._memory = memory
        self._printed = printed
        self._processes: list[HookProcess] = []
        self._waiting: deque[Job] = deque()
        self._failures = 0
        self._load_failures: Counter[tuple[str, str, str]] = Counter()
        self._broken: dict[tuple[str, str, str], HookFault] = {}
        self._gone = anyio.Event()
        self._closed = False

    async def __aenter__(self) -> HookPool:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        await self.aclose()
        return await self._tasks.__aexit__(kind, error, traceback)

    async def aclose(self) -> None:
        """End the processes; whoever still waits gets HooksUnavailable."""
        self._closed = True
        for process in list(self._processes):
            process.stop()
        with CancelScope(shield=True):
            while self._processes:
                await self._gone.wait()
        self._refuse("the hooks are closed")

    async def done(self, job: Job) -> list[Outcome]:
        """See JobHooks. Raises HooksUnavailable."""
        if not job.calls:
            return []
        if self._closed:
            raise HooksUnavailable("the hooks are closed")
        self._waiting.append(job)
        self._assign()
        try:
            return await job.ticket
        except BaseException:
            job.cancelled = True
            raise

    async def done_each(self, jobs: Sequence[Job]) -> list[list[Outcome] | Exception]:
        """See JobHooks."""
        asked = [job for job in jobs if job.calls]
        if self._closed and asked:
            return [HooksUnavailable("the hooks are closed")] * len(jobs)
        self._waiting.extend(asked)
        self._assign()
        found: list[list[Outcome] | Exception] = []
        try:
            for job in jobs:
                try:
                    found.append(await job.ticket if job.calls else [])
                except HooksUnavailable as error:
                    found.append(error)
        except BaseException:
            for job in asked:
                job.cancelled = True
            raise
        return found

    def _assign(self) -> None:
        """Give what waits to processes that have room, and see that there are enough of them."""
        waiting = self._waiting
        if self._closed:
            return
        for process in self._processes:
            if process.stalled:
                waiting.extendleft(reversed(process.take_back()))
        while waiting and self._processes:
            process = max(self._processes, key=_room)
            if process.room <= 0:
                break
            job = waiting.popleft()
            if not job.cancelled:
                for number, source in enumerate(job.wired):
                    if source.key in self._broken:
                        job.broken[number] = self._broken[source.key]
                process.give(job)
        working = [p for p in self._processes if not p.stalled and not p.ending]
        if self._short_of(working) and len(self._processes) < self._size + _MORE:
            process = HookProcess(self._memory, self._assign, self._printed)
            self._processes.append(process)
            self._tasks.start_soon(self._serve, process)
        elif not waiting and len(working) > self._size:
            for process in working[self._size :]:
                if process.idle:
                    process.stop()

    def _short_of(self, working: Sequence[HookProcess]) -> bool:
        """Whether another process is worth its start, with these at work."""
        if not self._waiting or len(working) >= self._size:
            return False
        return all(len(self._waiting) * process.busy > _START for process in working)

    async def _serve(self, process: HookProcess) -> None:
        """A process's whole life."""
        reason = ""
        try:
            ending = await process.run()
            reason = process.printed.rpartition("\n")[2]
        except OSError as error:
            ending, reason = Ending("died", False), str(error)
        finally:
            self._processes.remove(process)
            gone, self._gone = self._gone, anyio.Event()
            gone.set()
        self._settle(process, ending)
        if ending.ready or ending.cause == "closed":
            self._failures = 0
        else:
            self._failures += 1
            if self._failures >= _START_TRIES:
                self._failures = 0
                self._refuse(f"no hook process can be started: {reason or ending.cause}")
        self._assign()

    def _settle(self, process: HookProcess, ending: Ending) -> None:
        """Blame the call that brought a process down, if one did; queue the rest anew."""
        job = ending.job
        if job is not None and ending.fault is not None:
            if ending.loading is None:
                job.done.append(Outcome(fault=ending.fault))
            else:
                key = job.wired[ending.loading].key
                job.broken[ending.loading] = ending.fault
                self._load_failures[key] += 1
                if self._load_failures[key] >= _LOAD_TRIES:
                    self._broken[key] = ending.fault
        for left in reversed(process.left()):
            if job is None and ending.cause in ("died", "stuck"):
                deaths = left.died()
                if deaths > _DEATHS:
                    left.fail_rest(
                        HookFault(error=f"its process ended {deaths} times between two calls")
                    )
            if len(left.done) == len(left.calls):
                left.ticket.succeed(left.done)
            else:
                self._waiting.appendleft(left)

    def _refuse(self, reason: str) -> None:
        while self._waiting:
            self._waiting.popleft().ticket.fail(HooksUnavailable(reason))


def _room(process: HookProcess) -> int:
    return process.room
