"""The protected pytest in both sandboxes: what it runs, and what does not reach it."""

from __future__ import annotations

import pytest

from helpers.grading import DOCKER, Build, Grade, both

TEST = """
if "$TRIALOG_PYTEST" /verifier/test_answer.py -q; then
  echo 1 > /logs/verifier/reward.txt
else
  echo "exit code $?"
  echo 0 > /logs/verifier/reward.txt
fi
"""
ANSWER = """
from pathlib import Path


def test_answer_is_42():
    assert Path("/app/answer.txt").read_text().strip() == "42"
"""
FILES = {"test_answer.py": ANSWER}
HONEST = "echo 42 > answer.txt"


@both
@pytest.mark.parametrize("name", ["TRIALOG_PYTEST", "BENCHFLOW_PYTEST"])
async def test_right_and_wrong(grade: Grade, name: str) -> None:
    """A right answer passes and a wrong one fails, in an image that has no pytest of its own."""
    test = "python3 -c 'import pytest' 2>/dev/null && exit 9\n" + TEST.replace(
        "TRIALOG_PYTEST", name
    )
    right = await grade(test, agent=HONEST, files=FILES)
    assert right.score == 1.0, right.output
    assert b"1 passed" in right.output
    wrong = await grade(test, agent="echo 41 > answer.txt", files=FILES)
    assert (wrong.score, wrong.verdict.source) == (0.0, "verifier")
    assert b"1 failed" in wrong.output
    assert b"exit code 1" in wrong.output


@both
@pytest.mark.parametrize(
    "call",
    [
        'python3 "$TRIALOG_PYTEST" /verifier/test_answer.py',
        'python3 -I "$TRIALOG_PYTEST" /tests/test_answer.py',
        'cd / && PYTHONPATH=/app PYTEST_ADDOPTS=--bad PYTEST_PLUGINS=evil "$TRIALOG_PYTEST"',
    ],
)
async def test_ways_to_start_it(grade: Grade, call: str) -> None:
    """However it is started, it is isolated; without arguments it runs the tests' folder."""
    graded = await grade(f"{call} && echo 1 > $TRIALOG_REWARD_TEXT", agent=HONEST, files=FILES)
    assert graded.score == 1.0, graded.output


STEERING = {
    "conftest": "echo 'import os; os._exit(0)' > conftest.py; cp conftest.py /tmp; "
    "cp conftest.py / 2>/dev/null",
    "ini": "printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini; cp pytest.ini tox.ini; "
    "cp pytest.ini / 2>/dev/null",
    "pyproject": "printf '[tool.pytest.ini_options]\\naddopts = \"--collect-only\"\\n' "
    "> pyproject.toml; printf '[tool:pytest]\\naddopts = --collect-only\\n' > setup.cfg",
    "plugin by entry point": "echo 'import os; os._exit(0)' > evil.py; mkdir evil-1.0.dist-info; "
    "printf '[pytest11]\\nevil = evil\\n' > evil-1.0.dist-info/entry_points.txt; "
    "printf 'Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n' > evil-1.0.dist-info/METADATA; "
    "p=$(python3 -c 'import site; print(site.getsitepackages()[0])'); "
    "mkdir -p $p 2>/dev/null && cp -r evil* $p",
    "shadowing modules": "for m in json pathlib pytest _pytest pluggy re os; do "
    "echo 'import posix; posix._exit(0)' > $m.py; done",
    "sitecustomize": "echo 'import os; os._exit(0)' > sitecustomize.py; "
    "cp sitecustomize.py usercustomize.py; u=$(python3 -m site --user-site); mkdir -p $u; "
    "cp *customize.py $u; echo 'import os; os._exit(0)' > $u/evil.pth; "
    "p=$(python3 -Sc 'import site; print(site.getsitepackages()[0])'); "
    "mkdir -p $p 2>/dev/null && cp $u/evil.pth $p",
}


@both
@pytest.mark.parametrize("name", STEERING)
async def test_nothing_of_the_agents_steers_it(grade: Grade, name: str) -> None:
    """A wrong answer fails and a right one passes, whatever lies around."""
    wrong = await grade(TEST, agent=f"echo 41 > answer.txt; {STEERING[name]}; true", files=FILES)
    assert (wrong.score, wrong.verdict.source) == (0.0, "verifier")
    assert b"1 failed" in wrong.output
    right = await grade(TEST, agent=f"{HONEST}; {STEERING[name]}; true", files=FILES)
    assert right.score == 1.0, right.output


@both
async def test_an_early_exit_is_no_success(grade: Grade) -> None:
    """Code of the agent's that ends the tests' process with 0 does not make them pass."""
    files = {
        "test_answer.py": "import sys\nsys.path.insert(0, '/app')\n"
        "def test_it():\n    import solution\n    assert solution.answer() == 42\n"
    }
    evil = "printf 'import os\\ndef answer():\\n    os._exit(0)\\n' > solution.py"
    graded = await grade(TEST, agent=evil, files=files)
    assert graded.score == 0.0
    assert b"before pytest had finished" in graded.output
    honest = "printf 'def answer():\\n    return 42\\n' > solution.py"
    assert (await grade(TEST, agent=honest, files=files)).score == 1.0


