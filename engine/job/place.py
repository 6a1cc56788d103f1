"""Where one execution happens: its scratch folder, the host's folders and its sandbox."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import anyio
from anyio import to_thread

from ...events.clock import Clock
from ...events.errors import said
from ...events.kinds import ArtifactsSaved, SandboxFailed, SandboxStarted, WarningRaised
from ...events.kinds.parts import Limits
from ...events.log import BlobStore
from ..errors import SandboxError, SandboxGone, SandboxStartTimeout, TransferFailed
from ..reaper import Reaper
from ..sandbox.protocol import GivenFile, Image, Sandbox, SandboxBackend, SandboxSpec
from ..tasks.environment import resolve_env
from ..trial.folders import TrialFolders
from ..trial.restoring import (
    declared_files,
    fetched_archive,
    make_private,
    restore_artifacts,
)
from ..trial.work import SavedWork
from .config import JobConfig
from .tasks import TaskInJob

KEPT = ".kept"
"""Below the jobs folder: scratch folders of sandboxes that were kept on purpose."""

APART = ".verifier"
"""Ends the name of the scratch folder of a verifier's own sandbox."""

Removed = Callable[[str, float, str | None], Awaitable[None]]
"""Told when a sandbox is gone: its id, the seconds, or why it is not gone."""


