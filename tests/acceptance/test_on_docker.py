"""The command on a container engine: what differs from bubblewrap, and that nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiodocker
import anyio
import msgspec
import pytest

from helpers.terminal import Shell, until

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.docker
IMAGE = os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base:latest")
DOCKER = ("--sandbox", "docker", "--image", IMAGE)


def containers(job: str) -> list[str]:
    """Names of the containers with a job's label."""

    async def ask() -> list[str]:
        async with aiodocker.Docker() as docker:
            found = await docker.containers.list(
                all=True, filters=msgspec.json.encode({"label": [f"trialog.job={job}"]}).decode()
            )
            return [container["Names"][0] for container in found]

    return anyio.run(ask)


@pytest.fixture
def clean_afterwards(user: User) -> Iterator[None]:
    """What a failing test leaves is removed."""
    yield
    user.run("clean", "--sandbox", "docker")


def summary(folder: Path) -> dict[str, Any]:
    """The job's summary.json."""
    found: dict[str, Any] = msgspec.json.decode((folder / "summary.json").read_bytes())
    return found


def job_folder(user: User) -> Path:
    """The folder of the one job there is."""
    [job] = user.run("jobs", "--json", code=0).objects
    return Path(job["folder"])


def test_a_job(user: User, make_task: MakeTask) -> None:
    """A job on Docker prints what one on bubblewrap does, and its files can be rebuilt."""
    make_task("t")
    ran = user.run("run", "t", "-a", "oracle", "-a", "nop", *DOCKER, code=0)
    assert "[PASS] t (reward=1.00, tools=0) agent=oracle" in ran.lines
    assert "[FAIL] t (reward=0.00, tools=0) agent=nop" in ran.lines
    folder = job_folder(user)
    assert containers(folder.name) == []
    user.run("rebuild", folder, "--check", code=0)


def test_a_task_without_an_image(user: User, make_task: MakeTask) -> None:
    """Without an image a job is refused before it begins; $TRIALOG_IMAGE is a default."""
    make_task("t")
    ran = user.run("run", "t", "--sandbox", "docker", code=2)
    assert "task t names no image" in ran.err
    assert not (user.home / "jobs").exists()
    user.run("run", "t", "--sandbox", "docker", env={"TRIALOG_IMAGE": IMAGE}, code=0)
    assert summary(job_folder(user))["config"]["image"] == IMAGE


def test_check(user: User) -> None:
    """A new task passes its check on Docker."""
    user.run("new", "mine", code=0)
    assert user.run("check", "mine", *DOCKER, code=0).lines[-1].startswith("ok: mine")


@pytest.mark.usefixtures("clean_afterwards")
def test_ctrl_c_twice(
    user: User,
    make_task: MakeTask,
    at_terminal: Callable[..., Shell],
    agent_program: Callable[[str], str],
) -> None:
    """Ctrl-C twice: the containers are gone, exit code 130, and a resume goes on."""
    make_task("t")
    shell = at_terminal("run", "t", "-a", agent_program("sleep 1000"), *DOCKER)
    until(lambda: (user.home / "jobs/trialog.db").exists(), "the log")
    folder = until(lambda: [Path(j["folder"]) for j in _jobs(user)], "the job")[0]
    until(lambda: containers(folder.name), "the container")
    shell.press_ctrl_c()
    shell.until("no new trials")
    began = time.monotonic()
    shell.press_ctrl_c()
    assert shell.end() == 130
    assert time.monotonic() - began < 20
    assert containers(folder.name) == []
    (user.home / "agent.sh").write_text("#!/bin/sh\necho 42 > answer.txt\n")
    user.run("resume", folder, code=0)
    assert summary(folder)["counts"]["passed"] == 1


def _jobs(user: User) -> list[dict[str, Any]]:
    ran = user.run("jobs", "--json")
    return ran.objects if ran.code == 0 else []


@pytest.mark.usefixtures("clean_afterwards")
def test_killed_and_cleaned(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """After kill -9 the container is still there, and `clean` removes it by name."""
    make_task("t")
    process = user.start("run", "t", "-a", agent_program("sleep 1000"), *DOCKER)
    until(lambda: (user.home / "jobs/trialog.db").exists(), "the log")
    folder = until(lambda: [Path(j["folder"]) for j in _jobs(user)], "the job")[0]
    until(lambda: containers(folder.name), "the container")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    [name] = containers(folder.name)
    ran = user.run("clean", "--sandbox", "docker", code=0)
    assert f"removed (docker): {name.lstrip('/')}" in ran.lines
    assert containers(folder.name) == []


@pytest.mark.usefixtures("clean_afterwards")
def test_a_kept_sandbox(user: User, make_task: MakeTask) -> None:
    """--keep-sandbox leaves the container for exec, another job leaves it too, clean does not."""
    make_task("t")
    user.run("run", "t", "--keep-sandbox", *DOCKER, code=0)
    folder = job_folder(user)
    user.run("run", "t", *DOCKER, code=0)
    kept = next((user.home / "jobs/.kept").iterdir()).name
    ran = user.run("exec", kept, "--", "sh", "-c", "cat answer.txt; exit 7", code=7)
    assert ran.out == "42\n"
    user.run("clean", "--sandbox", "docker", code=0)
    assert containers(folder.name) == []
    assert list((user.home / "jobs/.kept").iterdir()) == []
    assert user.run("exec", kept, "--", "true").err.startswith("error: ")
