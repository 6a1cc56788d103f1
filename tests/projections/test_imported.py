"""What other systems ran: said so in every document, and what is not known is null."""

from __future__ import annotations

import json
from typing import Any

from helpers.given import (
    Item,
    action,
    agent_finished,
    job_started,
    recorded,
    scored,
    started,
    trial_scored,
    verifier_started,
    view,
)
from trialog.events.kinds import (
    ArtifactsSaved,
    TrialErrored,
    TrialFinished,
    VerifierFailed,
)
from trialog.events.kinds.job import ImportedJob
from trialog.events.kinds.parts import SkippedPath
from trialog.events.kinds.trial import ImportedTrial
from trialog.projections.files import job_files, trial_files
from trialog.projections.summary import SummaryFold
from trialog.projections.timeline import describe

TRIAL = ImportedTrial(system="harbor", name="hello__1", path="hello__1")
JOB = ImportedJob(
    system="harbor", version="0.26.0", name="j", path="/jobs/j", digest="ab", at="",
    skipped=[SkippedPath(path="hello__2", reason="damaged")],
)  # fmt: skip


def documents(*items: Item) -> dict[str, Any]:
    """The trial's result and steps."""
    made = trial_files(view(*items), {}).documents
    return {
        "result": json.loads(made["result.json"]),
        "steps": [json.loads(line) for line in made["steps.jsonl"].splitlines()],
        "trajectory": json.loads(made["trajectory.json"]),
    }


def graded(*, untimed: bool) -> list[Item]:
    """A trial of everything that has a duration."""
    return [
        started(task_digest="", imported=TRIAL),
        action(untimed=untimed, started_at="" if untimed else "2026-01-01T00:00:00.000000Z"),
        agent_finished(untimed=untimed),
        ArtifactsSaved(duration=1.0, untimed=untimed),
        verifier_started(digest=""),
        scored(1.0, digest="", untimed=untimed),
        trial_scored(1.0),
        TrialFinished(outcome="scored"),
    ]


def test_a_result_says_who_ran_it() -> None:
    """With its name there; a trial of trialog's own has no such key."""
    assert documents(*graded(untimed=True))["result"]["imported"] == {
        "system": "harbor", "name": "hello__1", "path": "hello__1",
    }  # fmt: skip
    own = documents(
        started(), TrialErrored(error="e", category="c"), TrialFinished(outcome="errored")
    )
    assert "imported" not in own["result"]


def test_a_summary_says_who_ran_it() -> None:
    """With the version, and how much was left out."""
    assert "imported" not in summed(job_started())
    assert summed(job_started(imported=JOB))["imported"] == {
        "system": "harbor", "version": "0.26.0", "name": "j", "digest": "ab", "left_out": 1,
    }  # fmt: skip


def summed(*items: Item) -> dict[str, Any]:
    """The job's summary."""
    fold = SummaryFold()
    fold.feed(recorded("job/j", items))
    found: dict[str, Any] = json.loads(job_files(fold).documents["summary.json"])
    return found


def test_times_that_are_not_known_are_null() -> None:
    """A duration that was recorded shows; one that was not is null, and never 0."""
    known, unknown = documents(*graded(untimed=False)), documents(*graded(untimed=True))
    timing = known["result"]["timing"]
    assert None not in (timing["agent"], timing["save"], timing["verifier"], timing["total"])
    assert known["steps"][0]["duration_sec"] is not None
    assert set(unknown["result"]["timing"].values()) == {None}
    assert unknown["result"]["verifiers"][0]["duration_sec"] is None
    [step] = unknown["steps"]
    assert (step["started_at"], step["duration_sec"]) == (None, None)
    assert "timestamp" not in unknown["trajectory"]["steps"][0]
    failed = VerifierFailed(
        verifier="v", verifier_kind="script", digest="", weight=1.0, error="e", category="c",
        infrastructure=False, duration=0.0, untimed=True,
    )  # fmt: skip
    end = documents(started(), failed, TrialFinished(outcome="unscored"))
    assert end["result"]["timing"]["verifier"] is None


def test_digests_that_are_not_known_are_null() -> None:
    """Of the task, and of what graded it."""
    result = documents(*graded(untimed=True))["result"]
    assert result["task_digest"] is None
    assert result["verifiers"][0]["digest"] is None


def test_the_timeline_says_who_ran_it() -> None:
    """In the first event of the job and of the trial."""
    assert describe(job_started(imported=JOB)).endswith(", imported from harbor: j")
    assert describe(started(imported=TRIAL)).endswith(", imported from harbor: hello__1")
    assert "after a time not known" in describe(agent_finished(untimed=True))