class Surroundings(Protocol):
    """What places have in common: whose they are, and how their sandboxes are made."""

    @property
    def job(self) -> str:
        """The job's name; a label."""
        ...

    @property
    def folder(self) -> Path:
        """The job's folder."""
        ...

    @property
    def scratch(self) -> Path:
        """Where places have their own folders while the engine runs."""
        ...

    @property
    def config(self) -> JobConfig:
        """As resolved."""
        ...

    @property
    def log_id(self) -> str:
        """Which log it belongs to; a label."""
        ...

    @property
    def backend(self) -> SandboxBackend:
        """What makes the sandboxes."""
        ...

    @property
    def clock(self) -> Clock:
        """For durations."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """What `${VAR}` in settings is taken from."""
        ...

    @property
    def reaper(self) -> Reaper:
        """Takes sandboxes that are done with."""
        ...


class Place:
    """Made for one execution. `sandbox` and `folders` are there once `start` has succeeded."""

    def __init__(
        self, job: Surroundings, task: TaskInJob, trial: str, *, apart: bool = False
    ) -> None:
        """`apart`: it is a sandbox of the verifier's own, beside the agent's of the same trial."""
        self.job = job
        self.task = task
        self.trial = trial
        self.settings = task.task.settings
        self.kept = job.config.keep_sandbox
        name = f"{trial}{APART}" if apart else trial
        self.scratch = (job.folder.parent / KEPT if self.kept else job.scratch) / name
        self.sandbox: Sandbox | None = None
        self._image: Image | None = None
        self._folders: TrialFolders | None = None

    @property
    def image(self) -> Image:
        """The image that the sandbox was made from."""
        assert self._image is not None
        return self._image

    @property
    def folders(self) -> TrialFolders:
        """The host's folders behind the sandbox."""
        assert self._folders is not None
        return self._folders

    async def start(
        self,
        purpose: Literal["agent", "verifier"],
        *,
        solution: Path | None = None,
        workspace: Path | None = None,
        lends_network: bool = False,
    ) -> list[SandboxStarted | SandboxFailed | WarningRaised]:
        """Have a sandbox; the events say whether there is one, and what it lacks."""
        job = self.job
        clock = job.clock
        phase: Literal["build", "start"] = "build"
        begun = clock.monotonic()
        try:
            self._image = await self.task.image()
            phase = "start"
            begun = clock.monotonic()
            with anyio.fail_after(job.config.start_timeout_sec):
                self.sandbox = await self._create(
                    self._image, solution, workspace, lends_network=lends_network
                )
        except (SandboxError, TimeoutError, OSError) as error:
            failure: Exception = error
            if isinstance(error, TimeoutError):
                failure = SandboxStartTimeout(
                    f"no sandbox within {job.config.start_timeout_sec:g} s"
                )
            return [
                SandboxFailed(
                    purpose=purpose,
                    backend=job.backend.name,
                    image=self._image.name if self._image else self.settings.sandbox.docker_image,
                    phase=phase,
                    error=said(failure),
                    category=failure.category
                    if isinstance(failure, SandboxError)
                    else "host_failed",
                    duration=round(clock.monotonic() - begun, 6),
                )
            ]
        image = self._image
        return [
            SandboxStarted(
                purpose=purpose,
                backend=job.backend.name,
                sandbox_id=self.sandbox.id,
                image=image.name,
                image_digest=image.digest,
                repository_digest=image.repository_digest,
                workspace=self.folders.workspace,
                limits=self._limits(),
                build_seconds=image.build_seconds,
                start_seconds=round(clock.monotonic() - begun, 6),
            ),
            *(WarningRaised(code=code, message=message) for code, message in self.sandbox.warnings),
        ]

    async def start_restored(
        self, work: SavedWork, blobs: BlobStore
    ) -> list[SandboxStarted | SandboxFailed | WarningRaised]:
        """Have a fresh sandbox that holds saved work, for a verifier; see `start`.

        Raises BlobMissing and BlobAltered for work that is not there any more, TransferFailed for
        an artifact that can't be put back.
        """
        async with fetched_archive(work.archive, blobs, self.scratch) as archive:
            told = await self.start("verifier", workspace=archive)
        await self._give_artifacts(work.artifacts, blobs)
        return told

    async def start_over(
        self, archive: Path, artifacts: ArtifactsSaved | None, blobs: BlobStore
    ) -> list[SandboxStarted | SandboxFailed | WarningRaised]:
        """The same with a packed workspace that lies below the scratch folder; it is used up."""
        told = await self.start("verifier", workspace=archive)
        await to_thread.run_sync(archive.unlink)
        await self._give_artifacts(artifacts, blobs)
        return told

    async def _give_artifacts(self, saved: ArtifactsSaved | None, blobs: BlobStore) -> None:
        if self.sandbox is not None and saved is not None:
            await restore_artifacts(saved.artifacts, blobs, self.folders.artifacts)
            await self._give_declared(self.sandbox, saved, blobs)

    async def _give_declared(
        self, sandbox: Sandbox, saved: ArtifactsSaved, blobs: BlobStore
    ) -> None:
        kept_out = [self.folders.workspace, *self.folders.verifier_places]
        files = await declared_files(saved.artifacts, blobs, scratch=self.scratch, but_for=kept_out)
        if not files:
            return
        seconds = self.job.config.save_timeout_sec
        try:
            with anyio.fail_after(seconds):
                await sandbox.put_files(files)
        except SandboxGone:
            raise
        except SandboxError as error:
            raise TransferFailed(_named(files), str(error)) from error
        except TimeoutError:
            raise TransferFailed(_named(files), f"it took longer than {seconds:g} s") from None

    async def _create(
        self, image: Image, solution: Path | None, workspace: Path | None, *, lends_network: bool
    ) -> Sandbox:
        job, settings = self.job, self.settings
        # An image whose WORKDIR is the root names no folder that could be a workspace.
        own = None if image.workdir == "/" else image.workdir
        workdir = settings.sandbox.workdir or own or "/app"
        self._folders = TrialFolders(
            self.scratch, workspace=workdir, closed=settings.verifier.keep_processes
        )
        await self._folders.prepare(prompt=self.task.task.prompt, solution=solution)
        return await job.backend.create(
            SandboxSpec(
                job=job.job,
                trial=self.trial,
                log_id=job.log_id,
                image=image,
                workdir=workdir,
                env=resolve_env(settings.sandbox.env, job.environ).values,
                limits=self._limits(),
                mounts=[*self._folders.mounts(), *self.task.mounts],
                scratch=self.scratch,
                kept=self.kept,
                workspace=workspace,
                keeps_processes=settings.verifier.keep_processes,
                lends_network=lends_network,
                separate_users=(settings.agent.user or settings.verifier.user) is not None,
            )
        )

    def _limits(self) -> Limits:
        config, sandbox = self.job.config, self.settings.sandbox
        return Limits(
            cpus=config.cpus or sandbox.cpus,
            memory_mb=config.memory_mb or sandbox.memory_mb,
            storage_mb=sandbox.storage_mb,
            network=sandbox.network,
        )

    async def make_scratch(self) -> None:
        """Make the scratch folder, for what has to lie in it before the sandbox is made."""
        await to_thread.run_sync(make_private, self.scratch)

    def give_up(self, removed: Removed) -> str | None:
        """Hand the sandbox to the reaper; gives the id of one that is kept instead."""
        sandbox, self.sandbox = self.sandbox, None
        if sandbox is None:
            return None
        if self.kept:
            return sandbox.id

        async def gone(seconds: float, error: str | None) -> None:
            # What can't go yet (an output that is still being written) goes with the job's folder.
            with (
                contextlib.suppress(OSError, SandboxError),
                anyio.move_on_after(self.job.config.stop_timeout_sec),
            ):
                await self.job.backend.reclaim(self.scratch, self._image)
            await removed(sandbox.id, seconds, error)

        self.job.reaper.take(sandbox, gone)
        return None


def _named(files: Sequence[GivenFile]) -> str:
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return f"artifact {', '.join(file.path for file in files[:3])}{more}"
