"""Ctrl-C at a terminal, kill -9, and going on afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
BWRAP = ("--sandbox", "bubblewrap")
DEADLINE = 60.0


class Shell:
    """`trialog` on a terminal of its own, in the foreground of it."""

    def __init__(self, user: User, *words: object, **env: str) -> None:
        self.screen = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x28\x00\xc8\x00\x00\x00\x00\x00")

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = user.start(
            *words, env={"TERM": "xterm", **env}, stdout=slave, stderr=slave,
            preexec_fn=take_terminal,
        )  # fmt: skip
        os.close(slave)

    def until(self, text: str) -> None:
        """Read on until the screen has shown this."""
        end = time.monotonic() + DEADLINE
        while text.encode() not in self.screen:
            assert time.monotonic() < end, f"{text!r} never came: {self.screen.decode()}"
            if not self._read(1.0) and self.process.poll() is not None:
                pytest.fail(f"{text!r} never came: {self.screen.decode()}")

    def end(self) -> int:
        """Read to the end: the exit code."""
        while self._read(DEADLINE):
            pass
        return self.process.wait(DEADLINE)

    def press_ctrl_c(self) -> None:
        """As the terminal's driver does: a signal to the whole foreground process group."""
        os.write(self._master, b"\x03")

    def _read(self, patience: float) -> bool:
        if not select.select([self._master], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the terminal's other end is closed
            return False
        self.screen += data
        return bool(data)

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)


@pytest.fixture
def at_terminal(user: User) -> Iterator[Callable[..., Shell]]:
    """Starts `trialog` on a terminal."""
    shells: list[Shell] = []

    def start(*words: object, **env: str) -> Shell:
        shells.append(Shell(user, *words, **env))
        return shells[-1]

    yield start
    for shell in shells:
        shell.close()


def until(found: Callable[[], Any], what: str) -> Any:
    """Look again and again until something is there."""
    end = time.monotonic() + DEADLINE
    while not (value := found()):
        assert time.monotonic() < end, f"{what} never came"
        time.sleep(0.02)
    return value


def running(marker: str) -> list[int]:
    """Processes of this machine whose command line has the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def counts(folder: Path) -> dict[str, int]:
    """The counts in summary.json."""
    found: dict[str, int] = msgspec.json.decode((folder / "summary.json").read_bytes())["counts"]
    return found


def folder_of(user: User) -> Path:
    """The folder of the one job there is."""
    [job] = user.run("jobs", "--json", code=0).objects
    return Path(job["folder"])


def marker() -> str:
    """A number of seconds that no other sleep on this machine has."""
    return f"{3000 + os.getpid()}.{time.monotonic_ns() % 10**6:06}"


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
    agent = agent_program(f"echo 42 > answer.txt; touch up; {flag} & wait")
    shell = at_terminal("run", "tasks", "-n", 1, "-a", agent, *BWRAP)
    [pid] = until(lambda: [p for p in running(flag.split()[1]) if "sleep" in _name(p)], "the agent")
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
    (user.home / "agent.sh").write_text("#!/bin/sh\necho 42 > answer.txt\n")
    ran = user.run("resume", folder, code=0)
    assert sum(line.startswith("[PASS]") for line in ran.lines) == 2
    assert counts(folder)["passed"] == 3


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


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
    agent = agent_program(f"setsid sleep {seconds} & sleep {seconds}")
    shell = at_terminal("run", "tasks", "-n", 2, "-a", agent, *BWRAP)
    until(lambda: len([p for p in running(seconds) if _name(p) == "sleep"]) == 4, "four sleeps")
    shell.press_ctrl_c()
    shell.until("no new trials")
    began = time.monotonic()
    shell.press_ctrl_c()
    assert shell.end() == 130
    assert time.monotonic() - began < 15
    assert [p for p in running(seconds) if _name(p) == "sleep"] == []
    folder = folder_of(user)
    assert list((folder.parent / ".scratch").glob("*/*")) == []
    assert user.run("clean", "--sandbox", "bubblewrap", code=0).out == "nothing was left\n"
    (user.home / "agent.sh").write_text("#!/bin/sh\necho 42 > answer.txt\n")
    user.run("resume", folder, code=0)
    assert counts(folder)["passed"] == 2
    assert user.run("rebuild", folder, "--check", code=0)


def test_killed_and_resumed(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """After kill -9 `clean` removes what was left, and a resume finishes the job."""
    make_task("tasks/a")
    make_task("tasks/b")
    seconds = marker()
    agent = agent_program(f"echo 42 > answer.txt; sleep {seconds}")
    process = user.start("run", "tasks", "-n", 2, "-a", agent, *BWRAP)
    until(lambda: len([p for p in running(seconds) if _name(p) == "sleep"]) == 2, "two sleeps")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = folder_of(user)
    assert list((folder.parent / ".scratch").glob("*/*"))
    ran = user.run("clean", "--sandbox", "bubblewrap", code=0)
    assert any(line.startswith("removed (bubblewrap): a__") for line in ran.lines)
    assert any(line.startswith("removed (folder): ") for line in ran.lines)
    assert list((folder.parent / ".scratch").glob("*/*")) == []
    assert [p for p in running(seconds) if _name(p) == "sleep"] == []
    (user.home / "agent.sh").write_text("#!/bin/sh\necho 42 > answer.txt\n")
    plan = user.run("resume", folder, "--dry-run", code=0)
    assert all(line.startswith("run ") for line in plan.lines)
    user.run("resume", folder, code=0)
    assert counts(folder)["passed"] == 2
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
    process = user.start("run", "tasks", "-n", 1, "-a", agent, *BWRAP)
    until(lambda: [p for p in running(seconds) if _name(p) == "sleep"], "the agent")
    folder = folder_of(user)
    ran = user.run("resume", folder, code=2)
    assert f"process {process.pid} on " in ran.err
    cancelled = user.run("cancel", folder, "--reason", "wrong agent", code=0)
    assert cancelled.out == f"Job {folder.name}: 1 trial cancelled\n"
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "Job cancelled: 0/0" in out
    assert counts(folder)["cancelled"] == 2
    assert [p for p in running(seconds) if _name(p) == "sleep"] == []


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
