"""``trialog import``, and every other command on what it brought in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.conftest import User
from helpers.imports import EVAL, HARBOR, SAMPLES, copied
from helpers.reviewing import MakeReviewer, review


def imported(user: User, path: Path) -> Path:
    """Import a job: its folder."""
    ran = user.run("import", path, code=0)
    folder = next(line for line in ran.lines if line.startswith("Job folder: "))
    return user.home / folder.removeprefix("Job folder: ")


def test_an_imported_job_is_read_by_every_command(user: User) -> None:
    """Listed, shown, replayed, checked, rebuilt, exported: as any other, and named as imported."""
    job = imported(user, HARBOR)
    [listed] = user.run("jobs", "--json", code=0).objects
    assert (listed["counts"]["scored"], listed["imported"]) == (3, "harbor")
    assert "  from harbor  " in user.run("jobs", code=0).out
    shown = user.run("show", job, code=0)
    assert "imported from harbor 0.26.0: by-hand" in shown.out
    assert "[PASS] says-hello (reward=1.00, tools=1)" in shown.out
    assert "trialog resume" not in shown.out
    [trial] = job.glob("says-hello*")
    assert "trialog did not run it" in user.run("show", trial, code=0).out
    assert "ActionTaken           tools.bash" in user.run("replay", trial.name, code=0).out
    assert "tests/test.sh" in user.run("rewards", trial.name, code=0).out
    assert user.run("logs", trial.name, "--verifier", code=0).out == "checking\n"
    user.run("rebuild", job, "--check", code=0)
    (trial / "result.json").unlink()
    user.run("rebuild", job, "--check", code=1)
    user.run("rebuild", job, code=0)
    rows = user.run("export", job, "--format", "trl", code=0).objects
    assert [row["reward"] for row in rows] == [0.5, 1.0, 0.5]
    assert rows[1]["prompt"] == [{"role": "user", "content": "Write hello into hello.txt.\n"}]


@pytest.mark.bubblewrap
def test_an_imported_job_is_reviewed(user: User, reviewer: MakeReviewer) -> None:
    """A reviewer reads the trials' files like those of any job."""
    job = imported(user, EVAL)
    report = review(user, job, reviewer())
    assert len(report["trials"]) == 6
    assert all(trial["review_valid"] for trial in report["trials"])


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (["resume"], "resumed"),
        (["resume", "--dry-run"], "resumed"),
        (["cancel"], "cancelled"),
        (["regrade"], "regraded"),
        (["run", "--from"], "run again"),
        (["run", "--replay-models"], "run again"),
    ],
)
def test_what_would_run_it_is_refused(user: User, command: list[str], word: str) -> None:
    """With the reason, and without an event."""
    job = imported(user, HARBOR)
    before = (job.parent / "trialog.db").stat().st_size
    ran = user.run(*command, job, code=2)
    assert f"was imported from harbor, so it can't be {word}" in ran.err
    assert (job.parent / "trialog.db").stat().st_size == before


def test_the_same_again_adds_nothing(user: User) -> None:
    """It says so; a source that changed is another job, and that is said too."""
    source = copied(HARBOR, user.home)
    job = imported(user, source)
    again = user.run("import", source, code=0)
    assert "3 trials of harbor in the log already, nothing is new" in again.out
    (source / "job.log").write_text("more")
    changed = user.run("import", source, code=0)
    assert f"note: the same place was imported as {job.name} when its content" in changed.err
    assert len(user.run("jobs", "--json", code=0).objects) == 2


def test_a_folder_of_logs(user: User) -> None:
    """Each log is a job; one that is cut off is named, stops no other, and costs the exit code."""
    folder = user.home / "logs"
    folder.mkdir()
    copied(EVAL, folder)
    (folder / "cut.eval").write_bytes(EVAL.read_bytes()[:1000])
    ran = user.run("import", "logs", "--json", code=1)
    [done] = ran.objects
    assert (done["system"], done["trials"], done["added"]) == ("inspect", 6, 6)
    assert "cut.eval: no whole archive" in ran.err


def test_what_is_left_out_is_said(user: User) -> None:
    """At the import with exit code 1, and whenever the job is shown."""
    source = copied(HARBOR, user.home)
    (source / "says-less__StaXLgC" / "result.json").write_text('{"task_name": 1}')
    ran = user.run("import", source, code=1)
    reason = "task_name: expected text, found the number 1"
    assert reason in ran.err
    [job] = user.run("jobs", "--json", code=0).objects
    assert reason in user.run("show", job["job"], code=0).out


def test_a_path_that_is_nothing_is_refused(user: User) -> None:
    """Without a log being made for it."""
    ran = user.run("import", "nothing", code=2)
    assert "nothing: there is no such file or folder" in ran.err
    assert not (user.home / "jobs").exists()


def test_secrets_of_the_environment_stay_out_of_events(user: User) -> None:
    """What the importing shell holds as a secret is redacted in what the events say; the file that
    has it is named, since it is kept as it is."""
    source = copied(HARBOR, user.home)
    place = source / "says-hello__Q7mCFYs" / "agent" / "trajectory.json"
    trajectory = json.loads(place.read_text())
    trajectory["steps"][2]["message"] = "the key is s3cret-s3cret"
    place.write_text(json.dumps(trajectory))
    ran = user.run("import", source, "--json", code=0, env={"A_API_KEY": "s3cret-s3cret"})
    [job] = ran.objects
    assert "agent/trajectory.json holds the value of a secret of this shell" in ran.err
    [written] = Path(job["folder"]).glob("says-hello*/trajectory.json")
    assert "[redacted:A_API_KEY]" in written.read_text()
    assert "s3cret" not in written.read_text()


def test_labels_of_an_imported_episode(user: User) -> None:
    """A verifier of a project here judges Plural's trial by its recorded steps and states; the
    label is kept beside what Plural gave, and only once."""
    job = imported(user, SAMPLES / "plural" / "desk")
    user.run("init", "mine", code=0)
    project = user.home / "mine"
    user.run("verifier", "init", "careful", cwd=project, code=0)
    folder = project / "verifiers" / "careful"
    code = next(folder.glob("*.py"))
    code.write_text(VERIFIER)
    (folder / "verifier.yaml").write_text(
        "name: careful\nkind: deterministic\nversion: 0.1.0\n"
        f"check: {code.name}:check\nreward: {code.name}:reward\n"
    )
    words = ("careful", "--job", job, "--tasks-root", project)
    tried = user.run("verifier", "try", *words, code=0)
    assert "score 1.00, 3 rewards" in tried.out
    user.run("verifier", "apply", *words, code=0)
    user.run("verifier", "apply", *words, code=0)
    [trial] = job.glob("trl*")
    rewards = [json.loads(line) for line in (trial / "rewards.jsonl").read_text().splitlines()]
    given = [one["value"] for one in rewards if one["verifier"] == "careful"]
    assert sorted(given) == [-1.0, 0.0, 0.0]
    assert sum(one["verifier"] == "desk-check" for one in rewards) == 4
    user.run("rebuild", job, "--check", code=0)


VERIFIER = """
from trialog import VerifierOutput


def check(episode):
    state = episode.apps["desk"].final
    return VerifierOutput(score=float(state["answer"] == "store credit"))


def reward(step):
    return -1.0 if step.error else 0.0
"""
