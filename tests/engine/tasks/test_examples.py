"""The example tasks: each test really run, on its solution, on nothing, on wrong answers."""

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

from trialog.engine.tasks.check import advise
from trialog.engine.tasks.dataset import find_tasks
from trialog.engine.tasks.load import load_task
from trialog.engine.tasks.model import Task
from trialog.engine.tasks.scripts import interpreter
from trialog.engine.tasks.template import new_task

EXAMPLES = Path(__file__).parents[3] / "examples" / "tasks"
NAMES = sorted(path.name for path in EXAMPLES.iterdir())

pytestmark = pytest.mark.bubblewrap


class Run:
    """A workspace, and what runs in it as in a trial: in namespaces, at the usual paths."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "app"
        self.logs = folder / "logs"
        self.workspace.mkdir(parents=True)
        self.logs.mkdir()
        self.printed = ""

    def command(self, argv: list[str], *mounts: str, timeout: float = 100) -> None:
        """Run a command in the workspace; mounts are bwrap's options."""
        system = ["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--tmpfs", "/tmp"]
        for name in ("bin", "lib", "lib64", "sbin"):
            system += ["--symlink", f"usr/{name}", f"/{name}"]
        done = subprocess.run(
            [
                *(
                    "bwrap",
                    "--unshare-all",
                    "--die-with-parent",
                    "--proc",
                    "/proc",
                    "--dev",
                    "/dev",
                ),
                *(*system, "--bind", self.workspace, "/app", "--bind", self.logs, "/logs/verifier"),
                *(*mounts, "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--chdir", "/app"),
                *("--", *argv),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
        self.printed = done.stdout.decode(errors="replace")

    def solve(self, task: Task) -> None:
        """Run the reference solution; only its own folder is there."""
        assert task.solution is not None
        folder = task.solution.resolve()
        script = "/oracle-files/solve.sh"
        argv = [*interpreter(folder / "solve.sh"), script]
        self.command(argv, "--ro-bind", str(folder), "/oracle-files")

    def grade(self, task: Task) -> dict[str, float]:
        """Run test.sh and read its reward as a trial does; a missing one is 0."""
        folder = str(task.verifier.resolve())
        mounts = ["--ro-bind", folder, "/verifier", "--ro-bind", folder, "/tests"]
        place = f"/{task.verifier.name}/test.sh"
        self.command([*interpreter(task.verifier / "test.sh"), place], *mounts)
        text, scores = self.logs / "reward.txt", self.logs / "reward.json"
        if scores.exists():
            return json.loads(scores.read_text())
        return {"reward": float(text.read_text())} if text.exists() else {"reward": 0.0}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A fresh workspace."""
    return Run(tmp_path)


def test_there_are_at_least_seven_in_both_layouts():
    """All load without a warning, and there is no advice on their tests."""
    tasks = find_tasks([EXAMPLES])
    assert [task.name for task in tasks] == NAMES
    assert len(tasks) >= 7
    assert {task.layout for task in tasks} == {"a", "b"}
    for task in tasks:
        assert (task.warnings, advise(task)) == ([], [])
        assert task.dockerfile is task.settings.sandbox.docker_image is None
        assert not task.settings.sandbox.network


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_solution_gets_1_and_nothing_gets_0(run: Run, tmp_path: Path, name):
    """But for the one that fails on purpose, the control of each task holds."""
    task = load_task(EXAMPLES / name)
    run.solve(task)
    expected = 0.0 if name == "oracle-fails-on-purpose" else 1.0
    assert run.grade(task)["reward"] == expected, run.printed
    assert run.printed.startswith(("PASS", "reward 1.0") if expected else "FAIL")
    nothing = Run(tmp_path / "nop")
    assert nothing.grade(task)["reward"] == 0
    assert nothing.printed.startswith(("FAIL", "reward 0.0"))


def test_what_the_prompt_says_is_what_the_solution_has():
    """The counts in the half-life prompts are those of the solution's file."""
    for name in ("half-life", "half-life-partial"):
        prompt = load_task(EXAMPLES / name).prompt
        shown = prompt.split("```csv\n")[1].split("```")[0]
        assert shown == (EXAMPLES / name / "oracle" / "counts.csv").read_text()
        assert len(list(csv.DictReader(io.StringIO(shown)))) == 31


def test_the_one_that_fails_on_purpose_says_so_and_can_be_solved(run: Run):
    """In its prompt and metadata; the right answer passes."""
    task = load_task(EXAMPLES / "oracle-fails-on-purpose")
    assert "wrong on purpose" in task.prompt
    assert "wrong on purpose" in task.settings.metadata["note"]
    (run.workspace / "sum.txt").write_text("5050\n")
    assert run.grade(task)["reward"] == 1


def answer(half_life: object, uncertainty: object) -> str:
    """An answer of the half-life tasks."""
    return json.dumps({"half_life_min": half_life, "uncertainty_min": uncertainty})


HALF_LIVES = [
    # answer, passes, partial credit
    (answer(26.56, 0.51), True, 1.0),
    (answer(26.8, 8.0), False, 0.6667),  # right, but says nothing
    (answer(27.9, 0.25), False, 0.6667),  # near, but too sure
    (answer(34.7, 0.33), False, 0.3333),  # no background in the model
    (answer(29.9, 0.67), False, 0.3333),  # the first hour alone
    (answer(26.8, 0), False, 0.3333),
    (answer(26.8, -0.5), False, 0.3333),
    (answer(40, 20), False, 0.3333),
    (answer(1608, 30), False, 0.0),  # in seconds
    (answer(float("nan"), 0.5), False, 0.0),
    (answer(float("inf"), float("inf")), False, 0.0),
    (answer("26.8", 0.5), False, 0.0),
    (answer(True, True), False, 0.0),
    (answer(None, 0.5), False, 0.0),
    ('{"half_life_min": 26.8}', False, 0.0),
    ("[26.8, 0.5]", False, 0.0),
    ("26.8 +- 0.5", False, 0.0),
    ("", False, 0.0),
]


@pytest.mark.parametrize(("text", "passes", "partial"), HALF_LIVES)
def test_half_life_answers(run: Run, tmp_path: Path, text, passes, partial):
    """Pass or fail in the one task, a third for each check in the other; the verdict first."""
    (run.workspace / "answer.json").write_text(text)
    reward = run.grade(load_task(EXAMPLES / "half-life"))["reward"]
    assert reward == passes, run.printed
    assert run.printed.startswith("PASS: " if passes else "FAIL: ")
    other = Run(tmp_path / "partial")
    (other.workspace / "answer.json").write_text(text)
    assert other.grade(load_task(EXAMPLES / "half-life-partial")) == {"reward": partial}
    assert other.printed.startswith(f"reward {partial}: ")


KEPLER = ["1.2\n", "0.25", "77.5", "nan", "inf", "1 2", "E = 1.5", "1_0", "1" * 2000, ""]


@pytest.mark.parametrize("text", KEPLER)
def test_wrong_anomalies(run: Run, text):
    """A rough value, the mean anomaly, degrees, and what is no number fail."""
    (run.workspace / "answer.txt").write_text(text)
    assert run.grade(load_task(EXAMPLES / "kepler-equation"))["reward"] == 0
    assert run.printed.startswith("FAIL: ")


@pytest.mark.parametrize(("decimals", "passes"), [(12, True), (8, True), (6, False), (3, False)])
def test_the_tolerance_of_the_anomaly(run: Run, decimals, passes):
    """Eight decimals are enough for a tolerance of 1e-8, six are not."""
    task = load_task(EXAMPLES / "kepler-equation")
    run.solve(task)
    file = run.workspace / "answer.txt"
    file.write_text(f" {float(file.read_text()):.{decimals}f}\r\n")
    assert run.grade(task)["reward"] == passes, run.printed


STOCK = "chair\t13\nlamp\t7\nmirror\t5\noak table\t3\n"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (STOCK, True),
        (STOCK.rstrip("\n"), False),
        (STOCK.replace("\t", ";"), False),
        (STOCK + "rug\t0\n", False),
        (STOCK.replace("chair\t13", "chair\t12\nchair\t1"), False),
        ("oak table\t3\nchair\t13\nlamp\t7\nmirror\t5\n", False),
        (STOCK.replace("\n", "\r\n"), False),
        (STOCK.replace("lamp", "Lamp"), False),
        ("", False),
    ],
)
def test_inventories(run: Run, text, passes):
    """Only the exact file passes; the lines that differ are shown."""
    (run.workspace / "stock.tsv").write_text(text, newline="")
    assert run.grade(load_task(EXAMPLES / "merge-inventories"))["reward"] == passes, run.printed
    assert run.printed.startswith("PASS" if passes else "FAIL: lines that differ")


