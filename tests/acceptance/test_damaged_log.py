"""What a user is told of a job with a trial whose record in the log is damaged."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from helpers.logs import alter
from helpers.terminal import marker, name_of, running, until

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap


def test_one_damaged_trial(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """Of a job that was killed, show lists the other trials and names the damaged one with what to
    do; a resume runs what is open and leaves that one alone. Both end with exit code 1."""
    make_task("t")
    seconds = marker()
    agent = agent_program(f"test $GO_KEY = open-gate || sleep {seconds}; echo 42 > answer.txt")
    process = user.start(
        "run", "t", "-a", "oracle", "-a", "nop", "-a", agent, "-n", 1,
        "--sandbox", "bubblewrap", "--agent-env", "GO_KEY=shut-gate",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    [job] = user.run("jobs", "--json", code=0).objects
    folder = f"jobs/{job['job']}"
    until(lambda: user.run("show", folder).out.count("] t (reward=") == 2, "the first two")
    process.kill()
    process.wait()
    trials = user.run("show", folder, "--json", code=0).objects[0]["trials"]
    [trial] = [one["trial"] for one in trials if one["agent"] == "oracle"]

    alter(user.home / "jobs/trialog.db", f"trial/{trial}", 3, "data = cast(x'7bff' AS TEXT)")
    told = (
        "error: 1 trial can't be read from the log\n"
        f"hint: `trialog rebuild {folder} --check` says what is wrong there; a resume leaves what "
        "can't be read alone\n"
    )
    line = rf"\[\?\?\?\?\] t \(can't be read: stream 'trial/{trial}' version 3: .+\) agent=oracle"
    shown = user.run("show", folder, code=1)
    assert shown.err == told
    assert sum(re.match(line, one) is not None for one in shown.lines) == 1
    assert sum(one.startswith("[FAIL] t (reward=0.00, tools=0) agent=nop") for one in shown.lines)
    assert sum(one.startswith("[....] t (not finished)") for one in shown.lines) == 1
    [found] = user.run("show", folder, "--json", code=1).objects[0]["unreadable"]
    assert (found["trial"], found["agent"]) == (trial, "oracle")
    assert user.run("resume", folder, "--dry-run", code=0).out.count(f"'trial/{trial}' v") == 1

    resumed = user.run("resume", folder, "--agent-env", "GO_KEY=open-gate", code=1)
    assert f"error: trial {trial} is left alone: its record can't be read: stream" in resumed.err
    assert resumed.err.endswith(told)
    assert sum(one.startswith("[PASS]") for one in resumed.lines) == 1
    assert "Outcomes: 2 scored (1 passed, 1 failed), 0 unscored, 0 errored, 1 not finished" in (
        resumed.lines
    )
    assert "nothing is left to do" in user.run("resume", folder, code=1).err

    for command in (["rebuild", folder], ["rebuild", folder, "--check"], ["regrade", folder]):
        ran = user.run(*command, code=1)
        assert f"stream 'trial/{trial}' version 3" in ran.out + ran.err
    exported = user.run("export", folder, "--format", "events", "--out", "events.jsonl")
    assert exported.code == 1
    assert f"error: trial/{trial} is written as it lies: stream 'trial/{trial}' v" in exported.err
