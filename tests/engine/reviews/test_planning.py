"""What a review will do: each trial's rubric, by the order in which rubrics count."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from helpers.jobs import write_task
from trialog.engine.errors import ConfigError
from trialog.engine.job.tasks import take
from trialog.engine.reviews.admitting import NO_ROOT, digest_of
from trialog.engine.reviews.choosing import Subject
from trialog.engine.reviews.planning import plan_reviews, planned_again, seen_from
from trialog.engine.reviews.rubric import BUILT_IN
from trialog.engine.tasks.load import load_task
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log


def rubric(name: str) -> dict[str, Any]:
    """A rubric of one criterion."""
    return {"criteria": [{"name": name, "description": "d", "guidance": "g"}]}


JUDGES = {"criteria": [{"id": "a", "match_criteria": "b"}]}


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """A log for the snapshots of tasks."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        yield log


async def taken(log: MemoryLog, root: Path, name: str, own: Any = None) -> Subject:
    """A trial of a task, with this as its rubric.json, as its job took it."""

    def make() -> Any:
        folder = write_task(root / name)
        if own is not None:
            (folder / "tests" / "rubric.json").write_text(json.dumps(own))
        return load_task(folder)

    task = await to_thread.run_sync(make)
    [snapshot] = await take([task], log.blobs)
    return Subject(
        trial=f"{name}__1", task=name, passed=True, digests=[snapshot.digest], snapshot=snapshot
    )


async def names(log: MemoryLog, *subjects: Subject, **given: Any) -> list[list[str]]:
    """The criteria of each trial."""
    settings: dict[str, Any] = {"rubric": None, "tasks_root": None} | given
    planned = await plan_reviews(subjects, log.blobs, **settings)
    return [[criterion.name for criterion in one.criteria] for one in planned]


async def test_the_order_of_rubrics(log: MemoryLog, tmp_path: Path) -> None:
    """The given one goes first, then the task's own, then the built-in one; a judge's is none."""
    own = await taken(log, tmp_path, "own", rubric("of-the-task"))
    judged = await taken(log, tmp_path, "judged", JUDGES)
    bare = await taken(log, tmp_path, "bare")
    built_in = [criterion.name for criterion in BUILT_IN.criteria]
    assert await names(log, own, judged, bare) == [["of-the-task"], built_in, built_in]
    path = tmp_path / "given.json"
    path.write_text(json.dumps(rubric("given")))
    assert await names(log, own, judged, bare, rubric=path) == [["given"]] * 3


async def test_a_tasks_rubric_is_as_the_job_took_it(log: MemoryLog, tmp_path: Path) -> None:
    """What became of the folder since is of no account."""
    subject = await taken(log, tmp_path, "t", rubric("then"))
    (tmp_path / "t/tests/rubric.json").write_text(json.dumps(rubric("now")))
    assert await names(log, subject) == [["then"]]
    [planned] = await plan_reviews([subject], log.blobs, rubric=None, tasks_root=tmp_path)
    assert [criterion.name for criterion in planned.criteria] == ["then"]
    assert planned.rubric == tmp_path / "t/tests/rubric.json"
    assert planned.task is None
    assert "is not what the trial ran" in planned.notes[0]


@pytest.mark.parametrize("own", [{"criteria": []}, {"criteria": [{"id": "a"}]}, {"rules": []}])
async def test_a_tasks_broken_rubric_ends_the_review(
    log: MemoryLog, tmp_path: Path, own: Any
) -> None:
    """It is refused by its file, and never passed over for the built-in one; a given one helps."""
    subject = await taken(log, tmp_path, "t", own)
    with pytest.raises(ConfigError, match=r"rubric\.json"):
        await names(log, subject)
    path = tmp_path / "given.json"
    path.write_text(json.dumps(rubric("given")))
    assert await names(log, subject, rubric=path) == [["given"]]


async def test_a_rubric_of_a_folder_that_was_admitted(log: MemoryLog, tmp_path: Path) -> None:
    """A trial known by its files has the rubric of its task, where that is known to be it."""
    folder = await to_thread.run_sync(write_task, tmp_path / "tasks" / "t")
    (folder / "verifier").mkdir()
    (folder / "verifier" / "rubric.json").write_text(json.dumps(rubric("of-the-task")))
    digest = await to_thread.run_sync(digest_of, folder)
    subject = Subject(trial="x", task="t", passed=True, digests=[digest], folder=tmp_path)
    assert await names(log, subject, tasks_root=tmp_path / "tasks") == [["of-the-task"]]
    assert await names(log, subject) == [[criterion.name for criterion in BUILT_IN.criteria]]


async def test_notes_say_what_is_not_evidence(log: MemoryLog, tmp_path: Path) -> None:
    """Those of the choice, and why the task stays out."""
    subject = Subject(trial="x", task="t", passed=False, notes=["first"], folder=tmp_path)
    [planned] = await plan_reviews([subject], log.blobs, rubric=None, tasks_root=None)
    assert planned.notes == ["first", NO_ROOT]
    assert planned.asked.notes == planned.notes


async def test_a_resume_plans_the_same_again(log: MemoryLog, tmp_path: Path) -> None:
    """Rubric and its path are those of the beginning, whatever the task's own are now."""
    subject = await taken(log, tmp_path, "t", {"broken": 1})
    planned = await planned_again(subject, BUILT_IN.criteria, "../r.json", None)
    assert planned.asked.criteria == [criterion.name for criterion in BUILT_IN.criteria]
    assert planned.asked.rubric_path == "../r.json"


def test_paths_are_seen_from_the_report(tmp_path: Path) -> None:
    """So that a folder of jobs can be moved as a whole."""
    assert seen_from(tmp_path / "j/t", tmp_path / "j/reviews/r") == "../../t"
