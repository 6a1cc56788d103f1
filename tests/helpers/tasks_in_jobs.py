"""Jobs of one task in a real sandbox, with the task's solution as the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from msgspec.structs import replace

from helpers.images import TEST_IMAGE
from helpers.jobs import Watched, services, write_task
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig, SandboxMode
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.engine.tasks.load import load_task
from trialog.events.codec import decode
from trialog.events.kinds import VerifierScored
from trialog.events.open import memory_log


class Graded:
    """A trial that has ended, with what its test printed."""

    def __init__(self, ended: TrialEnded, events: list[Any], printed: str, log_id: str) -> None:
        self.log_id = log_id
        self.ended = ended
        self.events = events
        self.printed = printed


@pytest.fixture
def grade(backend: SandboxBackend, tmp_path: Path) -> Callable[..., Awaitable[Graded]]:
    """Runs a job of one task, whose solution is the agent; `mode` is --verifier-sandbox.

    `files` are the verifier's beside test.sh.
    """

    async def run(
        *,
        solve: str,
        test: str,
        settings: str = "",
        mode: SandboxMode | None = None,
        files: Mapping[str, str] | None = None,
        **config: Any,
    ) -> Graded:
        if backend.name == "docker":
            settings += f'\nsandbox.docker_image = "{TEST_IMAGE}"\n'
        folder = tmp_path / f"task-{len(list(tmp_path.iterdir()))}"
        await to_thread.run_sync(
            lambda: write_task(folder, solve=solve, test=test, settings=settings)
        )
        for name, text in (files or {}).items():
            (folder / "tests" / name).write_text(text)
        watched = Watched()
        given = JobConfig(
            tasks=["t"], agents=["oracle"], retries=0, verifier_sandbox=mode, **config
        )
        async with memory_log() as log:
            task = await to_thread.run_sync(load_task, folder)
            made = services(log, backend, folder.with_name(f"{folder.name}-jobs"))
            await run_job(replace(made, log_id=tmp_path.name), given, [task], watched)
            streams = await log.streams("trial/")
            events: list[Any] = [decode(e) for name in streams for e in await log.read(name)]
            printed = ""
            for event in events:
                if isinstance(event, VerifierScored) and event.output is not None:
                    printed = (await log.blobs.get(event.output.blob)).decode()
        (ended,) = watched.of(TrialEnded)
        assert isinstance(ended, TrialEnded)
        return Graded(ended, events, printed, tmp_path.name)

    return run


Grade = Callable[..., Awaitable[Graded]]
