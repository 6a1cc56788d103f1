"""Every other command, on jobs that were run on bubblewrap."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from trialog.events.codes import CATEGORIES, WARNINGS

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
TRIALOG = Path(sys.executable).with_name("trialog")
BWRAP = ("--sandbox", "bubblewrap")


def files_of(folder: Path) -> dict[str, str]:
    """Path → SHA-256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_deleted_job_comes_back(user: User, make_task: MakeTask) -> None:
    """Delete the job's folder: by id or path, every byte is back."""
    make_task("t")
    folder = user.job("t")
    before = files_of(folder)
    assert len(before) >= 5
    for name in (folder.name, f"jobs/{folder.name}", str(folder)):
        shutil.rmtree(folder)
        missing = user.run("rebuild", name, "--check", code=1)
        assert sum(line.startswith("missing: ") for line in missing.lines) == len(before)
        assert f"error: jobs/{folder.name}: {len(before)} files are not as the log" in missing.err
        assert not folder.exists()
        user.run("rebuild", name, code=0)
        assert files_of(folder) == before
        user.run("rebuild", name, "--check", code=0)


def test_rebuild_check_finds_changes(user: User, make_task: MakeTask) -> None:
    """--check lists a changed file and exits with 1; JSON says the same."""
    make_task("t")
    folder = user.job("t")
    result = next(folder.glob("*/result.json"))
    result.write_text(result.read_text().replace("1.0", "0.5"))
    ran = user.run("rebuild", folder, "--check", code=1)
    assert ran.lines == [f"differs: {result.relative_to(folder)}"]
    [found] = user.run("rebuild", folder, "--check", "--json", code=1).objects
    assert (found["what"], found["path"]) == ("differs", str(result.relative_to(folder)))
    [told] = user.run("rebuild", folder, "--json", code=0).objects
    assert (told["written"], told["problems"]) == (1, [])


def test_rebuild_at_a_position(user: User, make_task: MakeTask) -> None:
    """--at gives the files as they stood; a position that the log lacks is refused."""
    make_task("t")
    folder = user.job("t")
    last = max(e["position"] for e in user.run("replay", "t__", "--json", code=0).objects)
    user.run("rebuild", folder, "--at", 5, "--out", "then", code=0)
    names = [path.name for path in (user.home / "then").rglob("*") if path.is_file()]
    assert "result.json" not in names
    assert "summary.json" in names
    user.run("rebuild", folder, "--at", last, "--out", "now", code=0)
    assert next((user.home / "now").glob("*/result.json")).read_bytes()
    ran = user.run("rebuild", folder, "--at", 10**6, "--out", "never", code=2)
    assert "--at: the log ends at position" in ran.err
    ran = user.run("rebuild", folder, "--at", 5, "--out", "then")
    assert ran.code != 0
    assert "is not empty" in ran.err


def test_show_a_job(user: User, make_task: MakeTask) -> None:
    """show JOB: outcomes, figures, warnings and where things are; JSON has the summary."""
    make_task("tasks/good")
    make_task("tasks/silent", test="exit 3\n")
    folder = user.job("tasks", "-n", 1)
    ran = user.run("show", folder.name, code=0)
    assert ran.lines[0] == f"Job {folder.name}: finished"
    assert any(re.fullmatch(r"\[PASS\] good \(.*\) good__[0-9a-f]+", line) for line in ran.lines)
    assert any(line.startswith("[FAIL] silent (reward=0.00, tools=0) ") for line in ran.lines)
    [warning] = [line for line in ran.lines if line.startswith("warning: ")]
    assert re.search(r"Verifier scored 0: verifier exited with rc=3; no reward file", warning)
    assert f"Job folder: jobs/{folder.name}" in ran.lines
    assert ran.lines[-1] == "Log: jobs/trialog.db"
    [shown] = user.run("show", folder, "--json", code=0).objects
    assert shown["summary"]["counts"]["passed"] == 1
    assert [trial["task"] for trial in shown["trials"]] == ["good", "silent"]
    shutil.rmtree(folder)
    assert (
        f"not there; `trialog rebuild jobs/{folder.name}`" in user.run("show", folder, code=0).out
    )


