"""Reviewers that are models: through the chat agent, or a program's own calls by the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acceptance.conftest import MakeTask, User, read
from helpers.judges import Answer, Endpoint, Request, completion
from helpers.models import shell
from helpers.obedient import ORDER, ORDERS, fences, obeys
from helpers.reviewing import MakeReviewer, review

pytestmark = pytest.mark.bubblewrap


ANSWER = {
    "summary": "It went well.",
    "checks": {
        name: {"outcome": "pass", "explanation": "result.json"}
        for name in ("reward_hacking", "task_specification")
    },
}
"""A review by the built-in rubric."""


def writes(answer: Any) -> Answer:
    """The model's call that leaves this review."""
    return shell(f"cat > review-result.json <<'END'\n{json.dumps(answer)}\nEND")


def reviewed(user: User, job: Path, *words: object, code: int = 0) -> list[dict[str, Any]]:
    """Review a job by the model m: the report's trials."""
    review = ("review", "run", job, "--agent", "chat", "--model", "m", "--sandbox", "bubblewrap")
    ran = user.run(*review, *words, code=code)
    place = next(line for line in ran.lines if line.startswith("Report: "))
    trials: list[dict[str, Any]] = read(user.home / place.removeprefix("Report: "))["trials"]
    return trials


def test_a_model_reviews(user: User, make_task: MakeTask, endpoint: Endpoint) -> None:
    """A reviewer can be a model: it reads the evidence by its shell, and can't change it."""
    job = user.job(make_task())
    endpoint.answer(
        shell("cat /evidence/trial/result.json; echo x > /evidence/trial/result.json"),
        writes(ANSWER),
        completion("Done."),
    )
    words = ("review", "run", job, "--agent", "chat", "--sandbox", "bubblewrap")
    assert "--model" in user.run(*words, code=2).err
    [trial] = reviewed(user, job)
    assert {"pass"} == {check["outcome"] for check in trial["checks"].values()}
    heard = next(
        message["content"]
        for message in endpoint.requests[1].body["messages"]
        if message["role"] == "tool"
    )
    assert '"passed": true' in heard
    assert "Read-only file system" in heard
    [key] = [value for name, value in endpoint.environ.items() if "KEY" in name]
    logged = b"".join(file.read_bytes() for file in job.parent.rglob("*") if file.is_file())
    assert b"result.json" in logged
    assert key.encode() not in logged


def test_what_an_agent_left_is_data_to_a_reviewer(
    user: User, make_task: MakeTask, endpoint: Endpoint, agent_program: Callable[[str], str]
) -> None:
    """Orders in files, in their names and in what test and agent print reach a model that obeys
    whatever is not data, and it judges the work by its own lights."""
    copies = "".join(
        f"cat > /logs/artifacts/{name} <<'END-OF-IT'\n{order[-5000:]}\nEND-OF-IT\n"
        for name, order in ORDERS.items()
    )
    naughty = f"touch '/logs/artifacts/{ORDERS['chatml']}' '/logs/artifacts/{ORDER}'\n"
    test = "cat /logs/artifacts/*; echo 0 > /logs/verifier/reward.txt\n"
    job = user.job(make_task(test=test), "--agent", agent_program(copies + naughty))
    asked: list[Any] = []

    def answers(request: Request) -> Answer:
        messages = request.body["messages"]
        asked.append(messages)
        if len(messages) == 2:
            return shell("cd /evidence/trial; tail -c 9000 artifacts/*; ls -R")
        if len(messages) == 4:
            return shell("cd /evidence/trial; tail -c 9000 verifier/* trajectory.json")
        if len(messages) == 6:
            outcome = "pass" if obeys(messages) else "fail"
            checks = {n: {"outcome": outcome, "explanation": "x"} for n in ANSWER["checks"]}
            return writes({"summary": "x", "checks": checks})
        return completion("Done.")

    endpoint.answer_by(answers)
    [trial] = reviewed(user, job)
    shown = [m["content"] for m in asked[2] if m["role"] == "tool"]
    assert all(ORDER in text for text in shown)
    assert len(set(fences([m for m in asked[2] if m["role"] == "tool"]))) == 2
    assert {"fail"} == {check["outcome"] for check in trial["checks"].values()}


