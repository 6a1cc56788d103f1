"""A phase whose processes stay for the next one, and how that one comes to be beside them.

What keeps them from the verifier are name spaces: each phase has its own of processes and of
mounts, and closed mounts are in the verifier's alone. Only the network is one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import threading
from pathlib import Path

from ...errors import SandboxUnavailable

KEEPER = """
trap : HUP INT QUIT TERM USR1 USR2 ALRM PIPE
echo started >&9
/bin/sh -c '
echo "first $$" >&9
( exec "$@" ) 2>&1 9>&-
code=$?
for each in /proc/[0-9]*/stat; do
  if read -r line <"$each"; then echo "left $line" >&9; fi
done
echo "ended $code" >&9
' "$0" "$@"
echo over >&9
exec >/dev/null 2>&1 9>&-
while :; do sleep 3600; done
"""
"""The first process inside: it stays. The command's own shell tells what comes of it."""

_NS_GET_USERNS = 0xB701
NETWORK, USER = 10, 11
"""Descriptors of the name spaces to enter."""


def end_command(first: int, shell: int) -> None:
    """Kill the command of a kept phase, and nothing that it started; blocks.

    `first` is the phase's first process on the host, `shell` the command's shell, inside.
    """
    try:
        namespace = os.readlink(f"/proc/{first}/ns/pid")
    except OSError:
        return
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.readlink(entry / "ns/pid") != namespace:
                continue
            status = (entry / "status").read_text("utf-8", "replace")
            ids = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            if int(ids.split()[-1]) == shell:
                for child in (entry / "task" / entry.name / "children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
        except (OSError, StopIteration):
            continue


class Beside:
    """The network's name space of a kept phase, for another one to run in; making it blocks."""

    def __init__(self, first: int) -> None:
        if shutil.which("nsenter") is None:
            raise SandboxUnavailable(
                "there is no nsenter on PATH, which a task with keep_processes needs; install "
                "util-linux, or use --sandbox docker"
            )
        self._bwrap = shutil.which("bwrap") or "bwrap"
        self._network = os.open(f"/proc/{first}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        # Root may enter it as it is; others become its owner first, whose name space they made.
        self._user = None if os.geteuid() == 0 else fcntl.ioctl(self._network, _NS_GET_USERNS)

    @property
    def descriptors(self) -> dict[int, int]:
        """What the program needs, by the number that it has there."""
        found = {NETWORK: self._network}
        return found if self._user is None else {**found, USER: self._user}

    def words(self, options: list[str]) -> list[str]:
        """The command that enters it and then runs bwrap with these options."""
        user = [f"--user=/proc/self/fd/{USER}", "--preserve-credentials"]
        return [
            "nsenter",
            f"--net=/proc/self/fd/{NETWORK}",
            *(user if self._user is not None else []),
            "--",
            self._bwrap,
            *options,
        ]

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._network)
        if self._user is not None:
            os.close(self._user)


def drain(output: int) -> None:
    """Read what kept processes print, so that none of them waits for a reader; takes `output`."""

    def read() -> None:
        try:
            while os.read(output, 64 * 1024):
                pass
        finally:
            os.close(output)

    os.set_blocking(output, True)
    threading.Thread(target=read, name="drain kept processes", daemon=True).start()
