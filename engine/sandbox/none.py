"""For jobs that need no sandbox: environments whose apps run in the engine's own process."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from anyio import to_thread

from ..archive import remove_tree
from ..errors import ImageError, SandboxUnavailable
from .protocol import Image, ImageRequest, Sandbox, SandboxSpec


class NoSandboxes:
    """Makes no sandbox."""

    name: Literal["in-process"] = "in-process"
    no_listener: str | None = None

    async def prepare(self, request: ImageRequest) -> Image:
        """There is none. Raises ImageError."""
        raise ImageError(f"task {request.task} needs a sandbox, which this job has none of")

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """There is none. Raises SandboxUnavailable."""
        raise SandboxUnavailable("this job has no sandboxes")

    async def reap(self, *, log_id: str | None = None) -> list[str]:
        """Nothing is left behind."""
        return []

    async def reclaim(self, folder: Path, image: Image | None = None) -> None:
        """Everything in it is this process's own."""
        await to_thread.run_sync(remove_tree, folder)

    async def aclose(self) -> None:
        """Nothing to give back."""