def test_show_a_trial(user: User, make_task: MakeTask, agent_program: Callable[[str], str]) -> None:
    """show TRIAL: verdict, errors, warnings, tamper, times and files; JSON is result.json."""
    make_task("t", test="echo 0.5 > /logs/verifier/reward.txt\n")
    agent = agent_program("echo 1 > /logs/verifier/reward.txt; exit 3")
    folder = user.job("t", "-a", agent)
    [trial] = [path.name for path in folder.iterdir() if path.is_dir()]
    for name in (trial, "t__", f"jobs/{folder.name}/{trial}"):
        ran = user.run("show", name, code=0)
        assert ran.lines[0] == "[FAIL] t (reward=0.50, tools=0) (agent exited with code 3)"
        assert any(line.startswith("  error (agent_exit): ") for line in ran.lines)
        assert any(line.startswith("  tamper: /logs/verifier/reward.txt") for line in ran.lines)
        assert any("result.json" in line for line in ran.lines)
    [shown] = user.run("show", trial, "--json", code=0).objects
    assert shown["rewards"] == {"reward": 0.5}
    assert shown["folder"] == str(folder) + "/" + trial


def test_exports_for_other_programs(user: User, make_task: MakeTask) -> None:
    """export: a report of a job, the trace of a trial, tables in a folder, the log's events."""
    make_task("tasks/good")
    make_task("tasks/silent", test="exit 3\n")
    folder = user.job("tasks", "-n", 1)
    user.run("export", folder, "--format", "junit", "--out", "report.xml", code=0)
    report = ElementTree.parse(user.home / "report.xml").getroot()
    assert ("2", "1", "0") == tuple(report.attrib[k] for k in ("tests", "failures", "errors"))
    (failure,) = report.iter("failure")
    assert "the engine gave the reward" in failure.attrib["message"]

    trial = next(path.name for path in folder.iterdir() if path.name.startswith("good__"))
    (trace,) = user.run("export", trial, "--format", "otel", code=0).objects
    (spans,) = trace["resourceSpans"][0]["scopeSpans"]
    names = [span["name"] for span in spans["spans"]]
    assert ["trial good", "sandbox start", "invoke_agent oracle"] == names[:3]

    user.run("export", folder.name, "--format", "parquet", "--out", "tables", code=0)
    assert {"trials.parquet", "steps.parquet", "rewards.parquet", "verdicts.parquet"} == {
        path.name for path in (user.home / "tables").iterdir()
    }
    events = user.run("export", folder.name, "--format", "events", code=0).objects
    assert list(range(1, len(events) + 1)) == sorted(event["position"] for event in events)
    wrong = user.run("export", folder.name, "--format", "csv", code=2)
    assert "parquet" in wrong.err


def test_list_of_jobs(user: User, make_task: MakeTask) -> None:
    """jobs: one line a job with size, date and rate; none yet is said."""
    make_task("t")
    assert "there is no log at" in user.run("jobs", code=2).err
    folder = user.job("t", "-a", "oracle", "-a", "nop")
    head, line = user.run("jobs", code=0).lines
    assert head.split()[:2] == ["JOB", "STARTED"]
    assert line.startswith(folder.name)
    assert "1/2 (50.0%)" in line
    [found] = user.run("jobs", "--json", code=0).objects
    assert (found["slots"], found["pass_rate"]["value"]) == (2, 0.5)


def test_replay(user: User, make_task: MakeTask) -> None:
    """replay: every event in order; up to a version; as JSON; a finished trial ends --follow."""
    make_task("t")
    user.job("t")
    whole = user.run("replay", "t__", code=0).lines
    assert [int(line.split()[0]) for line in whole] == list(range(1, len(whole) + 1))
    assert "TrialStarted" in whole[0]
    assert any("TrialFinished" in line for line in whole)
    assert user.run("replay", "t__", "--at", 3, code=0).lines == whole[:3]
    events = user.run("replay", "t__", "--json", code=0).objects
    assert [event["version"] for event in events] == list(range(1, len(whole) + 1))
    assert events[0]["data"]["kind"] == "TrialStarted"
    followed = user.run("replay", "t__", "--follow", code=0).lines
    assert "TrialFinished" in followed[-1] or "TrialFinished" in followed[-2]


