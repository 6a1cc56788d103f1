"""The tasks of a job, as the job took them: snapshots into the blob store, and back out of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread
from msgspec.structs import replace

from ...events.kinds.job import TaskSnapshot
from ...events.log import BlobStore
from ..errors import ImageError, TaskError
from ..sandbox.protocol import Image, ImageRequest, Mount, SandboxBackend
from ..tasks.load import NETWORK_UNSAID, load_task
from ..tasks.model import Task
from ..tasks.snapshot import pack, unpack, verifier_files
from .config import JobConfig
from .episode_loading import open_episode_task
from .episode_task import EpisodeTask


async def take(tasks: Sequence[Task | EpisodeTask], blobs: BlobStore) -> list[TaskSnapshot]:
    """Snapshots of the tasks, with their bytes in the blob store."""
    return [await _take(task, blobs) for task in tasks]


async def _take(task: Task | EpisodeTask, blobs: BlobStore) -> TaskSnapshot:
    if isinstance(task, EpisodeTask):
        return replace(task.snapshot, snapshot=await blobs.put(task.packed))
    packed = await to_thread.run_sync(pack, task)
    return TaskSnapshot(
        task=task.name,
        digest=task.digest,
        path=str(task.path),
        dataset=str(task.dataset) if task.dataset else None,
        layout=task.layout,
        snapshot=await blobs.put(packed),
        environment_digest=task.environment_digest,
        files=await to_thread.run_sync(verifier_files, task),
    )


def configured(task: Task, config: JobConfig) -> Task:
    """A task as the job runs it: one that says nothing of a network has what the job says."""
    settings = task.settings
    if not config.default_network or settings.sandbox.network_said:
        return task
    return replace(
        task,
        settings=replace(settings, sandbox=replace(settings.sandbox, network=True)),
        warnings=[warning for warning in task.warnings if warning.code != NETWORK_UNSAID],
    )


class TaskInJob:
    """One task of a running job: its snapshot's files, and its image once somebody needs it."""

    def __init__(
        self, snapshot: TaskSnapshot, task: Task, *, backend: SandboxBackend, config: JobConfig,
        image_digest: str | None = None, mounts: Sequence[Mount] = (),
    ) -> None:  # fmt: skip
        self.snapshot = snapshot
        self.task = task
        self.mounts = mounts
        self.verifier_digest = verifier_digest(snapshot.files)
        self._backend = backend
        self._config = config
        self._digest = image_digest
        self._lock = anyio.Lock()
        self._image: Image | ImageError | None = None

    def as_run(self, image_digest: str | None, workspace: str | None) -> TaskInJob:
        """The same task with the image and the workspace's path that a trial of it had."""
        settings = self.task.settings
        if workspace is not None:
            settings = replace(settings, sandbox=replace(settings.sandbox, workdir=workspace))
        return TaskInJob(
            self.snapshot, replace(self.task, settings=settings), backend=self._backend,
            config=self._config, image_digest=image_digest,
        )  # fmt: skip

    async def image(self) -> Image:
        """The image, ready to use; only the first caller is told of the time it took to build.

        An image that can't be had fails at once for all trials after the first.
        """
        async with self._lock:
            match self._image:
                case Image() as image:
                    return image
                case ImageError() as error:
                    raise error
                case None:
                    try:
                        image = await self._prepare()
                    except ImageError as error:
                        self._image = error
                        raise
                    self._image = replace(image, build_seconds=None)
                    return image

    async def _prepare(self) -> Image:
        settings = self.task.settings.sandbox
        dockerfile = context = None
        if settings.docker_image is None and self.snapshot.environment_digest is not None:
            dockerfile, context = await to_thread.run_sync(self._build_context)
        request = ImageRequest(
            task=self.task.name,
            name=settings.docker_image,
            digest=self._digest,
            dockerfile=dockerfile,
            context=context,
            build_timeout_sec=settings.build_timeout_sec,
        )
        try:
            with anyio.fail_after(settings.build_timeout_sec + self._config.stop_timeout_sec):
                return await self._backend.prepare(request)
        except TimeoutError:
            raise ImageError(
                f"task {self.task.name}: no image within {settings.build_timeout_sec:g} s"
            ) from None

    def _build_context(self) -> tuple[Path | None, Path | None]:
        """Dockerfile and context in the task's folder, if they are still those of the snapshot."""
        if self._digest is not None:
            return None, None
        path = Path(self.snapshot.path)
        dataset = Path(self.snapshot.dataset) if self.snapshot.dataset else None
        try:
            now = load_task(path, dataset=dataset)
        except TaskError as error:
            raise ImageError(
                f"task {self.task.name}: its image was never built, and its folder can't be "
                f"used any more: {error}"
            ) from error
        digest = now.environment_digest
        if digest != self.snapshot.environment_digest:
            raise ImageError(
                f"task {self.task.name}: the files that its image is built from ({path}) changed "
                f"after the job had started ({self.snapshot.environment_digest} then, {digest} "
                "now); start a new job"
            )
        return now.dockerfile, now.context


def _unpack(data: bytes, folder: Path, snapshot: TaskSnapshot) -> Task:
    return unpack(
        data,
        folder,
        name=snapshot.task,
        path=Path(snapshot.path),
        digest=snapshot.digest,
        environment_digest=snapshot.environment_digest,
    )


def verifier_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over the verifier's files: of the JSON object of path → SHA-256, keys sorted."""
    encoded = msgspec.json.encode(files, order="sorted")
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


async def open_tasks(
    snapshots: list[TaskSnapshot],
    blobs: BlobStore,
    folder: Path,
    *,
    backend: SandboxBackend,
    config: JobConfig,
    images: Mapping[str, str] | None = None,
    live: Mapping[str, EpisodeTask] | None = None,
) -> dict[str, TaskInJob | EpisodeTask]:
    """The tasks by name, their snapshots unpacked below `folder`.

    `images` holds the image digest that a task ran with earlier in the job, by the task's name.
    """
    opened: dict[str, TaskInJob | EpisodeTask] = {}
    for number, snapshot in enumerate(snapshots):
        if live and snapshot.task in live:
            opened[snapshot.task] = live[snapshot.task]
            continue
        data = await blobs.get(snapshot.snapshot)
        if snapshot.layout == "project":
            opened[snapshot.task] = await to_thread.run_sync(
                partial(
                    open_episode_task,
                    data,
                    folder / str(number),
                    snapshot,
                    in_process=config.in_process,
                )
            )
            continue
        task = await to_thread.run_sync(_unpack, data, folder / str(number), snapshot)
        opened[snapshot.task] = TaskInJob(
            snapshot, configured(task, config), backend=backend, config=config,
            image_digest=(images or {}).get(snapshot.task),
        )  # fmt: skip
    return opened
