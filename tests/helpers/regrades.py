"""Jobs of script tasks in sandboxes of nothing, and their regrades."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec

from helpers.fakes import FakeBackend, FakeSandbox
from helpers.jobs import Watched, services, tasks
from trialog.engine.job.api import Services, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.regrade.report import RegradeReport, TrialRegraded
from trialog.engine.regrade.run import Wish, plan_regrade, regrade_job, resume_regrade
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.events.log import EventLog
from trialog.projections.rebuild import check


async def graded(sandbox: FakeSandbox, command: Command, output: Callable[[bytes], None]) -> Exit:
    """A verifier that writes the number in its script's last line, and an agent that works."""
    code = 0
    if "test.sh" in command.argv[-1]:
        script = await anyio.Path(sandbox.folder("/tests"), "test.sh").read_bytes()
        last = script.split()[-1]
        if last == b"nothing":
            code = 1
        else:
            await sandbox.write("/logs/verifier/reward.txt", last)
    return Exit(ended_by="exit", code=code, duration=0.0)


class Bench:
    """A job that has run, and what its regrades need."""

    def __init__(self, root: Path, log: EventLog) -> None:
        self.root = root
        self.jobs = root / "jobs"
        self.log = log
        self.backend = FakeBackend(graded)
        self.job = ""
        self.folder = root
        self.told: list[RegradeReport] = []
        self.secrets: dict[str, str] = {}

    def services(self, log: Any = None) -> Services:
        """As a command has them."""
        return services(log or self.log, self.backend, self.jobs, secrets=self.secrets)

    async def run(self, count: int = 3, test: str = "echo 1", **config: Any) -> None:
        """Run a job of so many tasks, each graded by this script."""
        given = await tasks(self.root / "t", count, test=test)
        settings = JobConfig(tasks=["t"], agents=["oracle"], retries=0, **config)
        done = await run_job(self.services(), settings, given, Watched())
        self.job, self.folder = done.job, done.folder

    def mend(self, task: str, test: str) -> None:
        """Write a task's test script anew."""
        script = self.root / "t" / task / "tests" / "test.sh"
        script.write_text(f"#!/bin/bash\n{test}\n")

    def trial(self, task: str) -> str:
        """The name of the task's only trial."""
        (folder,) = self.folder.glob(f"{task}__*")
        return folder.name

    async def regrade(self, **wish: Any) -> dict[str, Any]:
        """Regrade the job; the content of the summary."""
        self.told.clear()
        done = await regrade_job(self.services(), self.job, Wish(**wish), self.told.append)
        assert done.problems == []
        return msgspec.json.decode(done.summary)

    async def resume(self) -> dict[str, Any]:
        """Go on with the last regrade; the content of the summary."""
        done = await resume_regrade(self.services(), self.job, self.told.append)
        return msgspec.json.decode(done.summary)

    async def plan(self, **wish: Any) -> list[TrialRegraded]:
        """What would be done."""
        found: list[RegradeReport] = []
        await plan_regrade(self.services(), self.job, Wish(**wish), found.append)
        return [report for report in found if isinstance(report, TrialRegraded)]

    def originals(self) -> dict[str, bytes]:
        """Every file that the job had before any regrade."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and not path.name.startswith("regrade")
        }

    async def differences(self) -> list[str]:
        """What `rebuild --check` finds."""
        return [str(found) for found in await check(self.log, self.job, self.jobs)]
