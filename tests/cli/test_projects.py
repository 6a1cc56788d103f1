"""The commands for projects, as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trialog.engine.console.failure import lines
from trialog.engine.projects.faults import Fault, ProjectError

PROGRAM = Path(sys.executable).parent / "trialog"


def trialog(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder."""
    return subprocess.run(
        [PROGRAM, *words], cwd=here, capture_output=True, text=True, check=False, timeout=60
    )


def test_from_nothing_to_a_checked_project(tmp_path: Path) -> None:
    """`init`, then one `init` of each kind, and `validate` finds nothing to complain of."""
    made = trialog(tmp_path, "init", "shop")
    assert made.returncode == 0
    assert "shop/verifiers/reached/verify.py" in made.stdout.splitlines()
    assert "trialog run count-to-ten -a steady" in made.stderr
    shop = tmp_path / "shop"
    for kind in ("environment", "task", "verifier", "agent"):
        made = trialog(shop, kind, "init", "mine")
        assert made.returncode == 0, made.stderr
        assert f"{kind}s/mine/{kind}.yaml" in made.stdout.splitlines()
    checked = trialog(shop / "tasks", "validate")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout == ("ok: project shop: 2 environments, 2 tasks, 2 verifiers, 2 agents\n")
    assert trialog(shop, "verifier", "validate", "mine").stdout == "ok: verifier mine\n"


def test_faults_are_told_with_file_and_line(tmp_path: Path) -> None:
    """Each fault is a line of its own, the exit code is 1, and --json gives the same as data."""
    trialog(tmp_path, "init", "shop")
    shop = tmp_path / "shop"
    assert trialog(shop, "validate").returncode == 0
    with (shop / "verifiers/reached/verifier.yaml").open("a") as file:
        file.write("wieght: 2\n")
    (shop / "environments/counter/env.py").write_text("1 / 0\n")
    told = trialog(shop, "validate")
    assert told.returncode == 1
    assert told.stderr == "error: 2 faults\n"
    assert told.stdout.splitlines() == [
        "environments/counter/env.py:1: can't be imported: ZeroDivisionError: division by zero",
        "verifiers/reached/verifier.yaml:9: wieght: unknown key; did you mean 'weight'?",
    ]
    data = trialog(shop, "validate", "--json")
    assert data.returncode == 1
    answer = json.loads(data.stdout)
    assert (answer["project"], answer["ok"], len(answer["faults"])) == ("shop", False, 2)
    assert answer["faults"][1]["line"] == 9
    one = trialog(shop, "verifier", "validate", "reached")
    assert (one.returncode, len(one.stdout.splitlines())) == (1, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("validate",), "there is no trialog.yaml here or in a folder above"),
        (("verifier", "init", "x"), "`trialog init NAME` makes a project"),
        (("init", "a b"), "no good name for a project"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    """What can't be done is an error with exit code 2."""
    ran = trialog(tmp_path, *words)
    assert ran.returncode == 2
    assert message in ran.stderr


def test_a_command_of_commands(tmp_path: Path) -> None:
    """`trialog verifier` alone shows what it has."""
    alone, asked = trialog(tmp_path, "verifier"), trialog(tmp_path, "verifier", "--help")
    assert asked.returncode == 0
    assert "validate" in asked.stdout
    assert "validate" in alone.stdout + alone.stderr
    assert "error" not in alone.stderr
    wrong = trialog(tmp_path, "verifier", "inti")
    assert wrong.returncode == 2


def test_faults_of_a_project_as_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a command can't go on, all faults are told, each on a line of its own."""
    monkeypatch.chdir(tmp_path)
    found = [
        Fault(file=str(tmp_path / "task.yaml"), line=line, message=f"fault; {line}")
        for line in (2, 1)
    ]
    assert list(lines(ProjectError("task 'x'", found), {})) == [
        "error: 2 faults in task 'x'",
        "  task.yaml:1: fault; 1",
        "  task.yaml:2: fault; 2",
    ]
    [error, hint] = lines(ProjectError("task 'x'", found[:1]), {})
    assert error.endswith("task.yaml:2: fault")
    assert hint == "hint: 2"


def test_a_projects_defaults(tmp_path: Path) -> None:
    """`trialog run` takes a project's defaults, and the command line over them."""
    trialog(tmp_path, "init", "shop")
    shop = tmp_path / "shop"
    with (shop / "trialog.yaml").open("a") as file:
        file.write("defaults: {attempts: 2, agents: [steady]}\n")
    ran = trialog(shop, "run", "count-to-ten")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("[PASS] count-to-ten") == 2
    ran = trialog(shop / "agents", "run", "count-to-ten", "-k", "1", "--jobs-dir", "j")
    assert ran.stdout.count("[PASS] count-to-ten") == 1


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("environments/counter/env.py", "\n1 / 0\n",
         "environments/counter/env.py:2: can't be imported: ZeroDivisionError"),
        ("agents/steady/policy.py", "import nothing_of_this_name\n",
         "agents/steady/policy.py:1: can't be imported: ModuleNotFoundError"),
        ("verifiers/reached/verify.py", "def\n", "verifiers/reached/verify.py:1: no valid Python"),
        ("tasks/count-to-ten/task.yaml", "name: count-to-ten\ninstructions: x\n",
         "tasks/count-to-ten/task.yaml:1: verifiers: a task needs at least one verifier"),
    ],
)  # fmt: skip
def test_what_is_broken_stops_a_run_before_it_begins(
    tmp_path: Path, path: str, text: str, message: str
) -> None:
    """A task whose code or manifests are broken is refused, with file and line, and no job."""
    trialog(tmp_path, "init", "shop")
    shop = tmp_path / "shop"
    (shop / path).write_text(text)
    ran = trialog(shop, "run", "count-to-ten", "-a", "steady")
    assert ran.returncode == 2
    assert message in ran.stderr
    assert not (shop / "jobs").exists()


def test_agents_of_two_projects(tmp_path: Path) -> None:
    """Two projects' agents of one name can't be told apart in a job."""
    for name in ("one", "two"):
        trialog(tmp_path, "init", name)
    alone = trialog(tmp_path, "run", "one/tasks", "-a", "steady")
    assert alone.returncode == 0, alone.stderr
    (tmp_path / "two/tasks/count-to-ten").rename(tmp_path / "two/tasks/other")
    task = tmp_path / "two/tasks/other/task.yaml"
    task.write_text(task.read_text().replace("name: count-to-ten", "name: other"))
    ran = trialog(tmp_path, "run", "one/tasks", "two/tasks", "-a", "steady")
    assert ran.returncode == 2
    assert "two projects have an agent 'steady'" in ran.stderr
