"""review_report.json, folded from a review's own stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.given import Item, recorded, unknown
from trialog.events.errors import LogCorrupt, UnknownEvent
from trialog.events.kinds import (
    JobCancelled,
    ReviewCompleted,
    ReviewFailed,
    ReviewFinished,
    ReviewStarted,
)
from trialog.events.kinds.review import ReviewCheck, ReviewCriterion
from trialog.events.values import blob_ref
from trialog.projections.review import PENDING, ReviewFold, review_document

FIELDS = ["path", "rubric", "reviewer", "job_summary", "trials"]
TRIAL_FIELDS = (
    "trial_name source_rollout review_valid summary checks error reviewer_rollout rubric_path "
    "criteria notes"
).split()


def begun(**more: Any) -> ReviewStarted:
    """The start of a review of trials a and b."""
    usual: dict[str, Any] = {
        "review": "r",
        "path": "../..",
        "out_dir": ".",
        "trials": ["a", "b"],
        "selection": "all",
        "criteria": [ReviewCriterion(name="sound", description="d", guidance="g")],
        "agent": "command:look",
        "sandbox": "bubblewrap",
        "network": "no-internet",
    }
    return ReviewStarted(**usual | more)


def answered(trial: str, outcome: str = "pass", **more: Any) -> ReviewCompleted:
    """A valid review of one criterion."""
    usual: dict[str, Any] = {
        "reviewer_trial": f"review-{trial}__1",
        "summary": "It went well.",
        "checks": {"sound": ReviewCheck(outcome=outcome, explanation="because")},
        "criteria": ["sound"],
    }
    return ReviewCompleted(trial=trial, **usual | more)


FAILED = ReviewFailed(
    trial="b", error="no reply", category="agent_exit", criteria=["sound"], notes=["n"]
)
DONE = ReviewFinished(completed=1, failed=1)


def folded(*items: Item) -> ReviewFold:
    """The fold of a review's stream."""
    fold = ReviewFold()
    fold.feed(recorded("review/r", list(items)))
    return fold


def of(*items: Item, blobs: dict[str, bytes] | None = None) -> dict[str, Any]:
    """review_report.json, read back."""
    found = review_document(folded(*items), blobs or {})
    assert found is not None
    assert found.endswith(b"}\n")
    return json.loads(found)


def test_a_report_has_every_field_in_its_order() -> None:
    """The contract's keys, in the contract's order, absent values null."""
    report = of(begun(), answered("a"), FAILED, DONE)
    assert list(report) == FIELDS
    assert [list(trial) for trial in report["trials"]] == [TRIAL_FIELDS, TRIAL_FIELDS]
    assert report["path"] == "../.."
    assert report["rubric"] == {"path": None, "criteria": ["sound"]}
    assert report["reviewer"] == {
        "agent": "command:look",
        "model": None,
        "environment": "bubblewrap",
        "network": "no-internet",
    }
    assert report["trials"][0] == {
        "trial_name": "a",
        "source_rollout": "../../a",
        "review_valid": True,
        "summary": "It went well.",
        "checks": {"sound": {"explanation": "because", "outcome": "pass"}},
        "error": None,
        "reviewer_rollout": "runtime/a/review-a__1",
        "rubric_path": None,
        "criteria": ["sound"],
        "notes": [],
    }


def test_a_failed_review_is_an_entry_of_its_own() -> None:
    """An error entry has no summary, no checks and no guessed folder; the others stand."""
    first, second = of(begun(), answered("a"), FAILED, DONE)["trials"]
    assert first["review_valid"]
    assert second == {
        "trial_name": "b",
        "source_rollout": "../../b",
        "review_valid": False,
        "summary": None,
        "checks": {},
        "error": "no reply",
        "reviewer_rollout": None,
        "rubric_path": None,
        "criteria": ["sound"],
        "notes": ["n"],
    }


def test_trials_are_in_the_order_of_the_selection() -> None:
    """Which reviewer ended first changes no byte."""
    one = of(begun(), answered("a"), answered("b", "fail"), DONE)
    assert one == of(begun(), answered("b", "fail"), answered("a"), DONE)


def test_the_summary_counts_valid_reviews_only() -> None:
    """Each criterion's outcomes are counted over the reviews that are valid."""
    report = of(
        begun(trials=["a", "b", "c"]),
        answered("a"),
        answered("c", "not_applicable"),
        FAILED,
        DONE,
    )
    assert report["job_summary"] == (
        "2 of 3 trials reviewed. sound: 1 pass, 0 fail, 1 not_applicable."
    )
    assert of(begun(trials=["b"]), FAILED, DONE)["job_summary"] == "0 of 1 trial reviewed."


def test_there_is_no_report_before_the_end() -> None:
    """A review that was cut off has none, and says which trials are open."""
    assert review_document(folded(), {}) is None
    fold = folded(begun(), answered("a"))
    assert review_document(fold, {}) is None
    assert fold.open_trials == ["b"]
    assert folded().open_trials == []
    assert folded().reviewers == []


