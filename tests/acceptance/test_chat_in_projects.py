"""Models that act in a project's environments, at a real command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from acceptance.conftest import User
from helpers.judges import Endpoint, completion
from helpers.models import calling


@pytest.fixture
def endpoint(user: User) -> Iterator[Endpoint]:
    """The endpoint that the user's environment names."""
    made = Endpoint()
    user.env |= made.environ
    yield made
    made.close()


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
