"""Which trials a review is of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from helpers.given import (
    Item,
    agent_finished,
    fill,
    job_started,
    sandbox,
    scheduled,
    slot,
    started,
    trial,
)
from trialog.engine.errors import ConfigError
from trialog.engine.reviews.choosing import Subject, choose, filed_subjects, logged_subjects
from trialog.events.kinds import (
    AgentFailed,
    AgentFinished,
    AgentStarted,
    TrialErrored,
    TrialFinished,
    TrialUnscored,
)
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log

DIGEST = "sha256:" + "a" * 64


def with_agent(**changes: Any) -> list[Item]:
    """A trial that passed, whose agent ended so."""
    return [
        agent_finished(**changes) if isinstance(item, AgentFinished) else item
        for item in trial(1.0)
    ]


TRIALS: dict[str, tuple[list[Item], bool | None]] = {
    "passed": (trial(1.0), True),
    "failed": (trial(0.0), False),
    "nearly": (trial(0.999), False),
    "crashed": (
        with_agent(ended_by="agent_exit", exit_code=3, error="code 3", error_category="agent_exit"),
        False,
    ),
    "errored": (
        [started(), sandbox(), AgentStarted(name="x"),
         AgentFailed(error="e", category="model_failed", duration=1.0),
         TrialErrored(error="e", category="model_failed"), TrialFinished(outcome="errored")],
        False,
    ),
    "unscored": (
        [*trial(1.0)[:-3], TrialUnscored(error="e", category="c", infrastructure=True),
         TrialFinished(outcome="unscored")],
        False,
    ),
    "unfinished": (trial(1.0)[:4], None),
}  # fmt: skip
"""How a trial went, and whether it counts as passing; null where it is not reviewed yet."""


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """A log with a job of these trials."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        streams: dict[str, list[Item]] = {
            "job/j": [job_started(slots=7)]
            + [scheduled(f"{name}__1", slot=slot(task=name)) for name in TRIALS]
        }
        for name, (items, _) in TRIALS.items():
            streams[f"trial/{name}__1"] = [
                started(trial=f"{name}__1", slot=slot(task=name)), *items[1:]
            ]  # fmt: skip
        await fill(log, streams)
        yield log


async def test_passing_is_a_reward_of_one_without_an_error(log: MemoryLog, tmp_path: Path) -> None:
    """All that has finished is passing or failing, never both; a job's order is by name."""
    found = await logged_subjects(log, "j", tmp_path)
    assert {one.trial.partition("__")[0]: one.passed for one in found} == {
        name: passes for name, (_, passes) in TRIALS.items() if passes is not None
    }
    assert [one.trial for one in found] == sorted(one.trial for one in found)
    passing, failing = choose(found, "passing"), choose(found, "failing")
    assert choose(found, "all") == found
    assert sorted([*passing, *failing], key=lambda one: one.trial) == found
    assert [one.trial for one in passing] == ["passed__1"]


async def test_the_log_decides_and_a_bad_file_is_a_note(log: MemoryLog, tmp_path: Path) -> None:
    """A result.json that can't be read, or says another thing, changes no selection."""
    for name in TRIALS:
        (tmp_path / f"{name}__1").mkdir()
        (tmp_path / f"{name}__1" / "result.json").write_text('{"passed": false}')
    (tmp_path / "passed__1" / "result.json").write_text("{")
    found = {one.trial: one for one in await logged_subjects(log, "j", tmp_path)}
    assert found["passed__1"].passed
    [note] = found["passed__1"].notes
    assert "can't be read" in note
    assert "the log's own was used" in note
    assert found["failed__1"].notes == []
    assert found["passed__1"].digests == [DIGEST]


async def test_damaged_events_are_a_failing_trials_note(log: MemoryLog, tmp_path: Path) -> None:
    """One trial that can't be read does not keep the others from being reviewed."""
    events = log._streams["trial/passed__1"]
    events[3] = type(events[3])(
        **{name: getattr(events[3], name) for name in events[3].__struct_fields__} | {"data": "{"}
    )
    found = {one.trial: one for one in await logged_subjects(log, "j", tmp_path)}
    assert not found["passed__1"].passed
    assert "its events can't be read" in found["passed__1"].notes[0]
    assert len(found) == 6


def write(folder: Path, **result: Any) -> Path:
    """A trial's folder as another tool left it."""
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    return folder


def filed(job: Path) -> dict[str, Subject]:
    """A folder's trials by their names."""
    return {one.trial: one for one in filed_subjects(job)}


def test_a_job_of_files(tmp_path: Path) -> None:
    """Each folder with a trial's files is one; what its files say, is what is known of it."""
    write(tmp_path / "a", passed=True, task_name="t", task_digest=DIGEST)
    write(tmp_path / "b", passed=True, error="it broke")
    write(tmp_path / "c", passed=True, verifier_error="it broke")
    write(tmp_path / "d", passed=False)
    write(tmp_path / "e", passed=1)
    (tmp_path / "reviews").mkdir()
    (tmp_path / "notes.txt").touch()
    found = filed(tmp_path)
    assert {name: one.passed for name, one in found.items()} == {
        "a": True, "b": False, "c": False, "d": False, "e": False
    }  # fmt: skip
    assert (found["a"].task, found["a"].digests) == ("t", [DIGEST])
    assert found["a"].folder == tmp_path / "a"
    assert filed_subjects(tmp_path / "a") == [found["a"]]


def test_digests_of_both_files_count(tmp_path: Path) -> None:
    """What config.json records of the task stands beside what result.json does."""
    folder = write(tmp_path / "a", task_digest=DIGEST)
    (folder / "config.json").write_text(json.dumps({"task_digest": "sha256:0"}))
    assert filed(tmp_path)["a"].digests == [DIGEST, "sha256:0"]
    (folder / "result.json").write_text(json.dumps({"task_digest": 7}))
    assert filed(tmp_path)["a"].digests == ["7", "sha256:0"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "can't be read"),
        (b"\xff", "can't be read"),
        (b"[" * 100_000, "can't be read"),
        (b"[]", "is no JSON object"),
        (None, "is missing"),
        ("link", "is no plain file"),
    ],
)
def test_an_unreadable_result_counts_as_failing(
    tmp_path: Path, content: bytes | str | None, said: str
) -> None:
    """With a note, instead of being left out or read through a link."""
    folder = write(tmp_path / "a", passed=True)
    assert filed(tmp_path)["a"].passed
    (folder / "trajectory.json").touch()
    (folder / "result.json").unlink()
    if isinstance(content, bytes):
        (folder / "result.json").write_bytes(content)
    elif content is not None:
        (tmp_path / "elsewhere.json").write_text('{"passed": true}')
        (folder / "result.json").symlink_to(tmp_path / "elsewhere.json")
    found = filed(tmp_path)["a"]
    assert not found.passed
    [note] = found.notes
    assert said in note
    assert "it counts as failing" in note


def test_a_folder_without_trials_is_refused(tmp_path: Path) -> None:
    """The message says what a trial's folder would have."""
    with pytest.raises(ConfigError, match=r"result\.json"):
        filed_subjects(tmp_path)
