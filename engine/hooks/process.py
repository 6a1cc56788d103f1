"""One hook process, from the engine's side: fed, heard, watched, ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import Process

from .ending import Cause, Ending, blame
from .job import Job, answered
from .killing import kill_tree
from .mark import MARK
from .page import LOADING, Current, Page
from .wire import Answer, Finished, Given, Leaving, Question, Ready, Work, frame, frames, to_engine

STALLED = 0.1
"""Seconds in one call after which the works behind it are given to another process."""

LOAD_STALLED = 2.0
"""The same while a verifier is loaded."""

_WATCH = STALLED / 2
_AHEAD = 0.005
"""Seconds of work that a process is given ahead."""

_AHEAD_LIMIT = 64
_START_LIMIT = 60.0
"""Seconds in which a process must be ready, or begin a call that it was given."""

_TRACED = 0.3
"""Seconds for a process to write down where it is."""

_KILLED = 5.0
"""Seconds for the kernel to end what was killed."""

_CHUNK = 1 << 18
_PRINTED = 64 * 1024


class HookProcess:
    """A process, and the works that it has."""

    def __init__(
        self, memory: int, changed: Callable[[], None], printed: Callable[[bytes], None] | None
    ) -> None:
        self._memory = memory
        self._on_printed = printed
        self._changed = changed
        self._inflight: dict[int, Job] = {}
        self._outbox: deque[bytes] = deque()
        self._sent = anyio.Event()
        self._printed = bytearray()
        self._seq = 0
        self._busy = 0.001
        self._heard = time.monotonic()
        self._cause: Cause = "died"
        self._guilty: Current | None = None
        self._scope = CancelScope()
        self._tasks = anyio.create_task_group()
        self._unread = bytearray()
        self._page: Page
        self._process: Process
        self.ready = False
        self.stalled = False
        self.ending = False

    @property
    def room(self) -> int:
        """How many more works it may be given now."""
        if not self.ready or self.stalled or self.ending:
            return 0
        ahead = max(1, min(_AHEAD_LIMIT, int(_AHEAD / self._busy)))
        return ahead - len(self._inflight)

    @property
    def busy(self) -> float:
        """Seconds that a work takes, as far as is known."""
        return self._busy

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        return self.ready and not self._inflight and not self.ending

    def give(self, job: Job) -> None:
        """Hand it a work."""
        if not self._inflight:
            self._heard = time.monotonic()
        self._seq += 1
        self._inflight[self._seq] = job
        self._send(job.work(self._seq))

    def stop(self) -> None:
        """End it; nobody is at fault."""
        self._cause, self.ending = "closed", True
        self._scope.cancel()

    def take_back(self) -> list[Job]:
        """The works that it has not begun, which it will not begin any more."""
        self._page.skip = self._seq
        current = self._page.current.seq
        waiting = [seq for seq in self._inflight if seq != current]
        return [self._inflight.pop(seq) for seq in waiting]

    async def run(self) -> Ending:
        """Start it and serve until it has ended; nothing of it is left then. Raises OSError."""
        page = Page.make()
        mark = uuid4().hex
        try:
            self._page = Page(page)
            self._process = await anyio.open_process(
                [sys.executable, "-P", "-m", f"{__package__}.main", str(page), str(self._memory)],
                env={**os.environ, MARK: mark, "PYTHONHASHSEED": "0"},
                pass_fds=[page],
                start_new_session=True,
            )
        finally:
            os.close(page)
        try:
            with self._scope:
                async with self._tasks:
                    self._tasks.start_soon(self._write)
                    self._tasks.start_soon(self._drain)
                    self._tasks.start_soon(self._watch)
                    await self._read()
                    self._scope.cancel()
        finally:
            with CancelScope(shield=True):
                await self._end(mark)
        return self._ending()

    @property
    def printed(self) -> str:
        """The last that it printed."""
        return self._printed.decode("utf-8", "replace").strip()

    def left(self) -> list[Job]:
        """The works that nobody has done, in order."""
        return [job for job in self._inflight.values() if not job.cancelled]

    # What comes from the process

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while not self.ending:
            try:
                self._unread += await stdout.receive(_CHUNK)
            except anyio.EndOfStream:  # it is dead; or a hook closed the pipe, and will end
                await self._process.wait()
                return
            self._take(self._unread)

    def _take(self, buffer: bytearray, *, early: bool = False) -> None:
        """Note what the frames of a buffer say; `early`: they will come once more."""
        finished = False
        for raw in frames(buffer):
            message = to_engine.decode(raw)
            match message:
                case Given():
                    self._note(message)
                case Finished():
                    finished = self._finish(message) or finished
                case Question():
                    if not self.ending and not early:
                        self._tasks.start_soon(self._answer, message)
                case Ready():
                    self.ready = finished = True
                case Leaving():
                    self._cause, self.ending = "left", True
        self._heard = time.monotonic()
        if self.stalled:
            self.stalled = False
            finished = True
        if finished:
            self._changed()

    def _note(self, given: Given) -> None:
        job = self._inflight.get(given.seq)
        if job is not None and given.index == len(job.done):  # else it is known already
            job.done.append(given.outcome)

    def _finish(self, finished: Finished) -> bool:
        job = self._inflight.get(finished.seq)
        if job is None or len(job.done) < len(job.calls):  # the rest is still in the pipe
            return False
        del self._inflight[finished.seq]
        self._busy += 0.2 * (finished.busy / 1e9 - self._busy)
        job.ticket.succeed(job.done)
        return True

    async def _answer(self, question: Question) -> None:
        job = self._inflight.get(question.seq)
        answer = Answer(refused="nobody waits for the answer any more")
        if job is not None and job.ask is not None and not job.cancelled:
            answer = await answered(job.ask, question.app, question.action, question.arguments)
        self._send(answer)

    # What goes to it

    def _send(self, message: Work | Answer) -> None:
        self._outbox.append(frame(message))
        self._sent.set()

    async def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        while True:
            await self._sent.wait()
            self._sent = anyio.Event()
            raw = b"".join(self._outbox)
            self._outbox.clear()
            try:
                await stdin.send(raw)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # it is dead, which reading will tell

    async def _drain(self) -> None:
        """Read all that hooks print, so that none ever waits for it; the last of it is kept."""
        stderr = self._process.stderr
        assert stderr is not None
        async for chunk in stderr:
            self._printed += chunk
            del self._printed[:-_PRINTED]
            if self._on_printed is not None:
                self._on_printed(chunk)

    # How long it takes

    async def _watch(self) -> None:
        while not self.ending:  # noqa: ASYNC110 - another process makes the change
            await anyio.sleep(self._look())

    def _look(self) -> float:
        """See to the call that it is in; seconds until that must be done again."""
        if not self._inflight:
            waited = time.monotonic() - self._heard
            if not self.ready and waited > _START_LIMIT:
                self._stop("stuck", None)
            return _WATCH
        current = self._page.current
        job = self._inflight.get(current.seq)
        if current.seq == 0:
            if time.monotonic() - self._heard > _START_LIMIT:
                self._stop("stuck", None)
            return _WATCH
        elapsed = (time.monotonic_ns() - current.since) / 1e9
        limit = _limit(job, current.place)
        if elapsed >= limit:
            self._stop("timeout", current)
            return _WATCH
        stalled = LOAD_STALLED if current.place >= LOADING else STALLED
        if elapsed >= stalled and not self.stalled:
            self._take(bytearray(self._page.kept), early=True)  # given before, and not sent yet
            self.stalled = True
            self._changed()
        return max(0.001, min(_WATCH, limit - elapsed))

    def _stop(self, cause: Cause, guilty: Current | None) -> None:
        self._cause, self._guilty, self.ending = cause, guilty, True
        self._scope.cancel()

    async def _end(self, mark: str) -> None:
        """Kill all of it, and hear what it still had to say."""
        process = self._process
        if self._cause == "timeout":
            await self._ask_where()
        self.ending = True
        await to_thread.run_sync(kill_tree, process.pid, mark)
        assert process.stdout is not None
        with anyio.move_on_after(_KILLED), suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                self._unread += await process.stdout.receive(_CHUNK)
        with anyio.move_on_after(_KILLED):
            await process.wait()
        await process.aclose()
        self._take(self._unread)
        self._take(bytearray(self._page.kept))

    async def _ask_where(self) -> None:
        """Have it write down the line that it is at."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR2)
        written = ""
        with anyio.move_on_after(_TRACED):
            while not written or written != self._page.trace:
                written = self._page.trace
                await anyio.sleep(0.01)

    def _ending(self) -> Ending:
        current, trace = self._page.current, self._page.trace
        self._page.close()
        job = self._inflight.get(current.seq)
        blamed = self._cause == "died" or (self._cause == "timeout" and current == self._guilty)
        if job is None or not blamed:
            return Ending(self._cause, self.ready)
        if current.place < LOADING and current.place != len(job.done):  # it ended just in time
            return Ending(self._cause, self.ready)
        return blame(self._cause, job, current.place, trace, self._process.returncode)


def _limit(job: Job | None, index: int) -> float:
    if job is None:
        return float("inf")
    source = index - LOADING if index >= LOADING else job.calls[index].source
    return job.sources[source].timeout_sec
