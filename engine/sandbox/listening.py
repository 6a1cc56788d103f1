"""A port of a sandbox's own loopback that the engine serves from outside.

A short process enters the network of the sandbox, listens there and hands the socket back. So no
program inside passes anything on, and nothing but this port leads out.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys

from ...events.errors import said
from ..errors import SandboxError

ENTER_SEC = 10.0
"""For the process that enters."""

BACKLOG = 32

_NS_GET_USERNS = 0xB701
_ENTER = """
import ctypes, os, socket, sys
back, port, backlog, *spaces = map(int, sys.argv[1:])
enter = ctypes.CDLL(None, use_errno=True).setns
for space in spaces:
    if enter(space, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
listener = socket.socket()
listener.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND: the loopback may not be up yet
listener.bind(("127.0.0.1", port))
listener.listen(backlog)
socket.send_fds(socket.socket(fileno=back), [b"."], [listener.fileno()])
"""


def listen_inside(process: int, port: int) -> socket.socket:
    """A socket that listens at 127.0.0.1 in the network of a process; blocks.

    It takes root, or the user whose name space the network belongs to. Raises SandboxError.
    """
    try:
        network = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(said(error)) from None
    spaces = [network]
    try:
        if os.geteuid() != 0:  # becomes the network's owner first, whose name space it made
            spaces.insert(0, fcntl.ioctl(network, _NS_GET_USERNS))
        return _handed_back(port, spaces)
    except OSError as error:
        raise _refused(said(error)) from None
    finally:
        for space in spaces:
            os.close(space)


def _handed_back(port: int, spaces: list[int]) -> socket.socket:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        numbers = [theirs.fileno(), port, BACKLOG, *spaces]
        try:
            ran = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _ENTER, *map(str, numbers)],
                stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ENTER_SEC,
                pass_fds=[theirs.fileno(), *spaces],
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _refused(f"it took over {ENTER_SEC:g} s") from None
        if ran.returncode != 0:
            words = ran.stderr.decode("utf-8", "replace").strip().splitlines()
            raise _refused(words[-1] if words else f"exit code {ran.returncode}")
        _, handed, _, _ = socket.recv_fds(ours, 1, 1)
    listener = socket.socket(fileno=handed[0])
    listener.setblocking(False)
    return listener


def _refused(why: str) -> SandboxError:
    return SandboxError(f"the engine can't listen on the sandbox's loopback: {why}")