GOOD = """
def weighted_median(values, weights):
    if not values or len(values) != len(weights) or min(weights) < 0 or not sum(weights):
        raise ValueError
    below = 0
    for value, weight in sorted(zip(values, weights)):
        below += weight
        if weight and below >= sum(weights) / 2:
            return value
"""


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (GOOD, True),
        (None, False),  # as it was given
        (GOOD.replace(">=", ">"), False),
        (GOOD.replace(" or min(weights) < 0", ""), False),
        (GOOD.replace("if weight and", "if"), True),
        (GOOD.replace("    below = 0", "    weights.sort()\n    below = 0"), False),
        (GOOD + "\nprint(1/0)\n", False),
        ("import os\nos._exit(0)\n", False),
        ("import sys\nprint('{\"value\": 2}')\nsys.exit(0)\n", False),
        ("def weighted_median(values, weights):\n    while True: pass\n", False),
        ("def weighted_median(values, weights):\n    return 2\n", False),
        ("", False),
        ("\0", False),
    ],
)
def test_medians(run: Run, code, passes):
    """A mended function passes; the given one, half-mended ones, and those that cheat do not."""
    task = load_task(EXAMPLES / "mend-the-median")
    given = task.prompt.split("```python\n")[1].split("```")[0]
    (run.workspace / "stats.py").write_text(given if code is None else code)
    assert run.grade(task)["reward"] == passes, run.printed
    assert run.printed.startswith("PASS: 14 of 14" if passes else "FAIL: ")


