"""Trials of programs that call a model through the gateway, for tests on both sandboxes."""

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
from trialog.engine.tasks.model import Task
from trialog.events.codec import decode
from trialog.events.kinds import AgentFailed, AgentFinished
from trialog.events.log import EventLog

from .gateway import CALL, KEY
from .jobs import Watched, services, write_task

REWARD = "echo 1 > /logs/verifier/reward.txt"


class Done:
    """A trial that has ended."""

    def __init__(
        self, job: str, folder: Path, ended: TrialEnded, events: list[Any], told: list[Any]
    ) -> None:
        self.job = job
        self.folder = folder
        """The trial's."""
        self.ended = ended
        self.events = events
        self.told = told
        """What the agent told, one value a line."""

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def file(self, name: str) -> Any:
        """One of the trial's files."""
        return json.loads((self.folder / name).read_bytes())


class RunProgram:
    """Runs a task with a program, in Python, as its agent, in a log."""

    def __init__(self, backend: SandboxBackend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder

    async def __call__(
        self, log: EventLog, program: str, environ: dict[str, str] | None = None, *,
        settings: str = "", test: str = REWARD, **config: Any,
    ) -> Done:  # fmt: skip
        """One trial, to its end; the task is made by the first one."""
        folder = self._folder
        agent = folder / "agent.py"
        if self._backend.name == "docker":
            settings += f'\nsandbox.docker_image = "{TEST_IMAGE}"\n'

        def write() -> Task:
            if not (folder / "t").exists():
                write_task(folder / "t", settings=settings, test=test)
            agent.write_text(f"#!/usr/bin/env python3\n{CALL}\n{program}")
            return load_task(folder / "t")

        task = await to_thread.run_sync(write)
        watched = Watched()
        given = JobConfig(
            tasks=["t"], agents=[f"command:{agent}"], models=["m"], retries=0, **config
        )
        made = services(
            log, self._backend, folder / "jobs", environ=environ,
            secrets={"OPENAI_API_KEY": KEY} if environ else {},
        )  # fmt: skip
        result = await run_job(made, given, [task], watched)
        (ended,) = watched.of(TrialEnded)
        assert isinstance(ended, TrialEnded)
        events: list[Any] = [decode(event) for event in await log.read(f"trial/{ended.trial}")]
        ends = [event for event in events if isinstance(event, AgentFinished | AgentFailed)]
        output = ends[0].output if ends else None
        printed = b"" if output is None else await log.blobs.get(output.blob)
        lines = printed.decode().splitlines()
        told = [json.loads(line) for line in lines if line.startswith("[")]
        return Done(result.job, result.folder / ended.trial, ended, events, told)
