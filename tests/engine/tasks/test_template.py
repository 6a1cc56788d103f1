"""The task that `new` writes."""

import os
import tempfile
from pathlib import Path

import pytest

from trialog.engine.errors import ConfigError
from trialog.engine.tasks.load import load_task
from trialog.engine.tasks.template import new_task


@pytest.mark.parametrize("layout", ["a", "b"])
def test_a_new_task_is_whole_and_in_order(tmp_path: Path, layout):
    """All parts are there in the layout that was asked for, without a warning."""
    files = new_task(tmp_path / "deep" / "mine", layout)
    task = load_task(tmp_path / "deep" / "mine")
    assert (task.name, task.layout, task.warnings) == ("mine", layout, [])
    assert "factors.txt" in task.prompt
    assert task.solution is not None
    assert set(files) == {
        path for path in (tmp_path / "deep" / "mine").rglob("*") if path.is_file()
    }
    for script in (task.verifier / "test.sh", task.solution / "solve.sh"):
        assert os.access(script, os.X_OK)


def test_the_prompt_does_not_have_the_notes_for_readers(tmp_path: Path):
    """What teaches the author is not given to the agent."""
    new_task(tmp_path / "mine")
    prompt = load_task(tmp_path / "mine").prompt
    assert prompt.startswith("Find the prime factors")
    assert "reader" not in prompt


def test_an_empty_folder_may_be_there_and_another_may_not(tmp_path: Path):
    """Nothing of the user's is written over."""
    (tmp_path / "empty").mkdir()
    new_task(tmp_path / "empty")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "task.md").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("full", "file", "link"):
        with pytest.raises(ConfigError, match="is there already"):
            new_task(tmp_path / name)
    assert (tmp_path / "full" / "task.md").read_text() == "mine"
    assert list((tmp_path / "full").iterdir()) == [tmp_path / "full" / "task.md"]


@pytest.mark.parametrize("name", ["a b", "-x", ".x", "ä", "x" * 81, "a\nb"])
def test_a_name_that_would_not_stay_is_refused(tmp_path: Path, name):
    """A new task begins with a good name."""
    with pytest.raises(ConfigError, match="is no good name for a task"):
        new_task(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path):
    """The error names it."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"can't be written: Not a directory"):
        new_task(tmp_path / "file" / "mine")
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            os.seteuid(65534)
            try:
                with pytest.raises(ConfigError, match=r"can't be written: Permission denied"):
                    new_task(Path(place) / "mine")
            finally:
                os.seteuid(0)
