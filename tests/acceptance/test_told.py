"""What a user is told of trials that went wrong, of engines that died, and of what was kept."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.terminal import DEADLINE, marker, name_of, running, until

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
BWRAP = ("--sandbox", "bubblewrap")
AGENT = Callable[[str], str]
PLANTS = "echo 1 > /logs/verifier/reward.txt; mkdir -p /logs/artifacts; echo x > /logs/artifacts/a"


def folder_of(user: User) -> Path:
    """The folder of the newest job."""
    return Path(user.run("jobs", "--json", code=0).objects[-1]["folder"])


def test_a_failing_agent_is_told(user: User, make_task: MakeTask, agent_program: AGENT) -> None:
    """How an agent failed, what it left for the verifier, the figures by agent and what was kept
    stand in run's end and in show."""
    make_task("t", settings="typo: 1\n")
    agent = agent_program(f"{PLANTS}; exit 3")
    ran = user.run("run", "t", "-a", agent, "-a", "nop", "-k", 2, "--keep-sandbox", *BWRAP, code=0)
    folder = folder_of(user)
    shown = user.run("show", folder, code=0)
    line = f"[FAIL] t (reward=0.00, tools=0) (agent exited with code 3) agent={agent} attempt=2"
    assert line in ran.lines
    assert any(re.fullmatch(rf"{re.escape(line)} t__[0-9a-f]+", one) for one in shown.lines)
    names = [one.rpartition(" ")[2] for one in shown.lines if one.startswith("[")]
    assert [one.rpartition(" ")[0] for one in shown.lines if "] t (" in one] == [
        f"[FAIL] t (reward=0.00, tools=0) (agent exited with code 3) agent={agent} attempt=1",
        line,
        "[FAIL] t (reward=0.00, tools=0) agent=nop attempt=1",
        "[FAIL] t (reward=0.00, tools=0) agent=nop attempt=2",
    ]
    for told in (ran, shown):
        assert "Agents: 2 agent_exit (see trialog explain agent_exit)" in told.lines
        [tamper] = [one for one in told.lines if one.startswith("tamper: ")]
        assert tamper.startswith("tamper: 2 trials left something in the verifier's places: t__")
        [head] = [one for one in told.lines if one.startswith("  AGENT")]
        assert head.split()[-2:] == ["PASS@1", "PASS@2"]
        assert any(one.split()[:3] == ["nop", "0/2", "0.0%"] for one in told.lines)
        assert any(one.startswith("4 sandboxes kept: t__") for one in told.lines)
    assert ran.err.count("typo: not a known setting") == 1
    trial = user.run("show", names[0], code=0)
    assert f"  sandbox kept: `trialog exec {names[0]} -- CMD` runs a program there" in trial.lines
    assert any(one.endswith(", artifacts/ with 1 file)") for one in trial.lines)
    user.run("clean", *BWRAP, code=0)
    assert "sandbox" not in "".join(user.run("show", folder, code=0).lines[2:])


def test_no_table_where_there_is_one_of_each(user: User, make_task: MakeTask) -> None:
    """A job of one agent and one attempt has no table of figures."""
    make_task("tasks/a")
    make_task("tasks/b")
    ran = user.run("run", "tasks", *BWRAP, code=0)
    assert not any(line.startswith("  ") for line in ran.lines)


def test_a_stopped_agent_is_told(user: User, make_task: MakeTask, agent_program: AGENT) -> None:
    """A trial whose agent was stopped for its time says so on its line."""
    make_task("t", settings="agent: {timeout_sec: 0.5}\n")
    ran = user.run("run", "t", "-a", agent_program("sleep 600"), *BWRAP, code=0)
    assert ran.lines[0] == "[FAIL] t (reward=0.00, tools=0) (agent_timeout: stopped after 0.5s)"
    assert "Agents: 1 agent_timeout (see trialog explain agent_timeout)" in ran.lines


