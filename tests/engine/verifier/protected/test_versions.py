"""The protected pytest on every Python that this machine has, without a sandbox.

Those on PATH, and those that TRIALOG_TEST_PYTHONS names, with colons between them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trialog.engine.sandbox.protocol import Python
from trialog.engine.verifier.protected import tools

OLDEST, NEWEST = 8, 30


def pythons() -> dict[str, str]:
    """This Python and the others that there are, by version."""
    named = os.environ.get("TRIALOG_TEST_PYTHONS", "").split(":")
    on_path = [shutil.which(f"python3.{minor}") for minor in range(OLDEST, NEWEST)]
    found: dict[str, str] = {}
    for path in [sys.executable, *named, *on_path]:
        told = None if not path else _told(path)
        if told is not None:
            found.setdefault(*told)
    return found


def _told(python: str) -> tuple[str, str] | None:
    """Version and place of a Python, by its own word; None for one that does not run."""
    say = "import os, sys; print(sys.version.split()[0], os.path.realpath(sys.executable))"
    ran = subprocess.run([python, "-c", say], capture_output=True, text=True, check=False)
    version, _, place = ran.stdout.strip().partition(" ")
    return (version, place) if ran.returncode == 0 else None


TESTS = """
import json
import sys
from pathlib import Path

import pytest

@pytest.fixture
def answer(tmp_path, monkeypatch):
    monkeypatch.setenv("SEEN", "1")
    return Path("answer.txt").read_text().strip()

@pytest.mark.parametrize("digits", [2, pytest.param(2, id="two")])
def test_answer(answer, digits, capsys):
    print("said")
    assert capsys.readouterr().out == "said\\n"
    assert len(answer) == digits
    assert answer == "42"

def test_raises():
    with pytest.raises(ValueError, match="invalid"):
        int("x")
    assert 0.1 + 0.2 == pytest.approx(0.3)

@pytest.mark.xfail(strict=True)
def test_expected():
    assert json.loads("[1]") == [2]

class TestGroup:
    def test_isolated(self):
        assert sys.flags.isolated and sys.flags.no_site
        assert str(Path.cwd()) not in sys.path
"""
STEERING = {
    "conftest.py": "import os; os._exit(0)",
    "sitecustomize.py": "import os; os._exit(0)",
    "json.py": "import os; os._exit(0)",
    "pytest.ini": "[pytest]\naddopts = --collect-only\n",
}


class Ran:
    """Runs the protected pytest made for one Python on tests of its folder."""

    def __init__(self, folder: Path, python: str) -> None:
        self.tests, self.work, made = folder / "tests", folder / "work", folder / "tools"
        for each in (self.tests, self.work, made):
            each.mkdir()
        given = Python(path=python, version=(3, OLDEST), judged_outside=True)
        setup = tools.Setup(python=given, roots=[str(self.tests)], changed=[])
        tools.fill(made, str(made), setup)
        self.program = made / tools.PROGRAM
        for name, text in STEERING.items():
            (self.work / name).write_text(text)

    def __call__(self, answer: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it on an answer."""
        (self.work / "answer.txt").write_text(answer)
        return subprocess.run(
            [self.program, *words], cwd=self.work, capture_output=True, text=True, check=False,
            env={"PATH": os.defpath, "PYTHONPATH": str(self.work), "PYTEST_ADDOPTS": "--bad"},
        )  # fmt: skip


@pytest.fixture(params=[pytest.param(place, id=told) for told, place in pythons().items()])
def ran(request: pytest.FixtureRequest, tmp_path: Path) -> Ran:
    """For each Python in turn."""
    return Ran(tmp_path, request.param)


def test_right_and_wrong(ran: Ran) -> None:
    """The usual means of pytest work, and nothing in the folder it starts in has a say."""
    (ran.tests / "test_answer.py").write_text(TESTS)
    right = ran("42")
    assert right.returncode == 0, right.stdout + right.stderr
    assert "4 passed, 1 xfailed" in right.stdout
    wrong = ran("41", "-q")
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    assert "assert '41' == '42'" in wrong.stdout
    assert "2 failed, 2 passed, 1 xfailed" in wrong.stdout


def test_what_is_no_verdict(ran: Ran) -> None:
    """An early exit, a broken test file and other people's tests are no success."""
    test = ran.tests / "test_answer.py"
    test.write_text("import os\ndef test_it():\n    os._exit(0)\n")
    assert ran("42").returncode == 3
    test.write_text("import nothing_of_the_kind\n")
    assert ran("42").returncode == 2
    test.write_text("def test_it():\n    pass\n")
    outside = ran.work / "test_own.py"
    outside.write_text("def test_it():\n    pass\n")
    assert ran("42", str(outside)).returncode == 4
    assert ran("42").returncode == 0


def test_a_conftest_and_settings_of_the_tests(ran: Ran) -> None:
    """Those in the tests' own folder are the task's, and are read."""
    (ran.tests / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef given():\n    return 42\n"
    )
    (ran.tests / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["own: ours"]\naddopts = "--strict-markers"\n'
    )
    (ran.tests / "test_answer.py").write_text(
        "import pytest\n\n@pytest.mark.own\ndef test_it(given):\n    assert given == 42\n"
    )
    done = ran("42")
    assert done.returncode == 0, done.stdout + done.stderr
