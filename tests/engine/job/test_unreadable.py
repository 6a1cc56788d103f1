"""Jobs with a trial whose record can't be read: all the others go on, and it is left alone."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, services, tasks
from helpers.logs import alter
from trialog.engine.errors import SandboxGone
from trialog.engine.job.api import Services, cancel_job, plan_resume, resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import Notice, TrialEnded
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.events.errors import LogCorrupt
from trialog.events.log import EventLog
from trialog.events.open import open_log

DAMAGES = [
    "data = '{bad'",
    """data = '{"kind":"TrialFinished","outcome":7}'""",
    "data = cast(x'7bff' AS TEXT)",
    "kind = 'FutureThing'",
    "schema = 99",
    # What can be read, but is not what was appended:
    "at = '2029-01-01T00:00:00.000000Z'",
    "data = json_set(data, '$.duration', 0.125)",
]


class Ran:
    """A job of three: the first is scored, the others' verifiers lost their sandboxes."""

    def __init__(self, root: Path, log: EventLog) -> None:
        self.root, self.log = root, log
        self.backend = FakeBackend(self._phase)
        self.broken, self.tests, self.job = True, 0, ""

    async def _phase(self, sandbox: FakeSandbox, command: Command, output: Any) -> Exit:
        if "test.sh" in command.argv[-1]:
            self.tests += 1
            if self.broken and self.tests > 1:
                raise SandboxGone("it was taken away")
        return await passes(sandbox, command, output)

    @property
    def services(self) -> Services:
        """As a command has them."""
        return services(self.log, self.backend, self.root / "jobs")

    async def plan(self) -> list[str]:
        """What the next resume would do, task by task."""
        return [p.action for p in await plan_resume(self.services, self.job, only=None)]

    async def damage(self, task: str, change: str) -> str:
        """Damage the end of a task's agent; the trial."""
        [stream] = await self.log.streams(f"trial/{task}__")
        events = await self.log.read(stream)
        [version] = [event.version for event in events if event.kind == "AgentFinished"]
        alter(self.root / "jobs" / "trialog.db", stream, version, change)
        return stream.removeprefix("trial/")


@pytest.fixture
async def ran(tmp_path: Path) -> AsyncIterator[Ran]:
    """The job, over a log on disk; no sandbox is lost any more."""
    async with open_log(tmp_path / "jobs" / "trialog.db") as log:
        made = Ran(tmp_path, log)
        given = await tasks(tmp_path / "t", 3)
        config = JobConfig(tasks=["t"], agents=["oracle"], retries=0, concurrency=1, verifiers=1)
        made.job = (await run_job(made.services, config, given, Watched())).job
        made.broken = False
        assert await made.plan() == ["keep", "grade", "grade"]
        yield made


@pytest.mark.parametrize("change", DAMAGES)
async def test_a_finished_trial(ran: Ran, change: str) -> None:
    """A resume runs the two that are open, and says of the third that it is left alone, and why."""
    trial = await ran.damage("task-1", change)
    assert await ran.plan() == ["leave", "grade", "grade"]
    agents, watched = ran.backend.agents_run(), Watched()
    result = await resume_job(ran.services, ran.job, watched)
    assert [type(one) for one in watched.of(TrialEnded)] == [TrialEnded] * 2
    assert result.summary["counts"]["scored"] == 2
    told = [one.message for one in watched.reports if isinstance(one, Notice)]
    prefix = f"trial {trial} is left alone: its record can't be read: stream 'trial/{trial}' vers"
    assert any(one.startswith(prefix) for one in told)
    assert await ran.plan() == ["leave", "keep", "keep"]
    await resume_job(ran.services, ran.job, Watched())
    assert ran.backend.agents_run() == agents
    assert len(await ran.log.streams("trial/task-1__")) == 1


@pytest.mark.parametrize("change", DAMAGES)
async def test_an_open_trial(ran: Ran, change: str) -> None:
    """One whose work waits to be graded is no more run again than one that has finished."""
    await ran.damage("task-2", change)
    result = await resume_job(ran.services, ran.job, Watched())
    assert result.summary["counts"]["scored"] == 2
    assert await ran.plan() == ["keep", "leave", "keep"]


async def test_no_summary_of_earlier(ran: Ran) -> None:
    """Where the job's folder is gone as well, what the others came to is told all the same."""
    await ran.damage("task-1", "data = '{bad'")
    summary = ran.root / "jobs" / ran.job / "summary.json"
    summary.unlink()
    result = await resume_job(ran.services, ran.job, Watched())
    assert result.summary["counts"]["scored"] == 2
    assert not summary.exists()


async def test_cut_short(ran: Ran) -> None:
    """Work whose stream ends before what JobFinished recorded is not graded."""
    [stream] = await ran.log.streams("trial/task-2__")
    last = (await ran.log.read(stream))[-1]
    with sqlite3.connect(ran.root / "jobs" / "trialog.db") as db:
        db.execute("DROP TRIGGER events_are_never_deleted")
        db.execute("DELETE FROM events WHERE position = ?", (last.position,))
    db.close()
    assert await ran.plan() == ["keep", "leave", "grade"]


async def test_a_job_whose_own_stream_was_altered(ran: Ran) -> None:
    """What it says of tasks and trials can't be believed: nothing is resumed."""
    place = ran.root / "jobs" / "trialog.db"
    alter(place, f"job/{ran.job}", 2, "at = '2029-01-01T00:00:00.000000Z'")
    before = await ran.log.last_position()
    with pytest.raises(LogCorrupt, match="version 2"):
        await ran.plan()
    with pytest.raises(LogCorrupt, match="version 2"):
        await resume_job(ran.services, ran.job, Watched())
    assert await ran.log.last_position() == before


async def test_cancelled(ran: Ran) -> None:
    """A job with one can be cancelled."""
    await ran.damage("task-2", "data = '{bad'")
    assert await cancel_job(ran.services, ran.job) == 0
