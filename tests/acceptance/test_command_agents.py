"""A program as the agent: what it is told, what is kept of it, and going on with it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.terminal import DEADLINE, marker, name_of, running, until

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
BWRAP = ("--sandbox", "bubblewrap")
STEP = "printf '%s\\n' " + shlex.quote('{"command": "look", "exit_code": 0}')


def only_job(user: User) -> str:
    """The name of the one job there is."""
    [job] = user.run("jobs", "--json", code=0).objects
    return str(job["job"])


def trials_begun(user: User) -> list[str]:
    """The trials whose sandboxes' folders are there."""
    folder = user.home / "jobs" / ".scratch"
    return [p.parent.name for p in folder.glob("*/*/*/agent.log")]


def start_and_wait(user: User, agent: str, seconds: str) -> tuple[subprocess.Popen[str], str]:
    """Start a job of one trial; it, and the trial, once its agent sleeps."""
    process = user.start("run", "t", "-a", agent, *BWRAP)
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    [trial] = until(lambda: trials_begun(user), "the trial")
    return process, trial


def test_models_and_parameters(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """The matrix reaches the program; for an agent that has no use for it that is said once."""
    make_task("t")
    agent = agent_program(
        'echo "$TRIALOG_MODEL $TRIALOG_PARAM_EFFORT $TRIALOG_SEED"; cat "$TRIALOG_RUN"'
    )
    ran = user.run(
        "run", "t", "-a", agent, "-a", "oracle", "--model", "small", "--model", "large",
        "--param", "effort=high", "--seed", 7, *BWRAP, code=0,
    )  # fmt: skip
    said = [line for line in ran.err.splitlines() if "alike" in line]
    assert said == [
        "warning: oracle uses no model and no parameters: its trials with small and large are alike"
    ]
    [job] = user.run("jobs", "--json", code=0).objects
    told: set[str] = set()
    for folder in Path(job["folder"]).glob("t__*"):
        result = json.loads((folder / "result.json").read_bytes())
        if result["agent"] == "oracle":
            continue
        first, _, document = user.run("logs", folder.name, code=0).out.partition("\n")
        told.add(" ".join(first.split()[:2]))
        run: dict[str, Any] = json.loads(document)
        assert first.split()[2] == str(run["seed"])
        assert (run["task"], run["attempt"], run["parameters"]) == ("t", 1, {"effort": "high"})
    assert told == {"small high", "large high"}


def test_resumed_from_another_folder(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """A job whose engine was killed runs the program it began with, though the file is gone.

    A new job from it takes the file of today, and says that it is another one.
    """
    make_task("t")
    seconds = marker()
    agent_program(
        f'[ "$GATE_KEY" = open-gate ] && {{ echo 42 > answer.txt; exit; }}\nsleep {seconds}'
    )
    process = user.start(
        "run", "t", "-a", "command:./agent.sh", "--agent-env", "GATE_KEY=closed-gate", *BWRAP
    )
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the agent")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    program = user.home / "agent.sh"
    program.unlink()
    [job] = user.run("jobs", "--json", code=0).objects
    elsewhere = user.home / "elsewhere"
    elsewhere.mkdir()
    opened = ("--agent-env", "GATE_KEY=open-gate")
    ran = user.run("resume", user.home / "jobs" / job["job"], *opened, code=0, cwd=elsewhere)
    assert any(line.startswith("[PASS]") for line in ran.lines)
    program.write_text("#!/bin/sh\necho 41 > answer.txt\n")
    again = user.run("run", "--from", job["job"], *BWRAP, *opened, code=0)
    assert (
        f"warning: agent command:agent.sh is not as it was in {job['job']}; "
        "its program of today is used"
    ) in again.err.splitlines()


def test_replay_follows_the_steps(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """`replay --follow` shows a step that the agent reports while the agent still works."""
    make_task("t")
    seconds = marker()
    agent = agent_program(f'{STEP} >> "$TRIALOG_ACTIONS"; sleep {seconds}')
    process, trial = start_and_wait(user, agent, seconds)
    replay = user.start("replay", trial, "--follow")
    assert replay.stdout is not None
    for line in replay.stdout:
        if "shell.run" in line:
            break
    else:
        raise AssertionError("no step was shown")
    assert process.poll() is None
    user.run("cancel", only_job(user), code=0)
    process.communicate(timeout=DEADLINE)
    rest, _ = replay.communicate(timeout=DEADLINE)
    assert "TrialInterrupted" in rest


@pytest.mark.parametrize("how", ["cancel", "signals"])
def test_what_was_printed_is_kept(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str], how: str
) -> None:
    """After a cancellation, or two signals, `logs` shows what the agent had printed until then."""
    make_task("t")
    seconds = marker()
    agent = agent_program(f'echo "half done"; {STEP} >> "$TRIALOG_ACTIONS"; sleep {seconds}')
    process, trial = start_and_wait(user, agent, seconds)
    if how == "cancel":
        user.run("cancel", only_job(user), code=0)
    else:
        process.send_signal(signal.SIGINT)
        stderr = process.stderr
        assert stderr is not None
        until(lambda: "no new trials" in stderr.readline(), "the first signal")
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert user.run("logs", trial, code=0).out == "half done\n"
    assert user.run("logs", trial, "--follow", code=0).out == "half done\n"
    replay = user.run("replay", trial, code=0).out
    assert "shell.run" in replay
    cut = next(line for line in replay.splitlines() if "TrialInterrupted" in line)
    assert cut.endswith(", 10 bytes printed")


def test_nothing_is_kept_after_a_kill(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """After kill -9 the steps are there; what was printed is lost, and `logs` says so."""
    make_task("t")
    seconds = marker()
    agent = agent_program(f'echo "half done"; {STEP} >> "$TRIALOG_ACTIONS"; sleep {seconds}')
    process, trial = start_and_wait(user, agent, seconds)
    until(lambda: "shell.run" in user.run("replay", trial, code=0).out, "the step")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    user.run("clean", *BWRAP, code=0)
    ran = user.run("logs", trial, code=2)
    assert "its engine was killed while the agent worked, so what it had printed is lost" in ran.err
    user.run("cancel", only_job(user), code=0)
    assert user.run("logs", trial, "--follow", code=0).out == ""
    assert "shell.run" in user.run("replay", trial, code=0).out


def test_verbose(user: User, make_task: MakeTask) -> None:
    """`-v` tells of each stage of a trial, `-vv` of more, and without them nothing is told."""
    make_task("t")
    told = [user.run("run", "t", *BWRAP, *more, code=0).err for more in ((), ("-v",), ("-vv",))]
    for stage in ("sandbox made", "agent started", "agent ended", "work saved",
                  "verifier started", "verifier ended", "files written"):  # fmt: skip
        assert [f"info: {stage} trial=t__" in err for err in told] == [False, True, True]
    assert ["debug: sandbox wanted trial=t__" in err for err in told] == [False, False, True]
