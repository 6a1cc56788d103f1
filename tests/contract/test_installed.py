"""Agents by manifest on both sandboxes: installed in one phase, at work in the next."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from helpers.jobs import Watched, services, write_task
from trialog.engine.errors import ConfigError
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.engine.tasks.load import load_task
from trialog.events.codec import decode
from trialog.events.kinds import (
    AgentFailed,
    AgentStarted,
    JobStarted,
    ProcessesKilled,
    VerifierScored,
)
from trialog.events.open import memory_log

TEST_IMAGE = os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base:latest")
TEST = "[ \"$(cat answer.txt)\" = '{expected}' ] && echo 1 > /logs/verifier/reward.txt"


class Worked:
    """A trial that has ended."""

    def __init__(
        self, ended: TrialEnded, events: list[Any], blobs: dict[Any, bytes], result: Any
    ) -> None:
        self.ended = ended
        self.events = events
        self.blobs = blobs
        self.result = result

    def one(self, kind: type[Any]) -> Any:
        """The one event of a kind."""
        [found] = [event for event in self.events if isinstance(event, kind)]
        return found


Run = Callable[..., Awaitable[Worked]]


@pytest.fixture
def run(backend: SandboxBackend, tmp_path: Path) -> Run:
    """Runs a task with an agent of a manifest."""

    async def run(
        manifest: str, *, test: str = "exit 1", settings: str = "",
        files: dict[str, str] | None = None, environ: dict[str, str] | None = None, **config: Any,
    ) -> Worked:  # fmt: skip
        if backend.name == "docker":
            settings = f'sandbox.docker_image = "{TEST_IMAGE}"\n{settings}'
        folder = tmp_path / "agents" / "mine"

        def write() -> None:
            write_task(tmp_path / "t", test=test, settings=settings)
            folder.mkdir(parents=True)
            (folder / "agent.yaml").write_text(f"name: mine\n{manifest}")
            for name, text in (files or {}).items():
                (folder / name).write_text(text)

        await to_thread.run_sync(write)
        watched = Watched()
        given = JobConfig(tasks=["t"], agents=[f"agent:{folder}"], retries=0, **config)
        async with memory_log() as log:
            task = await to_thread.run_sync(load_task, tmp_path / "t")
            made = services(log, backend, tmp_path / "jobs", environ=environ)
            await run_job(made, given, [task], watched)
            streams = await log.streams("")
            events: list[Any] = [decode(e) for name in streams for e in await log.read(name)]
            outputs = [
                output
                for event in events
                for output in (
                    getattr(event, "output", None),
                    event.install.output
                    if isinstance(event, AgentStarted) and event.install
                    else None,
                )
                if output is not None
            ]
            blobs = {output.sha256: await log.blobs.get(output.blob) for output in outputs}
        [ended] = watched.of(TrialEnded)
        assert isinstance(ended, TrialEnded)
        [place] = (tmp_path / "jobs").glob("*/t__*/result.json")
        result = json.loads(await to_thread.run_sync(place.read_bytes))
        return Worked(ended, events, blobs, result)

    return run


async def test_what_was_installed_is_there_when_it_works(run: Run) -> None:
    """Files beside the manifest come in, the installation stays, and the version is recorded."""
    done = await run(
        "install: |\n"
        '  cp tool.sh "$TRIALOG_AGENT_HOME/tool"\n'
        '  chmod +x "$TRIALOG_AGENT_HOME/tool"\n'
        "  echo installed; sleep 1000 &\n"
        "version: {command: '\"$TRIALOG_AGENT_HOME/tool\" --version'}\n"
        "command: '\"$TRIALOG_AGENT_HOME/tool\" > answer.txt; ps -e > /dev/null || :'\n"
        "env: {WORD: \"${GIVEN_WORD}\", OTHER: '${MISSING:-b}'}\n",
        files={
            "tool.sh": '#!/bin/sh\n[ "$1" ] && { echo tool 1.5; exit; }\n'
            'read line; echo "$WORD $OTHER $line"\n'
        },
        test=TEST.format(expected="aaaaaaaa b Write 42 to answer.txt."),
        environ={"GIVEN_WORD": "aaaaaaaa"},
    )
    assert done.one(VerifierScored).score == 1.0
    started = done.one(AgentStarted)
    assert (started.name, started.version) == ("mine", "tool 1.5")
    assert not started.install.network
    assert done.blobs[started.install.output.sha256] == b"installed\n"
    assert (done.result["agent_version"], done.result["n_tool_calls"]) == ("tool 1.5", 0)
    [taken] = done.one(JobStarted).agents
    assert taken.digest == started.digest
    # What the installation left running was ended with its phase.
    assert [process.name for process in done.one(ProcessesKilled).processes] == []


async def test_an_install_that_fails_leaves_nothing_to_grade(run: Run) -> None:
    """The trial is errored with a category of its own, and the agent never started."""
    done = await run("install: echo no such thing; exit 9\ncommand: echo 42 > answer.txt\n")
    end = done.one(AgentFailed)
    assert (end.category, end.exit_code) == ("agent_install_failed", 9)
    assert done.blobs[end.output.sha256] == b"no such thing\n"
    assert not [event for event in done.events if isinstance(event, AgentStarted)]
    assert (done.ended.outcome, done.result["error_category"]) == (
        "errored", "agent_install_failed",
    )  # fmt: skip


async def test_an_install_that_never_ends(run: Run) -> None:
    """It is stopped with all that it started, at its own deadline."""
    done = await run(
        "install: echo on; setsid sleep 1000 & sleep 1000\ninstall_timeout_sec: 1\ncommand: x\n"
    )
    end = done.one(AgentFailed)
    assert end.category == "agent_install_timeout"
    assert 1 <= end.duration < 20
    assert done.blobs[end.output.sha256] == b"on\n"


async def test_values_of_the_environment_are_kept_out_of_the_log(run: Run) -> None:
    """What a manifest takes from the environment is redacted where it is printed."""
    done = await run(
        'install: echo "got $KEY"\ncommand: echo "got $KEY"; exit 3\nenv: {KEY: "${MINE_KEY}"}\n',
        environ={"MINE_KEY": "very-secret-word"},
    )
    printed = list(done.blobs.values())
    assert any(text.startswith(b"got [redacted:") for text in printed)
    assert not any(b"very-secret-word" in text for text in printed)
    assert done.result["error_category"] == "agent_exit"


@pytest.mark.parametrize("network", ["true", "install"])
async def test_a_network_that_the_task_does_not_allow(run: Run, network: str) -> None:
    """A job is refused that could not give its agent what it needs."""
    with pytest.raises(ConfigError, match=r"needs a network while it .*, and task t allows none"):
        await run(f"install: 'true'\ncommand: x\nnetwork: {network}\n")
