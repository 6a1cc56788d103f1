"""Both layouts, either names of folders, and what holds where there are two."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trialog.engine.errors import TaskError
from trialog.engine.tasks.load import load_task

Make = Callable[..., Path]


def codes(task):
    """The codes of a task's warnings."""
    return [warning.code for warning in task.warnings]


def test_layout_a_reads_settings_prompt_verifier_and_solution(make: Make):
    """task.md has the settings and the prompt; verifier/ and oracle/ are beside it."""
    folder = make("a")
    task = load_task(folder)
    assert (task.layout, task.name, task.path) == ("a", "task", folder)
    assert task.prompt == "Do it."
    assert task.settings.agent.timeout_sec == 30
    assert task.settings_file == folder / "task.md"
    assert (task.verifier, task.solution) == (folder / "verifier", folder / "oracle")
    assert task.dockerfile is task.context is task.environment_digest is None
    assert task.warnings == []


def test_layout_b_reads_settings_prompt_verifier_and_solution(make: Make):
    """task.toml has the settings, instruction.md the prompt; tests/ and solution/ are beside."""
    folder = make("b")
    task = load_task(folder)
    assert (task.layout, task.prompt) == ("b", "Do it.\n")
    assert task.settings.agent.timeout_sec == 30
    assert (task.verifier, task.solution) == (folder / "tests", folder / "solution")
    assert task.warnings == []


@pytest.mark.parametrize(
    ("layout", "moved"),
    [
        (
            "a",
            {
                "verifier/test.sh": None,
                "oracle/solve.sh": None,
                "tests/test.sh": "x\n",
                "solution/solve.sh": "x\n",
            },
        ),
        (
            "b",
            {
                "tests/test.sh": None,
                "solution/solve.sh": None,
                "verifier/test.sh": "x\n",
                "oracle/solve.sh": "x\n",
            },
        ),
    ],
)
def test_either_name_of_a_folder_is_read_in_either_layout(make: Make, layout, moved):
    """The verifier's and the solution's folder may have the other layout's name."""
    own = ("verifier", "oracle") if layout == "a" else ("tests", "solution")
    without = {f"{own[0]}/test.sh": None, f"{own[1]}/solve.sh": None}
    task = load_task(make(layout, {**without, **moved}))
    assert task.verifier.name == ("tests" if layout == "a" else "verifier")
    assert task.solution is not None
    assert task.solution.name == ("solution" if layout == "a" else "oracle")
    assert task.warnings == []


def test_task_md_holds_where_there_is_a_task_toml_too(make: Make):
    """With both settings files task.md is read, task.toml is not even parsed, a warning says so."""
    folder = make("a", {"task.toml": "= no toml", "instruction.md": "Not this."})
    task = load_task(folder)
    assert (task.layout, task.prompt) == ("a", "Do it.")
    assert codes(task) == ["task_two_settings"]
    assert "task.toml" in task.warnings[0].message


@pytest.mark.parametrize(("layout", "chosen"), [("a", "verifier"), ("b", "tests")])
def test_of_two_verifiers_the_layouts_own_runs(make: Make, layout, chosen):
    """With a test.sh in both folders, the layout's own name holds, with a warning."""
    task = load_task(make(layout, {"verifier/test.sh": "x\n", "tests/test.sh": "y\n"}))
    assert task.verifier.name == chosen
    assert codes(task) == ["task_two_verifiers"]


def test_a_folder_of_the_verifiers_name_without_a_test_is_passed_over(make: Make):
    """A tests/ folder with other files does not hide verifier/test.sh."""
    task = load_task(
        make("b", {"tests/test.sh": None, "tests/data": "1", "verifier/test.sh": "x\n"})
    )
    assert task.verifier.name == "verifier"


