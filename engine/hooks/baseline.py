"""How a hook process is before each call, and what a hook must not leave behind."""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import resource
import signal
import sys
import threading
from typing import Any, TextIO

_SIGNALS = [int(number) for number in signal.valid_signals() if number < signal.SIGRTMIN]
_raw: Any = importlib.import_module("_signal")  # signal's own functions cost twenty times more
_getsignal: Any = _raw.getsignal
_sigmask: Any = _raw.pthread_sigmask
_PAGE = os.sysconf("SC_PAGE_SIZE")


def streams() -> tuple[TextIO, TextIO, TextIO]:
    """Make the standard streams anew; text that can't be encoded does no harm to who prints it."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout, sys.stderr = (
        open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        for fd in (1, 2)
    )
    return sys.stdin, sys.stdout, sys.stderr


class Baseline:
    """What a process is put back to after each call."""

    def __init__(self, memory: int, descriptors: tuple[int, ...]) -> None:
        self._descriptors = (0, 1, 2, *descriptors)
        self._pid = os.getpid()
        self._folder = os.getcwd()
        self._environ = dict(os.environ)
        self._handlers: list[Any] = list(map(_getsignal, _SIGNALS))
        self._recursion = sys.getrecursionlimit()
        self._streams = streams()
        self._memory = memory // 2
        self._threads = threading.active_count()
        self._core = resource.getrlimit(resource.RLIMIT_CORE)
        self._calls = 0

    @property
    def forked(self) -> bool:
        """Whether this is a child that a hook made, and that came back from it."""
        return os.getpid() != self._pid

    def loaded(self) -> None:
        """Threads that a verifier's modules started when they were loaded may stay."""
        self._threads = max(self._threads, threading.active_count())

    def restore(self) -> None:
        """Undo what a hook changed: timers, signals, streams, folder, variables."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        _sigmask(signal.SIG_SETMASK, ())
        handlers: list[Any] = list(map(_getsignal, _SIGNALS))
        if handlers != self._handlers:
            for number, now, before in zip(_SIGNALS, handlers, self._handlers, strict=True):
                if now != before:
                    signal.signal(number, before)
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)
        if (sys.stdin, sys.stdout, sys.stderr) != self._streams or any(
            stream.closed for stream in self._streams
        ):
            self._streams = streams()
        if not gc.isenabled():
            gc.enable()

    def settle(self) -> None:
        """The dearer part of `restore`, before another verifier's code runs."""
        os.chdir(self._folder)
        if dict(os.environ) != self._environ:
            os.environ.clear()
            os.environ.update(self._environ)

    def left_behind(self) -> str | None:
        """What is still there of the calls until now, for which the process must go."""
        try:
            while (child := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)) is not None:
                assert child  # it had ended, and nobody had asked
        except ChildProcessError:
            pass
        else:
            return "a process was left running"
        try:
            for fd in self._descriptors:
                fcntl.fcntl(fd, fcntl.F_GETFD)
        except OSError:
            return "what it did not open was closed"
        if threading.active_count() > self._threads:
            return "a thread was left running"
        self._calls += 1
        if self._calls % 256 == 0 and self._resident() > self._memory:
            return "it has grown too large"
        return None

    def _resident(self) -> int:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
