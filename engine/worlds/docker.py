"""App hosts in containers of their own, of the environment's image."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from ..archive import remove_tree
from ..authoring.task import TaskView
from ..errors import ImageError, SandboxError, SandboxGone
from ..sandbox.docker.api import Engine, EngineLost, EngineRefused, Pipes
from ..sandbox.docker.images import Images
from ..sandbox.docker.labels import own_labels
from ..sandbox.owner import this_process
from ..sandbox.protocol import ImageRequest, Mount
from .connection import DEADLINE, Host, HostedWorld
from .inside import LIB, VENDOR, Inside, seen_inside
from .process import BOOT, ENVIRONMENT, START_DEADLINE, VERSION, HostPool
from .source import WorldSource

USER = "65532:65532"
"""The apps' own user, who owns nothing in the image."""

PROCESSES = 1024
PULL_TIMEOUT = 600.0
"""Seconds."""

_ERROR_OUTPUT = 2
_LAST_WORDS = 4096
_ENDING = 10.0

_FIND_PYTHON = """\
for python in python3 python /usr/local/bin/python3 /usr/bin/python3; do
  found="$("$python" -V 2>&1)" || continue
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    exec "$python" "$@"
  fi
  seen="$seen $found;"
done
echo "the environment's image needs Python 3.11 or later, as python3; found:${seen:- none}" >&2
exit 96
"""


class DockerWorlds:
    """Worlds in containers of the environment's image: no network, a user of their own.

    The image must have a shell and Python 3.11 or later, and the package msgspec unless its Python
    is of the same minor version as the engine's; what apps import must be in it, too. `scratch` is
    a folder of the host for these worlds alone, which exists and can be mounted.
    """

    backend = "docker"

    def __init__(
        self,
        engine: Engine,
        scratch: Path,
        *,
        default_image: str | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        self._engine = engine
        self._scratch = scratch
        self._deadline = deadline
        self._images = Images(engine, default_image)
        self._inside = Inside(scratch / "inside", another_user=True)
        self._pool = HostPool()

    @classmethod
    async def connect(
        cls, scratch: Path, *, default_image: str | None = None, deadline: float = DEADLINE
    ) -> DockerWorlds:
        """Connect to the container engine; `default_image` is for environments without an image.

        Raises SandboxUnavailable.
        """
        await to_thread.run_sync(this_process)  # reads files once; labels have it from then on
        engine = await Engine.connect()
        return cls(engine, scratch, default_image=default_image, deadline=deadline)

    async def open(
        self, source: WorldSource, task: TaskView, *, seed: int, trial: str
    ) -> HostedWorld:
        """The world of one trial, not reset yet. Raises AppFault, SandboxError, ConfigError."""
        return await self._pool.open(
            f"{source.root}\n{source.image}",
            lambda: self._start(source),
            await to_thread.run_sync(seen_inside, source),
            task,
            seed=seed,
            deadline=self._deadline,
        )

    async def _start(self, source: WorldSource) -> Host:
        request = ImageRequest(
            task=f"of environment {source.name}", name=source.image, build_timeout_sec=PULL_TIMEOUT
        )
        image = await self._images.prepare(request)
        assert image.digest is not None
        try:
            mounts = await self._inside.mounts(source)
        except OSError as error:
            raise SandboxError(f"the app host's folders can't be made: {error}") from error
        channel = await ContainerChannel.start(
            self._engine, _config(image.digest, mounts), image.name or image.digest
        )
        host = Host(channel)
        await host.greet(START_DEADLINE)
        return host

    async def aclose(self) -> None:
        """End the containers that are free, remove the folders, and give connections back."""
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()
            await self._engine.aclose()
            await to_thread.run_sync(remove_tree, self._scratch)


def _config(image: str, mounts: list[Mount]) -> dict[str, Any]:
    environment = {"HOME": "/tmp", **ENVIRONMENT}  # noqa: S108 - the container's own
    return {
        "Image": image,
        "Hostname": "apps",
        "User": USER,
        "Entrypoint": ["/bin/sh", "-c", _FIND_PYTHON, "sh"],
        "Cmd": ["-s", "-P", "-c", BOOT, LIB, VENDOR, VERSION],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": "/",
        "OpenStdin": True,
        "StdinOnce": True,  # the host ends with the engine
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": True,
        "Labels": own_labels(),
        "HostConfig": {
            "AutoRemove": True,
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": "rw,mode=1777"},  # noqa: S108 - the container's own
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": PROCESSES,
            "LogConfig": {"Type": "none"},
            "Mounts": [
                {"Type": "bind", "Source": str(m.source), "Target": m.target, "ReadOnly": True}
                for m in mounts
            ],
        },
    }


class ContainerChannel:
    """An app host's pipes through the container engine; see Channel."""

    def __init__(self, engine: Engine, container: str, pipes: Pipes) -> None:
        self._engine = engine
        self._container = container
        self._pipes = pipes
        self._words = bytearray()
        self._ended = False

    @classmethod
    async def start(cls, engine: Engine, config: dict[str, Any], image: str) -> ContainerChannel:
        """Make and start a container. Raises SandboxError."""
        try:
            container, _ = await engine.create(f"trialog-apps-{secrets.token_hex(8)}", config)
        except EngineRefused as error:
            if error.status == 404:
                raise ImageError(f"image {image} went away: {error.message}") from error
            raise
        channel = cls(engine, container, engine.attach_pipes(container))
        try:
            await channel._pipes.open()
            await engine.start(container)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await channel.kill()
            if isinstance(error, EngineRefused):
                raise SandboxError(
                    f"no app host can be started in image {image}, which needs a shell at /bin/sh "
                    f"and Python 3.11 or later: {error.message}"
                ) from error
            raise
        return channel

    async def send(self, data: bytes) -> None:
        """See Channel."""
        try:
            await self._pipes.write(data)
        except (OSError, RuntimeError) as error:
            raise SandboxGone(f"its container has ended: {error}") from error

    async def receive(self) -> bytes:
        """See Channel."""
        while (part := await self._pipes.read_part()) is not None:
            stream, data = part
            if stream != _ERROR_OUTPUT:
                return data
            self._words += data
            del self._words[:-_LAST_WORDS]
        return b""

    async def kill(self) -> None:
        """See Channel."""
        if self._ended:
            return
        self._ended = True
        with anyio.move_on_after(_ENDING):
            try:
                await self._pipes.close()
                await self._engine.remove(self._container)
            except EngineLost:
                return  # labels tell it later

    async def last_words(self) -> str:
        """See Channel."""
        return self._words.decode("utf-8", "replace").strip()