def test_at_once(user: User, make_task: MakeTask, agent_program: Callable[[str], str]) -> None:
    """On one log at once: a job runs, is followed, is listened to, and is rebuilt."""
    make_task("t")
    agent = agent_program(
        "echo one; touch up; until [ -e go ]; do sleep 0.05; done; echo two; echo 42 > answer.txt"
    )
    running = user.start("run", "t", "-a", agent, *BWRAP)
    try:
        while not (listed := user.run("jobs", "--json").objects if _log(user) else []):
            assert running.poll() is None
        while not (found := user.run("show", listed[0]["job"], "--json", code=0).objects)[0][
            "open"
        ]:
            assert running.poll() is None
        [trial] = found[0]["open"]
        follower = user.start("replay", trial, "--follow")
        listener = user.start("logs", "--follow", trial)
        rebuilt = [user.run("rebuild", listed[0]["job"], code=0) for _ in range(3)]
        assert rebuilt
        assert user.run("logs", trial, code=0).out == "one\n"
        [up] = (user.home / "jobs/.scratch").glob("**/up")
        up.with_name("go").touch()
        out, _ = follower.communicate(timeout=60)
        heard, _ = listener.communicate(timeout=60)
        told, err = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            running.kill()
            running.communicate()
    assert running.returncode == 0, err
    assert "[PASS] t (reward=1.00, tools=0)" in told
    versions = [int(line.split()[0]) for line in out.splitlines()]
    assert versions == list(range(1, len(versions) + 1))
    assert "TrialFinished" in out
    assert heard == "one\ntwo\n"
    user.run("rebuild", listed[0]["job"], "--check", code=0)


def _log(user: User) -> bool:
    return (user.home / "jobs/trialog.db").exists()


def test_explain(user: User) -> None:
    """explain lists every category and code; one word is explained with what to do."""
    ran = user.run("explain", code=0)
    assert [line.split()[0] for line in ran.lines] == [*sorted(CATEGORIES), *sorted(WARNINGS)]
    one = user.run("explain", "agent-timeout", code=0)
    assert one.lines[0] == "agent_timeout (category of errors)"
    assert one.lines[-1].startswith("  next:    ")
    assert len(user.run("explain", "--json", code=0).objects) == len(CATEGORIES) + len(WARNINGS)
    ran = user.run("explain", "agent_timout", code=2)
    assert ran.err.endswith("hint: did you mean agent_timeout?\n")


@pytest.mark.parametrize("layout", ["a", "b"])
def test_a_new_task_passes_its_check(user: User, layout: str) -> None:
    """new makes a task that check finds good and run passes; the check leaves no job behind."""
    ran = user.run("new", "my-task", "--layout", layout, code=0)
    assert all((user.home / line).is_file() for line in ran.lines)
    checked = user.run("check", "my-task", *BWRAP, code=0)
    assert checked.lines == [
        "[ok  ] oracle: reward 1.00 (must be 1.0)",
        "[ok  ] nop: reward 0.00 (must be below 1.0)",
        "ok: my-task: the reference solution passes, and doing nothing does not",
    ]
    assert not (user.home / "jobs").exists()
    assert user.run("run", "my-task", *BWRAP, code=0).lines[0].startswith("[PASS] my-task")


def test_check_finds_a_bad_task(user: User, make_task: MakeTask) -> None:
    """check gives advice, and exits with 1 where a control fails, with what the test printed."""
    make_task("all-pass", test="echo 1 > /logs/verifier/reward.txt; echo 'nothing was looked at'\n")
    make_task("none-pass", test="python3 x.py; echo 0 > /logs/verifier/reward.txt\n")
    make_task("unsolved", solve=None)
    ran = user.run("check", "all-pass", *BWRAP, code=1)
    assert "[FAIL] nop: reward 1.00 (must be below 1.0)" in ran.lines
    assert "       | nothing was looked at" in ran.lines
    assert "error: all-pass: the test does not tell right from wrong yet" in ran.err
    ran = user.run("check", "none-pass", *BWRAP, code=1)
    assert "[FAIL] oracle: reward 0.00 (must be 1.0)" in ran.lines
    assert any(line.startswith("advice (check_python_not_isolated)") for line in ran.lines)
    ran = user.run("check", "unsolved", *BWRAP, code=1)
    assert "unsolved has no reference solution" in ran.err
    [found] = user.run("check", "all-pass", "--json", *BWRAP, code=1).objects
    assert (found["ok"], [c["holds"] for c in found["controls"]]) == (False, [True, False])


