"""The check of a whole project: every fault, at its file and line, all at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from trialog.engine.errors import ConfigError
from trialog.engine.projects.project import load_project
from trialog.engine.projects.validate import validate, validate_verifier

from .conftest import ENV, Make, write


def faults(root: Path, seconds: float = 30.0) -> list[str]:
    """All faults, as seen from the project's folder."""
    return [fault.shown(root) for fault in validate(load_project(root), seconds=seconds)]


def test_a_project_in_order(make: Make) -> None:
    """A project in order has no faults."""
    assert faults(make()) == []


def test_all_at_once(make: Make) -> None:
    """Faults of manifests and of code in several resources come together, sorted."""
    root = make(
        {
            "agents/steady/policy.py": (
                "class Policy:\n    def act(self, observation):\n        pass\n"
            ),
            "environments/counter/env.py": ENV + "\nundefined\n",
            "tasks/count/task.yaml": (
                "name: count\ninstructions: x\nenvironment: counter\nverifiers: [reached, gone]\n"
            ),
            "tasks/other/task.yaml": "name: another\ninstructions: x\nverifiers: [reached]\n",
            "verifiers/reached/verify.py": "def check():\n    pass\n",
            "verifiers/empty/verifier.yaml": "name: empty\n",
        }
    )
    assert faults(root) == [
        "agents/steady/agent.yaml:2: python: policy.py:Policy has no "
        "`async def act(self, observation, actions)`",
        "environments/counter/env.py:16: can't be imported: NameError: name 'undefined' is not "
        "defined",
        "tasks/count/task.yaml:4: verifiers[1]: there is no verifier 'gone'; there are: empty, "
        "reached",
        "tasks/other/task.yaml:1: name: the name 'another' is not the folder's; it must be "
        "'other'",
        "verifiers/empty/verifier.yaml:1: a verifier needs at least one of check, reward and "
        "hindsight",
        "verifiers/reached/verifier.yaml:4: check: verify.py:check must take one argument, the "
        "episode (too many positional arguments)",
        "verifiers/reached/verifier.yaml:5: reward: there is no 'reward' in verify.py",
    ]  # fmt: skip


def test_files_that_import_each_other(make: Make) -> None:
    """A circle of imports is told at its line, with the modules' names as they were written."""
    root = make(
        {
            "verifiers/reached/verify.py": (
                "import other\n\n\ndef check(episode):\n    return {'score': 1}\n\n\n"
                "def reward(step):\n    return 0.5\n"
            ),
            "verifiers/reached/other.py": "from verify import check\n",
        }
    )
    (fault, *_) = faults(root)
    assert fault.startswith(
        "verifiers/reached/other.py:1: can't be imported: ImportError: cannot import name 'check' "
        "from partially initialized module 'verify' (most likely due to a circular import)"
    )


