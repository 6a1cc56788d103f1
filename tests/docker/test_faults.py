"""An engine that hangs, and one that goes away."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.abc import ByteStream

from trialog.engine.errors import SandboxGone, SandboxStartTimeout, SandboxUnavailable
from trialog.engine.sandbox.docker import DockerBackend
from trialog.engine.sandbox.docker.finding import find_engine
from trialog.engine.sandbox.protocol import Command

if TYPE_CHECKING:
    from conftest import Ran

pytestmark = pytest.mark.docker

MakeBox = Callable[..., Awaitable["Ran"]]


_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""What a connection that either side gave up raises."""


class Proxy:
    """Stands before the engine. Requests that match `hang` never reach it."""

    def __init__(self, place: Path, engine: str) -> None:
        self.place = place
        self.hang = re.compile(b"(?!)")
        self.hanging = anyio.Event()
        self._engine = engine.removeprefix("unix://")
        self._scope = anyio.CancelScope()

    async def serve(self) -> None:
        """Serve until it is cut off."""
        with self._scope:
            listener = await anyio.create_unix_listener(self.place)
            async with listener:
                await listener.serve(self._handle)

    def cut(self) -> None:
        """Close all connections, and take no more."""
        self._scope.cancel()
        self.place.unlink()

    async def _handle(self, client: ByteStream) -> None:
        with suppress(*_LOST):
            async with (
                client,
                await anyio.connect_unix(self._engine) as engine,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(self._answers, engine, client)
                # inside the group as well: what leaves it is an exception group
                with suppress(*_LOST):
                    await self._requests(client, engine)

    async def _requests(self, client: ByteStream, engine: ByteStream) -> None:
        async for data in client:
            if self.hang.search(data):
                self.hanging.set()
                await anyio.sleep_forever()
            await engine.send(data)
        await engine.send_eof()

    async def _answers(self, engine: ByteStream, client: ByteStream) -> None:
        with suppress(*_LOST):
            async for data in engine:
                await client.send(data)
            await client.aclose()


@pytest.fixture
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxy]:
    """A proxy before the engine, which serves."""
    place = tmp_path_factory.mktemp("p") / "s"
    made = Proxy(place, await anyio.to_thread.run_sync(find_engine))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.serve)
        with anyio.fail_after(10):
            while True:
                if await anyio.Path(place).exists():
                    break
                await anyio.sleep(0.01)
        yield made
        tasks.cancel_scope.cancel()


@pytest.fixture
async def through(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DockerBackend]:
    """A backend that speaks to the engine through the proxy."""
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{proxy.place}")
        made = await DockerBackend.connect()
    yield made
    await made.aclose()


async def test_start_that_hangs(
    make_box: MakeBox, backend: DockerBackend, through: DockerBackend, proxy: Proxy
) -> None:
    """A start that hangs is a start timeout, in time, and the sandbox can still be removed."""
    box = await make_box(through)
    proxy.hang = re.compile(rb"^POST \S*/start")
    begun = anyio.current_time()
    with pytest.raises(SandboxStartTimeout, match="1 s"):
        await box.sh("true", start_timeout=1.0)
    assert proxy.hanging.is_set()
    assert anyio.current_time() - begun < 6
    await box.sandbox.remove()


async def test_engine_that_hangs(
    make_box: MakeBox, through: DockerBackend, proxy: Proxy, backend: DockerBackend
) -> None:
    """When no call is answered any more, a start still ends in time."""
    box = await make_box(through)
    proxy.hang = re.compile(b"^(POST|GET|HEAD)")
    begun = anyio.current_time()
    with pytest.raises(SandboxStartTimeout):
        await box.sh("true", start_timeout=1.0)
    assert anyio.current_time() - begun < 6
    proxy.hang = re.compile(b"(?!)")
    await box.sandbox.remove()


