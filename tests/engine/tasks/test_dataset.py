"""Finding tasks in folders, choosing some of them, all faults at once."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trialog.engine.errors import ConfigError, TaskError
from trialog.engine.tasks.dataset import TasksError, find_tasks

Make = Callable[..., Path]


@pytest.fixture
def dataset(make: Make, tmp_path: Path) -> Path:
    """A folder of three tasks and other things."""
    for name in ("ds/b-two", "ds/a-one", "ds/c-three"):
        make("a", name=name)
    ds = tmp_path / "ds"
    (ds / "README.md").write_text("x")
    (ds / "notes").mkdir()
    make("a", name="ds/.hidden")
    make("a", name="ds/notes/inner")
    return ds


def names(*paths, **options) -> list[str]:
    """The names of the tasks that are found."""
    return [task.name for task in find_tasks(paths, **options)]


def test_a_task_folder_or_a_folder_of_task_folders(dataset: Path):
    """A dataset gives its tasks by name, a task itself; other files and folders are passed over."""
    assert names(dataset) == ["a-one", "b-two", "c-three"]
    assert names(dataset / "b-two") == ["b-two"]
    assert names(dataset / "c-three", str(dataset)) == ["c-three", "a-one", "b-two"]


def test_neither_datasets_nor_tasks_are_searched_deeper(make: Make, dataset: Path):
    """A task in a folder within is not found, nor is one within a task."""
    make("a", name="ds/a-one/inner")
    assert names(dataset) == ["a-one", "b-two", "c-three"]
    with pytest.raises(TaskError, match="neither a task"):
        names(dataset.parent)


def test_include_exclude_and_limit(dataset: Path):
    """Patterns choose by name; the limit takes the first of what is left."""
    assert names(dataset, include=["a*", "c-*"]) == ["a-one", "c-three"]
    assert names(dataset, exclude=["*-two"]) == ["a-one", "c-three"]
    assert names(dataset, include=["*-t*"], exclude=["b*"]) == ["c-three"]
    assert names(dataset, exclude=["a*"], limit=1) == ["b-two"]
    assert names(dataset, limit=99) == ["a-one", "b-two", "c-three"]


def test_nothing_left_is_an_error_that_shows_what_there_was(dataset: Path):
    """A pattern with a slip must not run nothing and look fine."""
    with pytest.raises(ConfigError, match=r"--include: no task is left of 3 \(a-one, b-two"):
        names(dataset, include=["half*"])
    with pytest.raises(ConfigError, match="--exclude"):
        names(dataset, exclude=["*"])
    with pytest.raises(ConfigError, match="--limit: expected a number of tasks above 0, found 0"):
        names(dataset, limit=0)
    with pytest.raises(ConfigError, match="no task was named"):
        names()


def test_all_faulty_tasks_are_told_at_once(dataset: Path):
    """Every fault of the chosen ones is in the message; those left out don't count."""
    (dataset / "a-one" / "task.md").write_text("")
    (dataset / "c-three" / "verifier" / "test.sh").unlink()
    with pytest.raises(TasksError, match="2 of 3 tasks can't be used") as caught:
        names(dataset)
    assert len(caught.value.errors) == 2
    for part in ("a-one/task.md: no prompt", "c-three/verifier: no verifier"):
        assert part in str(caught.value)
    assert names(dataset, include=["b*"]) == ["b-two"]
    with pytest.raises(TaskError, match="no prompt") as alone:
        names(dataset / "a-one")
    assert not isinstance(alone.value, TasksError)


def test_a_half_task_is_a_fault_and_not_passed_over(dataset: Path):
    """A folder with a test but no settings file was meant to be a task."""
    (dataset / "b-two" / "task.md").unlink()
    with pytest.raises(TasksError, match="b-two: no task folder"):
        names(dataset)
    with pytest.raises(TaskError, match=r"no task folder: it has no task.md and no task.toml"):
        names(dataset / "b-two")


def test_a_folder_without_tasks_says_so(tmp_path: Path, make: Make):
    """With a hint when its tasks are one folder further down."""
    with pytest.raises(TaskError, match=r"neither a task .* nor a folder of task folders"):
        names(tmp_path)
    make("a", name="tasks/one")
    with pytest.raises(TaskError, match=r"did you mean .*/tasks"):
        names(tmp_path)
    with pytest.raises(TaskError, match="no such folder"):
        names(tmp_path / "nix")


def test_folders_of_folders_of_tasks_are_named(tmp_path: Path, make: Make):
    """Where tasks lie one level deeper in several folders, these are what to give."""
    make("a", name="sets/x/one")
    make("b", name="sets/y/two")
    (tmp_path / "sets" / "z").mkdir()
    with pytest.raises(TaskError, match=r"one level deeper, so give these folders: x, y$"):
        names(tmp_path / "sets")
    assert names(tmp_path / "sets" / "x", tmp_path / "sets" / "y") == ["one", "two"]


def test_a_folder_of_tasks_in_the_older_layout_is_told_so(tmp_path: Path):
    """They are counted and one is named; nobody would look for them one by one."""
    for name in ("b", "a", "notes"):
        (tmp_path / "set" / name).mkdir(parents=True)
    for name in ("a", "b"):
        (tmp_path / "set" / name / "task.yaml").touch()
        (tmp_path / "set" / name / "run-tests.sh").touch()
    with pytest.raises(TaskError, match=r"2 with a task\.yaml and a run-tests\.sh, such as a, "):
        names(tmp_path / "set")
    with pytest.raises(TaskError, match=r"did you mean .*/set\?"):
        names(tmp_path)


def test_links_to_task_folders_inside_the_dataset(dataset: Path, make: Make, tmp_path: Path):
    """They are tasks under their own names; one that leads out is refused."""
    (dataset / "again").symlink_to("notes/inner")
    assert names(dataset) == ["a-one", "again", "b-two", "c-three"]
    make("a", name="elsewhere/task")
    (dataset / "out").symlink_to(tmp_path / "elsewhere" / "task")
    with pytest.raises(TaskError, match="out of the dataset's folder"):
        names(dataset)


def test_the_same_folder_twice_is_one_task(dataset: Path, monkeypatch):
    """However it is written."""
    monkeypatch.chdir(dataset)
    assert names("a-one", "./a-one/", dataset / "a-one") == ["a-one"]


def test_two_folders_of_one_name_are_refused(dataset: Path, make: Make):
    """Slots and folders go by the name, so both paths are named in the error."""
    other = make("a", name="other/a-one")
    with pytest.raises(ConfigError, match="two tasks are named a-one") as caught:
        names(dataset, other)
    assert str(other) in str(caught.value)
    assert names(dataset, other, exclude=["a-*"]) == ["b-two", "c-three"]


def test_hostile_names_become_safe_ones(make: Make, tmp_path: Path):
    """Patterns match the folder's own name as well."""
    for name in ("ds/a b", "ds/-rf", "ds/x\ny", f"ds/{'n' * 200}"):
        make("a", name=name)
    found = names(tmp_path / "ds")
    assert len(set(found)) == 4
    assert all(name.isascii() and os.sep not in name and " " not in name for name in found)
    assert len(names(tmp_path / "ds", include=["a b"])) == 1


def test_a_dataset_that_cannot_be_listed(tmp_path: Path):
    """A file in place of a folder is named."""
    (tmp_path / "f").touch()
    with pytest.raises(TaskError, match="a task is a folder, and this is none"):
        names(tmp_path / "f")