def test_a_killed_engine_is_told(user: User, make_task: MakeTask, agent_program: AGENT) -> None:
    """A job is running while a process has it; after kill -9 it has stopped, and how it goes on is
    said; what it had cut off is counted once it is superseded."""
    make_task("t", settings="agent: {timeout_sec: 12}\nverifier: {timeout_sec: 60}\n")
    seconds = marker()
    agent = agent_program(f"test -e again || sleep {seconds}; echo 42 > answer.txt")
    process = user.start("run", "t", "-a", agent, *BWRAP)
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    folder = folder_of(user)
    assert user.run("show", folder, code=0).lines[0] == f"Job {folder.name}: running"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    shown = user.run("show", folder, code=0).lines
    goes_on = f"stopped: `trialog resume jobs/{folder.name}` goes on"
    assert shown[0] == f"Job {folder.name}: {goes_on}"
    assert any(re.fullmatch(r"\[\.\.\.\.\] t \(not finished\) t__[0-9a-f]+", one) for one in shown)
    assert any(one.startswith("Job stopped: 0/0") for one in shown)
    assert user.run("jobs", code=0).lines[1].split()[3] == "stopped"
    (user.home / "agent.sh").write_text("#!/bin/sh\necho 42 > answer.txt\n")
    ran = user.run("resume", folder, code=0)
    removed = "note: removed what killed engines had left: scratch folders of 1 dead engine, "
    assert removed + "1 sandbox\n" in ran.err
    shown = user.run("show", folder, code=0).lines
    assert shown[0] == f"Job {folder.name}: finished"
    assert not any("not finished" in one for one in shown)
    assert "1 earlier execution superseded or given up" in shown


def test_a_cancelled_job_is_told(user: User, make_task: MakeTask, agent_program: AGENT) -> None:
    """A trial that is cancelled has its line; who cancelled it and why is shown afterwards."""
    make_task("t")
    seconds = marker()
    process = user.start("run", "t", "-a", agent_program(f"sleep {seconds}"), *BWRAP)
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    folder = folder_of(user)
    user.run("cancel", folder, "--reason", "wrong agent", code=0)
    out, _ = process.communicate(timeout=DEADLINE)
    assert out.splitlines()[0] == "[STOP] t (tools=0) (cancelled)"
    shown = user.run("show", folder, code=0)
    assert re.fullmatch(rf"Job {folder.name}: cancelled by .+: wrong agent", shown.lines[0])
    assert any(re.fullmatch(r"  cancelled by .+: wrong agent", line)
               for line in user.run("show", "t__", code=0).lines)  # fmt: skip
    assert ": wrong agent\n" in user.run("replay", "t__", code=0).err


def test_check_of_a_task_without_its_image(user: User, make_task: MakeTask) -> None:
    """Where the controls can't be run, check says that, and nothing of the test."""
    make_task("t", settings="sandbox: {docker_image: no-such-image}\n")
    ran = user.run("check", "t", *BWRAP, code=2)
    assert "task t needs an image (no-such-image)" in ran.err
    assert "hint: use --sandbox docker" in ran.err
    assert "right from wrong" not in ran.err


def test_refused_limits(user: User, make_task: MakeTask) -> None:
    """A limit that --strict-limits refuses is the user's matter: tried once, not by a resume."""
    make_task("t", settings="sandbox: {storage_mb: 5}\n")
    ran = user.run("run", "t", "--strict-limits", *BWRAP, code=1)
    assert [line[:5] for line in ran.lines if line.startswith("[")] == ["[ERR]"]
    assert any(line.endswith("(limits_refused): t") for line in ran.lines)
    folder = folder_of(user)
    [planned] = user.run("resume", folder, "--dry-run", "--json", code=0).objects
    assert planned["action"] == "leave"
    user.run("run", "t", *BWRAP, code=0)


def test_programs_and_sandboxes_that_are_not_there(user: User, make_task: MakeTask) -> None:
    """exec gives 127 for a program that is not there, and 2 for a sandbox that is not, however
    it went."""
    make_task("t")
    folder = user.job("t", "--keep-sandbox")
    [trial] = [path.name for path in folder.iterdir() if path.is_dir()]
    user.run("exec", trial, "--", "no-such-program", code=127)
    user.run("clean", *BWRAP, code=0)
    ran = user.run("exec", trial, "--", "true", code=2)
    assert f"error: the sandbox of trial {trial} is gone: " in ran.err
    assert "hint: `trialog run --keep-sandbox`" in ran.err


def test_clean_without_an_engine(user: User) -> None:
    """clean keeps quiet of a container engine that is not there; with -v it is said."""
    env = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    assert user.run("clean", env=env, code=0).err == ""
    told = user.run("clean", "-v", env=env, code=0).err
    assert "sandbox=docker" in told
    assert "No such file or directory" in told
    assert "900" not in told


def test_one_task_that_is_refused(user: User, make_task: MakeTask) -> None:
    """Where one task of a folder can't be run here, the hint is how to run the others."""
    make_task("tasks/good")
    make_task("tasks/asks more", settings="verifiers: [judge]\n")
    ran = user.run("run", "tasks", *BWRAP, code=2)
    name = re.search(r"hint: run the others with (--exclude \S+)", ran.err)
    assert name, ran.err
    user.run("run", "tasks", *name[1].split(), *BWRAP, code=0)
    assert "hint" not in user.run("run", "tasks/asks more", *BWRAP, code=2).err