async def test_creation_that_hangs(make_box: MakeBox, through: DockerBackend, proxy: Proxy) -> None:
    """A creation that hangs can be given up, and costs no more than some seconds."""
    proxy.hang = re.compile(rb"^POST \S*/create")
    begun = anyio.current_time()
    with anyio.move_on_after(1) as scope:
        await make_box(through)
    assert scope.cancelled_caught
    assert anyio.current_time() - begun < 6


async def test_creation_that_is_cancelled(
    make_box: MakeBox,
    through: DockerBackend,
    docker: Callable[..., Awaitable[str]],
    tmp_path: Path,
) -> None:
    """A creation that is cancelled leaves no container, whenever that happens."""
    for wait in (0.0, 0.005, 0.02, 0.05, 0.1):
        made: list[Ran] = []
        with anyio.move_on_after(wait):
            made.append(await make_box(through))
        for box in made:
            await box.sandbox.remove()
    listed = await docker("ps", "-aq", "--filter", f"label=trialog.log={tmp_path.name}")
    assert listed == ""


async def test_removal_that_hangs(make_box: MakeBox, through: DockerBackend, proxy: Proxy) -> None:
    """A removal that hangs can be given up at once, and tried again."""
    box = await make_box(through)
    proxy.hang = re.compile(b"^DELETE")
    begun = anyio.current_time()
    with anyio.move_on_after(0.5):
        await box.sandbox.remove()
    assert anyio.current_time() - begun < 1.5
    proxy.hang = re.compile(b"(?!)")
    await box.sandbox.remove()


@pytest.mark.parametrize("users", [False, True])
async def test_engine_goes_while_a_phase_runs(
    make_box: MakeBox, through: DockerBackend, proxy: Proxy, backend: DockerBackend, users: bool
) -> None:
    """An engine that goes away under a phase is told as that, soon, by this and later calls."""
    box = await make_box(through, separate_users=users)
    up = anyio.Event()

    async def run() -> None:
        with pytest.raises(SandboxGone, match="engine"):
            await box.sandbox.run(
                Command(argv=["sh", "-c", "echo up; sleep 300"]), lambda _: up.set()
            )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await up.wait()
        proxy.cut()
    with pytest.raises(SandboxGone):
        await box.sh("true")
    with pytest.raises(SandboxGone):
        await box.sandbox.save_tree("/app", box.spec.scratch / "tree", cap=1)
    with pytest.raises(SandboxGone):
        await box.sandbox.remove()
    other = DockerBackend(backend._engine)  # the same engine, by a way that works
    await other._engine.remove(box.sandbox.id)


async def test_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing answers, or nothing in time, or no address is one, that is said."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(SandboxUnavailable) as caught:
        await DockerBackend.connect()
    assert str(caught.value) == (
        f"no container engine answers at unix://{tmp_path}/none: No such file or directory"
    )
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(SandboxUnavailable, match=r"tcp://127.0.0.1:9: Connection refused$"):
        await DockerBackend.connect()
    monkeypatch.setenv("DOCKER_HOST", "smoke-signals")
    with pytest.raises(SandboxUnavailable, match="'smoke-signals' is no place"):
        await DockerBackend.connect()


async def test_engine_that_does_not_answer(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine has a deadline to answer in."""
    proxy.hang = re.compile(b"^GET")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{proxy.place}")
    begun = anyio.current_time()
    with pytest.raises(SandboxUnavailable, match=r"within 0\.5 s"):
        await DockerBackend.connect(deadline=0.5)
    assert anyio.current_time() - begun < 2


async def test_engine_elsewhere(make_box: MakeBox, tmp_path: Path) -> None:
    """An engine that does not see this machine's folders is refused as that."""
    from trialog.engine.sandbox.protocol import Mount

    missing = Mount(source=tmp_path / "not-there", target="/x")
    with pytest.raises(SandboxUnavailable, match=r"does not see this machine's folders.*not-there"):
        await make_box(mounts=[missing])
