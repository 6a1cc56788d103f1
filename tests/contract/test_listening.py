"""A port of a sandbox's own loopback that the engine serves from outside."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from trialog.engine.errors import SandboxError
from trialog.engine.sandbox.protocol import Listener
from trialog.events.kinds.parts import Limits

if TYPE_CHECKING:
    from conftest import Box

PORT = 4119

ASK = f"""
import socket
for host, port in [("127.0.0.1", {PORT}), ("127.0.0.1", %d)]:
    try:
        print(socket.create_connection((host, port), 5).recv(99).decode())
    except OSError as error:
        print(type(error).__name__)
"""


class Served:
    """Says a word to whoever connects."""

    def __init__(self) -> None:
        self.listeners: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def take(self, listener: socket.socket) -> None:
        """Serve a socket."""
        self.listeners.append(listener)
        listener.setblocking(True)
        thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"from outside")

    def close(self) -> None:
        """Stop."""
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for thread in self._threads:
            thread.join(5)


@pytest.fixture
def served() -> Iterator[Served]:
    """A server that is closed after the test."""
    made = Served()
    yield made
    made.close()


@pytest.fixture
def hosts_port() -> Iterator[int]:
    """A port of this machine's loopback that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_only_what_listens_is_reached(box: Box, served: Served, hosts_port: int) -> None:
    """The command can connect at once, and to nothing else; without it, to nothing at all."""
    with socket.create_connection(("127.0.0.1", hosts_port), 5):
        pass  # it is there, for those outside
    ask = ["python3", "-c", ASK % hosts_port]
    _, printed = await box.run(ask)
    assert ["ConnectionRefusedError"] * 2 == printed.decode().split()
    _, printed = await box.run(ask, listener=Listener(PORT, served.take))
    assert ["from outside", "ConnectionRefusedError"] == printed.decode().splitlines()
    _, printed = await box.run(ask)
    assert ["ConnectionRefusedError"] * 2 == printed.decode().split()


async def test_with_a_network(
    make_box: Callable[..., Awaitable[Box]], served: Served, backend_name: str
) -> None:
    """A sandbox with a network has a loopback of its own on Docker, and this machine's else."""
    box = await make_box(limits=Limits(network=True))
    assert (backend_name == "docker") == box.sandbox.own_loopback
    if box.sandbox.own_loopback:
        _, printed = await box.run(
            ["python3", "-c", ASK % PORT], listener=Listener(PORT, served.take)
        )
        assert ["from outside", "from outside"] == printed.decode().splitlines()


async def test_a_phase_beside_an_entrypoints_process(
    make_box: Callable[..., Awaitable[Box]], served: Served, backend_name: str
) -> None:
    """It holds for phases of other users, too, which come beside another first process."""
    box = await make_box(separate_users=backend_name == "docker")
    user = {"user": "65534"} if backend_name == "docker" else {}
    ended, printed = await box.run(
        ["python3", "-c", ASK % PORT], listener=Listener(PORT, served.take), **user
    )
    assert (0, "from outside") == (ended.code, printed.decode().splitlines()[0])


async def test_a_port_that_can_not_be_had(box: Box, served: Served) -> None:
    """It is a fault of the sandbox that says why, and the command has not run."""
    with pytest.raises(SandboxError, match="can't listen on the sandbox's loopback"):
        await box.sh("touch /logs/ran", listener=Listener(70_000, served.take))
    assert not (box.logs / "ran").exists()
    ended, _ = await box.sh("touch /logs/ran")
    assert (0, True) == (ended.code, (box.logs / "ran").exists())
    assert [] == served.listeners