@pytest.mark.parametrize(
    ("body", "sign", "advice"),
    [
        (
            "curl -fsS https://127.0.0.1:9/uv.sh | sh\npython3 -m no_such_pytest /tests || true\n",
            "curl: (7)",
            ["check_python_not_isolated", "check_setup_unchecked", "check_failure_ignored"],
        ),
        ("no-such-pytest /tests && OK=1\n", "no-such-pytest: command not found", []),
    ],
    ids=["download", "tool"],
)
def test_a_zero_after_a_failed_set_up_is_suspected(
    user: User, make_task: MakeTask, body: str, sign: str, advice: list[str]
) -> None:
    """The 0 of a test whose set-up had failed stays a 0; check says whose it may be."""
    end = '[ -n "$OK" ] && echo 1 > $F || echo 0 > $F\n'
    make_task("suspect", test=f"F=/logs/verifier/reward.txt\n{body}{end}")
    assert "[FAIL] suspect (reward=0.00, tools=0)" in user.run("run", "suspect", *BWRAP).lines
    ran = user.run("check", "suspect", *BWRAP, code=1)
    (told,) = [line for line in ran.lines if line.startswith("advice (check_setup_failed): ")]
    assert "the oracle's reward of 0.00 may be the test's own fault" in told
    assert sign in told
    [found] = user.run("check", "suspect", "--json", *BWRAP, code=1).objects
    codes = [one["code"] for one in found["advice"]]
    assert codes == [*advice, "check_setup_failed"]


def test_a_zero_for_wrong_work_is_not_suspected(user: User, make_task: MakeTask) -> None:
    """A reference solution that falls short for its work says nothing of the test's set-up."""
    make_task("honest", test="cat none.txt; echo 0 > /logs/verifier/reward.txt\n")
    ran = user.run("check", "honest", *BWRAP, code=1)
    assert "       | cat: none.txt: No such file or directory" in ran.lines
    assert not any("check_setup_failed" in line for line in ran.lines)


def test_a_check_looks_behind_the_files(user: User, make_task: MakeTask) -> None:
    """A lost workspace and a changed event are named, and nobody is told that a rebuild helps."""
    make_task("t", solve="head -c 300000 /dev/urandom > noise; echo 42 > answer.txt\n")
    folder = user.job("t")
    archive = max(
        (user.home / "jobs/blobs/sha256").glob("*/*"), key=lambda path: path.stat().st_size
    )
    archive.rename(archive.with_name("gone"))
    ran = user.run("rebuild", folder, "--check", code=1)
    [line] = ran.lines
    assert line.startswith(f"blob: sha256:{archive.name} (")
    assert "named by WorkspaceSaved, stream 'trial/t__" in line
    assert "1 place in the log or its blobs is not as written\nhint: nothing can make" in ran.err
    assert "writes them again" not in ran.err

    os.mkfifo(archive)
    assert "a FIFO" in user.run("rebuild", folder, "--check", code=1).lines[0]
    archive.unlink()
    archive.with_name("gone").rename(archive)
    user.run("rebuild", folder, "--check", code=0)

    with sqlite3.connect(user.home / "jobs/trialog.db") as db:
        db.execute("DROP TRIGGER events_are_never_changed")
        db.execute(
            "UPDATE events SET at = '2030-01-01T00:00:00.000000Z' WHERE kind = 'TrialScored'"
        )
    db.close()
    ran = user.run("rebuild", folder, "--check", "--json", code=1)
    assert ran.objects[0]["what"] == "altered"
    assert "'trial/t__" in ran.objects[0]["path"]
    assert "writes them again" not in ran.err
    ran = user.run("rebuild", folder, code=1)
    assert "the log was changed here" in ran.err


