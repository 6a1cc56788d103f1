"""`trialog regrade` as a user has it, on both sandboxes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.terminal import until

if TYPE_CHECKING:
    from conftest import MakeTask, Ran, User

IMAGE = os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base:latest")

LENIENT = (
    'echo 0 > /logs/verifier/reward.txt\n[ -s answer.txt ] && echo 1 > "$TRIALOG_REWARD_TEXT"\n'
)
STRICT = LENIENT.replace("-s answer.txt", '"$(cat answer.txt)" = 42')
WRONG = "echo 41 > answer.txt\n"


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ]
)
def options(request: pytest.FixtureRequest) -> list[str]:
    """The options that choose each sandbox in turn."""
    if request.param == "docker":
        return ["--sandbox", "docker", "--image", IMAGE]
    return ["--sandbox", "bubblewrap"]


def run_job(user: User, *words: str) -> str:
    """Run a job; its folder as it was printed."""
    ran = user.run("run", "t", *words)
    (line,) = [line for line in ran.lines if line.startswith("Job folder: ")]
    return line.removeprefix("Job folder: ")


def files_of(user: User, job: str) -> dict[str, bytes]:
    """Every file of a job but those of regrades."""
    folder = user.home / job
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("regrade")
    }


def everything(user: User) -> dict[str, bytes | None]:
    """The log, the blobs and every file and folder beside them, but locks and readers' marks."""
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in (user.home / "jobs").rglob("*")
        if path.suffix != ".lock"
        and not path.name.endswith("-shm")
        and (not path.name.endswith("-wal") or path.stat().st_size)
    }


def summary_of(user: User, job: str) -> dict[str, Any]:
    """The content of regrade-summary.json."""
    return json.loads((user.home / job / "regrade-summary.json").read_bytes())


def mend(user: User, test: str) -> None:
    """Write the task's test anew."""
    (user.home / "t" / "verifier" / "test.sh").write_text(test)


def test_a_lenient_test_is_mended(user: User, make_task: MakeTask, options: list[str]) -> None:
    """The table, the line, the files; and the original's bytes stay."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, *options)
    before = files_of(user, job)
    mend(user, STRICT)
    ran = user.run("regrade", job, "--reason", "took any answer", code=0)
    (trial,) = [path.name for path in (user.home / job).glob("t__*")]
    id = summary_of(user, job)["regrade_id"]
    wide = len(trial) + 2
    assert ran.lines == [
        f"{'Regrade ' + id:^{wide + 32}}".rstrip(),
        f"┏{'━' * wide}┳━━━━━━━━━━┳━━━━━┳━━━━━━━━━━━━┓",
        f"┃ {'Trial':<{wide - 1}}┃ Original ┃ New ┃ Verdict    ┃",
        f"┡{'━' * wide}╇━━━━━━━━━━╇━━━━━╇━━━━━━━━━━━━┩",
        f"│ {trial} │ 1        │ 0   │ pass->fail │",
        f"└{'─' * wide}┴──────────┴─────┴────────────┘",
        "1/1 regraded, 1 changed (0 fail->pass, 1 pass->fail), 0 failed, 0 not regradable. "
        f"Summary: {job}/regrade-summary.json",
    ]
    assert files_of(user, job) == before
    regrade = json.loads((user.home / job / trial / "regrade.json").read_bytes())
    assert (regrade["original"]["reward"], regrade["new"]["reward"]) == (1.0, 0.0)
    assert regrade["reason"] == "took any answer"
    user.run("rebuild", job, "--check", code=0)
    assert user.run("regrade", trial, "--as-of-run", code=0).lines[-1].startswith("1/1 regraded, 0")
    assert files_of(user, job) == before
    assert "regrade" in user.run("replay", trial, code=0).out
    shown = user.run("show", trial, code=0).out
    assert f"regraded: pass->fail, reward 0 ({regrade['regrade_id']}, 1 other)" in shown, (
        "a check of stability took the mended verdict's place"
    )


def test_the_workspace_comes_back_whole(
    user: User, make_task: MakeTask, options: list[str]
) -> None:
    """Modes, times, links and odd names are as the agent left them, and so are artifacts."""
    solve = (
        "mkdir -p deep; echo x > 'deep/odd\nname'; chmod 640 deep/odd*; ln -s ../out deep/link\n"
        "touch -d @1000000000 deep/odd*; ln deep/odd* deep/twin; chmod 711 deep\n"
        "echo kept > /logs/artifacts/report.txt\n"
    )
    look = (
        "stat -c '%n %a %Y %h %F' deep deep/* | sort; readlink deep/link; "
        "cat /logs/artifacts/report.txt\n"
    )
    make_task("t", test=f"({look}) | cksum\necho 1 > $TRIALOG_REWARD_TEXT\n", solve=solve)
    job = run_job(user, *options)
    (trial,) = [path.name for path in (user.home / job).glob("t__*")]
    printed = user.run("logs", trial, "--verifier", code=0).out
    assert printed.split()[1] > "100"
    user.run("regrade", job, code=0)
    assert user.run("logs", trial, "--regrade", code=0).out == printed


def test_killed_and_resumed(user: User, make_task: MakeTask, options: list[str]) -> None:
    """After kill -9 in the middle no file of the regrade is there; `--resume` ends it."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, "-k", "3", *options)
    before = files_of(user, job)
    mend(user, GATED)
    process = begin(user, job)
    home = user.home
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not list((home / job).rglob("regrade*.json"))
    user.run("rebuild", job, "--check", code=0)
    ran = user.run("regrade", job, "--resume", code=0)
    assert "3/3 regraded, 3 changed (0 fail->pass, 3 pass->fail)" in ran.lines[-1]
    assert files_of(user, job) == before
    user.run("rebuild", job, "--check", code=0)
    refused = user.run("regrade", job, "--resume", code=2)
    assert "none to resume" in refused.err