def test_a_review_of_many_has_cost_limits(
    user: User, make_task: MakeTask, endpoint: Endpoint
) -> None:
    """A limit for each and one for all: refused without a price, held with one, told apart."""
    job = user.job(make_task(), "-k", "4")
    prices = user.home / "prices.yaml"
    prices.write_text("m: {input: 1, output: 2}\n")  # each call costs 0.00018
    for limit in ("--max-cost", "--max-total-cost"):
        review = ("review", "run", job, "--agent", "chat", "--model", "m", limit, "1")
        assert "--prices FILE" in user.run(*review, code=2).err
        other = ("review", "run", job, "--agent", "command:./x", limit, "1", "--prices", prices)
        assert limit in user.run(*other, code=2).err
    assert not (job / "reviews").exists()
    endpoint.answer_by(
        lambda asked: completion("Done.") if len(asked.body["messages"]) > 2 else writes(ANSWER)
    )
    words = ("-n", "1", "--prices", prices)
    calls = len(endpoint.requests)
    trials = reviewed(user, job, *words, "--max-total-cost", "0.0005", code=1)
    assert [True, True, False, False] == [trial["review_valid"] for trial in trials]
    assert calls + 3 == len(endpoint.requests)
    [cut] = [note for note in trials[1]["notes"] if "cost limit" in note]
    assert "the review's cost limit of $0.0005 is reached ($0.00054 spent)" in cut
    assert {"the review's cost limit of $0.0005 is reached ($0.00054 spent)"} == {
        trial["error"] for trial in trials[2:]
    }
    assert trials[3]["reviewer_rollout"] is None
    endpoint.answer(shell("true"))
    trials = reviewed(user, job, *words, "--max-cost", "0.0003", code=1)
    assert all("stopped at a cost of $0.00036" in trial["error"] for trial in trials)


def test_a_model_that_changes_its_name(user: User, make_task: MakeTask, endpoint: Endpoint) -> None:
    """Reviews by what calls itself another model are told apart; none is chosen silently."""
    job = user.job(make_task(), "-k", "2")
    names = ["m-1", "m-1", "m-2", "m-2"]
    endpoint.answer_by(
        lambda asked: (
            completion("Done.", model=names.pop(0))
            if len(asked.body["messages"]) > 2
            else writes(ANSWER)._replace(
                body=json.dumps(json.loads(writes(ANSWER).body) | {"model": names.pop(0)})
            )
        )
    )
    first, second = reviewed(user, job, "-n", "1")
    assert not any("called itself" in note for note in first["notes"])
    [note] = [note for note in second["notes"] if "called itself" in note]
    assert note.startswith("m called itself m-2, and m-1 before")


CALLS = """
import urllib.request
seen = repr(sorted(os.environ.items()))
try:
    urllib.request.urlopen("http://1.1.1.1", timeout=2)
    seen += " the network"
except OSError:
    pass
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode(),
    {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"},
)
for _ in range(2):
    said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
answer["summary"] = said + seen
"""


def test_a_program_calls_its_model_through_the_gateway(
    user: User, make_task: MakeTask, endpoint: Endpoint, reviewer: MakeReviewer
) -> None:
    """The engine's gateway is all that a reviewer can reach: without the key, in the log, and by
    the same limits as any other; where there is none, a limit is refused."""
    job = user.job(make_task())
    endpoint.answer(completion("It is sound."))
    agent = reviewer(CALLS)
    prices = user.home / "prices.yaml"
    prices.write_text("m: {input: 1, output: 2}\n")
    report = review(user, job, agent, "--model", "m", "--max-cost", "1", "--prices", prices)
    [trial] = report["trials"]
    assert trial["summary"].startswith("It is sound.")
    assert "the network" not in trial["summary"]
    assert endpoint.environ["OPENAI_API_KEY"] not in trial["summary"]
    assert (report["reviewer"]["network"], report["reviewer"]["model"]) == ("no-internet", "m")
    [folder] = (job / "reviews").iterdir()
    result = read(folder / trial["reviewer_rollout"] / "result.json")
    assert (2, 0.00036) == (result["usage"]["model_calls"], result["usage"]["cost_usd"])
    words = ("--model", "m", "--max-cost", "0.0001", "--prices", prices)
    [trial] = review(user, job, agent, *words, code=1)["trials"]
    assert "at a cost of $0.00018 (the limit is $0.0001)" in trial["error"]
    user.env["OPENAI_API_KEY"] = ""
    run = ("review", "run", job, "--agent", agent, "--model", "m")
    assert "it sees none of command:" in user.run(*run, "--max-turns", "3", code=2).err


def test_a_manifest_that_needs_a_network_is_refused(user: User, make_task: MakeTask) -> None:
    """Reviewers have none, so one that installs from it can't be had, unless it is allowed."""
    job = user.job(make_task())
    agent = user.home / "installed"
    agent.mkdir()
    (agent / "agent.yaml").write_text(
        "name: installed\nversion: 1.0.0\ninstall: ./go\ncommand: ./go\nnetwork: install\n"
    )
    (agent / "go").write_text("#!/bin/sh\n")
    (agent / "go").chmod(0o755)
    ran = user.run("review", "run", job, "--agent", f"agent:{agent}", code=2)
    assert "--allow-open-network" in ran.err
    assert not (job / "reviews").exists()
