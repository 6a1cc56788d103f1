"""A port of a sandbox's own loopback that the engine serves from outside."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from contract.conftest import Box
from helpers.gateway import CALL, KEY, Endpoint
from trialog.engine.errors import SandboxError
from trialog.engine.models.endpoint import read_endpoints
from trialog.engine.models.gateway.gateway import Gateway
from trialog.engine.models.gateway.sandbox import SandboxWithGateway
from trialog.engine.models.gateway.trial import TrialCalls
from trialog.engine.models.gateway.upstream import open_upstream
from trialog.engine.models.models import Models
from trialog.engine.sandbox.protocol import Listener
from trialog.events.clock import SystemClock
from trialog.events.kinds.parts import Limits
from trialog.events.open import memory_log

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


async def test_a_gateway(box: Box) -> None:
    """A program inside calls its model, and each call is told; whoever the engine runs as."""
    endpoint = Endpoint()
    told: list[Any] = []

    def emit(event: Any) -> str:
        told.append(event)
        return str(len(told))

    try:
        endpoints = read_endpoints(endpoint.environ)
        async with memory_log() as log, open_upstream(endpoints) as upstream:
            trial = TrialCalls(
                "m", Models(None, upstream=upstream), upstream, emit=emit, blobs=log.blobs,
                clock=SystemClock(),
            )  # fmt: skip
            served = Box(SandboxWithGateway(box.sandbox, Gateway(trial)), box.spec)
            program = ["python3", "-c", f"{CALL}\ntell(*chat())"]
            _, printed = await served.run(program, env={"TRIALOG_MODEL": "m"})
    finally:
        endpoint.close()
    assert 200 == json.loads(printed)[0]
    assert ["ModelCalled", "AgentMessage"] == [type(event).__name__ for event in told]
    assert [f"Bearer {KEY}"] == [asked.headers["authorization"] for asked in endpoint.asked]


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
