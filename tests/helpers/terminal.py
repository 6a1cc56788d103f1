"""`trialog` at a terminal of its own, and the processes that a sandbox runs."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 60.0


class Shell:
    """`trialog` on a terminal of its own, in the foreground of it."""

    def __init__(
        self, start: Callable[..., subprocess.Popen[str]], *words: object, **env: str
    ) -> None:
        self.screen = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x28\x00\xc8\x00\x00\x00\x00\x00")

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = start(
            *words, env={"TERM": "xterm", **env}, stdout=slave, stderr=slave,
            preexec_fn=take_terminal,
        )  # fmt: skip
        os.close(slave)

    def until(self, text: str) -> None:
        """Read on until the screen has shown this."""
        end = time.monotonic() + DEADLINE
        while text.encode() not in self.screen:
            assert time.monotonic() < end, f"{text!r} never came: {self.screen.decode()}"
            if not self._read(1.0) and self.process.poll() is not None:
                pytest.fail(f"{text!r} never came: {self.screen.decode()}")

    def end(self) -> int:
        """Read to the end: the exit code."""
        while self._read(DEADLINE):
            pass
        return self.process.wait(DEADLINE)

    def press_ctrl_c(self) -> None:
        """As the terminal's driver does: a signal to the whole foreground process group."""
        os.write(self._master, b"\x03")

    def _read(self, patience: float) -> bool:
        if not select.select([self._master], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the terminal's other end is closed
            return False
        self.screen += data
        return bool(data)

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)


def until(found: Callable[[], Any], what: str) -> Any:
    """Look again and again until something is there."""
    end = time.monotonic() + DEADLINE
    while not (value := found()):
        assert time.monotonic() < end, f"{what} never came"
        time.sleep(0.02)
    return value


def running(marker: str) -> list[int]:
    """Processes of this machine whose command line has the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def marker() -> str:
    """A number of seconds that no other sleep on this machine has."""
    return f"{3000 + os.getpid()}.{time.monotonic_ns() % 10**6:06}"


def name_of(pid: int) -> str:
    """A process's name, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
