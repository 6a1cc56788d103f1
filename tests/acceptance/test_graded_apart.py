"""A test in a sandbox of its own, as a user sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
BOX = ("--sandbox", "bubblewrap")


def test_the_lines_of_a_job(user: User, make_task: MakeTask) -> None:
    """The summary counts such trials, and names tasks that were moved and declare nothing."""
    make_task("t")
    ran = user.run("run", "t", "--verifier-sandbox", "separate", *BOX, code=0)
    assert "[PASS] t (reward=1.00, tools=0)" in ran.lines
    assert "Verifier: 1 separate" in ran.lines
    (named,) = [line for line in ran.lines if line.startswith("--verifier-sandbox separate moved")]
    assert "1 task that declares no artifacts: t." in named
    assert "--verifier-sandbox" not in ran.err
    [job] = user.run("jobs", "--json", code=0).objects
    found = msgspec.json.decode((Path(job["folder"]) / "summary.json").read_bytes())
    assert found["separate_verifiers"] == {"count": 1, "tasks": ["t"]}
    (result,) = Path(job["folder"]).glob("*/result.json")
    assert msgspec.json.decode(result.read_bytes())["sandbox"]["mode"] == "separate"
    user.run("rebuild", job["folder"], "--check", code=0)
    ran = user.run("run", "t", *BOX, code=0)
    assert not [line for line in ran.lines if "separate" in line]


def test_check(user: User, make_task: MakeTask) -> None:
    """A task whose answer lies outside of the workspace passes its check, but not that way."""
    make_task(
        "t",
        solve="echo 42 >/tmp/answer",
        test="echo 0 >/logs/verifier/reward.txt; cat /tmp/answer && "
        "echo 1 >/logs/verifier/reward.txt",
    )
    ran = user.run("check", "t", *BOX, code=0)
    assert "[ok  ] oracle: reward 1.00 (must be 1.0)" in ran.lines
    ran = user.run("check", "t", "--verifier-sandbox", "separate", *BOX, code=1)
    assert "[FAIL] oracle: reward 0.00 (must be 1.0)" in ran.lines


def test_keep_sandbox(user: User, make_task: MakeTask) -> None:
    """With --keep-sandbox a program runs in the verifier's, where the test ran."""
    make_task("t")
    user.run("run", "t", "--verifier-sandbox", "separate", "--keep-sandbox", *BOX, code=0)
    [job] = user.run("jobs", "--json", code=0).objects
    (trial,) = [place.name for place in Path(job["folder"]).iterdir() if place.is_dir()]
    ran = user.run("exec", trial, "--", "cat", "/logs/verifier/reward.txt", code=0)
    assert ran.out.strip() == "1"
    ran = user.run("clean", *BOX, code=0)
    assert ran.out.count(trial) >= 2
    user.run("exec", trial, "--", "true", code=2)
