"""Whole trials without a job: an agent's script, the end of its phase, a test script."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from msgspec.structs import replace

from helpers.images import TEST_IMAGE, build_image
from trialog.engine.agents import AgentContext, AgentOutcome, Assignment
from trialog.engine.agents.command import CommandAgent
from trialog.engine.sandbox.bubblewrap import BubblewrapBackend
from trialog.engine.sandbox.docker import DockerBackend
from trialog.engine.sandbox.protocol import (
    Image,
    ImageRequest,
    Sandbox,
    SandboxBackend,
    SandboxSpec,
)
from trialog.engine.tasks.model import VerifierSettings
from trialog.engine.trial.folders import TrialFolders
from trialog.engine.trial.hardening.way import clear_the_way
from trialog.engine.verifier.script import ScriptVerifier, run_script_verifier
from trialog.events.clock import SystemClock
from trialog.events.kinds import (
    TamperFound,
    TrialEvent,
    VerifierFailed,
    VerifierScored,
    WarningRaised,
)
from trialog.events.kinds.parts import Limits, Process
from trialog.events.memory import MemoryLog

BUBBLEWRAP = pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)
DOCKER = pytest.param("docker", marks=pytest.mark.docker)

both = pytest.mark.parametrize("backend_name", [BUBBLEWRAP, DOCKER])
bubblewrap = pytest.mark.parametrize("backend_name", [BUBBLEWRAP])


Build = Callable[..., Awaitable[Image]]


class Graded(NamedTuple):
    """What came of one trial."""

    event: VerifierScored | VerifierFailed
    warnings: list[str]
    tampered: list[TamperFound]
    agent: AgentOutcome | None
    output: bytes
    killed: list[Process]
    said: bytes = b""
    """What the agent printed."""

    @property
    def verdict(self) -> VerifierScored:
        """The verdict; there must be one."""
        assert isinstance(self.event, VerifierScored), self.event
        return self.event

    @property
    def failed(self) -> VerifierFailed:
        """The failure; there must be one."""
        assert isinstance(self.event, VerifierFailed), self.event
        return self.event

    @property
    def score(self) -> float:
        """What it scored, as the verifier wrote it."""
        return self.verdict.score


Grade = Callable[..., Awaitable[Graded]]


@pytest.fixture
async def backend(backend_name: str) -> AsyncIterator[SandboxBackend]:
    """The sandbox's maker."""
    if backend_name == "docker":
        made: SandboxBackend = await DockerBackend.connect()
    else:
        made = await anyio.to_thread.run_sync(BubblewrapBackend)
    yield made
    await made.aclose()


@pytest.fixture
async def image(backend: SandboxBackend) -> Image:
    """An image with a shell and python3."""
    name = TEST_IMAGE if backend.name == "docker" else None
    return await backend.prepare(ImageRequest(task="t", name=name, build_timeout_sec=60))


@pytest.fixture
async def build(backend: SandboxBackend, tmp_path: Path) -> AsyncIterator[Build]:
    """Builds an image from the lines of a Dockerfile after FROM; it is gone after the test."""
    made: list[str] = []

    async def make(*lines: str, **files: str | bytes) -> Image:
        built = await build_image(backend, tmp_path, lines, files)
        assert built.name is not None
        made.append(built.name)
        return built

    yield make
    for name in made:
        await anyio.run_process(["docker", "image", "rm", "--force", name])


class Trials:
    """Runs whole trials in sandboxes of one backend."""

    def __init__(self, backend: SandboxBackend, image: Image, folder: Path) -> None:
        self.backend = backend
        self.image = image
        self.folder = folder
        self.boxes: list[Sandbox] = []
        self.blobs = MemoryLog().blobs

    async def grade(
        self,
        test: str | bytes,
        *,
        agent: str | None = None,
        idle_timeout: float | None = None,
        image: Image | None = None,
        files: Mapping[str, str | bytes] | None = None,
        unprotected: bool = False,
        **fields: Any,
    ) -> Graded:
        """An agent's script, then a test script with further files of the verifier's.

        `unprotected` leaves out what puts the image's files back: to see that an attack works.
        """
        image = image or self.image
        number = len(self.boxes)
        workdir = image.workdir if image.workdir not in (None, "/") else "/app"
        folders = TrialFolders(self.folder / f"scratch{number}", workspace=workdir)
        await folders.prepare()
        sandbox = await self.backend.create(
            SandboxSpec(
                job="grading",
                trial=f"{self.folder.name}-{number}",
                log_id=self.folder.name,
                image=image,
                workdir=workdir,
                limits=Limits(),
                mounts=folders.mounts(),
                scratch=folders.scratch,
            )
        )
        self.boxes.append(sandbox)
        outcome = None
        if agent is not None:
            outcome = await self._work(sandbox, folders, agent, idle_timeout)
        source = self.folder / f"tests{number}"
        digests = await anyio.to_thread.run_sync(_write, source, {"test.sh": test, **(files or {})})
        tampered = await folders.close_agent_phase(self.blobs)
        if not unprotected:
            hardened = await clear_the_way(
                sandbox, folders, image, source, blobs=self.blobs, seconds=60.0
            )
            tampered += hardened.found
        settings: dict[str, Any] = {"settings": VerifierSettings(), "timeout": 60.0}
        script = ScriptVerifier(
            digest="sha256:" + "0" * 64, source=source, files=digests, **settings | fields
        )
        result = await run_script_verifier(
            script, sandbox=sandbox, folders=folders, blobs=self.blobs, clock=SystemClock()
        )
        event, *rest = result.events
        assert isinstance(event, VerifierScored | VerifierFailed), event
        warnings = [str(event.message) for event in rest if isinstance(event, WarningRaised)]
        output = b"" if event.output is None else await self.blobs.get(event.output.blob)
        told = outcome.end.output if outcome is not None else None
        said = b"" if told is None else await self.blobs.get(told.blob)
        return Graded(event, warnings, tampered, outcome, output, result.killed, said)

    async def _work(
        self, sandbox: Sandbox, folders: TrialFolders, agent: str, idle_timeout: float | None
    ) -> AgentOutcome:
        emitted: list[TrialEvent] = []

        def emit(event: TrialEvent) -> str:
            emitted.append(event)
            return ""

        outcome = await CommandAgent(Path("agent.sh"), agent.encode()).run(
            AgentContext(
                sandbox=sandbox,
                folders=folders,
                prompt="",
                timeout=60.0,
                idle_timeout=idle_timeout,
                blobs=self.blobs,
                clock=SystemClock(),
                assignment=Assignment(task="t", attempt=1),
                emit=emit,
                cut_off=lambda _: None,
            )
        )
        return replace(outcome, events=[*emitted, *outcome.events])


def _write(folder: Path, files: Mapping[str, str | bytes]) -> dict[str, str]:
    digests: dict[str, str] = {}
    for name, content in files.items():
        body = content.encode() if isinstance(content, str) else content
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        digests[name] = hashlib.sha256(body).hexdigest()
    return digests


@pytest.fixture
async def grade(backend: SandboxBackend, image: Image, tmp_path: Path) -> AsyncIterator[Grade]:
    """Runs whole trials: an agent's script, then a test script."""
    trials = Trials(backend, image, tmp_path)
    yield trials.grade
    for sandbox in trials.boxes:
        await sandbox.remove()
