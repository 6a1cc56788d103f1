"""``--agent chat`` at a real command line, with an endpoint over HTTP and real sandboxes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.conftest import MakeTask, User
from helpers.judges import Answer, Endpoint, Request, completion, refused
from helpers.models import shell
from helpers.obedient import ORDER, ORDERS, fences, obeys

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def endpoint(user: User) -> Iterator[Endpoint]:
    """The endpoint that the user's environment names."""
    made = Endpoint()
    user.env |= made.environ
    yield made
    made.close()


def read(file: Path) -> Any:
    """A file's JSON."""
    return json.loads(file.read_bytes())


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
    assert "the review's cost limit of $0.0005 is reached ($0.0005 spent)" in cut
    assert {"the review's cost limit of $0.0005 is reached ($0.0005 spent)"} == {
        trial["error"] for trial in trials[2:]
    }
    assert trials[3]["reviewer_rollout"] is None
    endpoint.answer(shell("true"))
    trials = reviewed(user, job, *words, "--max-cost", "0.0003", code=1)
    assert all("stopped at a cost of $0.0004" in trial["error"] for trial in trials)


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
