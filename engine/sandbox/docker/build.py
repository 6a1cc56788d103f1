"""Building a task's image from its Dockerfile."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
from anyio import to_thread

from ....events.errors import said
from ...errors import BuildTimeout, ImageError
from ...tasks.dockerfile import base_images, needs_buildkit
from ..protocol import ImageRequest
from .api import CHUNK, Engine, EngineRefused
from .context import Context, pack_context

LAST_LINES = 30
"""Lines of a build's output that an error shows."""

_HOUSEKEEPING = (" ---> ", "Removing intermediate container ")
"""Lines of the engine's about its own layers; one would come last, after what went wrong."""


_NEVER = datetime.min.replace(tzinfo=UTC)
"""Engines that don't say when an image got its name have none that is newer."""


class Built(NamedTuple):
    """An image that is there under a tag."""

    tag: str
    seconds: float | None
    """Null when it was there already."""


class Builder:
    """Builds on one engine. What was built from the same files and images is not built again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def build(self, request: ImageRequest) -> Built:
        """Build what a task's Dockerfile says, within its deadline.

        Raises ImageError with the end of the build's output, BuildTimeout, and ImageError for a
        Dockerfile that needs BuildKit where `docker buildx` is not installed.
        """
        assert request.dockerfile is not None
        context = request.context or request.dockerfile.parent
        folder = Path(await to_thread.run_sync(tempfile.mkdtemp, "", "trialog-build-"))
        try:
            packed = await self._pack(request, context, folder)
            tag = f"trialog/{_plain(request.task)}:{packed.digest[:24]}"
            if await self._is_current(tag, base_images(packed.dockerfile)):
                return Built(tag, None)
            begun = anyio.current_time()
            lines: deque[str] = deque(maxlen=LAST_LINES)
            try:
                with anyio.fail_after(request.build_timeout_sec):
                    await self._run(request, packed, context, tag, lines)
            except TimeoutError as error:
                raise BuildTimeout(
                    f"task {request.task}: building its image took longer than "
                    f"{request.build_timeout_sec:g} s (build_timeout_sec){_said(lines)}"
                ) from error
            return Built(tag, anyio.current_time() - begun)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(shutil.rmtree, folder)

    async def _pack(self, request: ImageRequest, context: Path, folder: Path) -> Context:
        assert request.dockerfile is not None
        try:
            return await to_thread.run_sync(
                pack_context, context, request.dockerfile, folder / "context.tar"
            )
        except OSError as error:
            raise ImageError(
                f"task {request.task}: the build context {context} can't be read: {said(error)}"
            ) from error

    async def _is_current(self, tag: str, bases: list[str]) -> bool:
        """Whether an image is there, and no image that it was made of was named after it.

        One that was pulled or made again since has another content under the name; where it has
        not, building again finds each step done.
        """
        built = await self._named(tag)
        if built is None:
            return False
        return all([(await self._named(base) or built) <= built for base in bases])

    async def _named(self, name: str) -> datetime | None:
        """When an image got its newest name here; null when it is not here."""
        try:
            found: dict[str, Any] = await self._engine.json("GET", f"images/{name}/json")
        except EngineRefused as error:
            if error.status in (400, 404):
                return None
            raise
        metadata: dict[str, Any] = found.get("Metadata") or {}
        said = str(metadata.get("LastTagTime") or "")
        try:
            return datetime.fromisoformat(said).astimezone(UTC)
        except (ValueError, OverflowError):
            return _NEVER

    async def _run(
        self, request: ImageRequest, packed: Context, context: Path, tag: str, lines: deque[str]
    ) -> None:
        reason = needs_buildkit(packed.dockerfile)
        if reason is None:
            try:
                await self._by_api(request, packed, tag, lines)
            except EngineRefused as error:
                if error.status != 400:
                    raise
                # The Dockerfile itself is refused, which no second try mends.
                raise ImageError(
                    f"task {request.task}: its image can't be built: {error.message}"
                ) from error
        elif await has_buildx():
            await _by_buildx(request, context, tag, lines)
        else:
            raise ImageError(
                f"task {request.task}: its Dockerfile needs BuildKit ({reason}), and `docker "
                "buildx` is not installed here; install it, or write the Dockerfile without"
            )

    async def _by_api(
        self, request: ImageRequest, packed: Context, tag: str, lines: deque[str]
    ) -> None:
        params: dict[str, str | int] = {"t": tag, "dockerfile": packed.name, "rm": 1, "forcerm": 1}
        async with self._engine.call(
            "POST",
            "build",
            params=params,
            data=_chunks(packed.tar),
            headers={"Content-Type": "application/x-tar"},
        ) as response:
            async for line in response.content:
                if not line.strip():
                    continue
                report: dict[str, Any] = msgspec.json.decode(line)
                _keep(lines, str(report.get("stream") or report.get("status") or ""))
                if "error" in report:
                    raise ImageError(
                        f"task {request.task}: its image can't be built: "
                        f"{report['error']}{_said(lines)}"
                    )


async def has_buildx() -> bool:
    """Whether `docker buildx` is installed here."""
    try:
        asked = await anyio.run_process(["docker", "buildx", "version"], check=False)
    except OSError:
        return False
    return asked.returncode == 0


async def _by_buildx(request: ImageRequest, context: Path, tag: str, lines: deque[str]) -> None:
    command = ["docker", "buildx", "build", "--load", "--progress", "plain", "--tag", tag]
    command += ["--file", str(request.dockerfile), str(context)]
    async with await anyio.open_process(
        command, stdin=-3, stderr=-2, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            async for data in process.stdout:
                _keep(lines, data.decode("utf-8", "replace"))
            code = await process.wait()
        finally:
            _end_group(process.pid)
    if code != 0:
        raise ImageError(
            f"task {request.task}: its image can't be built: docker buildx ended with exit code "
            f"{code}{_said(lines)}"
        )


def _end_group(leader: int) -> None:
    """End what a program of its own session started, should anything still run."""
    try:
        os.killpg(leader, 9)
    except ProcessLookupError:
        return


def _keep(lines: deque[str], text: str) -> None:
    lines.extend(
        line for line in text.splitlines() if line.strip() and not line.startswith(_HOUSEKEEPING)
    )


def _said(lines: deque[str]) -> str:
    return ". The end of its output:\n" + "\n".join(lines) if lines else ""


def _plain(task: str) -> str:
    """A task's name as a part of an image's."""
    return re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")[:60] or "task"


async def _chunks(path: Path) -> AsyncGenerator[bytes]:
    with await to_thread.run_sync(open, path, "rb") as file:
        while data := await to_thread.run_sync(file.read, CHUNK):
            yield data
