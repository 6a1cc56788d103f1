"""Having a task's image ready: found, pulled or built."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import stat
import tarfile
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import anyio
from anyio import to_thread

from ...errors import BuildTimeout, ImageError
from ..protocol import Image, ImageRequest
from .api import Engine, EngineRefused
from .build import Builder
from .labels import own_labels

REWARDS = ("/logs/verifier/reward.txt", "/logs/verifier/reward.json")
"""Where verifiers write; an image that brings such a file would grade itself."""

LARGEST_REWARD = 1024 * 1024
LOGIN = "if it is private, run `docker pull` for it yourself and try again"


class Images:
    """The images of one engine, each looked at once."""

    def __init__(self, engine: Engine, default: str | None) -> None:
        self._engine = engine
        self._default = default
        self._builder = Builder(engine)
        self._one_at_a_time: dict[str, anyio.Lock] = {}
        self._planted: dict[str, dict[str, str | None]] = {}

    async def prepare(self, request: ImageRequest) -> Image:
        """The image that a task asks for. Raises ImageError, naming task and image."""
        if request.digest is not None:
            return await self._recorded(request, request.digest)
        if request.name is None and request.dockerfile is not None:
            return await self._built(request)
        name = request.name or self._default
        if name is None:
            raise ImageError(
                f"task {request.task} names no image; give it a docker_image or an "
                "environment/Dockerfile, or choose one with --image"
            )
        async with self._alone(name):
            found = await self._find(name)
            if found is None:
                await self._pull(name, request)
                found = await self._find(name)
        if found is None:
            raise ImageError(f"task {request.task}: image {name} was pulled but is not there")
        return await self._image(name, found)

    async def _recorded(self, request: ImageRequest, digest: str) -> Image:
        found = await self._find(digest)
        if found is None:
            name = request.name or "the image that was built"
            raise ImageError(
                f"task {request.task}: {name} is no longer here as {digest}, which the job began "
                "with; load or pull exactly that image, or start a new job"
            )
        return await self._image(request.name, found)

    async def _built(self, request: ImageRequest) -> Image:
        async with self._alone(f"{request.context}:{request.dockerfile}"):
            built = await self._builder.build(request)
        found = await self._find(built.tag)
        if found is None:
            raise ImageError(f"task {request.task}: {built.tag} was built but is not there")
        return await self._image(built.tag, found, built.seconds)

    def _alone(self, key: str) -> anyio.Lock:
        """Those who want the same image at the same time wait for the first."""
        return self._one_at_a_time.setdefault(key, anyio.Lock())

    async def _find(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await self._engine.json("GET", f"images/{name}/json")
        except EngineRefused as error:
            if error.status == 404:
                return None
            if error.status == 400:
                raise ImageError(f"{name!r} is no name of an image: {error.message}") from error
            raise
        return found

    async def _pull(self, name: str, request: ImageRequest) -> None:
        cannot = f"task {request.task}: image {name} is not here and can't be pulled"
        tagged = name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"
        try:
            with anyio.fail_after(request.build_timeout_sec):
                async with self._engine.call(
                    "POST", "images/create", params={"fromImage": tagged}
                ) as response:
                    reports = [report async for report in json_lines(response.content)]
        except EngineRefused as error:
            raise ImageError(f"{cannot}: {error.message}; {LOGIN}") from error
        except TimeoutError as error:
            raise BuildTimeout(
                f"task {request.task}: pulling image {name} took longer than "
                f"{request.build_timeout_sec:g} s"
            ) from error
        for report in reports:
            if "error" in report:
                raise ImageError(f"{cannot}: {report['error']}; {LOGIN}")

    async def _image(
        self, name: str | None, found: dict[str, Any], seconds: float | None = None
    ) -> Image:
        config: dict[str, Any] = found.get("Config") or {}
        repository: list[str] = found.get("RepoDigests") or []
        digest: str = found["Id"]
        if not digest.startswith("sha256:"):
            digest = f"sha256:{digest}"  # as Podman says it
        return Image(
            name=name,
            digest=digest,
            repository_digest=repository[0] if repository else None,
            workdir=config.get("WorkingDir") or None,
            entrypoint=bool(config.get("Entrypoint")),
            entrypoint_program=(config.get("Entrypoint") or [None])[0],
            path=_path(config.get("Env") or []),
            user=config.get("User") or None,
            build_seconds=seconds,
            planted_rewards=await self._planted_rewards(digest),
        )

    async def _planted_rewards(self, digest: str) -> dict[str, str | None]:
        async with self._alone(digest):
            if digest not in self._planted:
                self._planted[digest] = await self._look_for_rewards(digest)
        return self._planted[digest]

    async def _look_for_rewards(self, digest: str) -> dict[str, str | None]:
        """A container that is never started shows the image's files."""
        config = {
            "Image": digest,
            "Cmd": ["/"],
            "Entrypoint": [],
            "Labels": own_labels(),
            "NetworkDisabled": True,
        }
        name = f"trialog-look-{secrets.token_hex(6)}"
        container, _ = await self._engine.create(name, config)
        try:
            found: dict[str, str | None] = {}
            for path in REWARDS:
                at = await self._engine.stat(container, path)
                if at is None:
                    continue
                found[path] = None
                if at.kind == stat.S_IFREG and at.size <= LARGEST_REWARD:
                    async with self._engine.read_tree(container, path) as chunks:
                        tar = b"".join([chunk async for chunk in chunks])
                    found[path] = await to_thread.run_sync(_hash_of_only_file, tar)
            return found
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await self._engine.remove(container)


def _path(env: list[str]) -> str | None:
    return next((text.removeprefix("PATH=") for text in env if text.startswith("PATH=")), None)


def _hash_of_only_file(tar: bytes) -> str | None:
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as opened:
        info = opened.next()
        file = opened.extractfile(info) if info is not None and info.isreg() else None
        return None if file is None else hashlib.sha256(file.read()).hexdigest()


async def json_lines(content: AsyncIterable[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The reports that an engine streams, one JSON object a line."""
    async for line in content:
        if line.strip():
            yield json.loads(line)
