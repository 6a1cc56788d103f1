"""The throwaway task that a reviewer works on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trialog.engine.reviews.wrapper import instruction, write_wrapper
from trialog.engine.tasks.load import load_task
from trialog.events.kinds.review import ReviewCriterion

CRITERIA = [
    ReviewCriterion(name="sound", description="FOR-AUTHORS", guidance="PASS when it holds."),
    ReviewCriterion(name="fair \"quoted\"", description="FOR-AUTHORS", guidance="FAIL {never}."),
]  # fmt: skip


def test_guidance_and_names_are_told_and_descriptions_are_not() -> None:
    """Each rule is in the prompt as it stands, and each name in the shape of the answer."""
    told = instruction(CRITERIA, with_task=False)
    assert "PASS when it holds." in told
    assert "FAIL {never}." in told
    assert "FOR-AUTHORS" not in told
    shape = told[told.index("{\n") : told.rindex("}") + 1]
    assert list(json.loads(shape)["checks"]) == [c.name for c in CRITERIA]


def test_task_evidence_is_named_only_where_it_is() -> None:
    """A reviewer without the task's files is not sent to look for them."""
    assert "/evidence/task" in instruction(CRITERIA, with_task=True)
    assert "/evidence/task" not in instruction(CRITERIA, with_task=False)


@pytest.mark.parametrize("network", [False, True])
def test_it_is_a_task_like_any_other(tmp_path: Path, network: bool) -> None:
    """It loads without a warning, and asks for no network unless that was allowed."""
    folder = tmp_path / "review"
    write_wrapper(folder, CRITERIA, with_task=False, network=network, seconds=60.5)
    task = load_task(folder)
    assert task.warnings == []
    assert task.settings.sandbox.network is network
    assert task.settings.agent.timeout_sec == 60.5
    assert [artifact.source for artifact in task.settings.artifacts] == ["review-result.json"]


def test_no_file_of_it_has_the_rubric(tmp_path: Path) -> None:
    """The rubric's file is not among its files, nor is a description in any of them."""
    folder = tmp_path / "review"
    write_wrapper(folder, CRITERIA, with_task=True, network=False, seconds=60)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert "rubric.json" not in {path.name for path in files}
    assert not any("FOR-AUTHORS" in path.read_text() for path in files)
    assert json.loads((folder / "tests/criteria.json").read_text()) == [c.name for c in CRITERIA]
