"""Making sandboxes on a container engine."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio import to_thread

from ...archive import remove_tree
from ...errors import ImageError, LimitsRefused, SandboxError, SandboxUnavailable, TransferFailed
from ..owner import is_dead, this_process
from ..protocol import Image, ImageRequest, SandboxSpec
from .api import Engine, EngineRefused
from .changes import Changes
from .config import add_volume, container_config
from .finishing import finished
from .images import Images
from .labels import container_name, owner_of
from .limits import host_config, may_limit_storage, storage_warning
from .listening import why_no_listener
from .network import OwnNetwork
from .pythons import Pythons
from .reaping import reap
from .reclaim import empty_folder
from .sandbox import DockerSandbox, make_control
from .trees import restore
from .workdir import make_workdir


class DockerBackend:
    """Sandboxes on one container engine."""

    def __init__(
        self,
        engine: Engine,
        *,
        default_image: str | None = None,
        strict_limits: bool = False,
        no_listener: str | None = None,
    ) -> None:
        self.no_listener = no_listener
        self._engine = engine
        self._strict = strict_limits
        self._images = Images(engine, default_image)
        self._network = OwnNetwork(engine)
        self._changes = Changes()
        self._pythons = Pythons(engine)
        self._no_storage_limit: str | None = None
        self._seen_image: str | None = None
        self._abandoned: list[str] = []
        """Names of containers that the engine may have made after nobody waited any more."""

    @classmethod
    async def connect(
        cls,
        *,
        default_image: str | None = None,
        strict_limits: bool = False,
        deadline: float = 2.0,
    ) -> DockerBackend:
        """Connect to the engine that DOCKER_HOST, the context or the usual sockets name.

        `default_image` is for tasks that name none; with `strict_limits` a sandbox whose limits
        can't all be held is refused. Raises SandboxUnavailable when no engine answers within
        `deadline` seconds.
        """
        await to_thread.run_sync(this_process)  # reads files once; labels have it from then on
        engine = await Engine.connect(deadline=deadline)
        return cls(
            engine, default_image=default_image, strict_limits=strict_limits,
            no_listener=await to_thread.run_sync(why_no_listener),
        )  # fmt: skip

    @property
    def name(self) -> Literal["docker"]:
        """As in SandboxStarted."""
        return "docker"

    async def prepare(self, request: ImageRequest) -> Image:
        """Have an image ready; see the protocol. Raises ImageError, BuildTimeout."""
        image = await self._images.prepare(request)
        self._seen_image = image.digest
        return image

    async def create(self, spec: SandboxSpec) -> DockerSandbox:
        """Make a sandbox; its container runs only while a phase does.

        Raises SandboxError, LimitsRefused.
        """
        if spec.image.digest is None:
            raise SandboxError("a container needs an image that was prepared on its engine")
        await to_thread.run_sync(make_control, spec.scratch)
        config, warnings = await self._config(spec)
        volume = f"trialog-{secrets.token_hex(8)}" if spec.workspace is not None else None
        if volume is not None:
            add_volume(config, volume, spec)
        container, said = await self._make(spec, config, warnings)
        sandbox = DockerSandbox(
            self._engine,
            container,
            spec,
            warnings=[*warnings, *(("engine_warning", text) for text in said)],
            changes=self._changes,
            pythons=self._pythons,
            volume=volume,
            network=self._network,
        )
        try:
            if spec.workspace is not None:
                await self._restore(container, spec.workdir, spec.workspace)
            else:
                await make_workdir(self._engine, container, spec)
        except BaseException:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await sandbox.remove()
            raise
        return sandbox

    async def _restore(self, container: str, workdir: str, workspace: Path) -> None:
        try:
            await restore(self._engine, container, workdir, workspace)
        except EngineRefused as error:
            raise TransferFailed(f"workspace {workdir}", str(error)) from error

    async def reap(self, *, log_id: str | None = None) -> list[str]:
        """Remove what dead engines of this host left; see the protocol."""
        return await reap(self._engine, log_id)

    async def reclaim(self, folder: Path, image: Image | None = None) -> None:
        """Remove a folder of this machine in which containers may have left files as root.

        Where this process may not remove them, a helper container does; `image` is what it runs,
        by default the last one that was prepared. Raises SandboxError.
        """
        try:
            await to_thread.run_sync(remove_tree, folder)
        except PermissionError as error:
            name = (image.digest if image is not None else None) or self._seen_image
            if name is None:
                raise SandboxError(
                    f"{folder}: holds files of another user, and no image is known that could "
                    "remove them"
                ) from error
            absolute = await anyio.Path(folder).absolute()
            await empty_folder(self._engine, Path(absolute), name)
            await to_thread.run_sync(remove_tree, folder)

    async def aclose(self) -> None:
        """Remove the network of this process, where it was needed, and give connections back."""
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                for name in self._abandoned:
                    await self._engine.remove(name)
                await self._network.remove()
        except SandboxError:
            pass  # an engine that is gone has nothing to be tidied now; labels tell it later
        finally:
            await self._engine.aclose()

    async def _config(self, spec: SandboxSpec) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        limits = spec.limits
        asks = limits.cpus or limits.memory_mb or limits.storage_mb
        info = await self._engine.info() if asks else {}
        parts, warnings = host_config(limits, info)
        if limits.storage_mb is not None:
            if self._no_storage_limit is None and not may_limit_storage(info):
                self._no_storage_limit = f"storage driver {info.get('Driver')} can't limit it here"
            if self._no_storage_limit is None:
                parts["StorageOpt"] = {"size": f"{limits.storage_mb}m"}
            else:
                warnings.append(storage_warning(self._no_storage_limit))
        self._refuse(warnings)
        network = None
        if limits.network:  # one that is kept outlives the network of this process
            network = "bridge" if spec.kept else await self._network.name()
        return container_config(spec, parts, network), warnings

    async def _make(
        self, spec: SandboxSpec, config: dict[str, Any], warnings: list[tuple[str, str]]
    ) -> tuple[str, list[str]]:
        name = container_name(spec.trial)
        while True:
            try:
                return await finished(
                    partial(self._engine.create, name, config),
                    self._undo_create,
                    partial(self._abandoned.append, name),
                )
            except EngineRefused as error:
                said = error.message.lower()
                if error.status == 409:
                    name = await self._other_name(spec.trial, name)
                elif "storage-opt" in said or "storage opt" in said:
                    self._no_storage_limit = error.message
                    del config["HostConfig"]["StorageOpt"]
                    warnings.append(storage_warning(error.message))
                    self._refuse(warnings)
                elif "bind source path does not exist" in said:
                    raise SandboxUnavailable(
                        "the container engine does not see this machine's folders; it must run "
                        f"on this machine: {error.message}"
                    ) from error
                elif error.status == 404:
                    raise ImageError(
                        f"image {spec.image.name or spec.image.digest} went away: {error.message}"
                    ) from error
                else:
                    raise

    def _refuse(self, warnings: list[tuple[str, str]]) -> None:
        unkept = [message for code, message in warnings if code == "limit_not_kept"]
        if self._strict and unkept:
            raise LimitsRefused(
                f"--strict-limits: {'; '.join(unkept)}; run on an engine that can hold it, or "
                "leave the limit out"
            )

    async def _undo_create(self, made: tuple[str, list[str]]) -> None:
        await self._engine.remove(made[0])

    async def _other_name(self, trial: str, name: str) -> str:
        """A name is taken: by a dead engine's container, which goes, or by one that lives."""
        try:
            holder = await self._engine.inspect(name)
        except EngineRefused as error:
            if error.status == 404:
                return name
            raise
        owner = owner_of(holder["Config"].get("Labels"))
        if owner is not None and await to_thread.run_sync(is_dead, owner):
            await self._engine.remove(holder["Id"])
            return name
        return f"{container_name(trial)}-{secrets.token_hex(3)}"
