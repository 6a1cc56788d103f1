"""`trialog run` as a user has it, on bubblewrap."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

if TYPE_CHECKING:
    from conftest import MakeTask, User

pytestmark = pytest.mark.bubblewrap
BWRAP = ("--sandbox", "bubblewrap")
TRIALOG = Path(sys.executable).parent / "trialog"


def summary(folder: Path) -> dict[str, Any]:
    """The job's summary.json."""
    found: dict[str, Any] = msgspec.json.decode((folder / "summary.json").read_bytes())
    return found


def test_the_lines_of_a_job(user: User, make_task: MakeTask) -> None:
    """One line a trial and the summary, to the letter; exit code 0 when every trial is scored."""
    make_task("tasks/half-life")
    make_task("tasks/other", test="echo 0.6667 > /logs/verifier/reward.txt\n")
    ran = user.run("run", "tasks", "-n", 1, *BWRAP, code=0)
    lines = [re.sub(r"time=\d+\.\d", "time=0.0", line) for line in ran.lines]
    folder = lines[-1].removeprefix("Job folder: ")
    assert lines == [
        "[PASS] half-life (reward=1.00, tools=0)",
        "[FAIL] other (reward=0.67, tools=0)",
        "Job complete: 1/2 (50.0%), mean_reward=0.83, errors=0, idle_timeouts=0, time=0.0min",
        "Outcomes: 2 scored (1 passed, 1 failed), 0 unscored, 0 errored",
        "Pass rate 50.0% [9.5%, 90.5%], mean reward 0.83 [-1.28, 2.95] (95% intervals, n=2)",
        f"Job folder: {folder}",
    ]
    assert re.fullmatch(r"jobs/\d{4}-\d\d-\d\d__\d\d-\d\d-\d\d", folder)
    assert sorted(p.name for p in (user.home / folder).iterdir() if p.is_file()) == ["summary.json"]


def test_layout_b(user: User, make_task: MakeTask) -> None:
    """A task in the other layout runs unchanged, its scripts without a run bit."""
    make_task("b", layout="b")
    assert user.run("run", "b", *BWRAP, code=0).lines[0] == "[PASS] b (reward=1.00, tools=0)"


def test_errored_trials(user: User, make_task: MakeTask) -> None:
    """A trial that could not be run is an [ERR] line with its reason, counts as 0, exit code 1."""
    make_task("tasks/good")
    make_task("tasks/large", settings="sandbox: {storage_mb: 5}\n")
    ran = user.run("run", "tasks", "--strict-limits", *BWRAP, code=1)
    [line] = [line for line in ran.lines if line.startswith("[ERR]")]
    assert line.startswith("[ERR] large (tools=0) (--strict-limits: storage_mb: ")
    assert "Outcomes: 1 scored (1 passed, 0 failed), 0 unscored, 1 errored" in ran.lines
    assert any(line.startswith("Job complete: 1/2 (50.0%), mean_reward=0.50") for line in ran.lines)
    [group] = [line for line in ran.lines if line.startswith("  1 errored: ")]
    assert group.endswith("(limits_refused): large")
    assert "      next: lower the limits, or run without --strict-limits" in ran.lines


def test_json(user: User, make_task: MakeTask) -> None:
    """With --json every line of standard output is one object; people read standard error."""
    make_task("t")
    ran = user.run("run", "t", "--json", *BWRAP, code=0)
    kinds = [report["report"] for report in ran.objects]
    assert kinds[0] == "job-opened"
    assert {"trial-began", "trial-ended", "progress", "job-closed"} <= set(kinds)
    assert kinds[-1] == "summary"
    assert ran.objects[-1]["summary"]["counts"]["passed"] == 1
    assert "[PASS] t (reward=1.00, tools=0)" in ran.err


@pytest.mark.parametrize(("rate", "code"), [("0.5", 0), ("0.51", 1)])
def test_fail_under(user: User, make_task: MakeTask, rate: str, code: int) -> None:
    """--fail-under gives 1 below a pass rate, and says so."""
    make_task("t")
    ran = user.run("run", "t", "-a", "oracle", "-a", "nop", "--fail-under", rate, *BWRAP, code=code)
    assert ("error: the pass rate 50.0% is under 51.0%" in ran.err) == bool(code)


def test_matrix(user: User, make_task: MakeTask) -> None:
    """Tasks, agents and attempts are multiplied, and a line says which of several it is."""
    make_task("tasks/a")
    make_task("tasks/b")
    ran = user.run("run", "tasks", "-a", "oracle", "-a", "nop", "-k", 2, *BWRAP, code=0)
    trials = sorted(line for line in ran.lines if line.startswith("["))
    assert len(trials) == 8
    assert trials[0] == "[FAIL] a (reward=0.00, tools=0) agent=nop attempt=1"
    assert any(line.startswith("Job complete: 4/8 (50.0%)") for line in ran.lines)


