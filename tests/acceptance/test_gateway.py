"""Agents that call their model from the sandbox, at a real command line."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acceptance.conftest import MakeTask, User
from helpers.gateway import CALL, KEY, Endpoint, Reply, chat, chunk, refused

pytestmark = pytest.mark.bubblewrap

WORK = """
status, answer = chat()
with open("answer.txt", "w") as file:
    file.write("42" if status == 200 else answer)
"""

Program = Callable[[str], str]


@pytest.fixture
def endpoint(user: User) -> Iterator[Endpoint]:
    """The endpoint that the user's environment names."""
    made = Endpoint()
    user.env |= made.environ
    yield made
    made.close()


@pytest.fixture
def program(user: User) -> Program:
    """Makes a program in Python that is an agent, and gives the word that names it."""

    def make(text: str) -> str:
        path = user.home / "agent.py"
        path.write_text(f"#!/usr/bin/env python3\n{CALL}\n{text}")
        return f"command:{path}"

    return make


def results(job: Path) -> list[Any]:
    """Every trial's result.json."""
    return [json.loads(file.read_bytes()) for file in sorted(job.glob("*/result.json"))]


def test_an_engine_that_is_killed_in_a_call(
    user: User, make_task: MakeTask, endpoint: Endpoint, program: Program
) -> None:
    """What was answered before is in the log; the resume runs the agent again, and its calls are
    made anew. The keys are in no file."""
    endpoint.reply(chat("before"), Reply(pieces=(chunk("never the end"),), hold=True))
    agent = program(f"chat(); chat(stream=True)\n{WORK}")
    words = ("run", make_task(), "--sandbox", "bubblewrap", "--agent", agent, "--model", "m")
    engine = user.start(*words)
    while len(endpoint.asked) < 2:
        assert engine.poll() is None
    engine.send_signal(signal.SIGKILL)
    engine.communicate(timeout=30)
    assert endpoint.hung_up.wait(20)
    endpoint.reply(chat())
    job = user.home / "jobs" / user.run("jobs", "--json", code=0).objects[0]["job"]
    user.run("resume", job, code=0)
    user.run("rebuild", job, "--check", code=0)
    [done] = [result for result in results(job) if result["outcome"] == "scored"]
    assert (True, 3) == (done["passed"], done["usage"]["model_calls"])
    with closing(sqlite3.connect(user.home / "jobs" / "trialog.db")) as log:
        calls = log.execute("SELECT stream, data FROM log WHERE kind = 'ModelCalled'").fetchall()
    told = [
        (stream, json.loads(data)["response"]["choices"][0]["message"]["content"])
        for stream, data in calls
    ]
    assert ["before", "hello", "hello", "hello"] == [text for _, text in told]
    assert told[0][0] != told[1][0]
    written = b"".join(
        file.read_bytes() for file in (user.home / "jobs").rglob("*") if file.is_file()
    )
    assert b"before" in written
    assert b"very-secret" not in written


def test_a_key_that_is_handed_on_stays_outside(
    user: User, make_task: MakeTask, endpoint: Endpoint, program: Program
) -> None:
    """With the gateway a file of variables may hold the endpoint's key: the sandbox gets another.
    Without it, the program has what it is given."""
    del user.env["OPENAI_API_KEY"]
    variables = user.home / "keys.env"
    variables.write_text(f"OPENAI_API_KEY={KEY}\n")
    agent = program("open('answer.txt', 'w').write(os.environ['OPENAI_API_KEY'])")
    test = "grep -c very-secret answer.txt > /logs/verifier/reward.txt"
    task = make_task(test=test, solve=None)
    words = (task, "--agent", agent, "--model", "m", "--env-file", variables)
    [inside] = results(user.job(*words, "--model-gateway", "off"))
    [outside] = results(user.job(*words))
    assert (1.0, 0.0) == (inside["rewards"]["reward"], outside["rewards"]["reward"])


