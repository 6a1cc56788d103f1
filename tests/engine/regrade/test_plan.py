"""Which trials can be regraded, and why others can't."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.given import agent_finished, recorded, sandbox, scored, started, trial_scored
from trialog.engine.regrade.plan import Facts, notes, refusal
from trialog.engine.regrade.stored import StoredTrial, read_stored
from trialog.events.kinds import (
    ArtifactsSaved,
    EnvironmentReset,
    HumanReviewRequested,
    RegradeScored,
    TrialErrored,
    TrialFinished,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import SkippedPath
from trialog.events.values import BlobRef, blob_ref

SAVED = WorkspaceSaved(archive=blob_ref(b"work"), size=4, files=1, outside=[], duration=0.1)
ASKED = HumanReviewRequested(
    verifier="person", digest="d", weight=1.0, instructions="", criteria=[]
)
SCRIPT = Facts(script=True, backend="docker")
FUNCTIONS = Facts(script=False)


def stored(*items: Any) -> StoredTrial:
    """What is read of a trial with these events."""
    return read_stored("t__1", recorded("trial/t__1", items))


def finished(*items: Any, outcome: Any = "scored") -> StoredTrial:
    """The same, with a start and an end."""
    return stored(started(), *items, TrialFinished(outcome=outcome))


DONE = (agent_finished(), scored(), trial_scored())
LOST = ArtifactsSaved(
    skipped=[SkippedPath(path="/data/model", reason="over the limit", failed=True)], duration=0.1
)
ERRORED = TrialErrored(error="e", category="sandbox_lost")


@pytest.mark.parametrize(
    ("trial", "facts", "category"),
    [
        (stored(), SCRIPT, "not_finished"),
        (stored(started()), SCRIPT, "not_finished"),
        (stored(started(), agent_finished(), ASKED), FUNCTIONS, "not_finished"),
        (finished(outcome="cancelled"), SCRIPT, "cancelled"),
        (finished(SAVED, *DONE), Facts(script=True, gone="it is gone"), "task_gone"),
        (finished(SAVED, *DONE), Facts(script=True, service=True), "service_gone"),
        (finished(*DONE), SCRIPT, "no_saved_workspace"),
        (finished(ERRORED, outcome="errored"), SCRIPT, "no_work"),
        (finished(SAVED, *DONE), Facts(script=True, pruned=True), "workspace_pruned"),
        (finished(SAVED, *DONE), Facts(script=True, blob="missing"), "blob_missing"),
        (finished(SAVED, *DONE), Facts(script=True, blob="altered"), "blob_altered"),
        (finished(sandbox(), LOST, SAVED, *DONE), SCRIPT, "artifact_lost"),
        (finished(*DONE), FUNCTIONS, "no_recorded_state"),
        (finished(EnvironmentReset(apps={}), ERRORED, outcome="errored"), FUNCTIONS, "no_work"),
    ],
)
def test_not_regradable(trial: StoredTrial, facts: Facts, category: str) -> None:
    """Each way in which a trial can't be regraded has a category and a reason in words."""
    found = refusal(trial, facts)
    assert found is not None
    assert found.category == category
    assert found.reason


def test_regradable() -> None:
    """Saved work can be regraded by a script, a recorded episode by functions."""
    assert refusal(finished(SAVED, *DONE), SCRIPT) is None
    assert refusal(finished(EnvironmentReset(apps={}), *DONE), FUNCTIONS) is None


def test_another_kind_of_sandbox_is_noted() -> None:
    """A sandbox of another kind than the run's is allowed, and said."""
    trial = finished(sandbox(backend="bubblewrap"), SAVED, *DONE)
    assert notes(trial, SCRIPT) == ["the run's sandbox was bubblewrap, this one is docker"]
    assert notes(trial, Facts(script=True, backend="bubblewrap")) == []
    assert notes(trial, FUNCTIONS) == []


@pytest.mark.parametrize(
    ("outside", "said"),
    [
        (["/etc/x"], "what the agent changed outside its workspace is gone: /etc/x"),
        (["/a", "/b", "/c"], ": /a and 2 more places"),
        (BlobRef(blob="sha256:" + "0" * 64, size=9), "outside its workspace is gone"),
    ],
)
def test_work_outside_the_workspace_is_noted(outside: Any, said: str) -> None:
    """What was changed elsewhere is not in the saved workspace, and a reader should know."""
    saved = WorkspaceSaved(
        archive=blob_ref(b"work"), size=4, files=1, outside=outside, duration=0.1
    )
    (note,) = notes(finished(sandbox(backend="docker"), saved, *DONE), SCRIPT)
    assert said in note


def test_the_verdict_that_stands() -> None:
    """It is the run's, then that of the last regrade that was finished."""
    answer = RegradeScored(regrade_id="r", verdicts=[], passed=True, score=1.0)
    items = [started(), *DONE, TrialFinished(outcome="scored"), answer]
    events = recorded("trial/t__1", items)
    assert read_stored("t__1", events).standing == events[-3].id
    assert read_stored("t__1", events, finished={"r"}).standing == events[-1].id
    assert read_stored("t__1", events).answered == {"r": answer}