def test_sweep_file(user: User, make_task: MakeTask) -> None:
    """A sweep file is the same matrix; the command line replaces what it names."""
    make_task("set/tasks/a")
    make_task("set/tasks/b")
    (user.home / "set/sweep.yaml").write_text("tasks: tasks\nagents: [oracle, nop]\nattempts: 5\n")
    folder = user.job("set/sweep.yaml", "-k", 1, "--exclude", "b")
    found = summary(folder)
    assert found["counts"]["slots"] == 2
    assert found["config"]["tasks"] == ["set/tasks"]


def test_choosing_tasks(user: User, make_task: MakeTask) -> None:
    """--include, --exclude and --limit choose from a folder of tasks."""
    for name in ("aa", "ab", "ba", "bb"):
        make_task(f"tasks/{name}")
    chosen = user.job(
        "tasks", "--include", "a*", "--include", "b*", "--exclude", "*b", "--limit", 9
    )
    assert set(summary(chosen)["by"]["task"]) == {"aa", "ba"}
    assert set(summary(user.job("tasks", "--limit", 1))["by"]["task"]) == {"aa"}
    ran = user.run("run", "tasks", "--include", "zz", *BWRAP, code=2)
    assert "no task is left of 4" in ran.err


def test_again_from_a_job(user: User, make_task: MakeTask) -> None:
    """run --from takes a job's configuration and tasks, by id or path, from any folder."""
    task = make_task("tasks/t")
    make_task("tasks/other")
    first = user.job("tasks", "--include", "t", "-a", "oracle", "-a", "nop", "--seed", 7)
    elsewhere = user.home / "else"
    elsewhere.mkdir()
    second = user.job("--from", first.name, "-k", 2, cwd=elsewhere)
    config = summary(second)["config"]
    assert (config["agents"], config["seed"], config["attempts"]) == (["oracle", "nop"], 7, 2)
    assert summary(second)["counts"]["slots"] == 4
    assert second.resolve().parent == first.parent
    (task / "verifier/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    ran = user.run("run", "--from", first, *BWRAP, code=0)
    assert f"warning: task t is not as it was in {first.name}" in ran.err


def test_variables_and_secrets(
    user: User, make_task: MakeTask, agent_program: Callable[[str], str]
) -> None:
    """--env-file and --agent-env reach the agent, the latter wins; secrets reach no file."""
    make_task("t", test="env; echo 1 > /logs/verifier/reward.txt\n")
    (user.home / "my.env").write_text("A=file\nB='from the file'\nMY_TOKEN=tok-in-the-file\n")
    folder = user.job(
        "t", "-a", agent_program("env"), "--env-file", "my.env", "--agent-env", "A=line",
        "--verifier-env", "V=verifier", "--secret", "PLAIN", "--agent-env", "PLAIN",
        env={"PLAIN": "plainly secret"},
    )  # fmt: skip
    ran = user.run("logs", "t__", code=0)
    assert {"A=line", "B=from the file", "MY_TOKEN=[redacted:MY_TOKEN]"} <= set(ran.lines)
    assert "PLAIN=[redacted:PLAIN]" in ran.lines
    verifier = user.run("logs", "--verifier", "t__", code=0)
    assert "V=verifier" in verifier.lines
    assert "A=line" not in verifier.lines
    for path in folder.parent.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"tok-in-the-file" not in data, path
            assert b"plainly secret" not in data, path


def test_secrets_reach_no_console(user: User, make_task: MakeTask) -> None:
    """A verifier that quotes a secret in what becomes a warning puts it on no console."""
    quotes = 'printf "{\\"reward\\": \\"$1\\"}" > /logs/verifier/reward.json\n'
    make_task(
        "t",
        test="set -- $JUDGE\n" + quotes,
        settings="verifier: {env: {JUDGE: '${HIDDEN}', OWN_KEY: '${OWN_KEY}'}}\n",
    )
    env = {"HIDDEN": "hidden-value-1", "OWN_KEY": "other-value-2"}
    for options in ((), ("--json",)):
        ran = user.run("run", "t", *options, *BWRAP, env=env, code=0)
        assert "[redacted:" in ran.out + ran.err
        assert "hidden-value-1" not in ran.out + ran.err
    assert "hidden-value-1" not in user.run("show", "t__").out


def test_hostile_text_is_spelled_out(user: User, make_task: MakeTask) -> None:
    """Names and values that a verifier writes can't control the terminal of whoever reads."""
    make_task(
        "t",
        test="""printf '{"reward": 1, "x\\u001b[2J": "t\\\\u001b]0;pwned\\\\u0007 [red]"}' """
        "> /logs/verifier/reward.json; printf '\\033[31mred\\n'\n",
    )
    ran = user.run("run", "t", *BWRAP)
    shown = [
        user.run(*words) for words in (("show", "t"), ("replay", "t"), ("logs", "t", "--verifier"))
    ]
    for one in (ran, *shown):
        assert "\x1b" not in one.out + one.err
        assert "\x07" not in one.out + one.err
    assert "\\x1b[31mred" in shown[2].out


@pytest.mark.bubblewrap
def test_all_refusals_are_told_at_once(user: User, make_task: MakeTask) -> None:
    """What can't be read and what the sandbox can't run are one list, and its hint is enough."""
    tasks = user.home / "tasks"
    make_task("broken", settings="agent: [1, 2\n", folder=tasks)
    make_task("of-a-user", settings="agent: {user: ann}\n", folder=tasks)
    make_task("good", folder=tasks)
    ran = user.run("run", "tasks", "--sandbox", "bubblewrap", code=2)
    assert ran.err.startswith("error: 2 of 3 tasks can't be used\n")
    for part in ("broken/task.md", "task of-a-user wants user 'ann'"):
        assert part in ran.err
    hint = ran.err.splitlines()[-1].removeprefix("hint: run the others with ")
    assert hint == "--exclude broken --exclude of-a-user"
    user.run("run", "tasks", "--sandbox", "bubblewrap", *hint.split(), code=0)


USAGE = [
    (["run"], "no task was given"),
    (["run", "t", "--atempts", "2"], "no such option: --atempts (Possible options:"),
    (["run", "no-such-task"], "no-such-task"),
    (["run", "t", "-a", "orcale"], "--agent: unknown agent 'orcale'"),
    (["run", "t", "-k", "0"], "attempts: must be at least 1, found 0"),
    (["run", "t", "-k", "two"], "invalid value for '-k' / '--attempts'"),
    (["run", "t", "--sandbox", "chroot"], "'chroot' is not one of 'auto', 'docker', 'bubblewrap'"),
    (["run", "t", "--fail-under", "2"], "--fail-under"),
    (["run", "t", "--env-file", "no.env"], "no.env: there is no such file"),
    (["run", "t", "--agent-env", "1=2"], "--agent-env"),
    (["run", "t", "--secret", "NOT_SET_ANYWHERE"], "--secret: NOT_SET_ANYWHERE is not set"),
    (["run", "t", "--log", "x", "--jobs-dir", "y"], "give --log or --jobs-dir, not both"),
    (["run", "t", "--from", "no-such-job"], "there is no log at"),
    (["run", "broken-a", "broken-b"], "2 of 2 tasks can't be used\n  "),
    (["run", "broken.yaml"], "broken.yaml: agnets: unknown setting"),
    (["run", "broken-a"], "task.md"),
    (["run", "broken-b"], "task.toml"),
    (["run", "empty"], "neither a task"),
    (["resume", "no-such-job"], "there is no log at"),
    (["resume", "x", "--only", "eroded"], "unknown category 'eroded'"),
    (["rebuild", "x", "--at", "3"], "--at and --out go together"),
    (["replay", "x", "--at", "3", "--follow"], "--at and --follow exclude each other"),
    (["explain", "agent_timout"], "unknown category 'agent_timout'"),
    (["shw", "x"], "no such command 'shw'"),
    (["new", "t"], "is there already"),
    (["check", "no-such-task"], "no-such-task"),
]


@pytest.mark.parametrize(("words", "message"), USAGE, ids=[" ".join(words) for words, _ in USAGE])
def test_usage_errors(user: User, make_task: MakeTask, words: list[str], message: str) -> None:
    """Wrong words give exit code 2, one error that names the thing, and a hint; no job is made."""
    make_task("t")
    make_task("broken-a", settings="agent: [1, 2\n")
    make_task("broken-b", layout="b", settings="agent = \n")
    (user.home / "empty").mkdir()
    (user.home / "broken.yaml").write_text("agnets: [nop]\n")
    ran = user.run(*words, code=2)
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert message in ran.err
    assert not (user.home / "jobs").exists()


def test_debug_shows_the_traceback(user: User) -> None:
    """TRIALOG_DEBUG=1 shows where an error comes from."""
    process = user.start("resume", "x", env={"TRIALOG_DEBUG": "1"})
    _, err = process.communicate(timeout=60)
    assert "Traceback" in err
    assert "error: " in err


def test_which_log(user: User, make_task: MakeTask) -> None:
    """--log, --jobs-dir, $TRIALOG_LOG, the nearest upward; what is printed works where it was."""
    task = make_task("t")
    deep = user.home / "deep/er"
    deep.mkdir(parents=True)
    first = user.job("t")
    assert user.run("show", first.name, cwd=deep, code=0)
    ran = user.run("run", task, *BWRAP, cwd=deep, code=0)
    assert ran.lines[-1].startswith("Job folder: ../../jobs/")
    here = {job["job"] for job in user.run("jobs", "--json").objects}
    other = user.job("t", "--jobs-dir", "out put")
    while other.name in here:  # of the same second: each log may have a job of that name
        other = user.job("t", "--jobs-dir", "out put")
    assert other.parent == user.home / "out put"
    assert user.run("show", f"out put/{other.name}", code=0)
    assert user.run("show", other.name, code=2)
    assert user.run("show", other.name, "--log", "out put/trialog.db", code=0)
    assert user.run("show", other.name, env={"TRIALOG_LOG": str(other.parent / "trialog.db")})
    listed = user.run("jobs", "--json", cwd=deep, code=0).objects
    assert len(listed) == 2
    assert listed[0]["job"] == first.name


def test_no_job_is_overwritten(user: User, make_task: MakeTask) -> None:
    """Jobs of the same second have folders of their own."""
    make_task("t")
    started = [user.start("run", "t", *BWRAP) for _ in range(3)]
    outs = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    folders = {out.splitlines()[-1] for out in outs}
    assert len(folders) == 3
    assert len(user.run("jobs", "--json").objects) == 3


def test_a_log_of_a_newer_version(user: User, make_task: MakeTask) -> None:
    """A log of a newer format is refused with both numbers, and left as it is."""
    make_task("t")
    folder = user.job("t")
    with sqlite3.connect(folder.parent / "trialog.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    for words in (("run", "t", *BWRAP), ("show", folder), ("rebuild", folder), ("jobs",)):
        ran = user.run(*words, code=2)
        assert "has format 99; this release reads up to format" in ran.err


def test_a_file_that_is_no_log(user: User, make_task: MakeTask) -> None:
    """A file that is no log is refused by name."""
    make_task("t")
    (user.home / "my.db").write_text("dear diary" * 100)
    ran = user.run("run", "t", "--log", "my.db", *BWRAP, code=2)
    assert "my.db" in ran.err
    assert (user.home / "my.db").read_text().startswith("dear diary")


def test_a_locked_log(user: User, make_task: MakeTask) -> None:
    """While another process holds the log, reading works."""
    make_task("t")
    folder = user.job("t")
    db = sqlite3.connect(folder.parent / "trialog.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    try:
        assert user.run("show", folder, code=0)
        assert user.run("rebuild", folder, "--check", code=0)
    finally:
        db.execute("ROLLBACK")
        db.close()


def test_a_read_only_log(user: User, make_task: MakeTask) -> None:
    """On a disk that can't be written a job is refused by name, and reading works."""
    make_task("t")
    folder = user.job("t")
    jobs = folder.parent
    readonly = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", jobs, jobs, "--"]
    for words, code in ((("run", "t", *BWRAP), 2), (("show", folder), 0), (("jobs",), 0)):
        ran = subprocess.run(
            [*readonly, TRIALOG, *words],
            cwd=user.home, env=user.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == code, ran.stdout + ran.stderr
        if code:
            assert ran.stderr.startswith("error: ")
            assert "trialog.db" in ran.stderr


def test_help_is_quick_and_light(user: User) -> None:
    """--help imports neither the log nor a sandbox nor an optional package."""
    heavy = "aiodocker aiohttp aiosqlite anyio msgspec rich structlog yaml zstandard".split()
    code = (
        "import sys; from trialog.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=user.env, check=True
    )
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize("again", [False, True], ids=["run", "regrade"])
def test_a_job_loads_what_it_needs(user: User, make_task: MakeTask, again: bool) -> None:
    """A job on bubblewrap without models imports nothing that is for others."""
    others = (
        "aiodocker aiohttp h11 openai packaging pydantic rich structlog urllib.request yaml yarl"
    )
    make_task("tasks/one", layout="b")
    words = ["run", "tasks", *BWRAP]
    if again:
        words = ["regrade", user.run(*words, code=0).lines[-1].removeprefix("Job folder: ")]
    code = (
        "import sys; from trialog.cli import main\n"
        f"try: main({words})\nexcept SystemExit as end: assert not end.code\n"
        f"print([m for m in {others.split()} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=user.home, capture_output=True, text=True, env=user.env, check=True,
    )  # fmt: skip
    assert ran.stderr.splitlines()[-1] == "[]"


def test_version(user: User) -> None:
    """--version prints the release."""
    assert re.fullmatch(r"trialog \d+\.\d+\.\d+\n", user.run("--version", code=0).out)