def test_a_trial_that_nobody_reviewed_is_pending() -> None:
    """A report with an open trial says so instead of leaving it out."""
    entry = of(begun(notes={"b": ["no task"]}), answered("a"), DONE)["trials"][1]
    assert (entry["review_valid"], entry["error"]) == (False, PENDING)
    assert (entry["criteria"], entry["notes"]) == (["sound"], ["no task"])


def test_rubrics_that_differ() -> None:
    """With several rubrics the path at the top is null, and every name is there once."""
    report = of(
        begun(),
        answered("a", rubric_path="x.json", criteria=["sound", "kind"]),
        answered("b", rubric_path="y.json", criteria=["kind", "new"]),
        DONE,
    )
    assert report["rubric"] == {"path": None, "criteria": ["sound", "kind", "new"]}
    assert [trial["rubric_path"] for trial in report["trials"]] == ["x.json", "y.json"]
    same = of(begun(trials=["a"]), answered("a", rubric_path="x.json"), DONE)
    assert same["rubric"]["path"] == "x.json"


def test_one_trials_review_names_its_folder() -> None:
    """Where one trial is reviewed, path and source are the same folder."""
    report = of(begun(path="../../a", single=True, trials=["a"]), answered("a"), DONE)
    assert report["path"] == report["trials"][0]["source_rollout"] == "../../a"


def test_notes_are_told_once() -> None:
    """Notes from the start and from the answer are together, without repeats."""
    start = begun(notes={"a": ["one", "two"]})
    entry = of(start, answered("a", notes=["two", "three"]), DONE)["trials"][0]
    assert entry["notes"] == ["one", "two", "three"]


def test_a_model_that_calls_itself_another_is_told_apart() -> None:
    """Each review by another name than the first one's has a note; the same name has none."""
    trials = ["a", "b", "c", "d"]
    report = of(
        begun(trials=trials, model="m"),
        answered("c", models_reported=["m-2", "m-1"]),
        answered("a", models_reported=["m-1"]),
        answered("b", models_reported=["m-1"]),
        ReviewFailed(trial="d", error="e", category="x"),
        DONE,
    )
    notes = [trial["notes"] for trial in report["trials"]]
    assert notes == [
        [],
        [],
        ["m called itself m-2 and then m-1, and m-1 before: the reviews are of different models"],
        [],
    ]
    alike = of(begun(), answered("a", models_reported=["m-1"]), answered("b"), DONE)
    assert [trial["notes"] for trial in alike["trials"]] == [[], []]


def test_an_open_trials_rubric_is_its_own() -> None:
    """Where rubrics differ, a trial without an answer is told with the path that it would have."""
    start = begun(rubric_paths={"a": "x.json", "b": "y.json"})
    entry = of(start, answered("a", rubric_path="x.json"), DONE)["trials"][1]
    assert entry["rubric_path"] == "y.json"


def test_long_texts_come_out_of_their_blobs() -> None:
    """A report has its texts in full, and the fold names the blobs that it needs."""
    long, other, why = (letter * 20_000 for letter in "abc")
    refs = {text: blob_ref(text.encode()) for text in (long, other, why)}
    check = ReviewCheck(outcome="pass", explanation=refs[other])
    items = (
        begun(),
        answered("a", summary=refs[long], checks={"sound": check}),
        ReviewFailed(trial="b", error=refs[why], category="x"),
        DONE,
    )
    fold = folded(*items)
    assert {ref.blob for ref in fold.blobs()} == {ref.blob for ref in refs.values()}
    report = of(*items, blobs={ref.blob: text.encode() for text, ref in refs.items()})
    assert report["trials"][0]["summary"] == long
    assert report["trials"][0]["checks"]["sound"]["explanation"] == other
    assert report["trials"][1]["error"] == why


def test_reviewers_own_runs_are_known() -> None:
    """Each reviewer's run is found by the trial that it reviewed; a review without one is not."""
    assert folded(begun(), answered("a"), FAILED).reviewers == [("a", "review-a__1")]


@pytest.mark.parametrize("ignorable", [False, True])
def test_an_unknown_event_stops_the_report_unless_it_may_be_passed_over(ignorable: bool) -> None:
    """What a later release wrote blocks the report, but for what says that it may be ignored."""
    events = recorded("review/r", [begun(), JobCancelled(), answered("a"), DONE])
    events[1] = unknown(events[1], ignorable=ignorable)
    fold = ReviewFold()
    fold.feed(events)
    assert (fold.finished is not None) is ignorable
    assert isinstance(fold.blocked, UnknownEvent) is not ignorable


def test_an_event_of_another_stream_is_damage() -> None:
    """A job's event in a review's stream stops the fold with its place."""
    fold = folded(begun(), JobCancelled())
    assert isinstance(fold.blocked, LogCorrupt)
    with pytest.raises(LogCorrupt, match="'review/r' version 2"):
        raise fold.blocked
