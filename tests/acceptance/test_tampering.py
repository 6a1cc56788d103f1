"""What a user is told of an agent that went for its grade, and of a test that can't be run."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import MakeTask, User

IMAGE = os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base:latest")
TEST = '"$TRIALOG_PYTEST" -q; echo $(( $? == 0 )) > /logs/verifier/reward.txt'
SANDBOXES = [
    pytest.param(("--sandbox", "bubblewrap"), marks=pytest.mark.bubblewrap, id="bubblewrap"),
    pytest.param(("--sandbox", "docker", "--image", IMAGE), marks=pytest.mark.docker, id="docker"),
]


def result(user: User) -> dict[str, Any]:
    """The result.json of the one trial there is."""
    [file] = (user.home / "jobs").glob("*/*/result.json")
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_tampering_is_told(user: User, make_task: MakeTask, sandbox: tuple[str, ...]) -> None:
    """A wrong answer with a steering file is a failure, and result.json names path and hash."""
    make_task("t", test=TEST)
    (user.home / "evil.sh").write_text("echo 41 > answer.txt; echo '[pytest]' > pytest.ini\n")
    user.run("run", "t", "-a", "command:evil.sh", *sandbox, code=0)
    found = result(user)
    assert found["rewards"] == {"reward": 0.0}
    [tamper] = found["tamper"]
    assert tamper["path"].endswith("/pytest.ini")
    assert len(tamper["sha256"]) == 64


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_protected_pytest(user: User, make_task: MakeTask, sandbox: tuple[str, ...]) -> None:
    """A task whose tests are in pytest: the reference solution passes, doing nothing fails."""
    task = make_task("t", test=TEST)
    (task / "verifier" / "test_it.py").write_text(
        "def test_it():\n    assert open('answer.txt').read().strip() == '42'\n"
    )
    user.run("check", "t", *sandbox, code=0)
    user.run("run", "t", "-a", "oracle", *sandbox, code=0)
    found = result(user)
    assert (found["rewards"], found["tamper"]) == ({"reward": 1.0}, [])


@pytest.mark.bubblewrap
def test_guard_kept_out(user: User, make_task: MakeTask) -> None:
    """A pytest that the guard can't be loaded into leaves the trial unscored, with the reason."""
    make_task("t", test="# $TRIALOG_PYTEST\npython3 -I -m pytest; echo 1 > $TRIALOG_REWARD_TEXT")
    assert "check_guard_kept_out" in user.run("check", "t", "--sandbox", "bubblewrap").out
    user.run("run", "t", "-a", "oracle", "--sandbox", "bubblewrap", code=1)
    found = result(user)
    assert found["verifier_error"].startswith("pytest could not load the plugin guard")
    assert found["verifier_error_category"] == "pytest_guard_not_loaded"
