"""An agent by manifest, as a user has it: in a project, by its path, killed and resumed."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import helpers.acp_agent
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
        f"install: |\n  {wait if cut == 'install' else 'echo on it'}\n"
        '  cp data "$TRIALOG_AGENT_HOME"\n'
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
    assert "agent agent:agents/mine 7" in user.run("show", result["trial_name"], code=0).out
    installed = user.run("logs", result["trial_name"], "--install")
    if cut == "install":
        assert "no installation of an agent has printed anything" in installed.err
    else:
        assert installed.out == "on it\n"
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
    assert user.run("logs", trial, "--install", code=0).out == "no mini here\n"
    user.run("logs", trial, "--install", "--follow", code=2)
    assert "install" in user.run("explain", "agent_install_failed", code=0).out
    plan = user.run("resume", job["job"], "--dry-run", code=0).out
    assert "--only errored" in plan


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_example_that_speaks_acp(user: User) -> None:
    """It solves its task, declines another one, and its words are in the files."""
    solved, other = EXAMPLES / "tasks" / "kepler-equation", EXAMPLES / "tasks" / "find-the-dates"
    agent = EXAMPLES / "agents" / "kepler"
    ran = user.run("run", solved, other, "-a", agent, *BWRAP, code=0)
    passed = "[PASS] kepler-equation (reward=1.00, tools=1)"
    assert any(line.startswith(passed) for line in ran.lines)
    assert any("agent_refused" in line for line in ran.lines if line.startswith("[FAIL] find-the"))
    [place] = user.home.glob("jobs/*/kepler-equation__*")
    assert json.loads((place / "result.json").read_bytes())["agent_version"] == "1.0.0"
    shown = (place / "trajectory.json").read_text()
    assert "Newton's method" in shown
    assert "E = 1.12068589" in shown
    user.run("rebuild", place.parent.name, "--check", code=0)


def test_an_acp_agent_killed_and_resumed(user: User, make_task: MakeTask) -> None:
    """What it had told before the engine was killed stays; the resume speaks to a new one."""
    make_task("t")
    seconds = marker()
    agent = user.home / "agents" / "mine"
    agent.mkdir(parents=True)
    shutil.copy(helpers.acp_agent.__file__, agent / "agent.py")
    (agent / "agent.yaml").write_text(
        "name: mine\ncommand: [./agent.py, /task/agent/scenario]\nprotocol: acp\n"
    )
    (agent / "scenario").write_text(
        "def work(prompt):\n"
        "    say('Working on it.')\n"
        "    ask('fs/write_text_file', path=os.getcwd() + '/answer.txt', content='42')\n"
        f"    if os.environ['GATE_KEY'] != 'open-gate': run('sleep {seconds}')\n"
        "    return 'end_turn'\n"
    )
    process = user.start(
        "run", "t", "-a", "./agents/mine", "--agent-env", "GATE_KEY=closed-gate", *BWRAP
    )
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    [job] = user.run("jobs", "--json", code=0).objects
    told = user.run("replay", "t__", code=0).out
    assert "Working on it." in told
    assert "files.write" in told
    shutil.rmtree(agent)
    ran = user.run("resume", job["job"], "--agent-env", "GATE_KEY=open-gate", code=0)
    assert any(line.startswith("[PASS]") for line in ran.lines)
    [place] = list(Path(job["folder"]).glob("*/result.json"))
    assert json.loads(place.read_bytes())["agent_version"] == "7.7"
    user.run("rebuild", job["job"], "--check", code=0)
