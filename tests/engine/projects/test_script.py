"""Tasks in plain Python are kept as projects are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trialog.engine.authoring.environment import Environment
from trialog.engine.authoring.task import Task
from trialog.engine.authoring.verifiers import (
    AgentVerifier,
    DeterministicVerifier,
    HumanVerifier,
    RubricCriterion,
    total_reward,
)
from trialog.engine.errors import ConfigError
from trialog.engine.projects.importing import Space
from trialog.engine.projects.project import load_project
from trialog.engine.projects.resources import ProjectTask
from trialog.engine.projects.script import snapshot_of
from trialog.engine.projects.snapshot import pack_project_task, unpack_project_task

from .conftest import write

SCRIPT = """\
import sys
from pathlib import Path

import msgspec

from trialog import App, DeterministicVerifier, Environment, Task, action
import util
from graders.strict import check


class Count(msgspec.Struct):
    value: int = 0


class Counter(App[Count]):
    control = "live"

    @action
    def add(self, n: int) -> int:
        self.state.value += n
        return self.state.value


def reward(step):
    return util.half(step.current_state["value"])


async def policy(observation, actions):
    return None


def task():
    return Task(
        "count",
        "Count \\U0001f642 to three.",
        environment=Environment([Counter], name="desk", max_turns=3,
                                settings={"counter": {"by": 2}}),
        verifiers=[DeterministicVerifier("own", check=check, reward=reward, version="2.0.0",
                                         weight=0.5, timeout_sec=3)],
        expected={"a": [1, 1.0, 1e22, "yes", None, "\\x7f"]},
        info={"id": 7},
        metadata={"by": "me"},
        initial_state={"value": 1},
    )


if __name__ == "__main__":
    from trialog.engine.projects.script import snapshot_of

    Path(sys.argv[1]).write_bytes(snapshot_of(task(), policy))
