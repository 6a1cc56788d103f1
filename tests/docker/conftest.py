"""What tests of the Docker sandbox need beside the engine itself."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from helpers.images import TEST_IMAGE, build_image
from trialog.engine.sandbox.docker import DockerBackend
from trialog.engine.sandbox.docker.sandbox import DockerSandbox
from trialog.engine.sandbox.protocol import (
    Command,
    Exit,
    Image,
    ImageRequest,
    Mount,
    SandboxSpec,
)
from trialog.events.kinds.parts import Limits


@pytest.fixture
async def backend() -> AsyncIterator[DockerBackend]:
    """The backend, on the engine that DOCKER_HOST names."""
    made = await DockerBackend.connect()
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture
async def image(backend: DockerBackend) -> Image:
    """The test image."""
    return await backend.prepare(ImageRequest(task="docker", name=TEST_IMAGE, build_timeout_sec=60))


@pytest.fixture
async def docker() -> Callable[..., Awaitable[str]]:
    """Runs the engine's own command line: what it prints."""

    async def run(*words: str) -> str:
        return (await anyio.run_process(["docker", *words])).stdout.decode().strip()

    return run


@pytest.fixture
async def build(
    backend: DockerBackend, tmp_path: Path, docker: Callable[..., Awaitable[str]]
) -> AsyncIterator[Callable[..., Awaitable[Image]]]:
    """Builds an image from the lines of a Dockerfile that come after FROM; gone after the test."""
    made: list[str] = []

    async def make(*lines: str, **files: str) -> Image:
        built = await build_image(backend, tmp_path, lines, dict(files))
        assert built.name is not None
        made.append(built.name)
        return built

    yield make
    for name in made:
        await docker("image", "rm", "--force", name)


class Ran:
    """A sandbox and a short way to run shell scripts in it."""

    def __init__(self, sandbox: DockerSandbox, spec: SandboxSpec) -> None:
        self.sandbox = sandbox
        self.spec = spec

    async def sh(self, script: str, **settings: Any) -> tuple[Exit, bytes]:
        """Run a shell script as one phase."""
        chunks: list[bytes] = []
        command = Command(argv=["sh", "-c", script], **settings)
        ended = await self.sandbox.run(command, chunks.append)
        return ended, b"".join(chunks)


@pytest.fixture
async def make_box(
    backend: DockerBackend, image: Image, tmp_path: Path
) -> AsyncIterator[Callable[..., Awaitable[Ran]]]:
    """Makes sandboxes that are removed after the test; keywords replace the spec's fields."""
    made: list[Ran] = []

    async def make(by: DockerBackend = backend, **fields: Any) -> Ran:
        folders = tmp_path / f"box{secrets.token_hex(3)}"
        for name in ("logs", "scratch"):
            await anyio.Path(folders / name).mkdir(parents=True)
        spec = SandboxSpec(
            **{
                "job": "docker",
                "trial": f"{tmp_path.name}-{folders.name}",
                "log_id": tmp_path.name,
                "image": image,
                "workdir": "/app",
                "limits": Limits(),
                "mounts": [Mount(source=folders / "logs", target="/logs")],
                "scratch": folders / "scratch",
                **fields,
            }
        )
        box = Ran(await by.create(spec), spec)
        if by is backend:
            made.append(box)
        return box

    yield make
    for box in made:
        await box.sandbox.remove()
