"""Trials of agents by manifest, for tests on both sandboxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anyio import to_thread

from helpers.images import TEST_IMAGE
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.engine.tasks.load import load_task
from trialog.events.codec import decode
from trialog.events.kinds import AgentStarted
from trialog.events.open import memory_log

from .jobs import Watched, services, write_task


class Worked:
    """A trial that has ended."""

    def __init__(
        self, ended: TrialEnded, events: list[Any], blobs: dict[Any, bytes], files: dict[str, Any]
    ) -> None:
        self.ended = ended
        self.events = events
        self.blobs = blobs
        """What was printed, by its SHA-256."""
        self.files = files
        """The trial's JSON files."""

    @property
    def result(self) -> Any:
        """result.json."""
        return self.files["result.json"]

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def one(self, kind: type[Any]) -> Any:
        """The one event of a kind."""
        [found] = self.of(kind)
        return found


class RunInstalled:
    """Runs a task with an agent of a manifest."""

    def __init__(self, backend: SandboxBackend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder

    async def __call__(
        self, manifest: str, *, test: str = "exit 1", settings: str = "",
        files: dict[str, str] | None = None, environ: dict[str, str] | None = None,
        secrets: dict[str, str] | None = None, **config: Any,
    ) -> Worked:  # fmt: skip
        """One trial, to its end."""
        here = self._folder
        agent = here / "agents" / "mine"
        if self._backend.name == "docker":
            settings = f'sandbox.docker_image = "{TEST_IMAGE}"\n{settings}'

        def write() -> None:
            write_task(here / "t", test=test, settings=settings)
            agent.mkdir(parents=True)
            (agent / "agent.yaml").write_text(f"name: mine\n{manifest}")
            for name, text in (files or {}).items():
                (agent / name).write_text(text)

        await to_thread.run_sync(write)
        watched = Watched()
        given = JobConfig(tasks=["t"], agents=[f"agent:{agent}"], retries=0, **config)
        async with memory_log() as log:
            task = await to_thread.run_sync(load_task, here / "t")
            made = services(log, self._backend, here / "jobs", environ=environ, secrets=secrets)
            await run_job(made, given, [task], watched)
            streams = await log.streams("")
            events: list[Any] = [decode(e) for name in streams for e in await log.read(name)]
            outputs = [output for event in events for output in _outputs(event)]
            blobs = {output.sha256: await log.blobs.get(output.blob) for output in outputs}
        [ended] = watched.of(TrialEnded)
        assert isinstance(ended, TrialEnded)

        def read() -> dict[str, Any]:
            [place] = (here / "jobs").glob("*/t__*")
            return {file.name: json.loads(file.read_bytes()) for file in place.glob("*.json")}

        return Worked(ended, events, blobs, await to_thread.run_sync(read))


def _outputs(event: Any) -> list[Any]:
    install = event.install if isinstance(event, AgentStarted) else None
    found = [getattr(event, "output", None), install.output if install else None]
    return [output for output in found if output is not None]
