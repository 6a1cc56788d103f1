"""Resumes where the saved work of a trial is not in the blob store any more, or was altered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, services, tasks
from trialog.engine.errors import SandboxGone
from trialog.engine.job.api import Services, plan_resume, resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.events.codec import decode
from trialog.events.log import EventLog
from trialog.events.open import open_log


class Ran:
    """A job of three whose verifiers' sandboxes were all lost, with all work saved."""

    def __init__(self, root: Path, log: EventLog) -> None:
        self.root, self.log = root, log
        self.backend = FakeBackend(self._phase)
        self.backend.on_save = self._save
        self.broken = True
        self.job = ""
        self._saved = 0

    async def _phase(self, sandbox: FakeSandbox, command: Command, output: Any) -> Exit:
        if self.broken and "test.sh" in command.argv[-1]:
            raise SandboxGone("it was taken away")
        return await passes(sandbox, command, output)

    async def _save(self, sandbox: FakeSandbox) -> None:
        self._saved += 1
        self.backend.archive = bytes([self._saved]) * 200_000  # so large that it is a file
        await anyio.lowlevel.checkpoint()

    @property
    def services(self) -> Services:
        """As a command has them."""
        return services(self.log, self.backend, self.root / "jobs")

    async def start(self) -> None:
        """Run the job; then no sandbox is lost any more."""
        given = await tasks(self.root / "t", 3)
        config = JobConfig(tasks=["t"], agents=["oracle"], retries=0, concurrency=1, verifiers=1)
        self.job = (await run_job(self.services, config, given, Watched())).job
        self.broken = False

    async def resume(self) -> list[tuple[str, str | None]]:
        """Outcome and category of every trial that the resume ended."""
        watched = Watched()
        await resume_job(self.services, self.job, watched)
        ended = [one for one in watched.of(TrialEnded) if isinstance(one, TrialEnded)]
        return sorted((one.outcome, one.category) for one in ended)

    async def actions(self) -> list[str]:
        """What the next resume would do."""
        return sorted(p.action for p in await plan_resume(self.services, self.job, only=None))

    async def file(self) -> Path:
        """The file of one trial's saved work."""
        for stream in await self.log.streams("trial/"):
            for event in await self.log.read(stream):
                if event.kind == "WorkspaceSaved":
                    payload: Any = decode(event)
                    digest = payload.archive.blob.removeprefix("sha256:")
                    return self.root / "jobs" / "blobs" / "sha256" / digest[:2] / digest
        raise AssertionError("nothing was saved")


@pytest.fixture
async def ran(tmp_path: Path) -> AsyncIterator[Ran]:
    """The job, over a log on disk."""
    async with open_log(tmp_path / "jobs" / "trialog.db") as log:
        made = Ran(tmp_path, log)
        await made.start()
        assert await made.actions() == ["grade", "grade", "grade"]
        yield made


async def test_work_that_is_missing(ran: Ran) -> None:
    """Its agent runs again, and only its: the others' saved work is graded."""
    file = await ran.file()
    file.unlink()
    assert await ran.actions() == ["grade", "grade", "run"]
    agents = ran.backend.agents_run()
    assert await ran.resume() == [("scored", None)] * 3
    assert ran.backend.agents_run() - agents == 1


async def test_work_that_was_altered(ran: Ran) -> None:
    """Found when it is read: the trial is unscored, the others go on, and a resume mends it."""
    file = await ran.file()
    size = file.stat().st_size
    file.chmod(0o600)
    file.write_bytes(b"y" * size)
    agents = ran.backend.agents_run()
    ended = await ran.resume()
    assert ended == [("scored", None), ("scored", None), ("unscored", "blob_altered")]
    assert ran.backend.agents_run() == agents
    assert await ran.actions() == ["keep", "keep", "run"]
    assert await ran.resume() == [("scored", None)]
    assert ran.backend.agents_run() - agents == 1


async def test_work_that_was_brought_back(ran: Ran) -> None:
    """What was altered and is as it was again is graded, and no agent runs."""
    file = await ran.file()
    kept = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(b"y" * len(kept))
    await ran.resume()
    file.write_bytes(kept)
    agents = ran.backend.agents_run()
    assert await ran.resume() == [("scored", None)]
    assert ran.backend.agents_run() == agents
