"""The hook process: ``python -m trialog.engine.hooks.main PAGE MEMORY``.

It reads works from what was its standard input and writes outcomes to what was its standard
output; both descriptors are moved away before any verifier's code runs, so that a hook that prints
or reads reaches neither. It never ends by itself while the engine lives: the engine ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import os
import resource
import signal
import sys
import threading
import time
from functools import partial
from typing import Any, NoReturn

import msgspec

from .baseline import Baseline
from .calls import Material
from .page import LOADING, Page
from .performing import perform
from .sources import Sources
from .wire import (
    Answer,
    Finished,
    Given,
    Leaving,
    Question,
    Ready,
    ToEngine,
    Work,
    frame,
    frames,
    to_process,
)

_FLUSH = 5_000_000
"""Nanoseconds for which outcomes are gathered before they are sent."""

_CHUNK = 1 << 20
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class Process:
    """The loop of a hook process."""

    def __init__(self, requests: int, replies: int, page: Page, memory: int) -> None:
        self._requests = requests
        self._replies = replies
        self._page = page
        self._buffer = bytearray()
        self._works: list[Work] = []
        self._answers: list[Answer] = []
        self._flushed = time.monotonic_ns()
        self._asking = threading.Lock()
        self._sources = Sources()
        self._last: object = None
        self._loading = False
        self._baseline = Baseline(memory, (requests, replies))

    def run(self) -> NoReturn:
        """Serve until the engine is gone."""
        os.register_at_fork(after_in_child=self._forked)
        self._say(Ready())
        while True:
            self._flush()
            self._read()
            while self._works:
                works, self._works = self._works, []
                for work in works:
                    self._work(work)

    def _work(self, work: Work) -> None:
        page, baseline = self._page, self._baseline
        begun = time.monotonic_ns()
        page.begin(work.seq, len(work.done), begun)
        if work.seq <= page.skip:
            page.end()
            return
        material = Material(work)
        done = work.done
        ask = partial(self._ask, work.seq) if work.live else None

        def begin(index: int) -> None:
            if baseline.forked:  # a verifier's file forked while it was loaded
                os._exit(0)
            if self._loading:
                baseline.loaded()
            self._loading = index >= LOADING
            page.begin(work.seq, index, time.monotonic_ns())

        now = begun
        while len(done) < len(work.calls):
            source = work.sources[work.calls[len(done)].source]
            if source.key != self._last:
                baseline.settle()
                self._last = source.key
            outcome = perform(self._sources, work, material, done, begin, ask)
            if baseline.forked:
                os._exit(0)
            before, now = now, time.monotonic_ns()
            outcome.taken = now - before
            done.append(outcome)
            self._keep(Given(work.seq, len(done) - 1, outcome))
            page.end()
            baseline.restore()
            reason = baseline.left_behind()
            if reason is not None:
                if len(done) == len(work.calls):
                    self._keep(Finished(work.seq, now - begun))
                self._leave(reason)
            if work.live or now - self._flushed > _FLUSH:
                self._flush(now)
        self._keep(Finished(work.seq, now - begun))

    def _leave(self, reason: str) -> NoReturn:
        self._say(Leaving(reason))
        while True:  # the engine ends this process with all that is below it
            signal.pause()

    def _ask(self, seq: int, app: str, action: str, arguments: dict[str, Any]) -> Any:
        encoded = msgspec.json.encode(arguments)
        with self._asking:  # a hook may ask from threads of its own
            self._say(Question(seq, app, action, encoded))
            while not self._answers:
                self._read()
            answer = self._answers.pop()
        return answer.given()

    def _read(self) -> None:
        """Wait for more from the engine."""
        chunk = self._of(os.read, self._requests, _CHUNK)
        if not chunk:
            os._exit(0)
        self._buffer += chunk
        for raw in frames(self._buffer):
            message = to_process.decode(raw)
            if isinstance(message, Work):
                self._works.append(message)
            else:
                self._answers.append(message)

    def _say(self, message: ToEngine) -> None:
        self._keep(message)
        self._flush()

    def _keep(self, message: ToEngine) -> None:
        raw = frame(message)
        if not self._page.put(raw):
            self._flush()
            if not self._page.put(raw):
                self._write(raw)

    def _flush(self, now: int = 0) -> None:
        kept = self._page.kept
        if kept:
            self._write(kept)
            self._page.sent()
        self._flushed = now or time.monotonic_ns()

    def _write(self, raw: bytes) -> None:
        view = memoryview(raw)
        while view:
            view = view[self._of(os.write, self._replies, view) :]

    def _of(self, call: Any, fd: int, what: Any) -> Any:
        try:
            return call(fd, what)
        except OSError:  # the engine is gone, or a hook closed what it did not open
            os._exit(70)

    def _forked(self) -> None:
        """In a child that a hook made: nothing of the engine's is within reach."""
        with contextlib.suppress(OSError):
            os.close(self._requests)
            os.close(self._replies)


def _apart(fd: int) -> int:
    """A descriptor moved out of the way, that programs started by hooks do not get."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)


def _prepare(page: int, memory: int) -> tuple[int, int]:
    """Make this process one that can do little harm; the descriptors to the engine."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what a hook's children leave behind is ours to see
    requests, replies = _apart(0), _apart(1)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    os.set_inheritable(page, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # where memory runs out, this goes before the engine
    faulthandler.enable(page, all_threads=False)
    faulthandler.register(signal.SIGUSR2, page, all_threads=False)
    sys.dont_write_bytecode = True
    sys.path[:] = [os.path.abspath(path) for path in sys.path]
    sys.argv[1:] = []
    return requests, replies


def main() -> NoReturn:
    """Be a hook process."""
    page, memory = int(sys.argv[1]), int(sys.argv[2])
    requests, replies = _prepare(page, memory)
    Process(requests, replies, Page(page), memory).run()


if __name__ == "__main__":
    main()
