"""Fixtures of the suites that every implementation passes: here, both sandboxes."""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from helpers.images import TEST_IMAGE
from helpers.left import leftovers as leftovers
from trialog.engine.sandbox.protocol import (
    Command,
    Exit,
    Image,
    ImageRequest,
    Mount,
    Sandbox,
    SandboxBackend,
    SandboxSpec,
)
from trialog.events.kinds.parts import Limits


class Box:
    """A sandbox under test, with short ways to run things in it and folders of the host."""

    def __init__(self, sandbox: Sandbox, spec: SandboxSpec) -> None:
        self.sandbox = sandbox
        self.spec = spec

    @property
    def logs(self) -> Path:
        """The host's folder behind /logs."""
        return next(mount.source for mount in self.spec.mounts if mount.target == "/logs")

    @property
    def read_only(self) -> Path:
        """The host's folder behind /given, which is read-only inside."""
        return next(mount.source for mount in self.spec.mounts if mount.target == "/given")

    async def sh(self, script: str, **settings: Any) -> tuple[Exit, bytes]:
        """Run a shell script as one phase: how it ended and what it printed."""
        return await self.run(["sh", "-c", script], **settings)

    async def run(self, argv: list[str], **settings: Any) -> tuple[Exit, bytes]:
        """Run one phase: how it ended and what it printed."""
        chunks: list[bytes] = []
        ended = await self.sandbox.run(Command(argv=argv, **settings), chunks.append)
        return ended, b"".join(chunks)


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ]
)
def backend_name(request: pytest.FixtureRequest) -> str:
    """Each sandbox in turn."""
    return str(request.param)


@pytest.fixture
def connect(backend_name: str) -> Callable[[], Awaitable[SandboxBackend]]:
    """Makes the backend under test, as another process of the engine would."""
    if backend_name == "docker":
        from trialog.engine.sandbox.docker import DockerBackend

        return DockerBackend.connect
    from trialog.engine.sandbox.bubblewrap import BubblewrapBackend

    async def make() -> SandboxBackend:
        return BubblewrapBackend()

    return make


@pytest.fixture
async def backend(
    connect: Callable[[], Awaitable[SandboxBackend]],
) -> AsyncIterator[SandboxBackend]:
    """The backend under test."""
    made = await connect()
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture
async def image(backend: SandboxBackend) -> Image:
    """An image with /bin/sh and python3: the test image, or the host's own system."""
    return await backend.prepare(
        ImageRequest(
            task="contract",
            name=TEST_IMAGE if backend.name == "docker" else None,
            build_timeout_sec=60,
        )
    )


@pytest.fixture
async def make_box(
    backend: SandboxBackend, image: Image, tmp_path: Path
) -> AsyncIterator[Callable[..., Awaitable[Box]]]:
    """Makes sandboxes that are removed after the test; keywords replace the spec's fields."""
    boxes: list[Box] = []

    async def make(**fields: Any) -> Box:
        number = len(boxes)
        folders = tmp_path / f"box{number}"
        for name in ("logs", "given", "scratch"):
            await anyio.Path(folders / name).mkdir(parents=True)
        spec = {
            "job": "contract",
            "trial": f"{tmp_path.name}-{number}",
            "log_id": tmp_path.name,
            "image": image,
            "workdir": "/app",
            "limits": Limits(),
            "mounts": [
                Mount(source=folders / "logs", target="/logs"),
                Mount(source=folders / "given", target="/given", readonly=True),
            ],
            "scratch": folders / "scratch",
        }
        made = SandboxSpec(**{**spec, **fields})
        box = Box(await backend.create(made), made)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        await box.sandbox.remove()


@pytest.fixture
async def box(make_box: Callable[..., Awaitable[Box]]) -> Box:
    """One sandbox with the usual folders."""
    return await make_box()


_ENGINE = """
import sys, anyio
from pathlib import Path
from trialog.engine.sandbox.choose import choose
from trialog.engine.sandbox.protocol import *
from trialog.events.kinds.parts import Limits

async def main(name, image, log, scratch, mark):
    backend = await choose(name)
    found = await backend.prepare(
        ImageRequest(task="t", name=image or None, build_timeout_sec=60))
    box = await backend.create(SandboxSpec(
        job="j", trial=mark, log_id=log, image=found, workdir="/app", limits=Limits(),
        scratch=Path(scratch)))
    await box.run(Command(argv=["sh", "-c", f": {mark}; echo up; sleep 300; :"]),
                  lambda data: print(data.decode(), end="", flush=True))

anyio.run(main, *sys.argv[1:])
"""


@pytest.fixture
def killed_engine(
    backend_name: str, tmp_path: Path, mark: str, running: Callable[[str], list[int]]
) -> Callable[[str], Awaitable[str]]:
    """Starts another engine with a sandbox of a log, and kills it; gives a word of its command."""
    numbers = itertools.count()

    async def start_and_kill(log_id: str) -> str:
        scratch = tmp_path / f"killed{next(numbers)}"
        scratch.mkdir()
        name = f"{mark}{scratch.name}"
        image = TEST_IMAGE if backend_name == "docker" else ""
        command = [sys.executable, "-c", _ENGINE, backend_name, image, log_id, str(scratch), name]
        async with await anyio.open_process(command, stderr=None) as process:
            assert process.stdout is not None
            with anyio.fail_after(60):
                assert await process.stdout.receive() == b"up\n"
            assert await anyio.to_thread.run_sync(running, name)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        return name

    return start_and_kill
