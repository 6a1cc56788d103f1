"""Ctrl-C at a terminal, kill -9, and going on afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from helpers.terminal import DEADLINE, Shell, marker, name_of, running, until

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
BWRAP = ("--sandbox", "bubblewrap")
CLOSED = ("--agent-env", "GATE_KEY=closed-gate")
OPEN = ("--agent-env", "GATE_KEY=open-gate")
GATE = '[ "$GATE_KEY" = open-gate ] && { echo 42 > answer.txt; exit; }\n'
"""An agent's program is the job's own, so what it does after a resume depends on a variable."""


def counts(folder: Path) -> dict[str, int]:
    """The counts in summary.json."""
    found: dict[str, int] = msgspec.json.decode((folder / "summary.json").read_bytes())["counts"]
    return found


def folder_of(user: User) -> Path:
    """The folder of the one job there is."""
    [job] = user.run("jobs", "--json", code=0).objects
    return Path(job["folder"])


def test_live_line(user: User, make_task: MakeTask, at_terminal: Callable[..., Shell]) -> None:
    """On a terminal one live line tells how far the job is, and is gone at the end."""
    make_task("tasks/a")
    make_task("tasks/b")
    shell = at_terminal("run", "tasks", "-n", 1, *BWRAP)
    assert shell.end() == 0
    screen = shell.screen.decode()
    assert re.search(r"1/2 done, \d running, \d waiting", screen)
    assert "pass rate 100.0% [20.7%, 100.0%]" in screen
    assert "\x1b[1;32m[PASS]\x1b[0m a (reward=1.00, tools=0)" in screen
    assert "\x1b[?25h" in screen.rpartition("\x1b[?25l")[2]


def test_plain_on_a_dumb_terminal(
    user: User, make_task: MakeTask, at_terminal: Callable[..., Shell]
) -> None:
    """With NO_COLOR a terminal gets plain lines."""
    make_task("t")
    shell = at_terminal("run", "t", *BWRAP, NO_COLOR="1")
    assert shell.end() == 0
    assert b"\x1b" not in shell.screen


def test_ctrl_c_once(
    user: User,
    make_task: MakeTask,
    at_terminal: Callable[..., Shell],
    agent_program: Callable[[str], str],
) -> None:
    """Ctrl-C once: running trials end, no new ones begin, exit code 130; a resume does the rest."""
    for name in ("a", "b", "c"):
        make_task(f"tasks/{name}")
    flag = f"sleep {marker()}"
    agent = agent_program(f"{GATE}echo 42 > answer.txt; touch up; {flag} & wait")
    shell = at_terminal("run", "tasks", "-n", 1, "-a", agent, *CLOSED, *BWRAP)
    [pid] = until(
        lambda: [p for p in running(flag.split()[1]) if "sleep" in name_of(p)], "the agent"
    )
    shell.press_ctrl_c()
    shell.until("no new trials")
    os.kill(pid, signal.SIGTERM)
    assert shell.end() == 130
    assert "Job interrupted: 1/1 (100.0%)" in shell.screen.decode()
    assert "2 not finished" in shell.screen.decode()
    folder = folder_of(user)
    assert f"`trialog resume jobs/{folder.name}` goes on" in shell.screen.decode()
    plan = user.run("resume", folder, "--dry-run", "--json", code=0).objects
    assert sorted(slot["action"] for slot in plan) == ["keep", "run", "run"]
    ran = user.run("resume", folder, *OPEN, code=0)
    assert sum(line.startswith("[PASS]") for line in ran.lines) == 2
    assert counts(folder)["passed"] == 3


def test_ctrl_c_twice(
    user: User,
    make_task: MakeTask,
    at_terminal: Callable[..., Shell],
    agent_program: Callable[[str], str],
) -> None:
    """Ctrl-C twice: stopped now, nothing is left running, exit code 130; a resume goes on."""
    make_task("tasks/a")
    make_task("tasks/b")
    seconds = marker()
    agent = agent_program(f"{GATE}setsid sleep {seconds} & sleep {seconds}")
    shell = at_terminal("run", "tasks", "-n", 2, "-a", agent, *CLOSED, *BWRAP)
    until(lambda: len([p for p in running(seconds) if name_of(p) == "sleep"]) == 4, "four sleeps")
    shell.press_ctrl_c()
    shell.until("no new trials")
    began = time.monotonic()
    shell.press_ctrl_c()
    assert shell.end() == 130
    assert time.monotonic() - began < 15
    assert [p for p in running(seconds) if name_of(p) == "sleep"] == []
    folder = folder_of(user)
    assert list((folder.parent / ".scratch").glob("*/*")) == []
    assert user.run("clean", "--sandbox", "bubblewrap", code=0).out == "nothing was left\n"
    user.run("resume", folder, *OPEN, code=0)
    assert counts(folder)["passed"] == 2
    assert user.run("rebuild", folder, "--check", code=0)


def test_killed_and_resumed(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """After kill -9 `clean` removes what was left, and a resume finishes the job."""
    make_task("tasks/a")
    make_task("tasks/b")
    seconds = marker()
    agent = agent_program(f"{GATE}echo 42 > answer.txt; sleep {seconds}")
    process = user.start("run", "tasks", "-n", 2, "-a", agent, *CLOSED, *BWRAP)
    until(lambda: len([p for p in running(seconds) if name_of(p) == "sleep"]) == 2, "two sleeps")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = folder_of(user)
    assert list((folder.parent / ".scratch").glob("*/*"))
    ran = user.run("clean", "--sandbox", "bubblewrap", code=0)
    assert any(line.startswith("removed (bubblewrap): a__") for line in ran.lines)
    assert any(line.startswith("removed (folder): ") for line in ran.lines)
    assert list((folder.parent / ".scratch").glob("*/*")) == []
    assert [p for p in running(seconds) if name_of(p) == "sleep"] == []
    [job] = user.run("show", folder, "--json", code=0).objects
    assert len(job["open"]) == 2
    plan = user.run("resume", folder, "--dry-run", code=0)
    assert all(line.startswith("run ") for line in plan.lines)
    user.run("resume", folder, *OPEN, code=0)
    assert counts(folder)["passed"] == 2
    given_up = user.run("replay", job["open"][0], "--follow", code=0)
    assert "note: given up: " in given_up.err
    again = user.run("resume", folder, code=0)
    assert "nothing is left to do" in again.err


def test_a_job_has_one_owner(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """A second process is refused with the owner's id; `cancel` is obeyed by the owner."""
    make_task("tasks/a")
    make_task("tasks/b")
    seconds = marker()
    agent = agent_program(f"sleep {seconds}")
    process = user.start("run", "tasks", "-n", 1, "-a", agent, *CLOSED, *BWRAP)
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    folder = folder_of(user)
    ran = user.run("resume", folder, code=2)
    assert f"process {process.pid} on " in ran.err
    cancelled = user.run("cancel", folder, "--reason", "wrong agent", code=0)
    assert cancelled.out == f"Job {folder.name}: 1 trial cancelled\n"
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "Job cancelled: 0/0" in out
    assert counts(folder)["cancelled"] == 2
    assert [p for p in running(seconds) if name_of(p) == "sleep"] == []


def test_reader_that_goes_away(user: User, make_task: MakeTask) -> None:
    """A job goes on when nobody reads what it prints; other commands end quietly."""
    make_task("tasks/a")
    make_task("tasks/b")
    process = user.start("run", "tasks", "-n", 1, *BWRAP)
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    with process.stderr as stderr:
        err = stderr.read()
    assert process.wait(DEADLINE) == 0, err
    assert "BrokenPipe" not in err
    folder = folder_of(user)
    assert counts(folder)["passed"] == 2
    shell = subprocess.run(
        f"{process.args[0]} replay a__ | head -n 1", shell=True, cwd=user.home, env=user.env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (shell.stderr, len(shell.stdout.splitlines())) == ("", 1)