REACHED = "verifiers/reached/verify.py"
REWARD = "\n\ndef reward(step):\n    return None\n"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (REACHED, "import nothing_of_this_name\n" + REWARD,
         [f"{REACHED}:1: can't be imported: ModuleNotFoundError: No module named "
          "'nothing_of_this_name'"]),
        (REACHED, "import helpers\n", ["verifiers/reached/helpers.py:2: can't be imported: "
                                       "ZeroDivisionError: division by zero"]),
        (REACHED, "def check(episode)\n", [f"{REACHED}:1: no valid Python: expected ':'"]),
        (REACHED, "check = 5\n" + REWARD,
         ["verifiers/reached/verifier.yaml:4: check: verify.py:check is no function"]),
        (REACHED, "async def check(episode):\n    pass\n" + REWARD,
         ["verifiers/reached/verifier.yaml:4: check: verify.py:check is asynchronous; a check is a "
          "plain function"]),
        (REACHED, "def check(episode, more):\n    pass\n" + REWARD,
         ["verifiers/reached/verifier.yaml:4: check: verify.py:check must take one argument, the "
          "episode (missing a required argument: 'more')"]),
        ("agents/steady/policy.py", "Policy = 5\n",
         ["agents/steady/agent.yaml:2: python: policy.py:Policy is neither a class nor an async "
          "function"]),
        ("agents/steady/policy.py", "async def Policy(observation):\n    pass\n",
         ["agents/steady/agent.yaml:2: python: policy.py:Policy must take observation and actions "
          "(too many positional arguments)"]),
        ("agents/steady/policy.py",
         "class Policy:\n    def __init__(self, x):\n        pass\n\n"
         "    async def act(self, observation, actions):\n        pass\n",
         ["agents/steady/agent.yaml:2: python: policy.py:Policy must be made without arguments "
          "(missing a required argument: 'x')"]),
        ("environments/counter/env.py", "class Counter:\n    pass\n",
         ["environments/counter/environment.yaml:3: apps[0].python: env.py:Counter is no App; "
          "write `class Name(App[State])`"]),
        ("environments/counter/env.py",
         "from trialog import App\n\n\nclass Counter(App):\n    pass\n",
         ["environments/counter/environment.yaml:3: apps[0].python: Counter names no state type; "
          "write `class Counter(App[State])` with a msgspec.Struct as State"]),
        ("environments/counter/env.py", ENV.replace("n: int", "n"),
         ["environments/counter/environment.yaml:3: apps[0].python: Counter.add: argument 'n' "
          "needs a type annotation"]),
        ("environments/counter/env.py", ENV.replace("    def add", "    async def add"),
         ["environments/counter/environment.yaml:3: apps[0].python: Counter.add is asynchronous; "
          "use a plain method"]),
        ("environments/counter/env.py", ENV.replace("value: int = 0", "value: int"),
         ["tasks/count/task.yaml:1: the first state: app 'counter' can't begin: Object missing "
          "required field `value`"]),
        ("environments/counter/environment.yaml",
         "name: counter\napps:\n  - python: env.py:Counter\n  - python: env.py:Counter\n",
         ["environments/counter/environment.yaml:2: apps: environment 'environment' has two apps "
          "of the name 'counter'"]),
        ("tasks/count/task.yaml",
         "name: count\ninstructions: x\nenvironment: counter\nverifiers: [reached]\n"
         "initial_state: {value: many}\n",
         ["tasks/count/task.yaml:5: initial_state: app 'counter' can't begin: Expected `int`, got "
          "`str` - at `$.value`"]),
        ("tasks/count/task.yaml",
         "name: count\ninstructions: x\nenvironment: counter\nverifiers: [reached]\n"
         "initial_state: {value: many, vlaue: 3, more: 1}\n",
         ["tasks/count/task.yaml:5: initial_state: app 'counter' can't begin: Expected `int`, got "
          "`str` - at `$.value`",
          *("tasks/count/task.yaml:5: initial_state: app 'counter' can't begin: there is no field "
            f"'{name}'; there are: value" for name in ("more", "vlaue"))]),
    ],
)  # fmt: skip
def test_faults_of_code(make: Make, path: str, text: str, expected: list[str]) -> None:
    """Every function and class is imported, and must be what its place needs."""
    root = make({"verifiers/reached/helpers.py": "\n1 / 0\n"})
    assert faults(root) == []
    write(root, {path: text})
    assert faults(root) == expected


def test_states_of_several_apps(make: Make) -> None:
    """With several apps, a task's state is by app, and names that are no app are told."""
    root = make(
        {
            "environments/counter/environment.yaml": (
                "name: counter\napps:\n  - python: env.py:Counter\n"
                "  - python: env.py:Counter\n    name: other\n"
            ),
            "tasks/count/task.yaml": (
                "name: count\ninstructions: x\nenvironment: counter\nverifiers: [reached]\n"
                "initial_state:\n  counter: {value: 1}\n  othr: {}\n"
            ),
        }
    )
    assert faults(root) == [
        "tasks/count/task.yaml:5: initial_state: there is no app 'othr'; there are: counter, other"
    ]


