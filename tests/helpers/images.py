"""Images for tests."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import anyio

from trialog.engine.sandbox.protocol import Image, ImageRequest, SandboxBackend

TEST_IMAGE = os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base:latest")


async def build_image(
    backend: SandboxBackend, folder: Path, lines: tuple[str, ...], files: dict[str, str | bytes]
) -> Image:
    """Build an image from the lines of a Dockerfile after FROM, with files beside it."""
    context = folder / f"context-{secrets.token_hex(3)}"
    await anyio.Path(context).mkdir()
    text = "\n".join([f"FROM {TEST_IMAGE}", *lines]) + "\n"
    for name, content in {"Dockerfile": text, **files}.items():
        data = content.encode() if isinstance(content, str) else content
        await anyio.Path(context / name).write_bytes(data)
    return await backend.prepare(
        ImageRequest(
            task=f"made {secrets.token_hex(3)}",
            dockerfile=context / "Dockerfile",
            context=context,
            build_timeout_sec=120,
        )
    )