GATED = STRICT + '[ -n "$GATE" ] && { echo at the gate; sleep 300; }\nexit 0\n'


def begin(user: User, job: str, *words: str) -> subprocess.Popen[str]:
    """Start a regrade whose test stops at a gate, and wait until it does."""
    words = ("-n", "1", "--verifier-env", "GATE=closed", *words)
    process = user.start("regrade", job, *words, start_new_session=True)

    def at_the_gate() -> bool:
        logs = (user.home / "jobs").glob(".scratch/*/*/*/verifier.log")
        return any("at the gate" in log.read_text() for log in logs)

    until(at_the_gate, "the gate")
    return process


@pytest.mark.docker
@pytest.mark.bubblewrap
def test_a_resume_keeps_to_the_sandbox(user: User, make_task: MakeTask) -> None:
    """What was begun in another kind of sandbox than the run's goes on in that."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, "--sandbox", "bubblewrap")
    mend(user, GATED)
    process = begin(user, job, "--sandbox", "docker", "--image", IMAGE)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    ran = user.run("regrade", job, "--resume", code=0)
    assert "1 changed (0 fail->pass, 1 pass->fail)" in ran.lines[-1]
    assert "the run's sandbox was bubblewrap, this one is docker" in ran.out + ran.err


@pytest.mark.bubblewrap
def test_interrupted(user: User, make_task: MakeTask) -> None:
    """Ctrl-C says how it goes on, leaves nothing running, and is no regrade that holds."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, "--sandbox", "bubblewrap")
    mend(user, GATED)
    process = begin(user, job)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"trialog regrade jobs/{Path(job).name} --resume" in said
    assert not list((user.home / job).rglob("regrade*.json"))
    ran = user.run("regrade", job, "--resume", code=0)
    assert "goes on" in ran.err
    assert "1/1 regraded, 1 changed (0 fail->pass, 1 pass->fail)" in ran.lines[-1]


