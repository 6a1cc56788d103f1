"""What becomes of a review, by its reviewer's own trial and the file that it left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.given import agent_finished, trial_scored
from trialog.engine.reviews.decide import (
    MALFORMED,
    MISSING,
    UNCHECKED,
    Asked,
    counted,
    failed,
    verdict,
)
from trialog.engine.trial.state import TrialState
from trialog.events.kinds import (
    AgentFinished,
    ArtifactsSaved,
    ReviewCompleted,
    ReviewFailed,
    TrialErrored,
    TrialUnscored,
)
from trialog.events.kinds.parts import SkippedPath
from trialog.events.kinds.trial import Artifact
from trialog.events.values import blob_ref

ASKED = Asked(trial="t__1", criteria=["sound"], rubric_path="r.json", notes=["n"])
CHECK = {"outcome": "fail", "explanation": "step 3"}
ANSWER = json.dumps({"summary": "It went.", "checks": {"sound": CHECK}}).encode()


def decided(answer: bytes | None = ANSWER, **state: Any) -> ReviewCompleted | ReviewFailed:
    """What a reviewer's trial comes to that went well but for this."""
    known: dict[str, Any] = {"agent_finished": agent_finished(), "scored": trial_scored(1.0)}
    return verdict(ASKED, "review-t__1__2", TrialState(**known | state), answer, models=["m-1"])


def lost(answer: bytes | None = ANSWER, **state: Any) -> ReviewFailed:
    """The same of a review that failed."""
    found = decided(answer, **state)
    assert isinstance(found, ReviewFailed)
    assert (found.trial, found.criteria, found.rubric_path) == ("t__1", ["sound"], "r.json")
    return found


def test_a_well_formed_answer_is_a_review() -> None:
    """Whatever it says of the run: a verdict of fail is as good a review as any."""
    found = decided()
    assert isinstance(found, ReviewCompleted)
    assert (found.summary, found.checks["sound"].outcome) == ("It went.", "fail")
    assert (found.reviewer_trial, found.notes) == ("review-t__1__2", ["n"])
    assert found.models_reported == ["m-1"]


def stopped(ended_by: Any, error: Any = "it was stopped") -> AgentFinished:
    """A reviewer that did not end well."""
    return agent_finished(ended_by=ended_by, error=error, error_category="c")


@pytest.mark.parametrize("how", ["agent_exit", "agent_timeout", "idle_timeout", "max_seconds"])
def test_what_crashed_or_hung_did_not_answer(how: str) -> None:
    """Its file may be half of what it meant; it is kept with the error."""
    found = lost(agent_finished=stopped(how))
    assert found.error == (
        "the reviewer did not come to its end, so its answer does not count: it was stopped"
    )
    assert (found.category, found.reply) == ("c", ANSWER.decode())


@pytest.mark.parametrize("how", ["max_turns", "max_cost", "truncated"])
def test_a_limit_after_the_answer_is_a_note(how: str) -> None:
    """What was paid for and is whole counts; the report says how it ended."""
    found = decided(agent_finished=stopped(how))
    assert isinstance(found, ReviewCompleted)
    assert found.notes == ["n", "the reviewer answered, then it was stopped"]


@pytest.mark.parametrize(
    ("state", "category"),
    [
        ({"errored": TrialErrored(error="no model", category="model_failed")}, "model_failed"),
        (
            {"unscored": TrialUnscored(error="no box", category="gone", infrastructure=True)},
            "gone",
        ),
    ],
)
def test_a_reviewer_that_came_to_nothing(state: dict[str, Any], category: str) -> None:
    """The error is its trial's own, whatever file there may be."""
    assert lost(scored=None, **state).category == category


def skipped(path: str, reason: str) -> ArtifactsSaved:
    """Something that was there and is no file to keep."""
    return ArtifactsSaved(
        artifacts=[], skipped=[SkippedPath(path=path, reason=reason)], duration=0.1
    )


def test_no_answer_says_why() -> None:
    """How the reviewer ended, and what lay in the answer's place."""
    found = lost(None)
    assert (found.error, found.category) == ("the reviewer wrote no review-result.json", MISSING)
    ended = lost(None, agent_finished=stopped("agent_exit"))
    assert ended.error == "the reviewer wrote no review-result.json: it was stopped"
    link = lost(None, artifacts=skipped("review/review-result.json", "a link"))
    assert link.error == (
        "the reviewer wrote no review-result.json: review/review-result.json: a link"
    )
    other = lost(None, artifacts=skipped("review/review-result.json", "there is no such file"))
    assert other.error == "the reviewer wrote no review-result.json"
    large = Artifact(path="review-result.json", blob=blob_ref(b"x"), size=2**21, sha256="0" * 64)
    saved = ArtifactsSaved(artifacts=[large], skipped=[], duration=0.1)
    assert "it is over 1048576 bytes" in str(lost(None, artifacts=saved).error)


def test_a_malformed_answer_is_kept_with_the_faults() -> None:
    """The first few of them, and how many more."""
    found = lost(b"{}")
    assert (found.category, found.reply) == (MALFORMED, "{}")
    many = json.dumps({"summary": "x", "checks": {"sound": CHECK, **dict.fromkeys("abcdefgh", 1)}})
    assert "(and 3 more)" in str(lost(many.encode()).error)
    assert lost(b"\xff").reply == "\ufffd"


def test_what_its_own_check_did_not_accept_is_no_review() -> None:
    """Where the two differ, nothing is believed."""
    for state in ({"scored": None}, {"scored": trial_scored(0.0)}):
        assert lost(**state).category == UNCHECKED
    warned = lost(scored=trial_scored(0.0), warnings=("reward_missing",))
    assert warned.error == "reward_missing"


def test_the_answers_are_counted() -> None:
    """Valid ones, and the others."""
    assert counted([decided(), failed(ASKED, "e", "c"), lost(None)]) == (1, 2)
