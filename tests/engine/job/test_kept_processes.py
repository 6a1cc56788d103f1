"""Processes that stay for the test: what the log says of them, and what a resume can't do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, services, tasks
from trialog.engine.errors import SandboxGone
from trialog.engine.job.api import plan_resume, resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.events.codec import decode
from trialog.events.kinds import ProcessesKilled
from trialog.events.kinds.parts import Process
from trialog.events.log import EventLog
from trialog.events.open import memory_log

CONFIG = JobConfig(tasks=["tasks"], agents=["oracle"], retries=0)
SERVER = Process(pid=7, name="server")


async def killed(log: EventLog) -> list[Any]:
    """What was recorded at the ends of agents' phases."""
    streams = await log.streams("trial/")
    events = [decode(event) for stream in streams for event in await log.read(stream)]
    return [event for event in events if isinstance(event, ProcessesKilled)]


async def test_kept_processes_end_with_their_engine(tmp_path: Path) -> None:
    """The agent's phase is kept, the test's is not; when grading fails, the agent runs again."""
    lost = [SandboxGone("gone")]

    async def phase(
        sandbox: FakeSandbox, command: Command, output: Callable[[bytes], None]
    ) -> Exit:
        testing = "test.sh" in command.argv[-1]
        assert command.keep is not testing
        if testing and lost:
            raise lost.pop()
        ended = await passes(sandbox, command, output)
        left = [] if testing else [SERVER]
        return Exit(ended_by=ended.ended_by, code=ended.code, duration=0.0, left=left)

    backend = FakeBackend(phase)
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1, settings="verifier.keep_processes = true")
        made = services(log, backend, tmp_path / "jobs")
        watched = Watched()
        result = await run_job(made, CONFIG, given, watched)
        (first,) = watched.of(TrialEnded)
        assert isinstance(first, TrialEnded)
        assert (first.outcome, first.category) == ("unscored", "sandbox_lost")
        (planned,) = await plan_resume(made, result.job, only=None)
        assert planned.action == "run"
        assert "what the agent left running for its test is gone" in planned.reason
        watched = Watched()
        await resume_job(made, result.job, watched)
        (again,) = watched.of(TrialEnded)
        assert isinstance(again, TrialEnded)
        assert (again.outcome, again.reward) == ("scored", 1.0)
        assert [(event.processes, event.kept) for event in await killed(log)] == [
            ([], [SERVER])
        ] * 2
    assert backend.agents_run() == 2
    spec = backend.specs[0]
    assert spec.keeps_processes
    assert {m.target for m in spec.mounts if m.closed} == {"/logs/verifier", "/verifier", "/tests"}
