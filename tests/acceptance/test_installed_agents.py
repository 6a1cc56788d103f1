"""An agent by manifest, as a user has it: in a project, by its path, killed and resumed."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.terminal import marker, name_of, running, until

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
BWRAP = ("--sandbox", "bubblewrap")


def test_a_first_agent_of_a_project(user: User) -> None:
    """What `agent init --installed` writes is valid, and runs by its name and by its path."""
    user.run("init", "shop", code=0)
    shop = user.home / "shop"
    user.run("agent", "init", "mine", "--installed", code=0, cwd=shop)
    user.run("validate", code=0, cwd=shop)
    user.run("new", "t", code=0, cwd=shop)
    for spelled in ("mine", "agents/mine", "agent:./agents/mine/agent.yaml"):
        user.run("run", "t", "-a", spelled, *BWRAP, "--jobs-dir", f"j-{len(spelled)}", cwd=shop)
        [place] = (shop / f"j-{len(spelled)}").glob("*/t__*/result.json")
        result = json.loads(place.read_bytes())
        assert (result["agent_version"], result["n_tool_calls"]) == ("0.1.0", 1)
        assert result["agent"] == ("mine" if spelled == "mine" else "agent:agents/mine")


def test_an_agent_in_the_wrong_place(user: User, make_task: MakeTask) -> None:
    """A policy can't work in a sandbox, nor a manifest's program in an environment."""
    user.run("init", "shop", code=0)
    shop = user.home / "shop"
    user.run("agent", "init", "mine", "--installed", code=0, cwd=shop)
    user.run("new", "t", code=0, cwd=shop)
    said = user.run("run", "t", "-a", "steady", *BWRAP, code=2, cwd=shop).err
    assert "is a policy for environments and can't work in a sandbox" in said
    said = user.run("run", "count-to-ten", "-a", "mine", code=2, cwd=shop).err
    assert "is installed in a sandbox, and can't act in an environment" in said


@pytest.mark.parametrize("cut", ["install", "command"])
def test_killed_and_resumed(user: User, make_task: MakeTask, cut: str) -> None:
    """A resume installs and runs the very bytes that the job took, though the folder is gone."""
    make_task("t")
    seconds = marker()
    agent = user.home / "agents" / "mine"
    agent.mkdir(parents=True)
    wait = f'[ "$GATE_KEY" = open-gate ] || sleep {seconds}'
    (agent / "agent.yaml").write_text(
        "name: mine\n"
        f'install: |\n  {wait if cut == "install" else ":"}\n  cp data "$TRIALOG_AGENT_HOME"\n'
        f"command: |\n  {wait if cut == 'command' else ':'}\n"
        '  cp "$TRIALOG_AGENT_HOME/data" answer.txt\n'
        "version: {command: echo 7}\n"
    )
    (agent / "data").write_text("42\n")
    process = user.start(
        "run", "t", "-a", "./agents/mine", "--agent-env", "GATE_KEY=closed-gate", *BWRAP
    )
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    shutil.rmtree(agent)
    [job] = user.run("jobs", "--json", code=0).objects
    ran = user.run("resume", job["job"], "--agent-env", "GATE_KEY=open-gate", code=0)
    assert any(line.startswith("[PASS]") for line in ran.lines)
    [place] = list(Path(job["folder"]).glob("*/result.json"))
    result = json.loads(place.read_bytes())
    assert (result["agent"], result["agent_version"]) == ("agent:agents/mine", "7")
    user.run("rebuild", job["job"], "--check", code=0)


def test_an_install_that_fails(user: User, make_task: MakeTask) -> None:
    """The console, `logs` and `explain` say what was wrong; a resume does not repeat it unasked."""
    make_task("t")
    agent = user.home / "mine"
    agent.mkdir()
    (agent / "agent.yaml").write_text(
        "name: mine\ninstall: echo no mini here; exit 5\ncommand: x\n"
    )
    ran = user.run("run", "t", "-a", "./mine", *BWRAP, code=1)
    assert any(line.startswith("[ERR] t") and "exit code 5" in line for line in ran.lines)
    [job] = user.run("jobs", "--json", code=0).objects
    [trial] = [place.name for place in Path(job["folder"]).glob("t__*")]
    assert user.run("logs", trial, code=0).out == "no mini here\n"
    assert "install" in user.run("explain", "agent_install_failed", code=0).out
    plan = user.run("resume", job["job"], "--dry-run", code=0).out
    assert "--only errored" in plan
