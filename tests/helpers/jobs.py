"""Tasks and services for tests that run jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyio import to_thread

from trialog.engine.job.api import Services
from trialog.engine.job.report import Report
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.engine.tasks.load import load_task
from trialog.engine.tasks.model import Task
from trialog.events.clock import Clock, Ids, RandomIds, SystemClock
from trialog.events.codec import decode
from trialog.events.envelope import RecordedEvent
from trialog.events.log import EventLog


def write_task(
    folder: Path,
    *,
    test: str = "echo 1 > /logs/verifier/reward.txt",
    solve: str | None = "echo 42 > answer.txt",
    settings: str = "",
    prompt: str = "Write 42 to answer.txt.",
) -> Path:
    """A small task folder in the second layout."""
    (folder / "tests").mkdir(parents=True)
    (folder / "task.toml").write_text(settings)
    (folder / "instruction.md").write_text(prompt + "\n")
    (folder / "tests" / "test.sh").write_text(f"#!/bin/bash\n{test}\n")
    if solve is not None:
        (folder / "solution").mkdir()
        (folder / "solution" / "solve.sh").write_text(f"#!/bin/bash\n{solve}\n")
    return folder


async def tasks(root: Path, count: int, **more: str) -> list[Task]:
    """Several small tasks, loaded."""

    def make() -> list[Task]:
        return [load_task(write_task(root / f"task-{n}", **more)) for n in range(1, count + 1)]

    return await to_thread.run_sync(make)


def services(
    log: EventLog,
    backend: SandboxBackend,
    jobs: Path,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    environ: dict[str, str] | None = None,
    secrets: dict[str, str] | None = None,
) -> Services:
    """What a job needs, with the machine's own clock unless another is given."""
    return Services(
        log=log,
        log_id="test",
        backend=backend,
        clock=clock or SystemClock(),
        ids=ids or RandomIds(),
        jobs_folder=jobs,
        environ=environ or {},
        secrets=secrets or {},
    )


class Watched:
    """A watcher that keeps what it was told."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def __call__(self, report: Report) -> None:
        """Keep it."""
        self.reports.append(report)

    def of(self, kind: type) -> list[Report]:
        """The reports of one kind."""
        return [report for report in self.reports if isinstance(report, kind)]


async def events_of(log: EventLog, prefix: str) -> list[RecordedEvent]:
    """All events of the streams with this prefix."""
    return [event for stream in await log.streams(prefix) for event in await log.read(stream)]


async def kinds_of(log: EventLog, prefix: str) -> list[str]:
    """Their kinds."""
    return [event.kind for event in await events_of(log, prefix)]


async def payloads(log: EventLog, prefix: str, kind: str) -> list[Any]:
    """Payloads of one kind."""
    return [decode(event) for event in await events_of(log, prefix) if event.kind == kind]


async def job_of(log: EventLog) -> str:
    """The name of the only job."""
    (stream,) = await log.streams("job/")
    return stream.removeprefix("job/")