DATES = [
    *("2023-03-03", "2023-03-07", "2023-03-09", "2023-03-21", "2023-03-23"),
    *("2022-11-01", "2024-12-31", "2023-03-10"),
]


@pytest.mark.parametrize(
    ("lines", "scores"),
    [
        (DATES[::-1], (1.0, 1.0, 1.0)),
        (DATES[:4], (0.6667, 1.0, 0.5)),
        ([*DATES, "2023-07-04", "2023-12-14"], (0.8889, 0.8, 1.0)),
        (DATES + DATES, (0.6667, 0.5, 1.0)),
        ([date.replace("-", "/") for date in DATES], (0.0, 0.0, 0.0)),
        ([], (0.0, 0.0, 0.0)),
    ],
)
def test_dates(run: Run, lines, scores):
    """Precision and recall are scores beside the reward; twice the same date counts against."""
    (run.workspace / "dates.txt").write_text("\n".join(lines))
    found = run.grade(load_task(EXAMPLES / "find-the-dates"))
    assert (found["reward"], found["precision"], found["recall"]) == scores, run.printed
    assert found.keys() == {"reward", "precision", "recall"}
    assert run.printed.startswith("PASS" if scores[0] == 1 else "FAIL")


ANSWERS = {
    "half-life": "answer.json",
    "half-life-partial": "answer.json",
    "kepler-equation": "answer.txt",
    "merge-inventories": "stock.tsv",
    "find-the-dates": "dates.txt",
    "oracle-fails-on-purpose": "sum.txt",
}


@pytest.mark.parametrize(("name", "file"), ANSWERS.items())
@pytest.mark.parametrize("trick", ["link", "fifo", "folder", "binary"])
def test_tricks_in_place_of_an_answer(run: Run, name, file, trick):
    """A link to the expected answer, a FIFO, a folder or wild bytes get 0 and end at once."""
    task = load_task(EXAMPLES / name)
    place = run.workspace / file
    match trick:
        case "link":
            if name != "oracle-fails-on-purpose":
                run.solve(task)
            else:
                place.write_text("5050\n")
            place.rename(run.workspace / "real")
            place.symlink_to("real")
        case "fifo":
            run.command(["mkfifo", file])
        case "folder":
            place.mkdir()
        case _:
            place.write_bytes(b"\xff\x00\xfe" * 1000)
    assert place.exists()
    assert run.grade(task)["reward"] == 0, run.printed


@pytest.mark.parametrize("name", [name for name in NAMES if name != "merge-inventories"])
def test_a_module_in_the_workspace_does_not_reach_the_test(run: Run, name):
    """Python runs isolated: a json.py that forges a reward is not imported."""
    task = load_task(EXAMPLES / name)
    forged = "open('/logs/verifier/reward.txt', 'w').write('1')\nraise SystemExit\n"
    for module in ("json", "os", "re", "math", "subprocess", "sitecustomize"):
        (run.workspace / f"{module}.py").write_text(forged)
    run.command(["/usr/bin/python3", "-c", "import subprocess"])
    assert (run.logs / "reward.txt").read_text() == "1"
    (run.logs / "reward.txt").unlink()
    assert run.grade(task)["reward"] == 0


@pytest.mark.parametrize("layout", ["a", "b"])
def test_a_new_task_passes_its_own_controls(run: Run, tmp_path: Path, layout):
    """The template's solution gets 1, nothing and wrong answers get 0, and there is no advice."""
    new_task(tmp_path / "mine", layout)
    task = load_task(tmp_path / "mine")
    assert (task.warnings, advise(task)) == ([], [])
    assert run.grade(task) == {"reward": 0}
    run.solve(task)
    assert run.grade(task) == {"reward": 1}, run.printed
    for wrong in ("97\n89\n", "8633\n", "89\n", "89 97 1", "x", ""):
        (run.workspace / "factors.txt").write_text(wrong)
        assert run.grade(task) == {"reward": 0}
        assert run.printed.startswith("FAIL: ")