def test_a_resume_without_the_key(
    user: User, make_task: MakeTask, endpoint: Endpoint, program: Program
) -> None:
    """A job that has a gateway keeps it: without a key its trials are errored, and say what is
    missing."""
    endpoint.reply(Reply(hold=True))
    agent = program(WORK)
    words = ("run", make_task(), "--sandbox", "bubblewrap", "--agent", agent, "--model", "m")
    engine = user.start(*words)
    while not endpoint.asked:
        assert engine.poll() is None
    engine.send_signal(signal.SIGKILL)
    engine.communicate(timeout=30)
    job = user.home / "jobs" / user.run("jobs", "--json", code=0).objects[0]["job"]
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "")
    user.run("resume", job, env=keys, code=1)
    [errored] = [result for result in results(job) if result["outcome"] == "errored"]
    assert "model_unavailable" == errored["error_category"]
    assert "neither OPENAI_API_KEY nor ANTHROPIC_API_KEY is set" in errored["error"]
    endpoint.reply(chat())
    user.run("resume", job, code=0)


def test_what_is_refused(
    user: User, make_task: MakeTask, endpoint: Endpoint, program: Program
) -> None:
    """A gateway that can't be had and a limit that can't be held are refused before anything
    starts."""
    words = ("run", make_task(), "--sandbox", "bubblewrap", "--agent", program(WORK))
    asked = (*words, "--model-gateway", "on")
    assert "--model" in user.run(*asked, code=2).err
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "")
    assert "neither OPENAI_API_KEY" in user.run(*asked, "--model", "m", env=keys, code=2).err
    ran = user.run(*words, "--model", "m", "--max-cost", "1", code=2)
    assert "--prices FILE" in ran.err
    assert not [place for place in (user.home / "jobs").glob("2*") if place.is_dir()]


def test_a_cost_limit(
    user: User, make_task: MakeTask, endpoint: Endpoint, program: Program
) -> None:
    """It ends the calls; the agent is told, and what it had done is graded."""
    prices = user.home / "prices.yaml"
    prices.write_text("m: {input: 1000, output: 10000}\n")
    agent = program(f"{WORK}\nwhile chat()[0] == 200: pass")
    job = user.job(
        make_task(), "--agent", agent, "--model", "m", "--max-cost", "0.7", "--prices", prices
    )
    [result] = results(job)
    assert (True, "max_cost", 3, 0.9) == (
        result["passed"], result["error_category"],
        result["usage"]["model_calls"], round(result["usage"]["cost_usd"], 9),
    )  # fmt: skip
    assert 3 == len(endpoint.asked)


@pytest.mark.parametrize(
    ("reply", "category"),
    [(refused(401, "no such key"), "model_unavailable"), (refused(500), "model_failed")],
)
def test_an_endpoint_that_fails_every_call_is_no_zero_of_the_agents(
    user: User, make_task: MakeTask, endpoint: Endpoint, program: Program,
    reply: Reply, category: str,
) -> None:  # fmt: skip
    """The trial is errored, says why, and a resume runs it again once the endpoint answers; one
    whose first call was answered is graded, and left alone by the resume."""
    endpoint.reply(reply)
    words = ("--agent", program(f"chat(); chat()\n{WORK}"), "--model", "m")
    job = user.job(make_task(), *words, code=1)
    [before] = results(job)
    assert ("errored", category, None) == (
        before["outcome"], before["error_category"], before["rewards"],
    )  # fmt: skip
    assert "the model's endpoint failed all of its 3 calls: the endpoint " in before["error"]
    plan = user.run("resume", job, "--dry-run", code=0).out
    assert f"errored ({category}): there was no work to grade" in plan
    endpoint.reply(chat())
    user.run("resume", job, code=0)
    again = next(one for one in results(job) if one["outcome"] == "scored")
    assert again["passed"]

    endpoint.reply(chat(), reply)
    [graded] = results(user.job(user.home / "t", *words))
    assert ("scored", 0.0) == (graded["outcome"], graded["rewards"]["reward"])
    assert ["model_calls_failed"] == [one["code"] for one in graded["warnings"]]