@both
async def test_the_tests_own_files_are_used(grade: Grade) -> None:
    """The verifier's own conftest.py, settings, helper modules and plugins are the author's."""
    files = {
        "conftest.py": "import pytest\npytest_plugins = ['helper_plugin']\n"
        "@pytest.fixture\ndef wanted():\n    return '42'\n",
        "helper_plugin.py": "import pytest\n@pytest.fixture\ndef text():\n"
        "    return open('answer.txt').read().strip()\n",
        "pytest.ini": "[pytest]\naddopts = -k right\n",
        "sub/test_deep.py": "def test_right_deep(text, wanted):\n    assert text == wanted\n",
        "test_answer.py": "def test_right(text, wanted):\n    assert text == wanted\n"
        "def test_other():\n    assert False\n",
    }
    graded = await grade(
        '"$TRIALOG_PYTEST" && echo 1 > $TRIALOG_REWARD_TEXT', agent=HONEST, files=files
    )
    assert graded.score == 1.0, graded.output
    assert b"2 passed, 1 deselected" in graded.output


@both
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('"$TRIALOG_PYTEST" /app', b"runs tests from /verifier alone"),
        ('"$TRIALOG_PYTEST" test_mine.py', b"runs tests from /verifier alone"),
        ('"$TRIALOG_PYTEST" -c /app/pytest.ini', b"reads no settings from outside"),
        ('"$TRIALOG_PYTEST" -p evil', b"plugin evil"),
    ],
)
async def test_what_it_refuses(grade: Grade, call: str, said: bytes) -> None:
    """Tests, settings and plugins of the workspace are refused with exit code 4, and the reason."""
    agent = "echo 'def test_mine(): pass' > test_mine.py; echo '[pytest]' > pytest.ini; : > evil.py"
    graded = await grade(f'{call}; echo "code $?"', agent=agent, files=FILES)
    assert said in graded.output
    assert b"code 4" in graded.output


@both
async def test_stand_in(grade: Grade) -> None:
    """In a task that does not ask, the variable names a program that says why and exits with 4."""
    graded = await grade('v=TRIALOG; v="${v}_PYTEST"; "${!v}" /verifier; echo "code $?"')
    assert b"No pytest was prepared" in graded.output
    assert b"code 4" in graded.output
    assert (graded.score, graded.verdict.source) == (0.0, "engine")


@both
async def test_guard_kept_out(grade: Grade) -> None:
    """A pytest under python3 -I in a task that asks leaves the trial unscored, reward or not."""
    graded = await grade(
        "# $TRIALOG_PYTEST\npython3 -I -m pytest /verifier; echo 1 > /logs/verifier/reward.txt",
        files=FILES,
    )
    assert str(graded.failed.error).startswith("pytest could not load the plugin guard")
    assert graded.failed.category == "pytest_guard_not_loaded"
    assert not graded.failed.infrastructure


docker = pytest.mark.parametrize("backend_name", [DOCKER])


@docker
@pytest.mark.parametrize("line", ["rm -f /usr/bin/python3*", "chown 1000 /usr/bin/python3*"])
async def test_image_without_pythons_of_roots(grade: Grade, build: Build, line: str) -> None:
    """Without a python3 of root's own the trial is unscored, and what to do is said."""
    image = await build(f"RUN {line}")
    graded = await grade(TEST, agent=HONEST, files=FILES, image=image)
    assert graded.failed.category == "pytest_needs_python"
    assert "install python3 there" in str(graded.failed.error)
    plain = await grade("[ $(cat answer.txt) = 42 ] && echo 1 > $TRIALOG_REWARD_TEXT",
                        agent=HONEST, image=image)  # fmt: skip
    assert plain.score == 1.0


@docker
async def test_packages_of_the_image_can_be_imported(grade: Grade, build: Build) -> None:
    """A test may import what the image has installed, and not what the agent made of it."""
    where = "/usr/local/lib/python3.11/dist-packages"
    image = await build(
        f"RUN mkdir -p {where}/given && echo 'def twice(x): return 2 * x' > {where}/given/it.py"
    )
    files = {
        "test_answer.py": "def test_it():\n    from given.it import twice\n"
        "    assert twice(int(open('answer.txt').read())) == 84\n"
    }
    assert (await grade(TEST, agent=HONEST, files=files, image=image)).score == 1.0
    evil = f"echo 41 > answer.txt; echo 'def twice(x): return 84' > {where}/given/it.py"
    graded = await grade(TEST, agent=evil, files=files, image=image)
    assert graded.score == 0.0
    assert b"installed or changed given" in graded.output


@docker
async def test_legitimate_plugin_of_the_image(grade: Grade, build: Build) -> None:
    """A plugin that the image brings neither harms nor enters the protected pytest."""
    where = "/usr/local/lib/python3.11/dist-packages"
    image = await build(
        f"RUN mkdir -p {where}/p-1.0.dist-info && echo 'raise SystemExit(9)' > {where}/p.py && "
        f"printf 'Name: p\\nVersion: 1.0\\n' > {where}/p-1.0.dist-info/METADATA && "
        f"printf '[pytest11]\\np = p\\n' > {where}/p-1.0.dist-info/entry_points.txt"
    )
    assert (await grade(TEST, agent=HONEST, files=FILES, image=image)).score == 1.0