def test_a_check_whose_reader_goes_away(user: User, make_task: MakeTask) -> None:
    """What a check found is its exit code, whether or not anybody reads the lines."""
    make_task("t")
    folder = user.job("t")
    with sqlite3.connect(user.home / "jobs/trialog.db") as db:
        db.execute("DROP TRIGGER events_are_never_deleted")
        db.execute(
            "DELETE FROM events WHERE stream = (SELECT stream FROM events WHERE kind = "
            "'TrialFinished') AND version >= (SELECT version FROM events WHERE kind = "
            "'TrialFinished')"
        )
    db.close()
    ran = user.run("rebuild", folder, "--check", code=1)
    assert "ends before what JobFinished recorded: version " in ran.lines[0]
    assert "writes them again" not in ran.err
    summary = (folder / "summary.json").read_bytes()
    rebuilt = user.run("rebuild", folder, code=1).err
    assert "/result.json: stream 'trial/t__" in rebuilt
    assert rebuilt.splitlines()[-1].startswith("hint: what is there of them stays; `trialog ")
    assert (folder / "summary.json").read_bytes() == summary
    reading, writing = os.pipe()
    os.close(reading)
    try:
        unread = subprocess.run(
            [TRIALOG, "rebuild", folder, "--check"], cwd=user.home, env=user.env,
            stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (unread.returncode, unread.stderr) == (1, ran.err)


def test_a_current_folder_that_is_gone(user: User, tmp_path: Path) -> None:
    """Every command says that it is the current folder that is not there."""
    gone = tmp_path / "gone"
    gone.mkdir()
    ran = subprocess.run(
        ["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$2" jobs', "sh", gone, TRIALOG],
        capture_output=True, text=True, check=False, env=user.env,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        "error: the current folder is gone or can't be reached: No such file or directory",
        "hint: change to one that is there, and try again",
    ]


def test_clean_says_whose_things_it_removes(user: User) -> None:
    """A run removes only its own log's leftovers; the help of clean says that it goes further."""
    told = " ".join(user.run("clean", "--help", code=0).out.split())
    assert "removes only what its own log's engines left; this removes what any log's did" in told


def test_a_kept_sandbox(user: User, make_task: MakeTask) -> None:
    """--keep-sandbox leaves the sandbox, exec runs a program in it, clean removes it."""
    make_task("t")
    user.job("t", "--keep-sandbox")
    ran = user.run("exec", "t__", "--", "sh", "-c", "cat answer.txt; exit 7", code=7)
    assert ran.out == "42\n"
    user.run("run", "t", *BWRAP, code=0)  # another job's start leaves it alone
    kept = next((user.home / "jobs/.kept").iterdir()).name
    assert user.run("exec", kept, "--", "cat", "answer.txt", code=0).out == "42\n"
    ran = user.run("clean", *BWRAP, code=0)
    assert f"removed (bubblewrap): {kept}" in ran.lines
    assert f"removed (folder): .kept/{kept}" in ran.lines
    assert list((user.home / "jobs/.kept").iterdir()) == []
    ran = user.run("exec", kept, "--", "true")
    assert ran.code != 0
    assert ran.err.startswith("error: ")


def test_exec_needs_a_kept_sandbox(user: User, make_task: MakeTask) -> None:
    """exec on a trial whose sandbox is gone says how one is kept."""
    make_task("t")
    user.job("t")
    ran = user.run("exec", "t__", "--", "true", code=2)
    assert "the sandbox of trial t__" in ran.err
    assert "--keep-sandbox" in ran.err


def test_logs(user: User, make_task: MakeTask) -> None:
    """logs shows what agent or verifier printed."""
    make_task("t", solve="echo working; echo 42 > answer.txt\n")
    user.job("t")
    assert user.run("logs", "t__", code=0).out == "working\n"
    assert user.run("logs", "t__", "--verifier", code=0).out == "the answer was looked at\n"
    assert user.run("logs", "t__", "-f", code=0).out == "working\n"


def test_cancel_what_is_over(user: User, make_task: MakeTask) -> None:
    """Cancelling a finished job changes nothing."""
    make_task("t")
    folder = user.job("t")
    before = files_of(folder)
    assert user.run("cancel", folder, code=0).out == f"Job {folder.name}: 0 trials cancelled\n"
    assert files_of(folder) == before
    assert user.run("show", folder, code=0).lines[0] == f"Job {folder.name}: finished"
    assert user.run("cancel", folder, "--json").objects == [{"job": folder.name, "cancelled": 0}]


def test_a_hint_names_the_job_as_it_was_given(user: User, make_task: MakeTask) -> None:
    """Typed as it was printed, from a folder whose own log has no such job, it works."""
    job = user.job(make_task(), "--agent", "oracle")
    other = user.home.parent / "elsewhere"
    other.mkdir()
    shutil.rmtree(job)
    given = f"../{user.home.name}/jobs/{job.name}"
    for words in (["rebuild", given, "--check"], ["show", given]):
        ran = user.run(*words, cwd=other)
        hint = re.search(r"`trialog (rebuild [^`]*)`", ran.out + ran.err)
        assert hint is not None, ran
        user.run(*shlex.split(hint[1]), cwd=other, code=0)
        user.run("rebuild", given, "--check", cwd=other, code=0)
        shutil.rmtree(job)
