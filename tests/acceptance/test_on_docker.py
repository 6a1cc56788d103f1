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


@pytest.mark.usefixtures("clean_afterwards")
def test_an_installation_that_was_killed(user: User, make_task: MakeTask) -> None:
    """A resume installs the same bytes in a new container; the old one is taken away."""
    make_task("t")
    agent = user.home / "mine"
    agent.mkdir()
    (agent / "agent.yaml").write_text(
        "name: mine\n"
        'install: |\n  [ "$GATE_KEY" = open-gate ] || sleep 600\n  cp data /usr/local/lib/mine\n'
        "version: {command: cat /usr/local/lib/mine}\n"
        "command: cp /usr/local/lib/mine answer.txt\n"
    )
    (agent / "data").write_text("42\n")
    process = user.start("run", "t", "-a", "./mine", "--agent-env", "GATE_KEY=closed-gate", *DOCKER)
    [job] = until(lambda: user.run("jobs", "--json").objects, "the job")
    [old] = until(lambda: containers(job["job"]), "the container")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (agent / "data").write_text("0\n")
    ran = user.run("resume", job["job"], "--agent-env", "GATE_KEY=open-gate", code=0)
    assert any(line.startswith("[PASS] t") for line in ran.lines)
    [place] = job_folder(user).glob("t__*/result.json")
    assert msgspec.json.decode(place.read_bytes())["agent_version"] == "42"
    assert old not in containers(job["job"])
    user.run("rebuild", job["job"], "--check", code=0)


def test_a_task_without_an_image(user: User, make_task: MakeTask) -> None:
    """Without an image a job is refused before it begins; $TRIALOG_IMAGE is a default."""
    make_task("t")
    ran = user.run("run", "t", "--sandbox", "docker", code=2)
    assert "task t names no image" in ran.err
    assert not (user.home / "jobs").exists()
    user.run("run", "t", "--sandbox", "docker", env={"TRIALOG_IMAGE": IMAGE}, code=0)
    assert summary(job_folder(user))["config"]["image"] == IMAGE


def test_an_image_that_can_not_be_built(user: User, make_task: MakeTask) -> None:
    """A failed build's last line stands in the trial's line; show and check have its end."""
    task = make_task("t")
    (task / "environment").mkdir()
    steps = f"RUN echo {'x' * 300}; echo one; echo 'E: no such package'; false"
    (task / "environment/Dockerfile").write_text(f"FROM {IMAGE}\n{steps}\n")
    line = user.run("run", "t", "--sandbox", "docker", code=1).lines[0]
    assert line.startswith("[ERR] t (tools=0) (task t: its image can't be built: ")
    assert line.endswith(" … E: no such package)")
    assert user.run("show", "t__", code=0).lines.count("    E: no such package") == 1
    ran = user.run("check", "t", "--sandbox", "docker", code=1)
    assert "       | E: no such package" in ran.lines
    assert "error: t: the controls could not be run" in ran.err
    assert "right from wrong" not in ran.err


def test_a_dockerfile_that_needs_buildkit(user: User, make_task: MakeTask, tmp_path: Path) -> None:
    """Without `docker buildx` such tasks are refused with the reason before the job begins."""
    heredoc = make_task("tasks/heredoc")
    (heredoc / "environment").mkdir()
    (heredoc / "environment/Dockerfile").write_text(f"FROM {IMAGE}\nRUN <<EOF\ntrue\nEOF\n")
    make_task("tasks/plain")
    without = tmp_path / "bin" / "docker"  # as `docker` is where the plugin is not installed
    without.parent.mkdir()
    without.write_text("#!/bin/sh\nexit 1\n")
    without.chmod(0o755)
    env = {"PATH": f"{without.parent}:{os.environ['PATH']}"}
    ran = user.run("run", "tasks", *DOCKER, env=env, code=2)
    reason = "task heredoc is refused: its Dockerfile needs BuildKit (line 2: RUN with a here-"
    assert reason in ran.err
    assert "`docker buildx` is not installed here" in ran.err
    assert "hint: run the others with --exclude heredoc" in ran.err
    assert not (user.home / "jobs").exists()
    assert reason in user.run("check", "tasks/heredoc", *DOCKER, env=env, code=2).err
    user.run("run", "tasks", "--exclude", "heredoc", *DOCKER, env=env, code=0)


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
    # The program is the job's own, so what it does after a resume depends on a variable.
    agent = agent_program('[ "$GATE_KEY" = open-gate ] || sleep 1000; echo 42 > answer.txt')
    closed, opened = (("--agent-env", f"GATE_KEY={gate}") for gate in ("closed-gate", "open-gate"))
    shell = at_terminal("run", "t", "-a", agent, *closed, *DOCKER)
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
    user.run("resume", folder, *opened, code=0)
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


@pytest.mark.usefixtures("clean_afterwards")
def test_a_lost_sandbox_is_unscored(user: User, make_task: MakeTask) -> None:
    """A sandbox lost while grading: unscored, counted apart, and a resume scores it again."""
    make_task("tasks/good")
    wait = "[ -e once ] && sleep 1000; echo 1 > /logs/verifier/reward.txt\n"
    make_task("tasks/lost", test=wait, solve="touch once\n")
    process = user.start("run", "tasks", "--retries", 0, *DOCKER)
    until(lambda: (user.home / "jobs/trialog.db").exists(), "the log")
    folder = until(lambda: [Path(j["folder"]) for j in _jobs(user)], "the job")[0]
    until(lambda: _grading(user, folder), "the grading")
    until(lambda: remove_containers(folder.name, "lost"), "the container")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    lines = out.splitlines()
    [line] = [line for line in lines if line.startswith("[ERR]")]
    assert line.startswith("[ERR] lost (tools=0) (")
    assert any(line.startswith("Job complete: 1/1 (100.0%), mean_reward=1.00") for line in lines)
    assert "Outcomes: 1 scored (1 passed, 0 failed), 1 unscored, 0 errored" in lines
    cause = "the verifier's sandbox failed (infrastructure problem)"
    assert f"  1 unscored: {cause}: lost" in lines
    assert f"      next: `trialog resume jobs/{folder.name}` scores it again" in lines
    [plan] = [s for s in user.run("resume", folder, "--dry-run").lines if " lost " in f" {s}"]
    assert plan.startswith(("grade", "run"))


def _grading(user: User, folder: Path) -> bool:
    """Whether the verifier of the task `lost` has been let go."""
    shown = user.run("show", folder, "--json").objects[0]
    names = [name for name in shown["open"] if name.startswith("lost__")]
    return any("VerifierStarted" in user.run("replay", name).out for name in names)


def remove_containers(job: str, task: str) -> bool:
    """Take a trial's container away, as a failing machine might."""

    async def remove() -> bool:
        async with aiodocker.Docker() as docker:
            labels = msgspec.json.encode({"label": [f"trialog.job={job}"]}).decode()
            found = await docker.containers.list(filters=labels)
            gone = [c for c in found if f"-{task}__" in c["Names"][0]]
            for container in gone:
                await container.delete(force=True)
            return bool(gone)

    return anyio.run(remove)
