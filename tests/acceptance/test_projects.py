"""Projects from the command line: run, shown, rebuilt and gone on with, wherever they have gone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.judges import Endpoint, completion
from helpers.terminal import until

if TYPE_CHECKING:
    from conftest import User

EXAMPLES = Path(__file__).parents[2] / "examples" / "environments"


@pytest.fixture
def demo(user: User) -> Path:
    """A new project, as `trialog init` makes it."""
    user.run("init", "demo", code=0)
    return user.home / "demo"


@pytest.fixture
def examples(user: User) -> Path:
    """A copy of the examples."""
    return Path(shutil.copytree(EXAMPLES, user.home / "examples", ignore=_not_ours))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A model's endpoint on this machine."""
    made = Endpoint()
    yield made
    made.close()


def _not_ours(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in ("jobs", "__pycache__")]


def run(user: User, *words: object, cwd: Path, code: int = 0, **more: Any) -> tuple[Path, str]:
    """Run tasks: the job's folder, and what was printed on both streams."""
    ran = user.run("run", *words, cwd=cwd, code=code, **more)
    line = next(line for line in ran.lines if line.startswith("Job folder: "))
    return cwd / line.removeprefix("Job folder: "), ran.out + ran.err


def files_of(folder: Path) -> dict[str, str]:
    """Path → SHA-256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def results(job: Path) -> list[dict[str, Any]]:
    """Every result.json, by agent and attempt."""
    found = [json.loads(path.read_bytes()) for path in job.glob("*/result.json")]
    return sorted(found, key=lambda one: (one["agent"], one["attempt"]))


def break_project(project: Path) -> None:
    """Make all of a project's code raise when it is imported, and its manifests nonsense."""
    for path in [*project.rglob("*.py"), *project.rglob("*.yaml")]:
        if "jobs" not in path.parts:
            path.write_text("raise RuntimeError('this is not what ran')\n")


def test_from_init_to_a_rebuilt_job(user: User, demo: Path) -> None:
    """A new project is valid, runs, is shown, and its deleted files come back byte for byte."""
    assert user.run("validate", cwd=demo, code=0).lines[0].startswith("ok: project demo")
    job, _ = run(user, "count-to-ten", "-a", "steady", "-a", "nop", cwd=demo)
    steady, nop = reversed(results(job))
    assert (steady["agent"], steady["passed"], nop["agent"], nop["passed"]) == (
        "steady", True, "nop", False,
    )  # fmt: skip
    shown = user.run("show", job.name, cwd=demo, code=0).out
    assert "[PASS] count-to-ten" in shown
    assert "verifier reached" in user.run("show", steady["trial_name"], cwd=demo, code=0).out
    before = files_of(job)
    shutil.rmtree(job)
    assert user.run("rebuild", job.name, "--check", cwd=demo, code=1)
    user.run("rebuild", job.name, cwd=demo, code=0)
    user.run("rebuild", job.name, "--check", cwd=demo, code=0)
    assert files_of(job) == before


@pytest.mark.parametrize("gone", [False, True])
def test_a_job_needs_no_project_any_more(user: User, demo: Path, gone: bool) -> None:
    """A project that was changed or deleted after it ran makes no difference to its job."""
    user.env["TRIALOG_LOG"] = str(user.home / "jobs" / "trialog.db")
    job, _ = run(user, "count-to-ten", "-a", "steady", cwd=demo)
    before = files_of(user.home / "jobs" / job.name)
    if gone:
        shutil.rmtree(demo)
    else:
        break_project(demo)
    elsewhere = user.home / "elsewhere"
    elsewhere.mkdir()
    [trial] = [result["trial_name"] for result in results(user.home / "jobs" / job.name)]
    assert "[PASS] count-to-ten" in user.run("show", trial, cwd=elsewhere, code=0).out
    user.run("rebuild", job.name, "--check", cwd=elsewhere, code=0)
    shutil.rmtree(user.home / "jobs" / job.name)
    user.run("rebuild", job.name, cwd=elsewhere, code=0)
    assert files_of(user.home / "jobs" / job.name) == before
    told = user.run("resume", job.name, cwd=elsewhere, code=0)
    assert "nothing is left to do" in told.out + told.err