"""

FILES = {
    "run.py": SCRIPT,
    "util.py": "def half(x):\n    return x / 2\n",
    "graders/strict.py": "from . import sums\n\n\ndef check(episode):\n    return sums.ALL\n",
    "graders/sums.py": "ALL = {'score': 1.0}\n",
    "other.py": "UNUSED = 1\n",
}


def check(episode: Any) -> dict[str, float]:
    """A check of this very file."""
    return {"score": 1.0}


def reward(step: Any) -> float:
    """A reward of this very file."""
    return 1.0


def run(script: Path, out: Path) -> bytes:
    """Run a script that writes a snapshot."""
    subprocess.run([sys.executable, script, out], check=True, cwd=script.parent.parent)
    return out.read_bytes()


@pytest.fixture
def taken(tmp_path: Path) -> ProjectTask:
    """The task of the script, by way of its snapshot."""
    script = write(tmp_path / "work", FILES) / "run.py"
    data = run(script, tmp_path / "data")
    assert run(script, tmp_path / "data") == data
    return unpack_project_task(data, tmp_path / "snapshot")


def test_a_script(taken: ProjectTask) -> None:
    """A script's task comes back from its snapshot as it was written: values, app, verifier and
    policy, with the files that they import, and no others."""
    files = {
        path.relative_to(taken.root).as_posix() for path in taken.root.rglob("*") if path.is_file()
    }
    assert {path for path in files if path.endswith(".py")} == {
        "run.py", "util.py", "graders/strict.py", "graders/sums.py",
    }  # fmt: skip
    view = taken.view
    assert view.instructions == "Count \U0001f642 to three."
    assert repr(view.expected) == repr({"a": [1, 1.0, 1e22, "yes", None, "\x7f"]})
    assert (view.info, view.metadata, view.initial_state) == ({"id": 7}, {"by": "me"}, {"value": 1})
    environment = taken.task.environment
    assert (environment.name, environment.max_turns) == ("desk", 3)
    assert environment.settings == {"counter": {"by": 2}}
    assert environment.apps["counter"].control == "live"
    [source] = [each.source for each in taken.verifiers]
    assert source is not None
    assert (source.name, source.version, source.weight, source.timeout_sec) == (
        "own", "2.0.0", 0.5, 3,
    )  # fmt: skip
    environment.reset(taken.task, verifiers=taken.task.verifiers)
    assert environment.step("add", n=3)[:2] == (4, 2.0)
    assert taken.task.verifiers[0].check(None) == {"score": 1.0}  # type: ignore[union-attr, operator, misc, arg-type]
    assert taken.agents["agent"].policy().__name__ == "policy"
    assert source.check is not None
    assert Space(source.folder, source.root).load(str(source.check))(None) == {"score": 1.0}


def test_a_scripts_digest(tmp_path: Path) -> None:
    """The digest of a script's verifier changes with its files and those that they import, and
    with its settings; not with other files, nor with the place."""

    def digest(name: str, **changed: str) -> str:
        files = {**FILES, **{f"{key}.py": text for key, text in changed.items()}}
        script = write(tmp_path / name, files) / "run.py"
        data = run(script, tmp_path / f"{name}.data")
        return unpack_project_task(data, tmp_path / f"{name}.out").verifiers[0].digest

    first = digest("a")
    assert digest("b") == first
    assert digest("c", other="UNUSED = 2\n") == first
    assert digest("d", util="def half(x):\n    return x * 0.5\n") != first
    assert digest("e", run=SCRIPT.replace("weight=0.5", "weight=0.25")) != first


def test_a_snapshot_of_a_script_packs_again(taken: ProjectTask, tmp_path: Path) -> None:
    """From then on it is a task as any other."""
    data = (tmp_path / "data").read_bytes()
    assert pack_project_task(taken, *taken.agents.values()) == data


def test_all_kinds(tmp_path: Path) -> None:
    """Judges, people, total_reward and a task without an environment are kept too."""
    rubric = [RubricCriterion(name="tone", description="d", max_score=5.0, blocker=True)]
    task = Task(
        "all",
        verifiers=[
            AgentVerifier(
                "judge", model="m", instructions="i", criteria=rubric, samples=2, max_cost=0.5
            ),
            HumanVerifier("people", instructions="i", criteria=rubric, weight=2.0),
            DeterministicVerifier("sum", check=total_reward, reward=reward),
        ],
    )
    back = unpack_project_task(snapshot_of(task), tmp_path / "s")
    judge, people, total = (each.verifier for each in back.verifiers)
    assert isinstance(judge, AgentVerifier)
    assert isinstance(people, HumanVerifier)
    assert isinstance(total, DeterministicVerifier)
    assert (judge.model, judge.samples, judge.criteria) == ("m", 2, rubric)
    assert judge.max_cost == 0.5
    assert (people.weight, people.criteria) == (2.0, rubric)
    assert total.check is total_reward
    assert back.task.environment.apps == {}


def test_a_folder(tmp_path: Path) -> None:
    """With `folder`, all files of it belong to the verifier, and a command runs there."""
    folder = write(tmp_path / "grader", {"check.sh": "#!/bin/sh\necho '{}'\n", "data.txt": "1"})
    (folder / "check.sh").chmod(0o755)
    verifier = DeterministicVerifier("cmd", check=["./check.sh", "-q"], folder=folder)
    back = unpack_project_task(snapshot_of(Task("t", verifiers=[verifier])), tmp_path / "s")
    source = back.verifiers[0].source
    assert source is not None
    assert source.check == ["./check.sh", "-q"]
    assert (source.folder / "data.txt").read_text() == "1"
    assert (source.folder / "check.sh").stat().st_mode & 0o111
    (folder / "data.txt").write_text("2")
    other = unpack_project_task(snapshot_of(Task("t", verifiers=[verifier])), tmp_path / "o")
    assert other.verifiers[0].digest != back.verifiers[0].digest


class Held:
    """A class with a function in it."""

    @staticmethod
    def check(episode: Any) -> dict[str, float]:
        """A check."""
        return {"score": 0.5}


def test_functions_of_classes(tmp_path: Path) -> None:
    """A static function of a class can be found again, too."""
    task = Task("t", verifiers=[DeterministicVerifier("v", check=Held.check)])
    back = unpack_project_task(snapshot_of(task), tmp_path / "s")
    assert back.task.verifiers[0].check(None) == {"score": 0.5}  # type: ignore[union-attr, operator, misc, arg-type]


def nested() -> Any:
    """A function within a function."""

    def inner(episode: Any) -> dict[str, float]:
        return {"score": 1.0}

    return inner


def typed() -> Any:
    """A function as a prompt makes them."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def check(episode):\n    return 1\n", "<stdin>", "exec"), scope)
    return scope["check"]