@pytest.mark.bubblewrap
def test_two_at_once(user: User, make_task: MakeTask) -> None:
    """A second regrade of a job is refused while one runs, and so is a resume of the job."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, "--sandbox", "bubblewrap")
    mend(user, GATED)
    process = begin(user, job)
    for words in (("regrade", job), ("regrade", job, "--resume"), ("resume", job)):
        assert f"is run by process {process.pid}" in user.run(*words, code=2).err
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


@pytest.mark.bubblewrap
def test_a_dry_run(user: User, make_task: MakeTask) -> None:
    """It says what would be done, and appends nothing."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, "--sandbox", "bubblewrap")
    before = everything(user)
    ran = user.run("regrade", job, "--dry-run", code=0)
    assert ran.lines[0].startswith("would regrade  t__")
    assert ran.lines[-1] == "1 of 1 trial would be regraded; nothing was done"
    assert everything(user) == before
    assert "test.sh is as in the run (" in ran.err
    mend(user, GATED)
    assert "test.sh changed since the run: " in user.run("regrade", job, "--dry-run", code=0).err
    told = user.run("regrade", job, "--dry-run", "--json", code=0)
    digests = json.loads(told.lines[0])["verifiers"]["test.sh"]
    assert digests["run"] != digests["now"]
    refused = user.run("regrade", job, "--dry-run", "--resume", code=2)
    assert "none to resume" in refused.err


@pytest.mark.bubblewrap
def test_what_a_regrade_has_left_to_do(user: User, make_task: MakeTask) -> None:
    """`show` names a regrade that is cut off; `--resume --dry-run` tells what is left of it."""
    tasks = [make_task(n, test=LENIENT, solve=WRONG, folder=user.home / "t") for n in "abc"]
    job = run_job(user, "--sandbox", "bubblewrap")
    for task, test in zip(tasks, (STRICT, GATED, GATED), strict=True):
        (task / "verifier" / "test.sh").write_text(test)
    process = begin(user, job)
    (told,) = user.run("show", job, "--json", code=0).objects
    shown = f"Regrade {told['unfinished_regrade']}: "
    assert f"{shown}running" in user.run("show", job, code=0).lines
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    goes_on = f"{shown}cut off; `trialog regrade {job} --resume` goes on"
    assert goes_on in user.run("show", job, code=0).lines
    before = everything(user)
    ran = user.run("regrade", job, "--resume", "--dry-run", code=0)
    assert [line.split("__")[0] for line in ran.lines[:-1]] == [
        "would regrade  b", "would regrade  c",
    ]  # fmt: skip
    assert ran.lines[-1] == "2 of 3 trials would be regraded, 1 has its answer; nothing was done"
    anew = user.run("regrade", job, "--dry-run", code=0)
    assert anew.lines[-1] == "3 of 3 trials would be regraded; nothing was done"
    assert "was cut off and would be given up" in anew.err
    assert everything(user) == before
    user.run("regrade", job, "--resume", code=0)
    assert not any(line.startswith(shown + "cut off") for line in user.run("show", job).lines)


@pytest.mark.bubblewrap
def test_what_contradicts_itself_is_refused(user: User, make_task: MakeTask) -> None:
    """Options that can't both hold are usage errors, and nothing is appended."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, "--sandbox", "bubblewrap")
    for words in (
        ("--as-of-run", "--tasks-root", "."), ("--as-of-run", "--call-models"),
        ("--resume", "--reason", "x"), ("-n", "0"), ("--include", "x*"),
        ("--tasks-root", "nowhere"),
    ):  # fmt: skip
        assert user.run("regrade", job, *words).code == 2
    assert user.run("regrade", "nobody").code == 2


@pytest.mark.bubblewrap
def test_reverify(user: User, make_task: MakeTask) -> None:
    """A 0 that the engine gave is graded again by the job's own test; one that it wrote is not."""
    flaky = '[ -n "$WELL" ] && echo 1 > "$TRIALOG_REWARD_TEXT"\nexit 0\n'
    make_task("t", test=flaky)
    job = run_job(user, "--sandbox", "bubblewrap")
    before = files_of(user, job)
    assert "would regrade" in user.run("resume", job, "--reverify", "--dry-run", code=0).out
    ran = user.run("resume", job, "--reverify", "--verifier-env", "WELL=1", code=0)
    assert "1/1 regraded, 1 changed (1 fail->pass, 0 pass->fail)" in ran.lines[-1]
    assert summary_of(user, job)["reason"].startswith("reverify: ")
    assert files_of(user, job) == before
    assert "nothing is left to do" in user.run("resume", job, "--reverify", code=0).out