@pytest.mark.parametrize("code", ["while True:\n    pass\n", "import os\nos._exit(3)\n"])
def test_a_file_of_three_hooks_is_told_once(make: Make, code: str) -> None:
    """What keeps a verifier's file from being imported is told once, at its first hook."""
    hooks = "".join(f"{hook}: verify.py:{hook}\n" for hook in ("check", "reward", "hindsight"))
    root = make(
        {
            "verifiers/reached/verify.py": code,
            "verifiers/reached/verifier.yaml": f"name: reached\nkind: deterministic\n{hooks}",
        }
    )
    (fault,) = faults(root)
    assert fault.startswith("verifiers/reached/verifier.yaml:3: check: importing it ")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("while True:\n    pass\n", "importing it took over 2 seconds"),
        ("import os\nos._exit(3)\n", "importing it ended the process (exit code 3)"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
         "importing it ended the process (signal 9)"),
        ("import sys\nsys.exit(3)\n", "can't be imported: SystemExit: 3"),
        ("input()\n", "can't be imported: EOFError"),
    ],
)  # fmt: skip
def test_a_file_that_ends_or_never_does(make: Make, code: str, message: str) -> None:
    """A file that runs for ever or ends its process is a fault; the others are checked all the
    same, and this process lives on."""
    root = make(
        {
            "environments/counter/env.py": code,
            "verifiers/reached/verifier.yaml": "name: reached\ncheck: verify.py:nothing\n",
        }
    )
    began = time.monotonic()
    first, second = faults(root, seconds=2.0)
    assert message in first
    assert first.startswith("environments/counter/env")
    assert second.startswith("verifiers/reached/verifier.yaml:2: check: there is no 'nothing'")
    assert time.monotonic() - began < 30


def test_printing_does_no_harm(make: Make) -> None:
    """What files print while they are imported reaches neither the answers nor the screen."""
    root = make(
        {
            REACHED: (
                "import os\nprint('[]')\nos.write(1, b'[]\\n' * 1000)\n\n\n"
                "def check(episode):\n    pass\n" + REWARD
            )
        }
    )
    assert faults(root) == []


def test_nothing_is_imported_here(make: Make) -> None:
    """The check leaves no trace in this process and no files in the project."""
    import sys

    root = make()
    before = set(sys.modules)
    files = sorted(root.rglob("*"))
    assert faults(root) == []
    assert {name for name in set(sys.modules) - before if "space" in name} == set()
    assert sorted(root.rglob("*")) == files


def test_one_verifier(make: Make) -> None:
    """One verifier alone can be checked, whatever is wrong elsewhere."""
    root = make({"environments/counter/env.py": "1 / 0\n", REACHED: "def check(e):\n    pass\n"})
    project = load_project(root)
    assert [fault.shown(root) for fault in validate_verifier(project, "reached")] == [
        "verifiers/reached/verifier.yaml:5: reward: there is no 'reward' in verify.py"
    ]
    with pytest.raises(ConfigError, match="has no verifier 'x'"):
        validate_verifier(project, "x")
    write(root, {"verifiers/reached/verifier.yaml": "name: reached\n"})
    [fault] = validate_verifier(load_project(root), "reached")
    assert "at least one of check" in fault.message
    write(root, {"verifiers/reached/verifier.yaml": "name: reached\ncheck: verify.py:check\n"})
    assert validate_verifier(load_project(root), "reached") == []


def test_files_that_are_no_python(make: Make) -> None:
    """A file that is no Python is told once, at its line, though nothing else can be checked."""
    root = make({"verifiers/reached/unused.py": "def\n"})
    assert faults(root) == ["verifiers/reached/unused.py:1: no valid Python: invalid syntax"]


def test_links_that_lead_out(make: Make, tmp_path: Path) -> None:
    """A link out of the project is a fault of the resource that it is in."""
    root = make()
    (tmp_path / "outside").write_text("x")
    (root / "verifiers/reached/link").symlink_to(tmp_path / "outside")
    [fault] = faults(root)
    assert fault.startswith("verifiers/reached/link:1: a symbolic link leads to")


def test_an_agent_that_is_installed(make: Make) -> None:
    """Its manifest is checked; what its files are written in is no matter of this Python."""
    files = {
        "agents/steady/agent.yaml": "name: steady\ncommand: [./old.py]\n",
        "agents/steady/old.py": "print 'Python 2'\n",
    }
    assert faults(make(files)) == []
    files["agents/steady/agent.yaml"] += "netwrok: true\n"
    [fault] = faults(make(files))
    assert "agent.yaml:3: netwrok: unknown key; did you mean 'network'?" in fault


def test_an_agent_without_python(make: Make) -> None:
    """Agents that are models or programs have nothing to import."""
    assert faults(make({"agents/steady/agent.yaml": "name: steady\nmodel: m\n"})) == []