def shadowed() -> Any:
    """A function that its file does not have by its name any more."""

    def other(episode: Any) -> dict[str, float]:
        return {"score": 0.0}

    other.__qualname__ = "check"
    return other


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda episode: 1, "is a lambda, which can't be found again in a file"),
        (nested(), "is made within a function"),
        (typed(), "comes from no file, such as one typed at a prompt"),
        (shadowed(), "is not what test_script.py has by that name"),
        (len, "comes from no file"),
        (type("Callable", (), {"__call__": lambda self, episode: 1})(), "an object without a name"),
    ],
    ids=["lambda", "nested", "typed", "shadowed", "builtin", "object"],
)
def test_functions_that_are_in_no_file(function: Any, message: str) -> None:
    """A function that can't be found again in a file is refused, since its digest needs one."""
    assert snapshot_of(Task("t", verifiers=[DeterministicVerifier("v", check=check)]))
    with pytest.raises(ConfigError) as caught:
        snapshot_of(Task("t", verifiers=[DeterministicVerifier("v", check=function)]))
    assert "verifier 'v': its check" in str(caught.value)
    assert message in str(caught.value)


def test_a_prompt() -> None:
    """At a prompt the error says that a file is needed."""
    code = (
        "from trialog import *\nfrom trialog import Task, DeterministicVerifier\n"
        "from trialog.engine.projects.script import snapshot_of\n"
        "def check(episode): return 1\n"
        "snapshot_of(Task('t', verifiers=[DeterministicVerifier('v', check=check)]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, check=False
    )
    assert "its digest is taken from a Python file" in ran.stderr


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task("t"), "has no verifiers, so nothing would score it"),
        (Task("a task", verifiers=[DeterministicVerifier("v", check=check)]), "no good name"),
        (Task("t", verifiers=[DeterministicVerifier("v", check=check)], expected=2**70),
         "expected of tasks/t can't be kept"),
        (Task("t", verifiers=[DeterministicVerifier("v", check=check)], info={"a": object()}),
         "info of tasks/t can't be kept"),
        (Task("t", verifiers=[DeterministicVerifier("v", check=check, version="1")]),
         "expected a semantic version"),
        (Task("t", verifiers=[DeterministicVerifier("v", check=["sh"])]), "give folder="),
        (Task("t", environment=Environment(name="../x"),
              verifiers=[DeterministicVerifier("v", check=check)]), "no good name"),
    ],
)  # fmt: skip
def test_tasks_that_cannot_be_kept(task: Task, message: str) -> None:
    """What could not be kept exactly is refused, with the reason."""
    with pytest.raises(ConfigError) as caught:
        snapshot_of(task)
    assert message in str(caught.value)


def test_functions_outside_the_folder(tmp_path: Path) -> None:
    """A function that is not in the folder that was given is refused."""
    folder = write(tmp_path / "v", {"x.txt": ""})
    verifier = DeterministicVerifier("v", check=check, folder=folder)
    with pytest.raises(ConfigError, match="is not in the verifier's folder"):
        snapshot_of(Task("t", verifiers=[verifier]))


