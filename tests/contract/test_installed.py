"""Agents by manifest on both sandboxes: installed in one phase, at work in the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.installed import RunInstalled
from trialog.engine.errors import ConfigError
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.events.kinds import (
    AgentFailed,
    AgentFinished,
    AgentStarted,
    JobStarted,
    ProcessesKilled,
    SandboxStarted,
    VerifierScored,
)

OFFLINE = "environment.allow_internet = false\n"
TEST = "[ \"$(cat answer.txt)\" = '{expected}' ] && echo 1 > /logs/verifier/reward.txt"


@pytest.fixture
def run(backend: SandboxBackend, tmp_path: Path) -> RunInstalled:
    """Runs a task with an agent of a manifest."""
    return RunInstalled(backend, tmp_path)


async def test_what_was_installed_is_there_when_it_works(run: RunInstalled) -> None:
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


async def test_an_install_that_fails_leaves_nothing_to_grade(run: RunInstalled) -> None:
    """The trial is errored with a category of its own, and the agent never started."""
    done = await run("install: echo no such thing; exit 9\ncommand: echo 42 > answer.txt\n")
    end = done.one(AgentFailed)
    assert (end.category, end.exit_code) == ("agent_install_failed", 9)
    assert done.blobs[end.output.sha256] == b"no such thing\n"
    assert not [event for event in done.events if isinstance(event, AgentStarted)]
    assert (done.ended.outcome, done.result["error_category"]) == (
        "errored", "agent_install_failed",
    )  # fmt: skip


async def test_an_install_that_never_ends(run: RunInstalled) -> None:
    """It is stopped with all that it started, at its own deadline."""
    done = await run(
        "install: echo on; setsid sleep 1000 & sleep 1000\ninstall_timeout_sec: 1\ncommand: x\n"
    )
    end = done.one(AgentFailed)
    assert end.category == "agent_install_timeout"
    assert 1 <= end.duration < 20
    assert done.blobs[end.output.sha256] == b"on\n"


async def test_values_of_the_environment_are_kept_out_of_the_log(run: RunInstalled) -> None:
    """What a manifest takes from the environment is redacted where it is printed."""
    done = await run(
        'install: echo "got $KEY"\ncommand: echo "got $KEY"; exit 3\nenv: {KEY: "${MINE_KEY}"}\n',
        environ={"MINE_KEY": "very-secret-word"},
    )
    printed = list(done.blobs.values())
    assert any(text.startswith(b"got [redacted:") for text in printed)
    assert not any(b"very-secret-word" in text for text in printed)
    assert done.result["error_category"] == "agent_exit"


@pytest.mark.parametrize(
    ("network", "allowed", "message"),
    [
        ("true", True, "needs a network while it works .* and task t allows none; bring"),
        ("install", False, "needs a network to be installed .* none; --install-network gives"),
    ],
)
async def test_a_network_that_the_task_does_not_allow(
    run: RunInstalled, network: str, allowed: bool, message: str
) -> None:
    """A job is refused that could not give its agent what it needs."""
    with pytest.raises(ConfigError, match=message):
        await run(
            f"install: 'true'\ncommand: x\nnetwork: {network}\n",
            settings=OFFLINE, install_network=allowed,
        )  # fmt: skip


INTERFACES = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"
LIST = 'sh "$TRIALOG_AGENT_DIR/list.sh"'


async def test_a_network_to_be_installed(run: RunInstalled) -> None:
    """With leave the installation has one, and neither the version, the agent nor the test does."""
    done = await run(
        f"install: {LIST}\nversion: {{command: '{LIST}'}}\ncommand: {LIST}\nnetwork: install\n",
        files={"list.sh": INTERFACES}, settings=OFFLINE, install_network=True,
        test=f"[ \"$({INTERFACES})\" = lo ] && echo 1 > /logs/verifier/reward.txt",
    )  # fmt: skip
    started = done.one(AgentStarted)
    assert started.install.network
    assert len(done.blobs[started.install.output.sha256].split()) > 1
    assert started.version == "lo"
    assert done.blobs[done.one(AgentFinished).output.sha256] == b"lo\n"
    assert done.one(VerifierScored).score == 1.0
    assert not done.one(SandboxStarted).limits.network


async def test_a_task_with_a_network(run: RunInstalled) -> None:
    """Its agent has it from the beginning, and the log says so of the installation."""
    done = await run(
        f"install: {LIST}\ncommand: {LIST}\nnetwork: true\n",
        files={"list.sh": INTERFACES}, settings="environment.allow_internet = true\n",
    )  # fmt: skip
    assert done.one(AgentStarted).install.network
    assert len(done.blobs[done.one(AgentFinished).output.sha256].split()) > 1
