"""What the words of a command line stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialog.engine.errors import ConfigError, TaskError
from trialog.engine.projects.faults import ProjectError
from trialog.engine.projects.resolve import resolve_words
from trialog.engine.projects.resources import ProjectTask

from .conftest import FILES, Make, write

PLAIN = {
    "task.md": "## prompt\n\nDo it.\n",
    "verifier/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
}
SECOND = FILES["tasks/count/task.yaml"].replace("name: count", "name: second")


@pytest.fixture
def root(make: Make, tmp_path: Path) -> Path:
    """A project with two tasks, beside a folder of two plain tasks."""
    for name in ("one", "two"):
        write(tmp_path / "plain" / name, PLAIN)
    return make({"tasks/second/task.yaml": SECOND})


def names(here: Path, *words: str, **chosen: object) -> list[tuple[str, bool]]:
    """The tasks' names, and whether each is a project's."""
    tasks = resolve_words(words, here, **chosen)  # type: ignore[arg-type]
    return [(task.name, isinstance(task, ProjectTask)) for task in tasks]


def test_names_of_tasks(root: Path) -> None:
    """Names of the project's tasks, anywhere below its folder, in the order of the words."""
    assert names(root, "second", "count") == [("second", True), ("count", True)]
    assert names(root / "verifiers/reached", "count") == [("count", True)]


def test_folders(root: Path, tmp_path: Path) -> None:
    """Task folders of both kinds, folders of task folders, and a project's own folder."""
    both = [("count", True), ("second", True)]
    assert names(root, "tasks/count") == [("count", True)]
    assert names(root, "tasks") == both
    assert names(root, ".") == both
    assert names(tmp_path, "shop") == both
    assert names(tmp_path, "shop/tasks/", str(root / "tasks/count")) == both
    assert names(tmp_path, "plain") == [("one", False), ("two", False)]
    assert names(tmp_path, "plain/two", "shop/tasks/second") == [("two", False), ("second", True)]
    assert names(root, "count", "../plain/one", "count") == [("count", True), ("one", False)]


def test_plain_tasks_in_a_project(root: Path) -> None:
    """A task folder with a task.md is one wherever it lies."""
    write(root / "tasks" / "scripted", PLAIN)
    assert names(root, "tasks/scripted") == [("scripted", False)]


def test_choosing(root: Path) -> None:
    """--include, --exclude and --limit choose among tasks of both kinds."""
    words = ("tasks", "../plain")
    assert names(root, *words, include=["*o*"]) == [
        ("count", True), ("second", True), ("one", False), ("two", False),
    ]  # fmt: skip
    assert names(root, *words, include=["*o*"], exclude=["t*", "count"]) == [
        ("second", True), ("one", False),
    ]  # fmt: skip
    assert names(root, *words, limit=3)[-1] == ("one", False)
    with pytest.raises(ConfigError, match="--include: no task is left of 4"):
        resolve_words(words, root, include=["zzz"])
    with pytest.raises(ConfigError, match="--limit: expected a number of tasks above 0"):
        resolve_words(words, root, limit=0)


def test_names_that_are_none(root: Path, tmp_path: Path) -> None:
    """A word that is neither a task of the project nor a folder is told with the nearest name."""
    with pytest.raises(ConfigError, match=r"there is no task 'secnd' .*did you mean 'second'\?"):
        resolve_words(["secnd"], root)
    with pytest.raises(TaskError, match="no such folder"):
        resolve_words(["secnd"], tmp_path)
    with pytest.raises(TaskError, match="no such folder"):
        resolve_words(["tasks/secnd"], root)
    with pytest.raises(ConfigError, match="no task was named"):
        resolve_words([], root)


def test_two_tasks_of_one_name(root: Path, tmp_path: Path) -> None:
    """Two folders of one name can't be told apart in a job."""
    write(tmp_path / "plain" / "count", PLAIN)
    assert names(root, "count", "../plain/one")
    with pytest.raises(ConfigError, match="two tasks are named count"):
        resolve_words(["count", "../plain/count"], root)


def test_all_broken_tasks_at_once(root: Path) -> None:
    """The faults of all chosen tasks come together; those of others don't matter."""
    write(
        root,
        {
            "tasks/count/task.yaml": "name: count\ninstructions: x\nverifiers: [gone]\n",
            "tasks/third/task.yaml": "name: third\n",
        },
    )
    assert names(root, "second") == [("second", True)]
    with pytest.raises(ProjectError) as caught:
        resolve_words(["tasks"], root)
    places = [fault.shown(root).split(": ")[0] for fault in caught.value.faults]
    assert places == ["tasks/count/task.yaml:3", *["tasks/third/task.yaml:1"] * 2]
    assert str(caught.value).startswith("3 faults in task 'count' and task 'third':\n")