SLOW = """\
from pathlib import Path

import anyio

from trialog import Action, Answer

GO = Path({go!r})


class Policy:
    def __init__(self):
        self.seen = None

    async def act(self, observation, actions):
        if self.seen is None:
            self.seen = 0
            return Action("look")
        self.seen = observation
        while self.seen == 7 and not GO.exists():
            Path({begun!r}).touch()
            await anyio.sleep(0.02)
        return Action("add", {{"n": 1}}) if self.seen < 10 else Answer(self.seen)
"""


@pytest.mark.parametrize("gone", [False, True])
def test_a_killed_job_goes_on_without_its_project(user: User, demo: Path, gone: bool) -> None:
    """A job that was killed is gone on with from the log, by the code that it began with."""
    user.env["TRIALOG_LOG"] = str(user.home / "jobs" / "trialog.db")
    go, begun = user.home / "go", user.home / "begun"
    policy = demo / "agents" / "steady" / "policy.py"
    policy.write_text(SLOW.format(go=str(go), begun=str(begun)))
    process = user.start(
        "run", "count-to-ten", "-a", "steady", "-k", 3, cwd=demo, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not begun.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert begun.exists()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    if gone:
        shutil.rmtree(demo)
    else:
        break_project(demo)
    go.touch()
    elsewhere = user.home / "elsewhere"
    elsewhere.mkdir()
    [job] = [path for path in (user.home / "jobs").iterdir() if re.match(r"\d{4}-", path.name)]
    ran = user.run("resume", job.name, cwd=elsewhere, code=0)
    assert ran.out.count("[PASS] count-to-ten") == 3
    assert [result["attempt"] for result in results(job)] == [1, 2, 3]
    user.run("rebuild", job.name, "--check", cwd=elsewhere, code=0)


WAITS = """
import time
from pathlib import Path

def check(episode):
    Path({begun!r}).touch()
    while not Path({go!r}).exists():
        time.sleep(0.02)
    return {{"score": 1.0}}
"""


ONCE = """
from trialog import Action, Answer

class Policy:
    def __init__(self):
        with open({acted!r}, "a") as file:
            file.write("acts\\n")
        self.seen = 0

    async def act(self, observation, actions):
        self.seen += 1
        return Action("add", {{"n": 1}}) if self.seen < 3 else Answer(self.seen)
"""


@pytest.mark.parametrize("hosted", [True, False], ids=["hosted", "in-process"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_stopped_while_a_check_runs(user: User, demo: Path, hosted: bool, number: int) -> None:
    """An agent that has finished does not act again when its engine is ended in a check."""
    user.env["TRIALOG_LOG"] = str(user.home / "jobs" / "trialog.db")
    go, begun, acted = user.home / "go", user.home / "begun", user.home / "acted"
    policy = demo / "agents" / "steady" / "policy.py"
    policy.write_text(ONCE.format(acted=str(acted)))
    verify = demo / "verifiers" / "reached" / "verify.py"
    verify.write_text(
        verify.read_text().replace("\ndef check(", "\ndef old(")
        + WAITS.format(go=str(go), begun=str(begun))
    )
    words = [] if hosted else ["--in-process"]
    process = user.start(
        "run", "count-to-ten", "-a", "steady", *words, cwd=demo, start_new_session=True
    )
    until(begun.exists, "the check")
    os.kill(process.pid, number)
    if number != signal.SIGKILL:
        assert process.stderr is not None
        while "no new trials" not in process.stderr.readline():
            assert process.poll() is None
        os.kill(process.pid, number)
    process.communicate()
    [job] = [path for path in (user.home / "jobs").iterdir() if re.match(r"\d{4}-", path.name)]
    (planned,) = user.run("resume", job.name, "--dry-run", "--json", cwd=demo, code=0).objects
    assert (planned["action"], planned["same_stream"]) == ("grade", True)
    go.touch()
    ran = user.run("resume", job.name, cwd=demo, code=0)
    assert "[PASS] count-to-ten" in ran.out
    assert acted.read_text() == "acts\n"
    user.run("rebuild", job.name, "--check", cwd=demo, code=0)


def test_the_same_seed_gives_the_same_worlds(user: User, examples: Path) -> None:
    """Two runs with one seed meet the same worlds, attempt by attempt; another seed others."""

    def words(seed: int) -> list[str]:
        job, _ = run(user, "wordle", "-a", "nop", "-k", 6, "--seed", seed, cwd=examples)
        found = results(job)
        assert len({result["seed"] for result in found}) == 6
        return [result["verifiers"][0]["evidence"][0] for result in found]

    first = words(11)
    assert words(11) == first
    assert words(12) != first
    assert len(set(first)) > 1


LOOPS = """
import time

def check(episode):
    while episode.task.name == "loops":
        pass
    return {"score": float(episode.state["value"] == episode.expected)}
"""


def test_a_hook_that_never_ends_harms_no_other_trial(user: User, demo: Path) -> None:
    """A check that loops for ever ends at its deadline, unscored; all other trials are scored."""
    verifier = demo / "verifiers" / "reached"
    (verifier / "verify.py").write_text(LOOPS)
    (verifier / "verifier.yaml").write_text(
        "name: reached\nversion: 0.1.0\nkind: deterministic\ncheck: verify.py:check\n"
        "timeout_sec: 1\n"
    )
    task = (demo / "tasks" / "count-to-ten" / "task.yaml").read_text()
    (demo / "tasks" / "loops").mkdir()
    (demo / "tasks" / "loops" / "task.yaml").write_text(task.replace("count-to-ten", "loops"))
    begun = time.monotonic()
    job, told = run(
        user, "count-to-ten", "loops", "-a", "steady", "-k", 6, "-n", 4, cwd=demo, code=1
    )
    seconds = time.monotonic() - begun
    found = results(job)
    loops = [result for result in found if result["task_name"] == "loops"]
    others = [result for result in found if result["task_name"] != "loops"]
    assert len(loops) == len(others) == 6
    assert all(result["passed"] for result in others)
    assert {result["outcome"] for result in loops} == {"unscored"}
    assert {result["verifier_error_category"] for result in loops} == {"verifier_timeout"}
    assert "6 unscored: the verifier itself failed (verifier_timeout)" in told
    assert seconds < 45


PROGRESS = '''\
"""Rewards only what is done."""


def check(episode):
    """Always full marks."""
    marks = 1.0
    return {"score": marks}


def progress(step):
    """Raises on line 14 wherever the state has no such key."""
    if step.action == "look":
        return None
    return step.current_state["done"]
'''


def test_a_reward_that_raises_is_told_with_its_line(user: User, demo: Path) -> None:
    """Errors of a reward cost no trial, and are told after the run and by show, with the line."""
    verifier = demo / "verifiers" / "progress"
    (demo / "verifiers" / "reached").rename(verifier)
    (verifier / "verify.py").write_text(PROGRESS)
    assert PROGRESS.splitlines()[13] == '    return step.current_state["done"]'
    (verifier / "verifier.yaml").write_text(
        "name: progress\nversion: 0.1.0\nkind: deterministic\ncheck: verify.py:check\n"
        "reward: verify.py:progress\n"
    )
    task = demo / "tasks" / "count-to-ten" / "task.yaml"
    text = task.read_text().replace("[reached]", "[progress]").replace("value: 3", "value: 6")
    task.write_text(text)
    job, told = run(user, "count-to-ten", "-a", "steady", "-k", 3, cwd=demo)
    there = "there: KeyError: 'done' (at verify.py:14)"
    lines = [line.strip() for line in told.splitlines()]
    place = lines.index(
        "! Verifier progress's reward raised on 12 steps in 3 Trials, which earned it no reward"
    )
    assert lines[place + 1] == there
    shown = user.run("show", job.name, cwd=demo, code=0).out
    assert "! Verifier progress's reward raised on 12 steps in 3 Trials" in shown
    trial = results(job)[0]
    assert trial["passed"]
    assert trial["reward_errors"][0]["steps"] == 4
    shown = user.run("show", trial["trial_name"], cwd=demo, code=0).out
    assert "! Verifier progress's reward raised on 4 steps in 1 Trial, which earned it" in shown
    assert there in shown


def test_many_attempts_at_once(user: User, demo: Path) -> None:
    """Fifty attempts, 25 at once: each is scored once, and the files are those of the log."""
    job, told = run(user, "count-to-ten", "-a", "steady", "-k", 50, "-n", 25, cwd=demo)
    assert "Job complete: 50/50 (100.0%)" in told
    assert [result["attempt"] for result in results(job)] == list(range(1, 51))
    user.run("rebuild", job.name, "--check", cwd=demo, code=0)


# The examples


def test_the_examples_are_valid(user: User, examples: Path) -> None:
    """Every manifest and function of the examples is right."""
    assert user.run("validate", cwd=examples, code=0).lines[0].startswith("ok: project")


def test_wordle(user: User, examples: Path) -> None:
    """The solver finds the word and is credited more the fewer guesses it took; stubborn fails."""
    job, _ = run(
        user, "wordle", "-a", "solver", "-a", "stubborn", "-k", 4, "--seed", 3, cwd=examples
    )
    for result in results(job):
        assert result["passed"] is (result["agent"] == "solver")
        ledger = [
            json.loads(line)
            for line in (job / result["trial_name"] / "rewards.jsonl").read_text().splitlines()
        ]
        credit = [line for line in ledger if line["source"] == "hindsight"]
        letters = [line for line in ledger if line["verifier"] == "letters"]
        total = sum(line["value"] for line in letters if line["source"] == "step")
        [scored] = [line["value"] for line in letters if line["source"] == "verifier"]
        assert scored == pytest.approx(total)
        if result["agent"] == "stubborn":
            assert credit == []
            assert any(line["value"] == -0.05 for line in ledger)  # a word that there isn't
            continue
        guesses = result["verifiers"][0]["scores"]["guesses"]
        assert [line["value"] for line in credit] == [pytest.approx(1.0 - 0.15 * (guesses - 1))]
        assert credit[0]["metadata"] == {"guesses": int(guesses)}


def test_support_desk(user: User, examples: Path) -> None:
    """The clerk deals with the ticket; the careless one claims so, and is scored by the apps."""
    job, _ = run(user, "refund-request", "-a", "clerk", "-a", "careless-clerk", cwd=examples)
    careless, clerk = results(job)
    assert (clerk["passed"], clerk["score"], clerk["answer"]) == (True, 1.0, "T-7")
    assert (careless["passed"], careless["score"]) == (False, pytest.approx(1 / 3))
    assert careless["answer"] == "T-7"
    assert clerk["reward_totals"]["resolved"]["step"] == pytest.approx(0.7)
    assert careless["reward_totals"]["resolved"]["step"] == pytest.approx(-0.4)


def test_an_answer_alone(user: User, examples: Path) -> None:
    """A task without apps is scored by its answer."""
    job, _ = run(user, "unit-price", "-a", "calculator", "-a", "guesser", "-a", "nop", cwd=examples)
    calculator, guesser, nop = results(job)
    assert [one["passed"] for one in (calculator, guesser, nop)] == [True, False, False]
    assert (guesser["answer"], nop["answer"]) == ("7.80", None)
    assert nop["verifiers"][0]["evidence"] == ["no answer was given"]


def test_a_judged_letter(user: User, examples: Path, endpoint: Endpoint) -> None:
    """A model's verdict has its share of the score; what it was asked holds the letter."""
    said = {
        "accuracy": {"reason": "right, but no account is named", "score": 1},
        "tone": {"reason": "it names the customer", "score": 1},
    }
    endpoint.answer(completion(json.dumps(said)))
    job, _ = run(user, "refund-judged", "-a", "clerk", cwd=examples, env=endpoint.environ)
    [result] = results(job)
    assert (result["passed"], result["score"]) == (False, 0.875)
    resolved, judged = result["verifiers"]
    assert (resolved["score"], judged["score"], judged["kind"]) == (1.0, 0.75, "agent")
    asked = json.dumps(endpoint.requests[0].body)
    assert "Dear Nils" in asked
    user.run("rebuild", job.name, "--check", cwd=examples, code=0)


def test_a_reviewed_letter(user: User, examples: Path) -> None:
    """A trial waits for the person; the review ends it, counts, and can't be sent twice."""
    job, told = run(user, "refund-reviewed", "-a", "clerk", cwd=examples)
    assert "[WAIT] refund-reviewed" in told
    assert results(job) == []
    [trial] = [path.name for path in job.iterdir() if path.is_dir()]
    assert trial in user.run("human", "list", cwd=examples, code=0).out
    submit = ("human", "submit", trial, "--verifier", "customer-review", "--score")
    assert user.run(*submit, 3, cwd=examples).code != 0  # out of range
    user.run(*submit, 1, "--feedback", "when?", "--reviewer", "ann", cwd=examples, code=0)
    [result] = results(job)
    assert (result["passed"], result["score"]) == (False, 0.75)
    assert [one["score"] for one in result["verifiers"]] == [1.0, 0.5]
    assert user.run(*submit, 2, cwd=examples).code != 0  # sent twice
    assert results(job) == [result]
    user.run("rebuild", job.name, "--check", cwd=examples, code=0)


def test_trying_the_examples_is_exact(user: User, examples: Path, endpoint: Endpoint) -> None:
    """After a kill, a resume and a rebuild of the deleted folder, and with the project gone too,
    every example's verifier gives exactly what the run gave; a changed one does not."""
    said = {"accuracy": {"reason": "r", "score": 1}, "tone": {"reason": "r", "score": 1}}
    endpoint.answer(completion(json.dumps(said)))
    endpoint.released.clear()
    user.env |= {"TRIALOG_LOG": str(user.home / "jobs" / "trialog.db"), **endpoint.environ}
    process = user.start(
        "run", "tasks", "-a", "solver", "-a", "clerk", "-a", "calculator", "-n", 3, "--seed", 5,
        cwd=examples, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(endpoint.requests) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(endpoint.requests) == 3  # all three wait for a verdict, with the episodes recorded
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    endpoint.released.set()
    [job] = [path for path in (user.home / "jobs").iterdir() if re.match(r"\d{4}-", path.name)]
    planned = user.run("resume", job.name, "--dry-run", cwd=examples, code=0).lines
    judged = [line for line in planned if "refund-judged" in line]
    assert len(judged) == 3
    assert all("the episode is recorded; only verdicts are missing" in line for line in judged)
    user.run("resume", job.name, cwd=examples, code=0)
    # One whose check still had to ask its apps when it was killed is there twice.
    scored = [one for one in results(job) if one["outcome"] == "scored"]
    assert len({(one["task_name"], one["agent"]) for one in scored}) == len(scored) == 12
    waiting = user.run("human", "list", "--json", cwd=examples, code=0).lines
    reviewed, *_ = [json.loads(line)["trial"] for line in waiting]
    submit = ("human", "submit", reviewed, "--verifier", "customer-review", "--score", 1)
    user.run(*submit, cwd=examples, code=0)
    shutil.rmtree(job)
    user.run("rebuild", job.name, cwd=examples, code=0)
    names = sorted(path.name for path in (examples / "verifiers").iterdir())
    assert len(names) == 6
    checked = ("--job", job.name, "--check")
    assert user.run("verifier", "try", "resolved", *checked, cwd=examples, code=0).out
    code = examples / "verifiers" / "resolved" / "verify.py"
    before = code.read_text()
    code.write_text(before.replace("return 0.4 if", "return 0.5 if"))
    assert code.read_text() != before
    assert user.run("verifier", "try", "resolved", *checked, cwd=examples, code=1).out
    shutil.rmtree(examples)
    for name in names:
        told = user.run("verifier", "try", name, *checked)
        assert told.code == 0, told.out
