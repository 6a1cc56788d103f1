"""``--agent chat`` at a real command line, with an endpoint over HTTP and real sandboxes."""

from __future__ import annotations

import pytest

from acceptance.conftest import MakeTask, User, read
from helpers.judges import Endpoint, completion, refused
from helpers.models import shell

pytestmark = pytest.mark.bubblewrap


def test_an_endpoint_that_was_down(user: User, make_task: MakeTask, endpoint: Endpoint) -> None:
    """Its trial is errored with advice; once it is up, a resume runs the trial again."""
    task = make_task()
    endpoint.answer(refused(500))
    job = user.job(task, "--agent", "chat", "--model", "m", code=1)
    [errored] = [read(file) for file in job.glob("*/result.json")]
    assert ("errored", "model_failed") == (errored["outcome"], errored["error_category"])
    assert "See that the endpoint works" in user.run("explain", "model_failed", code=0).out
    endpoint.answer(shell("echo 42 > answer.txt"), completion("Done."))
    user.run("resume", job, code=0)
    [scored] = [
        result
        for file in job.glob("*/result.json")
        if (result := read(file))["outcome"] == "scored"
    ]
    assert (True, 1, 2) == (
        scored["passed"], scored["n_tool_calls"], scored["usage"]["model_calls"],
    )  # fmt: skip
    user.run("rebuild", job, "--check", code=0)
    assert b"very-secret" not in b"".join(
        file.read_bytes() for file in (user.home / "jobs").rglob("*") if file.is_file()
    )


def test_a_cost_limit(user: User, make_task: MakeTask, endpoint: Endpoint) -> None:
    """It is refused without a price; with one, it ends the agent, and the work is graded."""
    task = make_task()
    words = ("--agent", "chat", "--model", "m", "--max-cost", "0.0003")
    ran = user.run("run", task, "--sandbox", "bubblewrap", *words, code=2)
    assert "--prices FILE" in ran.err
    assert not [place for place in (user.home / "jobs").glob("2*") if place.is_dir()]
    prices = user.home / "prices.yaml"
    prices.write_text("m: {input: 1, output: 2}\n")
    endpoint.answer(shell("echo 42 > answer.txt"))
    job = user.job(task, *words, "--prices", prices)
    [result] = [read(file) for file in job.glob("*/result.json")]
    assert (True, "max_cost", 2, 0.00036) == (
        result["passed"], result["error_category"],
        result["usage"]["model_calls"], result["usage"]["cost_usd"],
    )  # fmt: skip
