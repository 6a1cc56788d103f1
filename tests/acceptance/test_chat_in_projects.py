"""Models that act in a project's environments, at a real command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acceptance.conftest import MakeTask, User
from helpers.judges import Endpoint, completion, refused
from helpers.models import calling, shell


def ran(user: User, *words: object) -> Any:
    """The only trial's result of a run in the project."""
    done = user.run("run", *words, cwd=user.home / "counting", code=0)
    line = next(line for line in done.lines if line.startswith("Job folder: "))
    [file] = (user.home / "counting" / line.removeprefix("Job folder: ")).glob("*/result.json")
    return json.loads(file.read_bytes())


COUNTS = [calling(("add", {"n": 4}), ("add", {"n": 6})), completion("Ten.")]


def tools(endpoint: Endpoint) -> list[str]:
    """Those that the model was told of."""
    return [tool["function"]["name"] for tool in endpoint.requests[0].body["tools"]]


def test_an_agent_that_is_a_model(user: User, endpoint: Endpoint) -> None:
    """A manifest gives it a name, a model and the tools that it may use; --model goes before."""
    user.run("init", "counting", code=0)
    folder = user.home / "counting" / "agents" / "mini"
    folder.mkdir()
    (folder / "agent.yaml").write_text("name: mini\nmodel: gpt-mini\ntools: [add]\n")
    user.run("validate", cwd=user.home / "counting", code=0)
    endpoint.answer(*COUNTS)
    result = ran(user, "count-to-ten", "-a", "mini")
    assert ("mini", "gpt-mini", "Ten.", 2) == (
        result["agent"], result["model"], result["answer"], result["n_tool_calls"],
    )  # fmt: skip
    assert (["add"], "gpt-mini") == (tools(endpoint), endpoint.requests[0].body["model"])
    endpoint.answer(*COUNTS)
    result = ran(user, "count-to-ten", "-a", "mini", "-m", "other")
    assert ("other", "other") == (result["model"], endpoint.requests[-1].body["model"])
    wrong = ("run", "count-to-ten", "-a", "mini", "--max-cost", "1")
    error = user.run(*wrong, cwd=user.home / "counting", code=2).err
    assert "there is none for gpt-mini" in error


def test_a_tool_that_there_is_not(user: User, endpoint: Endpoint) -> None:
    """It ends the agent with the names that there are."""
    user.run("init", "counting", code=0)
    folder = user.home / "counting" / "agents" / "mini"
    folder.mkdir()
    (folder / "agent.yaml").write_text("name: mini\nmodel: gpt-mini\ntools: [fly]\n")
    endpoint.answer(*COUNTS)
    result = ran(user, "count-to-ten", "-a", "mini")
    assert "agent_exit" == result["error_category"]
    assert "tools that there are not: fly; the environment has add, look" in result["error"]
    assert [] == endpoint.requests


@pytest.mark.bubblewrap
def test_an_agent_that_is_a_model_in_a_sandbox(
    user: User, make_task: MakeTask, endpoint: Endpoint
) -> None:
    """It works through a shell like `chat`, and is in the job: a resume needs no file of it."""
    task = make_task()
    folder = user.home / "agents" / "mini"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text("name: mini\nmodel: gpt-mini\ntools: [shell]\n")
    endpoint.answer(refused(500))
    job = user.job(task, "--agent", "./agents/mini", code=1)
    (folder / "agent.yaml").unlink()
    endpoint.answer(shell("echo 42 > answer.txt"), completion("Done."))
    user.run("resume", job, code=0)
    results = [json.loads(file.read_bytes()) for file in job.glob("*/result.json")]
    [scored] = [result for result in results if result["outcome"] == "scored"]
    assert (True, "gpt-mini") == (scored["passed"], scored["model"])
    assert "gpt-mini" == endpoint.requests[-1].body["model"]


def test_chat_acts_in_an_environment(user: User, endpoint: Endpoint) -> None:
    """The apps' actions are its tools; and the job runs again without the endpoint."""
    user.run("init", "counting", code=0)
    endpoint.answer(*COUNTS)
    result = ran(user, "count-to-ten", "-a", "chat", "-m", "m")
    assert ("chat", "m", "Ten.", 2) == (
        result["agent"], result["model"], result["answer"], result["n_tool_calls"],
    )  # fmt: skip
    assert "scored" == result["outcome"]
    endpoint.close()
    for name in endpoint.environ:
        del user.env[name]
    again = ran(user, "--replay-models", result["job"])
    assert (result["score"], result["trial_name"]) == (again["score"], again["replay"]["trial"])
