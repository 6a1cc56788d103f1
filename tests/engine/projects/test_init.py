"""First projects and resources are in order as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from trialog.engine.agents import InstalledAgent
from trialog.engine.authoring.policy import Action, Answer
from trialog.engine.errors import ConfigError
from trialog.engine.projects.model import VerifierManifest
from trialog.engine.projects.project import KINDS, Kind, load_project
from trialog.engine.projects.template import JudgedBy, init_project, init_resource
from trialog.engine.projects.validate import validate

from .conftest import write


def test_a_whole_project(tmp_path: Path) -> None:
    """`init` writes a project without a fault."""
    written = init_project(tmp_path / "first")
    project = load_project(tmp_path / "first")
    assert validate(project) == []
    assert [len(project.names(kind)) for kind in KINDS] == [1, 1, 1, 1]
    assert set(written) == {path for path in (tmp_path / "first").rglob("*") if path.is_file()}


def test_its_agent_does_its_task(tmp_path: Path) -> None:
    """Its agent reaches the goal step by step, and its verifier rewards each of them."""
    init_project(tmp_path / "first")
    project = load_project(tmp_path / "first")
    task = project.task("count-to-ten").task
    policy = project.agent("steady").policy()()
    observation = task.environment.reset(task, verifiers=task.verifiers)
    assert observation == "The counter is at 3."
    total = 0.0
    for _ in range(20):
        chosen = anyio.run(policy.act, observation, ())
        if isinstance(chosen, Answer):
            break
        assert isinstance(chosen, Action)
        observation, reward, _, _, info = task.environment.step(chosen.name, **chosen.arguments)
        assert info["error"] is None
        total += reward
    assert isinstance(chosen, Answer)
    assert (chosen.value, round(total, 6)) == (10, 0.7)
    refused = task.environment.step("add", n=1000)
    assert refused[1] == -0.1
    assert "the counter stops at 100" in refused[4]["error"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_resource_alone(tmp_path: Path, kind: Kind) -> None:
    """Each kind's `init` in a project that is otherwise empty leaves it without a fault."""
    write(tmp_path, {"trialog.yaml": "name: empty\n"})
    written = init_resource(load_project(tmp_path), kind, "mine")
    assert all(path.is_file() for path in written)
    project = load_project(tmp_path)
    assert validate(project) == []
    assert project.names(kind) == ["mine"]
    with pytest.raises(ConfigError, match=f"there is a {kind} 'mine' already"):
        init_resource(project, kind, "mine")
    with pytest.raises(ConfigError, match="no good name"):
        init_resource(project, kind, "../mine")


@pytest.mark.parametrize("judged_by", ["agent", "human"])
def test_a_verifier_that_is_a_judge_or_a_person(tmp_path: Path, judged_by: JudgedBy) -> None:
    """A rubric without code, which is used as it stands."""
    init_project(tmp_path / "p")
    written = init_resource(load_project(tmp_path / "p"), "verifier", "mine", judged_by=judged_by)
    assert [file.name for file in written] == ["verifier.yaml"]
    project = load_project(tmp_path / "p")
    assert validate(project) == []
    manifest, _ = project.read("verifier", "mine")
    assert isinstance(manifest, VerifierManifest)
    assert (manifest.kind, len(manifest.criteria)) == (judged_by, 1)
    written[0].write_text(re.sub(r"^( *)# ", r"\1", written[0].read_text(), flags=re.M))
    assert validate(load_project(tmp_path / "p")) == [], "a setting in a comment is no setting"


def test_a_task_takes_what_is_there(tmp_path: Path) -> None:
    """A task is given the project's first environment and the first verifier that scores."""
    init_project(tmp_path / "p")
    project = load_project(tmp_path / "p")
    write(tmp_path / "p", {"verifiers/a/verifier.yaml": "name: a\nreward: verify.py:reward\n",
                           "verifiers/a/verify.py": "def reward(s):\n    return 1\n"})  # fmt: skip
    init_resource(project, "task", "second")
    project = load_project(tmp_path / "p")
    assert validate(project) == []
    task = project.task("second")
    assert task.environment is not None
    assert task.environment.name == "counter"
    assert [verifier.name for verifier in task.verifiers] == ["reached"]


def test_a_task_without_a_verifier(tmp_path: Path) -> None:
    """Where nothing scores, a verifier is written too, but over none that is there."""
    write(
        tmp_path,
        {"trialog.yaml": "name: p\n", "verifiers/right-answer/verifier.yaml": "name: broken\n"},
    )
    with pytest.raises(ConfigError, match="'right-answer' is taken"):
        init_resource(load_project(tmp_path), "task", "mine")
    assert not (tmp_path / "tasks").exists()


def test_the_first_agent_works_anywhere(tmp_path: Path) -> None:
    """A new agent tries each action that needs no arguments once, then answers."""
    init_project(tmp_path / "p")
    project = load_project(tmp_path / "p")
    init_resource(project, "agent", "mine")
    policy = project.agent("mine").policy()()
    actions = [
        spec
        for kind in project.task("count-to-ten").task.environment.apps.values()
        for spec in kind.actions().values()
    ]
    assert anyio.run(policy.act, "hello", actions) == Action("look", {}, "counter")
    assert anyio.run(policy.act, 3, actions) == Answer(3)


def test_a_first_agent_that_is_installed(tmp_path: Path) -> None:
    """Its manifest can be used as it stands, and is of a program in its folder."""
    init_project(tmp_path / "p")
    written = init_resource(load_project(tmp_path / "p"), "agent", "mine", installed=True)
    assert [file.name for file in written] == ["agent.yaml", "agent.sh"]
    agent = InstalledAgent.load(written[0])
    assert (agent.name, agent.version) == ("mine", "0.1.0")
    assert validate(load_project(tmp_path / "p")) == []


def test_places_that_are_taken(tmp_path: Path) -> None:
    """A folder with something in it, or with a bad name, is left alone."""
    write(tmp_path / "full", {"x": ""})
    with pytest.raises(ConfigError, match="there already and not empty"):
        init_project(tmp_path / "full")
    with pytest.raises(ConfigError, match="no good name for a project"):
        init_project(tmp_path / "my project")
    (tmp_path / "empty").mkdir()
    assert init_project(tmp_path / "empty")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError):
        init_project(tmp_path / "file")
    with pytest.raises(ConfigError, match="can't be written"):
        init_project(tmp_path / "file" / "below")