@pytest.mark.bubblewrap
def test_json(user: User, make_task: MakeTask) -> None:
    """With --json a program gets each trial, then the summary."""
    make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, "--sandbox", "bubblewrap")
    mend(user, STRICT)
    ran: Ran = user.run("regrade", job, "--json", code=0)
    assert [one["report"] for one in ran.objects] == ["trial", "regrade"]
    assert ran.objects[0]["verdict"] == "pass->fail"
    assert ran.objects[1]["summary"] == summary_of(user, job)


def test_a_task_that_is_gone(user: User, make_task: MakeTask, options: list[str]) -> None:
    """Not regradable says why; --as-of-run needs no folder."""
    task = make_task("t", test=LENIENT, solve=WRONG)
    job = run_job(user, *options)
    task.rename(Path(task.parent, "moved"))
    planned = user.run("regrade", job, "--dry-run", code=1)
    assert "0 of 1 trial would be regraded; nothing was done" in planned.lines
    ran = user.run("regrade", job, code=1)
    assert "0/1 regraded, 0 changed (0 fail->pass, 0 pass->fail), 0 failed, 1 not regradable" in (
        ran.out
    )
    assert "not regradable: there is no task in" in ran.out
    user.run("regrade", job, "--as-of-run", code=0)


PYTEST = """\
cat answer.txt
cmp guess.txt "$TRIALOG_VERIFIER_DIR/expected.txt" && echo the guess is right
if "$TRIALOG_PYTEST" -q "$TRIALOG_VERIFIER_DIR/test_answer.py"
then echo 1 > "$TRIALOG_REWARD_TEXT"; else echo 0 > "$TRIALOG_REWARD_TEXT"; fi
"""
ANSWER = """\
from pathlib import Path

def test_answer():
    assert Path("answer.txt").read_text() == "42\\n"
"""
STEERS = """\
cat > conftest.py <<'PY'
def pytest_pyfunc_call(pyfuncitem): return True
PY
ln -s /verifier/expected.txt guess.txt
printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini
echo 1 > /logs/verifier/reward.txt
(while sleep 0.01; do echo 1 > /logs/verifier/reward.txt; done) >/dev/null 2>&1 &
"""


@pytest.mark.parametrize(("answer", "reward"), [("41", 0.0), ("42", 1.0)])
def test_nothing_of_the_agents_steers_a_regrade(
    user: User, make_task: MakeTask, options: list[str], answer: str, reward: float
) -> None:
    """A saved workspace with a conftest and settings for pytest is graded by the test alone.

    A link to the expected answer is taken away, and told. The wrong answer fails and the right one
    passes, beside the same files.
    """
    task = make_task("t", test=LENIENT, solve=f"echo {answer} > answer.txt\n{STEERS}")
    job = run_job(user, *options)
    (task / "verifier" / "test_answer.py").write_text(ANSWER)
    (task / "verifier" / "expected.txt").write_text("42\n")
    mend(user, PYTEST)
    user.run("regrade", job, code=0)
    (trial,) = [path.name for path in (user.home / job).glob("t__*")]
    regrade = json.loads((user.home / job / trial / "regrade.json").read_bytes())
    assert regrade["new"]["reward"] == reward
    printed = user.run("logs", trial, "--regrade", code=0).out
    assert f"{answer}\n" in printed  # it is the agent's workspace that was graded
    assert "the guess is right" not in printed
    assert "guess.txt" in json.dumps(regrade["warnings"])
