"""Reviews that are killed, interrupted, doubled or out of room, and what stands afterwards."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acceptance.conftest import TRIALOG, MakeTask, User
from helpers.reviewing import MakeReviewer, alike, bytes_of, report_of
from helpers.terminal import marker, name_of, running, until

pytestmark = pytest.mark.bubblewrap
BWRAP = ("--sandbox", "bubblewrap")
OPEN = ("--agent-env", "GATE_KEY=open")


def waits(flag: str, *, but_for: str = "") -> str:
    """Code of a reviewer that waits unless its gate is open; its answer comes afterwards."""
    return (
        f"if os.environ.get('GATE_KEY') != 'open' and result['task_name'] != {but_for!r}:\n"
        f"    subprocess.run(['sleep', '{flag}'])\n"
    )


def sleepers(flag: str) -> list[int]:
    """The reviewers' programs that wait."""
    return [pid for pid in running(flag) if name_of(pid) == "sleep"]


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, standard output and errors of a command, once it is over."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def review_folder(job: Path) -> Path:
    """The folder of the one review there is."""
    [folder] = [path for path in (job / "reviews").iterdir() if path.is_dir()]
    return folder


def test_a_killed_review_goes_on_to_the_same_report(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """After a kill -9 a resume needs the review's name alone, and gives what an undisturbed one
    gives: rubric and evidence are those of the beginning, and no answer is asked for twice."""
    for name in ("a", "b", "c"):
        task = make_task(name, folder=user.home / "tasks")
    own = {"criteria": [{"name": "own", "description": "d", "guidance": "g"}]}
    (task / "verifier" / "rubric.json").write_text(json.dumps(own))
    job = user.job("tasks")
    flag = marker()
    named = "answer['checks'] = {n: dict(outcome='pass', explanation=n) for n in " \
        "('own', 'reward_hacking', 'task_specification') if f'## {n}' in prompt}\n"  # fmt: skip
    agent = reviewer(named + waits(flag, but_for="a"))
    words = ("review", "run", job, "--agent", agent, "-n", 1, "--tasks-root", "tasks")
    process = user.start(*words, *BWRAP)
    until(lambda: sleepers(flag), "the second reviewer")
    os.kill(process.pid, signal.SIGKILL)
    assert "[REVIEW] a__" in ended(process)[1]
    until(lambda: not sleepers(flag), "the end of the reviewer")
    folder = review_folder(job)
    assert not (folder / "review_report.json").exists()
    command = f"trialog review run {shlex.quote(f'jobs/{job.name}')} --resume {folder.name}"
    for thing in (job, folder, job.name):
        told = user.run("review", "show", thing, code=None).err
        assert f"has not finished\nhint: `{command}` goes on" in told
    ran = user.run("review", "run", job, "--resume", folder.name, *OPEN, code=0)
    assert "[REVIEW] a__" not in ran.out
    report = report_of(user, ran.out)
    assert [trial["review_valid"] for trial in report["trials"]] == [True] * 3
    assert [trial["criteria"] for trial in report["trials"]][2] == ["own"]
    assert report["trials"][2]["rubric_path"].endswith("c/verifier/rubric.json")
    whole = user.run(*words, *BWRAP, *OPEN, code=0)
    assert alike(report_of(user, whole.out)) == alike(report)
    assert "3 of 3 trials reviewed" in user.run("review", "show", job, code=0).out
    user.run("rebuild", job, "--check", code=0)


def test_a_resume_goes_on_as_it_was_begun(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Another reviewer, model or job is refused; the files of reviewer and rubric may be gone."""
    for name in ("a", "b"):
        make_task(name, folder=user.home / "tasks")
    job, other = user.job("tasks"), user.job("tasks")
    given = {"criteria": [{"name": "given", "description": "d", "guidance": "g"}]}
    rubric = user.home / "given.json"
    rubric.write_text(json.dumps(given))
    flag = marker()
    agent = reviewer(waits(flag), names=("given",))
    process = user.start("review", "run", job, "--agent", agent, "-r", rubric, *BWRAP)
    until(lambda: len(sleepers(flag)) == 2, "both reviewers")
    review_id = review_folder(job).name
    resume = ("review", "run", job, "--resume", review_id)
    assert "is run by process" in user.run(*resume, code=None).err
    process.kill()
    ended(process)
    rubric.unlink()
    for words, said in (
        (("--agent", "nop"), f"was begun with {agent}, found nop"),
        (("--model", "m"), "was begun with None, found m"),
        (("--passing",), "was begun with all, found passing"),
        (("--allow-open-network",), "was begun with False, found True"),
        (("-n", "0"), "must be above 0"),
    ):
        assert said in user.run(*resume, *words, code=2).err
    [trial, _] = sorted(path.name for path in job.iterdir() if "__" in path.name)
    for thing in (other, trial):
        ran = user.run("review", "run", thing, "--resume", review_id, code=None)
        assert ran.code != 0
        assert review_id in ran.err
    (user.home / "reviewer.py").unlink()
    report = report_of(user, user.run(*resume, *OPEN, "-n", 2, code=0).out)
    assert [trial["criteria"] for trial in report["trials"]] == [["given"], ["given"]]
    assert report["rubric"]["path"].endswith("given.json")
    assert report["trials"][0]["rubric_path"] == report["rubric"]["path"]


def test_ctrl_c_once(user: User, make_task: MakeTask, reviewer: MakeReviewer) -> None:
    """The reviewer at work ends and counts, no other begins; code 130, and a resume goes on."""
    for name in ("a", "b"):
        make_task(name, folder=user.home / "tasks")
    job = user.job("tasks")
    flag = marker()
    agent = reviewer(waits(flag))
    process = user.start("review", "run", job, "--agent", agent, "-n", 1, *BWRAP)
    [pid] = until(lambda: sleepers(flag), "the first reviewer")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    told = process.stderr.readline()
    assert "no new trials; 1 running" in told
    os.kill(pid, signal.SIGKILL)  # it was all that the reviewer waited for
    code, out, err = ended(process)
    assert (code, out.count("[REVIEW]")) == (130, 1)
    command = f"trialog review run {shlex.quote(str(job))} --resume {review_folder(job).name}"
    assert f"`{command}` goes on" in err
    resume = ("review", "run", job, "--resume", review_folder(job).name)
    report = report_of(user, user.run(*resume, *OPEN, code=0).out)
    assert [trial["review_valid"] for trial in report["trials"]] == [True, True]


def test_ctrl_c_twice(user: User, make_task: MakeTask, reviewer: MakeReviewer) -> None:
    """All reviewers are stopped and nothing of theirs is left; none has an answer yet."""
    for name in ("a", "b"):
        make_task(name, folder=user.home / "tasks")
    job = user.job("tasks")
    before = bytes_of(job)
    flag = marker()
    process = user.start("review", "run", job, "--agent", reviewer(waits(flag)), *BWRAP)
    until(lambda: len(sleepers(flag)) == 2, "both reviewers")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    code, out, _ = ended(process)
    assert code == 130
    assert "[REVIEW]" not in out
    assert "[ERR]" not in out
    assert not running(flag)
    assert bytes_of(job) == before
    resume = ("review", "run", job, "--resume", review_folder(job).name)
    report = report_of(user, user.run(*resume, *OPEN, code=0).out)
    assert [trial["review_valid"] for trial in report["trials"]] == [True, True]


def test_two_reviews_at_once(user: User, make_task: MakeTask, reviewer: MakeReviewer) -> None:
    """Each has its own folder and says the same; a folder that one has is refused to another."""
    for name in ("a", "b", "c"):
        make_task(name, folder=user.home / "tasks")
    job = user.job("tasks")
    before = bytes_of(job)
    agent = reviewer()
    command = ("review", "run", job, "--agent", agent, *BWRAP)
    both = [user.start(*command) for _ in range(2)]
    reports = []
    for process in both:
        code, out, err = ended(process)
        assert code == 0, err
        reports.append(report_of(user, out))
    assert alike(reports[0]) == alike(reports[1])
    assert len(list((job / "reviews").iterdir())) == 2
    assert bytes_of(job) == before
    user.run("rebuild", job, "--check", code=0)
    shared = [user.start(*command, "--out-dir", user.home / "out") for _ in range(2)]
    codes = sorted(ended(process)[0] for process in shared)
    assert codes == [0, 2]
    again = user.run(*command, "--out-dir", user.home / "out", code=2)
    assert "an earlier review's report may be in it" in again.err
    user.run("rebuild", job, "--check", code=0)


ALONE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
FILLS = """
if os.environ.get("GATE_KEY") != "open":
    with open("flood", "wb") as file:
        while True:
            file.write(os.urandom(2**20))
"""
SCRIPT = """
mount -t tmpfs -o size=12m none "$JOBS"
set +e
"$TRIALOG" run "$TASKS" -n 2 --sandbox bubblewrap --jobs-dir "$JOBS" > "$OUT/run.txt" 2>&1
job=$(ls "$JOBS" | grep '^20')
"$TRIALOG" review run "$job" --agent "$AGENT" --sandbox bubblewrap -n 1 --log "$JOBS/trialog.db" \
    > "$OUT/review.txt" 2>&1
echo $? > "$OUT/review.rc"
mount -o remount,size=256m "$JOBS"
review=$(ls "$JOBS/$job/reviews")
if [ ! -e "$JOBS/$job/reviews/$review/review_report.json" ]; then
    "$TRIALOG" review run "$job" --resume "$review" --log "$JOBS/trialog.db" \
        --agent-env GATE_KEY=open > "$OUT/resume.txt" 2>&1
    echo $? > "$OUT/resume.rc"
fi
"$TRIALOG" rebuild "$job" --check --log "$JOBS/trialog.db" > "$OUT/check.txt" 2>&1
echo $? > "$OUT/check.rc"
cp "$JOBS/$job/reviews/$review/review_report.json" "$OUT/"
"""


def test_a_reviewer_that_fills_the_disk(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """It is an error entry, or ends the review with a sentence; with room again nothing is lost."""
    for name in ("a", "b"):
        make_task(name, folder=user.home / "tasks")
    jobs, out = user.home / "jobs", user.home / "out"
    jobs.mkdir()
    out.mkdir()
    agent = reviewer(FILLS)
    subprocess.run(
        [*ALONE, "sh", "-ec", SCRIPT],
        env=user.env
        | {
            "JOBS": str(jobs), "OUT": str(out), "TASKS": str(user.home / "tasks"),
            "AGENT": agent, "TRIALOG": str(TRIALOG),
        },
        check=True, timeout=90,
    )  # fmt: skip
    said = (out / "review.txt").read_text()
    assert (out / "review.rc").read_text().strip() == "1", said
    assert "Traceback" not in said
    assert "No space left" in said or "full" in said
    report: dict[str, Any] = json.loads((out / "review_report.json").read_text())
    if (out / "resume.rc").exists():
        assert (out / "resume.rc").read_text().strip() == "0", (out / "resume.txt").read_text()
        assert [trial["review_valid"] for trial in report["trials"]] == [True, True]
    else:
        assert all(trial["error"] for trial in report["trials"])
    assert (out / "check.rc").read_text().strip() == "0", (out / "check.txt").read_text()
    shutil.rmtree(jobs)
