"""Whoever reads may go away; what a command found is its exit code all the same."""

from __future__ import annotations

import os

from .conftest import MakeTask, User


def code_unread(user: User, *words: object) -> int:
    """The exit code of a command whose standard output nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = user.start(*words, stdout=writing)
    finally:
        os.close(writing)
    _, err = process.communicate(timeout=90)
    assert "Traceback" not in err, err
    return process.returncode


def test_a_check_says_what_it_found(user: User, make_task: MakeTask) -> None:
    """A job whose files differ is no success because `head` had enough."""
    job = user.job(make_task(), "--agent", "oracle", "--agent", "nop")
    assert code_unread(user, "rebuild", job, "--check") == 0
    for result in job.glob("*/result.json"):
        result.write_text("{}")
    user.run("rebuild", job, "--check", code=1)
    assert code_unread(user, "rebuild", job, "--check") == 1


def test_a_regrade_goes_on(user: User, make_task: MakeTask) -> None:
    """It grades every trial, though nobody follows."""
    job = user.job(make_task(), "--agent", "oracle", "--agent", "nop", "-k", "2")
    assert code_unread(user, "regrade", job, "--sandbox", "bubblewrap") == 0
    assert len(list(job.glob("*/regrade.json"))) == 4


def test_a_project_with_faults_is_not_valid(user: User) -> None:
    """Two faults, of which a reader wanted none."""
    user.run("init", "p", code=0)
    project = user.home / "p"
    user.run("validate", cwd=project, code=0)
    for name in ("one", "two"):
        (project / "verifiers" / name).mkdir(parents=True)
        (project / "verifiers" / name / "verifier.yaml").write_text("nonsense: 1\n")
    user.run("validate", cwd=project, code=1)
    reading, writing = os.pipe()
    os.close(reading)
    process = user.start("validate", cwd=project, stdout=writing)
    os.close(writing)
    process.communicate(timeout=90)
    assert process.returncode == 1


def test_looking_only_is_no_failure(user: User, make_task: MakeTask) -> None:
    """A list of which somebody has seen enough."""
    job = user.job(make_task(), "--agent", "oracle")
    trial = next(job.glob("*/result.json")).parent
    assert code_unread(user, "replay", trial) == 0
    assert code_unread(user, "show", job) == 0
