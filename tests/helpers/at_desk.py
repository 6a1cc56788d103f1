"""A desk that has run, and somebody at its command line."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from helpers.desk import run_desk, write_desk
from trialog.engine.console.failure import unwrapped
from trialog.engine.console.session import Request
from trialog.engine.console.terminal import Terminal
from trialog.events.envelope import RecordedEvent
from trialog.events.open import open_log


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Desk:
    """A project, its jobs folder, and one job."""

    def __init__(self, root: Path, jobs: Path) -> None:
        self.root = root
        self.jobs = jobs
        self.job = ""
        self.environ: dict[str, str] = {}

    async def run(self, attempts: int = 1) -> None:
        """Run the task; the job is the newest."""
        ran = await run_desk(self.root, self.jobs, attempts=attempts, environ=self.environ)
        self.job = ran.job

    async def say(
        self, command: Callable[..., Awaitable[int]], *words: Any, as_json: bool = False,
        here: Path | None = None, **named: Any,
    ) -> Said:  # fmt: skip
        """A command in the project's folder."""
        out, err = io.StringIO(), io.StringIO()
        terminal = Terminal(json=as_json, environ={"NO_COLOR": "1"}, out=out, err=err)
        request = Request(
            terminal, here or self.root, self.environ, str(self.jobs / "trialog.db"), None
        )
        try:
            code = await command(request, *words, **named)
        except BaseExceptionGroup as group:  # as the command line does with it
            raise unwrapped(group)[0] from None
        return Said(code, out.getvalue(), err.getvalue())

    async def events(self, trial: str | None = None) -> list[RecordedEvent]:
        """Those of one trial, or of the only one."""
        async with open_log(self.jobs / "trialog.db", readonly=True) as log:
            names = await log.streams("trial/")
            return await log.read(f"trial/{trial}" if trial else names[0])

    async def trials(self) -> list[str]:
        """All trials' names."""
        async with open_log(self.jobs / "trialog.db", readonly=True) as log:
            return [name.removeprefix("trial/") for name in await log.streams("trial/")]

    def file(self, trial: str, name: str) -> bytes:
        """The bytes of one of a trial's files."""
        return (self.jobs / self.job / trial / name).read_bytes()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a job of two trials, run once."""
    folder = tmp_path_factory.mktemp("desk")
    found = Desk(write_desk(folder / "desk"), folder / "jobs")
    anyio.run(found.run, 2)
    return found


@pytest.fixture
def desk(tmp_path: Path, template: Desk) -> Desk:
    """A desk with a job of two trials, for one test."""
    found = Desk(tmp_path / "desk", tmp_path / "jobs")
    shutil.copytree(template.root, found.root)
    shutil.copytree(template.jobs, found.jobs)
    found.job = template.job
    return found


@pytest.fixture
async def fresh_desk(tmp_path: Path) -> Desk:
    """A desk with a job of one trial, run where it is."""
    found = Desk(write_desk(tmp_path / "desk"), tmp_path / "jobs")
    await found.run()
    return found
