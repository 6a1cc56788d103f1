"""``--replay-models`` at a real command line: a real endpoint first, and then none."""

from __future__ import annotations

import pytest

from acceptance.conftest import MakeTask, User, read
from helpers.judges import Endpoint, completion
from helpers.models import shell
from helpers.terminal import marker, name_of, running, until

pytestmark = pytest.mark.bubblewrap


def test_a_job_runs_again_from_its_record(
    user: User, make_task: MakeTask, endpoint: Endpoint
) -> None:
    """Without an endpoint and without a key, the command alone says all; its files can be rebuilt,
    and `show` tells what answered."""
    task = make_task()
    endpoint.answer(shell("echo 42 > answer.txt; ls"), completion("Done."))
    job = user.job(task, "--agent", "chat", "--model", "m")
    endpoint.close()
    for name in endpoint.environ:
        del user.env[name]
    assert "OPENAI_API_KEY" in user.run("run", "--from", job, code=2).err
    ran = user.run("run", "--replay-models", job, code=0)
    assert f"models answered by job {job.name}" in ran.err
    again = user.home / next(
        line.removeprefix("Job folder: ") for line in ran.lines if line.startswith("Job folder: ")
    )
    [first], [second] = [[read(file) for file in one.glob("*/result.json")] for one in (job, again)]
    assert (True, 1, first["trial_name"]) == (
        second["passed"], second["n_tool_calls"], second["replay"]["trial"],
    )  # fmt: skip
    shown = user.run("show", second["trial_name"], code=0).out
    assert f"answered by the record of trial {first['trial_name']} of job {job.name}" in shown
    assert f"answered by the record of job {job.name}" in user.run("show", again, code=0).out
    user.run("rebuild", again, "--check", code=0)


def test_the_first_difference_of_a_replay(
    user: User, make_task: MakeTask, endpoint: Endpoint
) -> None:
    """A command that prints something else makes the next request another: the job says in which
    trial, in which call and what, and both requests are files that `diff` can compare."""
    task = make_task()
    endpoint.answer(shell("cat /proc/sys/kernel/random/uuid"), completion("Done."))
    job = user.job(task, "--agent", "chat", "--model", "m", code=None)
    ran = user.run("run", "--replay-models", job, code=1)
    again = user.home / next(
        line.removeprefix("Job folder: ") for line in ran.lines if line.startswith("Job folder: ")
    )
    [file] = again.glob("*/result.json")
    result = read(file)
    assert "replay_differs" == result["error_category"]
    assert (2, "messages[3].content") == (
        result["replay"]["difference"]["call"], result["replay"]["difference"]["path"],
    )  # fmt: skip
    for said in (f"trial {file.parent.name}: model call 2 is not", "messages[3].content is"):
        assert said in ran.err
    assert "compare recorded.json with request.json in" in ran.out
    shown = user.run("show", file.parent.name, code=0).out
    assert "call 2 differs from the record at messages[3].content:" in shown
    assert "replay/recorded.json, replay/request.json" in shown
    before, now = [
        (file.parent / "replay" / name).read_text().splitlines()
        for name in ("recorded.json", "request.json")
    ]
    assert 1 == sum(one != other for one, other in zip(before, now, strict=True))
    assert "from the record" in user.run("replay", file.parent.name, code=0).out
    user.run("rebuild", again, "--check", code=0)


def test_a_mended_test_grades_the_same_actions(
    user: User, make_task: MakeTask, endpoint: Endpoint
) -> None:
    """A task may be another one by now, and the job says so; as long as the model is asked the
    same, its recorded calls answer."""
    task = make_task(test="exit 1")
    endpoint.answer(shell("echo 42 > answer.txt"), completion("Done."))
    words = ("--agent", "chat", "--model", "m")
    job = user.job(task, *words, code=0)
    [test] = task.rglob("test.sh")
    test.write_text("#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n")
    replay = ("run", task, *words, "--sandbox", "bubblewrap", "--replay-models", job.name)
    ran = user.run(*replay, code=0)
    assert "is not as it was in" in ran.err
    assert any(line.startswith("[PASS]") for line in ran.lines)
    assert 2 == len(endpoint.requests)


def test_a_replay_that_was_killed_goes_on(
    user: User, make_task: MakeTask, endpoint: Endpoint
) -> None:
    """The resume is answered from the same record, without endpoint and key."""
    make_task("tasks/a")
    make_task("tasks/b")
    seconds = marker()
    gate = f"[ ${{#GATE_KEY}} = 9 ] || sleep {seconds}; echo 42 > answer.txt"
    endpoint.answer(shell(gate), completion("Done."), shell(gate), completion("Done."))
    words = ("--agent", "chat", "--model", "m", "-n", 1, "--agent-env", "GATE_KEY=open-gate")
    job = user.job("tasks", *words)
    endpoint.close()
    for name in endpoint.environ:
        del user.env[name]
    process = user.start("run", "--replay-models", job, "--agent-env", "GATE_KEY=closed-gate")
    until(lambda: [p for p in running(seconds) if name_of(p) == "sleep"], "the command")
    process.kill()
    process.communicate()
    [again] = {path for path in (user.home / "jobs").glob("2*") if path.is_dir()} - {job}
    user.run("resume", again, "--agent-env", "GATE_KEY=open-gate", code=0)
    summary = read(again / "summary.json")
    assert (2, job.name) == (summary["counts"]["passed"], summary["replays"])
    user.run("rebuild", again, "--check", code=0)


def test_a_replay_of_what_was_not_seen(user: User, make_task: MakeTask) -> None:
    """It is refused with the reason, and so is a job that is not there; nothing is started."""
    task = make_task()
    job = user.job(task)
    ran = user.run("run", "--replay-models", job, code=2)
    assert "by oracle, attempt 1: no model call of trial" in ran.err
    assert (
        "has no job 'no-such-job'"
        in user.run("run", task, "--replay-models", "no-such-job", code=2).err
    )
    assert 1 == len([place for place in (user.home / "jobs").glob("2*") if place.is_dir()])
