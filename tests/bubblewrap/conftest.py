"""Sandboxes of bubblewrap's, with records of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from trialog.engine.sandbox.bubblewrap import BubblewrapBackend
from trialog.engine.sandbox.bubblewrap.box import BubblewrapSandbox
from trialog.engine.sandbox.protocol import Command, Exit, Image, SandboxSpec
from trialog.events.kinds.parts import Limits

MakeBox = Callable[..., Awaitable[BubblewrapSandbox]]


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[BubblewrapBackend]:
    """A backend whose records are this test's alone."""
    made = BubblewrapBackend(state=tmp_path / "state")
    yield made
    await made.aclose()


@pytest.fixture
async def make_box(tmp_path: Path, backend: BubblewrapBackend) -> AsyncIterator[MakeBox]:
    """Makes sandboxes that are removed afterwards; keywords replace the spec's fields."""
    boxes: list[BubblewrapSandbox] = []

    async def make(using: BubblewrapBackend | None = None, **fields: Any) -> BubblewrapSandbox:
        scratch = tmp_path / f"scratch{len(boxes)}"
        await anyio.Path(scratch).mkdir(exist_ok=True)
        spec = {
            "job": "job",
            "trial": f"trial{len(boxes)}",
            "log_id": "log",
            "image": Image(name=None),
            "workdir": "/app",
            "limits": Limits(),
            "scratch": scratch,
        }
        box = await (using or backend).create(SandboxSpec(**{**spec, **fields}))
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        await box.remove()


@pytest.fixture
async def box(make_box: MakeBox) -> BubblewrapSandbox:
    """A sandbox."""
    return await make_box()


async def sh(box: BubblewrapSandbox, script: str, **settings: Any) -> tuple[Exit, str]:
    """Run a shell script as one phase: how it ended and what it printed."""
    chunks: list[bytes] = []
    command = Command(argv=["sh", "-c", script], **{"timeout": 30.0, **settings})
    ended = await box.run(command, chunks.append)
    return ended, b"".join(chunks).decode("utf-8", "replace")


@pytest.fixture
def run() -> Callable[..., Awaitable[tuple[Exit, str]]]:
    """`sh`, for tests."""
    return sh