def test_two_files_of_one_name(tmp_path: Path) -> None:
    """Two files that would both be imported by one name are refused, and named."""
    import importlib.util

    found = []
    for place in ("one", "two"):
        file = write(tmp_path / place, {"dup.py": f"def check(e):\n    return '{place}'\n"})
        spec = importlib.util.spec_from_file_location("dup", file / "dup.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["dup"] = module
        try:
            spec.loader.exec_module(module)
            task = Task("t", verifiers=[DeterministicVerifier(place, check=module.check)])
            assert snapshot_of(task)
            found.append(module)
        finally:
            del sys.modules["dup"]
    from trialog.engine.projects.script import _Writer  # the only way to have both at once

    writer = _Writer(tmp_path / "out")
    sys.modules["dup"] = found[0]
    try:
        writer.reference("check", found[0].check, "verifiers/one")
        sys.modules["dup"] = found[1]
        with pytest.raises(ConfigError, match=r"two files are imported as dup\.py"):
            writer.reference("check", found[1].check, "verifiers/two")
    finally:
        del sys.modules["dup"]


def test_a_projects_verifier_in_plain_python(tmp_path: Path) -> None:
    """A verifier that was loaded from a project can be used in a task of plain Python."""
    root = write(
        tmp_path / "p",
        {
            "trialog.yaml": "name: p\n",
            "shared.py": "SCORE = 0.25\n",
            "verifiers/v/verifier.yaml": "name: v\ncheck: verify.py:check\n",
            "verifiers/v/verify.py": (
                "import shared\n\n\ndef check(episode):\n    return shared.SCORE\n"
            ),
        },
    )
    verifier = load_project(root).verifier("v").verifier
    back = unpack_project_task(snapshot_of(Task("t", verifiers=[verifier])), tmp_path / "s")
    assert (tmp_path / "s/shared.py").exists()
    assert back.task.verifiers[0].check(None) == 0.25  # type: ignore[union-attr, operator, misc, arg-type]


def test_packages(tmp_path: Path) -> None:
    """A script that is run as a module of a package keeps its package."""
    work = write(
        tmp_path / "work",
        {
            "pack/__init__.py": "BASE = 2\n",
            "pack/checks.py": "from . import BASE\n\n\ndef check(e):\n    return BASE\n",
            "pack/main.py": (
                "import sys\nfrom pathlib import Path\n"
                "from trialog import DeterministicVerifier, Task\n"
                "from trialog.engine.projects.script import snapshot_of\n"
                "from .checks import check\n\n\ndef reward(step):\n    return 1\n\n\n"
                "if __name__ == '__main__':\n"
                "    task = Task('t', verifiers=[DeterministicVerifier('v', check=check, "
                "reward=reward)])\n"
                "    Path(sys.argv[1]).write_bytes(snapshot_of(task))\n"
            ),
        },
    )
    out = tmp_path / "data"
    subprocess.run([sys.executable, "-m", "pack.main", out], check=True, cwd=work)
    back = unpack_project_task(out.read_bytes(), tmp_path / "s")
    source = back.verifiers[0].source
    assert source is not None
    assert (source.check, source.reward) == (
        "../../pack/checks.py:check", "../../pack/main.py:reward",
    )  # fmt: skip
    assert back.task.verifiers[0].check(None) == 2  # type: ignore[union-attr, operator, misc, arg-type]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("anyio.run(trialog.run, task, policy)\n",
         'put what starts it under `if __name__ == "__main'),
        ("import sys\nif __name__ != '__main__':\n    sys.exit(3)\n"
         "anyio.run(trialog.run, task, policy)\n",
         "its code can't be imported a second time: SystemExit: 3 (line 16 of script.py)"),
    ],
)  # fmt: skip
def test_a_script_that_starts_a_job_when_imported(tmp_path: Path, start: str, message: str) -> None:
    """A script that would start its job again, or ends, whenever its functions are imported is
    refused before the job begins."""
    code = (
        "import anyio, trialog\nfrom trialog import Answer, DeterministicVerifier, Task\n\n\n"
        "def check(episode):\n    return {'score': 1.0}\n\n\n"
        "async def policy(observation, actions):\n    return Answer(1)\n\n\n"
        "task = Task('t', verifiers=[DeterministicVerifier('v', check=check)])\n"
    )
    guarded = code + "if __name__ == '__main__':\n    anyio.run(trialog.run, task, policy)\n"
    for text, good in ((guarded, True), (code + start, False)):
        here = write(tmp_path / str(good), {"script.py": text})
        ran = subprocess.run(
            [sys.executable, "script.py"], cwd=here, capture_output=True, text=True, check=False,
            timeout=60,
        )  # fmt: skip
        assert (ran.returncode == 0) is good, ran.stderr
        assert (message in ran.stderr) is not good
        assert (here / "jobs/trialog.db").exists() is good