def test_no_solution_is_no_fault(make: Make):
    """A task without a reference solution can be run; one whose folder is empty gets a warning."""
    assert load_task(make("a", {"oracle/solve.sh": None})).solution is None
    task = load_task(make("b", {"solution/solve.sh": None, "solution/notes": "-"}))
    assert task.solution is None
    assert codes(task) == ["task_no_solution"]


def test_a_test_that_fetches_where_no_network_was_said_gets_a_warning(make: Make):
    """With its line and what helps; a task that says either way has decided."""
    test = "#!/bin/bash\n# curl https://x.org\nset -e\npip install pytest\necho 1\n"
    (warning,) = load_task(make("b", {"tests/test.sh": test})).warnings
    assert warning.code == "task_network_unsaid"
    for part in ("tests/test.sh, line 4: 'pip install'", "--default-network", "allow_internet"):
        assert part in warning.message
    for said in ("true", "false"):
        settings = f"[environment]\nallow_internet = {said}\n"
        assert load_task(make("b", {"tests/test.sh": test, "task.toml": settings})).warnings == []
    python = "#!/usr/bin/env python3\nprint('pip install x')\n"
    assert load_task(make("b", {"tests/test.sh": python})).warnings == []


def test_a_verifier_with_an_image_of_its_own_is_refused(make: Make):
    """Its test would run where what it needs is not; in the agent's sandbox the file is nothing."""
    own = {"tests/Dockerfile": "FROM grader\n"}
    assert load_task(make("b", own)).warnings == []
    own["task.toml"] = '[verifier]\nenvironment_mode = "separate"\n'
    with pytest.raises(TaskError, match=r"task task is refused: .* image of its own") as caught:
        load_task(make("b", own))
    assert str(caught.value.file).endswith("tests/Dockerfile")


@pytest.mark.parametrize("layout", ["a", "b"])
def test_scripts_need_no_run_bit(make: Make, layout):
    """test.sh and solve.sh are mode 0644 here, as most public ones are."""
    task = load_task(make(layout))
    assert (task.verifier / "test.sh").stat().st_mode & 0o111 == 0
    assert task.solution is not None


def test_a_byte_order_mark_and_crlf_in_texts_are_accepted(make: Make):
    """Settings and prompt may have been saved on another system."""
    text = "\ufeff---\r\nagent: {timeout_sec: 7}\r\n---\r\n## Prompt\r\nOne.\r\nTwo.\r\n"
    task = load_task(make("a", {"task.md": text}))
    assert task.settings.agent.timeout_sec == 7
    assert task.prompt == "One.\nTwo."
    task = load_task(make("b", {"task.toml": "\ufeff[agent]\r\ntimeout_sec = 8\r\n"}, name="ds/b"))
    assert task.settings.agent.timeout_sec == 8


def test_the_name_is_the_given_folders(make: Make, tmp_path: Path, monkeypatch):
    """A link's own name counts, and `.` is the current folder's."""
    folder = make("a")
    (tmp_path / "ds" / "other").symlink_to("task")
    assert load_task(tmp_path / "ds" / "other").name == "other"
    monkeypatch.chdir(folder)
    assert load_task(".").name == "task"
    assert load_task(".").path == folder


def test_one_that_is_no_task_says_so(tmp_path: Path):
    """A folder without settings is no task; the message says what it is instead."""
    with pytest.raises(TaskError, match=r"no task folder: it has no task\.md and no task\.toml"):
        load_task(tmp_path)


def test_a_task_in_the_older_layout_is_told_what_it_is_and_needs(tmp_path: Path):
    """A task.yaml beside a run-tests.sh is named, with what the layouts that are read have."""
    (tmp_path / "task.yaml").touch()
    (tmp_path / "run-tests.sh").touch()
    with pytest.raises(TaskError) as caught:
        load_task(tmp_path)
    for part in ("a task.yaml and a run-tests.sh", "Terminal-Bench's first layout", "tests/test.sh",
                 "task.toml", "instruction.md", "docs/tasks.md"):  # fmt: skip
        assert part in str(caught.value)
