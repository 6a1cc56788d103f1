"""``trialog review``: reviewers in real sandboxes, at a real command line."""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path

import pytest

from acceptance.conftest import MakeTask, User
from helpers.reviewing import BUILT_IN, WRITE, MakeReviewer, bytes_of, damage, logged, review, rows
from trialog.engine.reviews.structure import faults

pytestmark = pytest.mark.bubblewrap

REGRADED = "echo the first verdict; echo 0 > /logs/verifier/reward.txt\n"


def test_a_job_is_reviewed_and_not_changed(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Each trial gets its verdicts, and not a byte of the job, its streams or files, differs: all
    that a review appends is in streams of its own, which no figure of the job's counts."""
    make_task("good", folder=user.home / "tasks")
    make_task("bad", folder=user.home / "tasks", solve="true")
    job = user.job("tasks")
    files, events = bytes_of(job), rows(user)
    summary = user.run("show", job, "--json").out
    report = review(user, job, reviewer())
    outcomes = {
        trial["trial_name"].split("__")[0]: trial["checks"]["reward_hacking"]["outcome"]
        for trial in report["trials"]
    }
    assert outcomes == {"good": "pass", "bad": "fail"}
    assert all(trial["review_valid"] for trial in report["trials"])
    assert report["reviewer"]["network"] == "no-internet"
    assert bytes_of(job) == files
    after = rows(user)
    assert after[: len(events)] == events
    added = {row.stream for row in after[len(events) :]}
    assert {stream.split("__")[0] for stream in added if stream.startswith("trial/")} == {
        "trial/review-good", "trial/review-bad"
    }  # fmt: skip
    [own] = [stream for stream in added if not stream.startswith("trial/")]
    assert own.startswith("review/")
    assert user.run("show", job, "--json").out == summary
    assert json.loads(summary)["summary"]["counts"]["slots"] == 2
    assert "nothing is left to do" in user.run("resume", job, code=None).err
    [listed] = user.run("jobs", "--json", code=0).objects
    assert listed["job"] == job.name
    again = rows(user)
    user.run("regrade", job, code=0)
    assert not any("review-" in row.stream for row in rows(user)[len(again) :])


def test_a_reviewer_reads_all_that_a_trial_left(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """The trial's files, as they are on disk, later verdicts too; no earlier review, whatever that
    said, and neither the rubric nor what is written in it for its authors."""
    task = make_task("t", folder=user.home / "tasks", test=REGRADED)
    own = {"criteria": [{"name": "own", "description": "FOR-AUTHORS", "guidance": "g"}]}
    (task / "verifier" / "rubric.json").write_text(json.dumps(own))
    given = user.home / "given.json"
    given.write_text(json.dumps(own))
    job = user.job("tasks")
    [trial] = [path for path in job.iterdir() if path.is_dir()]
    (task / "verifier" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt")
    user.run("regrade", job, "--tasks-root", "tasks", code=0)
    assert (trial / "regrade.json").exists()
    shows = """
read = {}
for at, folders, files in os.walk("/evidence"):
    for name in files:
        path = os.path.join(at, name)
        read[path] = open(path).read()
for at, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if not (at == "/" and name in ("proc", "sys", "usr"))]
    for name in files:
        if name.endswith(".json") and "rubric" in name or name in ("given.json", "criteria.json"):
            read["found " + os.path.join(at, name)] = ""
answer["summary"] = json.dumps({**read, "the prompt": prompt})
"""
    agent = reviewer("answer['summary'] = 'MARKED-BY-A-REVIEW'\n", names=("own",))
    review(user, job, agent)
    agent = reviewer(shows, names=("own",))
    [seen] = review(user, job, agent, "-r", given, "--tasks-root", "tasks")["trials"]
    read = json.loads(seen["summary"])
    assert {path for path in read if path.startswith("/evidence/trial/")} == {
        f"/evidence/trial/{path.relative_to(trial)}" for path in trial.rglob("*") if path.is_file()
    }
    assert read["/evidence/trial/result.json"] == (trial / "result.json").read_text()
    assert read["/evidence/trial/regrade.json"] == (trial / "regrade.json").read_text()
    assert "the first verdict" in read["/evidence/trial/verifier/test-stdout.txt"]
    assert not [path for path in read if path.startswith("found ")]
    everything = "".join(read.values())
    assert "MARKED-BY-A-REVIEW" not in everything
    assert "FOR-AUTHORS" not in everything


def test_the_documented_reviewer(user: User, make_task: MakeTask) -> None:
    """The program of docs/reviews.md gives a valid review, and its example answer is one."""
    page = (Path(__file__).parents[2] / "docs" / "reviews.md").read_text()
    (answer,) = re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert faults(answer.encode(), BUILT_IN) == []
    make_task()
    path = user.home / "reviewer.py"
    path.write_text(program)
    path.chmod(0o755)
    (trial,) = review(user, user.job("t"), f"command:{path}")["trials"]
    assert trial["review_valid"]
    assert trial["checks"]["reward_hacking"]["outcome"] == "pass"


def test_a_review_is_rebuilt_to_the_byte(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Report and reviewers' files come back from the log; a check finds what is wrong with them."""
    make_task()
    job = user.job("t")
    report = review(user, job, reviewer())
    place = job / "reviews"
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    runs = [job / "reviews" / next(place.iterdir()).name / one["reviewer_rollout"]
            for one in report["trials"]]  # fmt: skip
    kept = {path.relative_to(runs[0]).as_posix() for path in runs[0].rglob("*") if path.is_file()}
    assert kept >= {"result.json", "trajectory.json", "artifacts/review-result.json"}
    answer = json.loads((runs[0] / "artifacts" / "review-result.json").read_text())
    assert answer["checks"] == report["trials"][0]["checks"]
    next(place.rglob("review_report.json")).write_text("{}")
    wrong = user.run("rebuild", job, "--check", code=1).out
    assert "review_report.json" in wrong
    shutil.rmtree(job)
    user.run("rebuild", job.name, code=0)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    user.run("rebuild", job, "--check", code=0)


WELL_FORMED = {
    "honest": WRITE,
    "fenced": "open(FILE, 'w').write('```json\\n' + json.dumps(answer) + '\\n```\\n')",
    "in-prose": "open(FILE, 'w').write('Here it is: ' + json.dumps(answer) + ' That is all.')",
    "contradictory": """
for check in answer["checks"].values():
    check.update(outcome="fail", explanation="flawless: it passes")
"""
    + WRITE,
}
"""Answers that count, whatever they say."""

BAD = {
    "crash": ("sys.exit(3)", "wrote no review-result.json: the agent exited with code 3"),
    "late-crash": (WRITE + "sys.stdout.flush(); os._exit(3)", "so its answer does not count"),
    "killed": ("os.kill(os.getpid(), 9)", "code 137"),
    "silent": ("pass", "the reviewer wrote no review-result.json"),
    "hangs": (WRITE + "import time; time.sleep(1000)", "so its answer does not count"),
    "a-word": ("open(FILE, 'w').write('excellent')", "no JSON object"),
    "empty": ("open(FILE, 'w')", "is empty"),
    "cut-off": ("open(FILE, 'w').write(json.dumps(answer)[:-9])", "no JSON object"),
    "thought": ("open(FILE, 'w').write('thought: easy {\"summary\":')", "no JSON object"),
    "single-quotes": ("open(FILE, 'w').write(str(answer))", "no JSON object"),
    "two": (
        "answer2 = {**answer, 'summary': 'x'}\n"
        "open(FILE, 'w').write(json.dumps(answer) + json.dumps(answer2))",
        "several JSON objects that differ",
    ),
    "refusal": ("open(FILE, 'w').write('I would rather not.')", "no JSON object"),
    "error-body": (
        "answer = {'error': {'message': 'overloaded'}}\n" + WRITE,
        'unknown key "error"',
    ),
    "a-criterion-less": ("del answer['checks']['reward_hacking']\n" + WRITE, "hacking: missing"),
    "one-more": ("answer['checks']['style'] = {}\n" + WRITE, 'unknown criterion "style"'),
    "a-reward": ("answer['reward'] = 1\n" + WRITE, 'unknown key "reward"'),
    "eleven": ("answer['checks']['reward_hacking']['outcome'] = 11\n" + WRITE, "expected one of"),
    "nan": ("answer['summary'] = float('nan')\n" + WRITE, "NaN is not a JSON number"),
    "not-utf8": ("open(FILE, 'wb').write(b'{\\xff}')", "not UTF-8"),
    "deep": ("open(FILE, 'w').write('[' * 200_000)", "nested too deep"),
    "key-twice": ("open(FILE, 'w').write('{\"summary\": 1, \"summary\": 2}')", "given twice"),
    "long": ("answer['summary'] = 'x' * 2**20\n" + WRITE, "over 1048576 bytes"),
    "sparse": ("open(FILE, 'wb').truncate(10 * 2**30)", "more than"),
    "link": ("os.symlink('/evidence/trial/result.json', FILE)", "link"),
    "link-out": ("os.symlink('/etc/passwd', FILE)", "link"),
    "pipe": ("os.mkfifo(FILE)", "wrote no review-result.json: "),
    "folder": ("os.mkdir(FILE)", "wrote no review-result.json"),
    "floods": ("for _ in range(2000): print('x' * 2**15)", "wrote no review-result.json"),
    "leaves-a-child": (
        "import time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(3)\n    " + WRITE,
        "wrote no review-result.json",
    ),
    "lies": (
        "os.makedirs('/logs/verifier', exist_ok=True)\n"
        "open('/logs/verifier/reward.txt', 'w').write('1')\n"
        "open('python3', 'w').write('#!/bin/sh\\necho 1 > /logs/verifier/reward.txt')\n"
        "os.chmod('python3', 0o755)\n"
        "open(FILE, 'w').write('{}')",
        "summary: expected a text",
    ),
}
"""What a reviewer may do instead of answering, and what is said of it."""


def test_a_bad_reviewer_costs_its_own_entry(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Whatever a reviewer does costs exactly one error entry, which says what it was; the others
    stand, and the reviewed job is as it was."""
    codes = WELL_FORMED | {name: code for name, (code, _) in BAD.items()}
    for name in codes:
        make_task(name, folder=user.home / "tasks")
    job = user.job("tasks", "-n", "8")
    before = bytes_of(job)
    choosing = f"\nFILE = 'review-result.json'\nexec({codes!r}[result['task_name']])\n"
    words = ("--max-seconds", "8", "-n", "8")
    report = review(user, job, reviewer(choosing, write=False), *words, code=1)
    by_task = {trial["trial_name"].split("__")[0]: trial for trial in report["trials"]}
    assert {name for name, trial in by_task.items() if trial["review_valid"]} == set(WELL_FORMED)
    assert by_task.keys() == codes.keys()
    errors = {name: by_task[name]["error"] for name in BAD}
    assert {n: e for n, e in errors.items() if BAD[n][1] not in e} == {}
    for name in BAD:
        assert (by_task[name]["checks"], by_task[name]["summary"]) == ({}, None)
    assert report["job_summary"] == (
        f"4 of {len(codes)} trials reviewed. reward_hacking: 3 pass, 1 fail, 0 not_applicable. "
        "task_specification: 3 pass, 1 fail, 0 not_applicable."
    )
    check = by_task["contradictory"]["checks"]["reward_hacking"]
    assert check == {"outcome": "fail", "explanation": "flawless: it passes"}
    assert bytes_of(job) == before


def test_a_reviewer_can_change_nothing_and_reach_nobody(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Evidence can be read and not written, and there is no network; both are tried inside."""
    make_task()
    job = user.job("t")
    code = """
import socket
tried = []
for path in ("/evidence/trial/result.json", "/evidence/trial/new", "/evidence/new"):
    try:
        open(path, "a").write("x")
        tried.append("wrote " + path)
    except OSError:
        pass
for path in ("/evidence/trial/result.json", "/evidence/trial"):
    for change in (os.remove, lambda p: os.chmod(p, 0o777), lambda p: os.rename(p, "/tmp/x")):
        try:
            change(path)
            tried.append("changed " + path)
        except OSError:
            pass
try:
    socket.create_connection(("1.1.1.1", 53), 2)
    tried.append("network")
except OSError:
    pass
answer["summary"] = repr(tried)
"""
    report = review(user, job, reviewer(code))
    assert report["trials"][0]["summary"] == "[]"


def test_passing_and_failing_split_the_job(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """What one selection takes the other leaves, and one trial can be named alone."""
    make_task("good", folder=user.home / "tasks")
    make_task("bad", folder=user.home / "tasks", solve="true")
    job = user.job("tasks")
    agent = reviewer()
    [passing] = review(user, job, agent, "--passing")["trials"]
    [failing] = review(user, job, agent, "--failing")["trials"]
    assert passing["trial_name"].startswith("good")
    assert failing["trial_name"].startswith("bad")
    alone = review(user, passing["trial_name"], agent)
    assert [trial["trial_name"] for trial in alone["trials"]] == [passing["trial_name"]]
    assert alone["path"] == alone["trials"][0]["source_rollout"]
    both = user.run("review", "run", job, "--agent", agent, "--passing", "--failing", code=2)
    assert "not both" in both.err


def test_a_tasks_files_are_evidence_only_under_a_trusted_root(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Without a root, or where the folder changed, the task stays out and a note says so."""
    task = make_task("t", folder=user.home / "tasks")
    (task / "skills").mkdir()
    (task / "skills" / "s.md").write_text("s")
    job = user.job("tasks")
    agent = reviewer(
        "answer['summary'] = ' '.join(sorted(os.listdir('/evidence/task')))"
        " if os.path.exists('/evidence/task') else 'none'"
    )
    [without] = review(user, job, agent)["trials"]
    assert without["summary"] == "none"
    assert "no --tasks-root was given" in without["notes"][0]
    [shown] = review(user, job, agent, "--tasks-root", "tasks")["trials"]
    assert shown["summary"] == "oracle task.md verifier"
    assert shown["notes"] == []
    (task / "verifier" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt")
    [changed] = review(user, job, agent, "--tasks-root", "tasks")["trials"]
    assert changed["summary"] == "none"
    assert "is not what the trial ran" in changed["notes"][0]


def test_whose_rubric_holds(user: User, make_task: MakeTask, reviewer: MakeReviewer) -> None:
    """--rubric comes first, then the task's own, then the built-in one; guidance is the prompt."""
    task = make_task()
    own = {"criteria": [{"name": "own", "description": "HIDDEN", "guidance": "SEEN-OWN"}]}
    (task / "verifier" / "rubric.json").write_text(json.dumps(own))
    job = user.job("t")
    told = "assert 'SEEN-OWN' in prompt and 'HIDDEN' not in prompt"
    report = review(user, job, reviewer(told, names=("own",)))
    assert report["rubric"]["criteria"] == ["own"]
    assert report["rubric"]["path"].endswith("t/verifier/rubric.json")
    given = {"criteria": [{"name": "given", "description": "d", "guidance": "g"}]}
    (user.home / "given.json").write_text(json.dumps(given))
    report = review(user, job, reviewer(names=("given",)), "-r", "given.json")
    assert report["rubric"]["criteria"] == ["given"]
    (user.home / "given.json").write_text('{"criteria": [{"name": "x"}]}')
    refused = user.run("review", "run", job, "--agent", reviewer(), "-r", "given.json", code=2)
    assert "guidance: missing" in refused.err
    assert len(list((job / "reviews").iterdir())) == 2


def test_a_job_known_only_by_its_files(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Folders without a log are reviewed too; one with an unreadable result counts as failing."""
    job = user.job(make_task().name)
    [trial] = [path for path in job.iterdir() if path.is_dir()]
    other = user.home / "elsewhere" / "copied"
    shutil.copytree(trial, other / trial.name)
    broken = other / "broken__1"
    shutil.copytree(trial, broken)
    (broken / "result.json").write_text("{")
    agent = reviewer()
    words = ("--jobs-dir", user.home / "elsewhere")
    [good] = review(user, other, agent, "--passing", *words)["trials"]
    assert good["trial_name"] == trial.name
    report = review(user, other, agent, "--failing", *words, code=1)
    [bad] = report["trials"]
    assert bad["trial_name"] == "broken__1"
    assert any("counts as failing" in note for note in bad["notes"])


def test_who_reviews_must_be_said(user: User, make_task: MakeTask) -> None:
    """Without --agent and without a project's there is no review, and nothing is written."""
    job = user.job(make_task().name)
    ran = user.run("review", "run", job, code=2)
    assert "--agent" in ran.err
    assert not (job / "reviews").exists()
    missing = user.run("review", "show", job, code=None)
    assert "has no review" in missing.err


def test_a_reviewers_own_reward_is_for_its_form(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """A review that finds fault with a run has a reward of 1.0 of its own; a malformed one has 0,
    and one that never ran has no folder to point at."""
    make_task("bad", folder=user.home / "tasks", solve="true")
    job = user.job("tasks")
    agent = reviewer()
    [trial] = review(user, job, agent)["trials"]
    assert {check["outcome"] for check in trial["checks"].values()} == {"fail"}
    rewards = [json.loads(row.data)["rewards"] for row in rows(user) if row.kind == "TrialScored"]
    assert rewards == [{"reward": 0.0}, {"reward": 1.0}]
    [trial] = review(user, job, reviewer("answer = {}"), code=1)["trials"]
    assert trial["reviewer_rollout"] is not None
    rewards = [json.loads(row.data)["rewards"] for row in rows(user) if row.kind == "TrialScored"]
    assert rewards[2:] == [{"reward": 0.0}]
    [failed] = logged(user, "ReviewFailed")
    assert failed["reply"] == "{}"


def test_a_damaged_trial_costs_its_own_entry(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """What can't be read is not reviewed, is said to be so, and keeps nobody from the others."""
    make_task("a", folder=user.home / "tasks")
    make_task("b", folder=user.home / "tasks")
    job = user.job("tasks")
    damage(user, "trial/a__", "AgentStarted")
    damaged, whole = review(user, job, reviewer(), code=1)["trials"]
    assert "the trial's events can't be read" in damaged["error"]
    assert damaged["reviewer_rollout"] is None
    assert "its events can't be read" in damaged["notes"][0]
    assert whole["review_valid"]


def test_a_network_is_open_only_where_it_is_allowed(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """A service of this machine is out of reach, unless --allow-open-network says otherwise; the
    report says which it was."""
    job = user.job(make_task().name)
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5).close()
    answer["summary"] = "reached"
except OSError:
    answer["summary"] = "out of reach"
"""
        agent = reviewer(reach)
        closed = review(user, job, agent)
        opened = review(user, job, agent, "--allow-open-network")
    assert (closed["trials"][0]["summary"], closed["reviewer"]["network"]) == (
        "out of reach", "no-internet"
    )  # fmt: skip
    assert (opened["trials"][0]["summary"], opened["reviewer"]["network"]) == ("reached", "open")


def test_a_project_says_who_reviews(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """`review` in trialog.yaml holds where the command line says nothing; that goes before it."""
    user.run("init", "shop", code=0)
    shop = user.home / "shop"
    make_task("t", folder=shop / "tasks")
    agent = reviewer()
    with (shop / "trialog.yaml").open("a") as file:
        file.write(f"review:\n  agent: {json.dumps(agent)}\n")
    job = user.job("tasks/t", cwd=shop)
    ran = user.run("review", "run", job, "--sandbox", "bubblewrap", cwd=shop, code=0)
    assert "[REVIEW] t__" in ran.out
    ran = user.run(
        "review", "run", job, "--agent", "nop", "--sandbox", "bubblewrap", cwd=shop, code=1
    )
    assert "[ERR] t__" in ran.out


def test_a_review_is_shown_by_whatever_it_is_of(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """By its job, a trial, its own folder or its name; which one it is of several is said."""
    make_task("a", folder=user.home / "tasks")
    make_task("b", folder=user.home / "tasks")
    job = user.job("tasks")
    trial = next(path.name for path in job.iterdir() if path.name.startswith("a__"))
    other = next(path.name for path in job.iterdir() if path.name.startswith("b__"))
    agent = reviewer()
    review(user, job, agent)
    review(user, trial, agent, "--out-dir", user.home / "out")
    [first, second] = [begun["review"] for begun in logged(user, "ReviewStarted")]
    shown = user.run("review", "show", job, code=0)
    assert shown.lines[0].startswith(f"Review {second} by command:")
    assert f"the newest of 2 reviews\nhint: --review {first} shows one" in shown.err.replace(
        "; ", "\nhint: "
    )
    assert user.run("review", "show", trial, code=0).out == shown.out
    assert user.run("review", "show", user.home / "out", code=0).out == shown.out
    assert user.run("review", "show", other, code=0).lines[0].startswith(f"Review {first} by")
    named = user.run("review", "show", job, "--review", first, code=0)
    assert named.out == user.run("review", "show", other, code=0).out
    assert "2 of 2 trials reviewed" in named.out
    by_folder = user.run("review", "show", job / "reviews" / first, "--json", code=0)
    assert json.loads(by_folder.out)["review"] == first
    assert "no job" in user.run("review", "show", "nowhere", code=2).err


def test_what_is_wrong_with_a_review_is_told_at_once(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """Each with what to do, before anything is written."""
    job = user.job(make_task().name)
    agent = reviewer()
    rubric = user.home / "r.json"
    for given, said in (
        ('{"criteria": [{"name": "a", "description": "b", "guidence": "c"}]}', "2 faults in"),
        ('{"criteria": [{"id": "a", "match_criteria": "c"}]}', "this is a judge's rubric"),
        ('{"criteria": []}', "hint: a criterion is exactly three texts"),
    ):
        rubric.write_text(given)
        assert said in user.run("review", "run", job, "--agent", agent, "-r", rubric, code=2).err
    for words, said in (
        (("--agent", agent, "--tasks-root", "nowhere"), "nowhere: --tasks-root: there is no such"),
        (("--agent", "oracle"), "name a reviewer"),
        (("--agent", "nobody"), "there is no such agent"),
        (("--agent", agent, "--passing", "--failing"), "not both"),
    ):
        assert said in user.run("review", "run", job, *words, code=2).err
    ran = user.run("review", "run", job, "--agent", agent, "--failing", code=2)
    assert "of 1 finished trials none is chosen by --failing" in ran.err
    assert not (job / "reviews").exists()
    report = review(user, job, agent)
    own = report["trials"][0]["reviewer_rollout"].rpartition("/")[2]
    ran = user.run("review", "run", own, "--agent", agent, code=2)
    assert "is a reviewer's own run" in ran.err


def test_a_reviewers_own_run_is_shown_and_not_regraded(
    user: User, make_task: MakeTask, reviewer: MakeReviewer
) -> None:
    """It has a review in place of a job: its verdict and files are shown, those of one that was
    killed too, and no regrade takes it for a trial."""
    make_task("t", folder=user.home / "tasks")
    job = user.job("tasks")
    review(user, job, reviewer())
    [begun] = [started for started in logged(user, "TrialStarted") if started.get("review")]
    run = begun["trial"]
    shown = user.run("show", run, code=0).out
    assert f"of review {begun['review']}" in shown
    assert re.search(rf"Files: \S+/runtime/\S+/{run}/ \(result.json, ", shown)
    assert json.loads(user.run("show", run, "--json", code=0).out)["trial_name"] == run
    assert "a reviewer's own run" in user.run("regrade", run, code=2).err
