"""What checks, rewards and hindsight see of an episode."""

from __future__ import annotations

from typing import Any

import pytest

from trialog import Episode, HindsightTrial
from trialog.engine.authoring.views import QueryRefused, RecordedQueries, UnknownEvent
from trialog.projections.episode import AppData, EpisodeData, QueryData, StepData, TaskData


def _app(initial: Any, final: Any) -> AppData:
    return AppData(initial=initial, final=final, control="owned")


def _step(turn: int, app: str, states: dict[str, Any], error: str | None = None) -> StepData:
    return StepData(
        event_id=f"e{turn}", turn=turn, app=app, action="add" if turn % 2 else "drop",
        arguments={"n": turn}, observation=None if error else turn, error=error, states=states,
    )  # fmt: skip


def _episode(**changes: Any) -> EpisodeData:
    given: dict[str, Any] = {
        "trial": "t",
        "task": TaskData(name="t", expected="yes"),
        "apps": {"a": _app(0, 3)},
        "first_observation": "first",
        "steps": [_step(1, "a", {"a": 2}), _step(2, "a", {}, "no"), _step(3, "a", {"a": 3})],
        "model_calls": [{"event_id": "m1"}],
    }
    return EpisodeData(**{**given, **changes})


@pytest.mark.parametrize(
    ("apps", "state"),
    [
        ({}, None),
        ({"a": _app(0, {"x": 1})}, {"x": 1}),
        ({"a": _app(0, 1), "b": _app(0, 2)}, {"a": 1, "b": 2}),
    ],
)
def test_the_state(apps: dict[str, AppData], state: Any) -> None:
    """With one app `state` is its final state, with several a mapping, with none null."""
    assert Episode(_episode(apps=apps, steps=[])).state == state


@pytest.mark.parametrize(("recorded", "answer"), [(None, None), ([""], ""), ([None], None)])
def test_the_answer(recorded: list[Any] | None, answer: Any) -> None:
    """No answer is None, which is not the empty text."""
    episode = Episode(_episode(answer=recorded))

    assert episode.answer == answer
    assert (episode.answer is None) == (answer is None)
    assert episode.expected == "yes"


def test_the_trajectory() -> None:
    """Each step has the acting app's state before and after it, refused steps included."""
    trajectory = Episode(_episode()).trajectory

    assert [(s["previous_state"], s["current_state"]) for s in trajectory] == [
        (0, 2),
        (2, 2),
        (2, 3),
    ]
    assert [s["error"] for s in trajectory] == [None, "no", None]


def test_the_last_observation() -> None:
    """The observation is the last step's, or the first one where there was no step."""
    assert Episode(_episode()).observation == 3
    assert Episode(_episode(steps=[])).observation == "first"


def test_queries_are_gone_after_the_trial() -> None:
    """Once the trial is over, a query says to read `final`."""
    app = Episode(_episode()).apps["a"]

    assert (app.initial, app.final, app.control) == (0, 3, "owned")
    with pytest.raises(QueryRefused, match="the trial is over; read `final`"):
        app.query("get")


def test_recorded_queries() -> None:
    """A replay answers the same queries from the record, in order, and no other."""
    asked = RecordedQueries(
        [
            QueryData(verifier="v", app="a", action="get", arguments={}, answer=1),
            QueryData(verifier="v", app="a", action="get", arguments={}, answer=2),
            QueryData(verifier="v", app="a", action="bad", arguments={"n": 1}, error="no"),
        ]
    )  # fmt: skip

    assert [asked("a", "get", {}), asked("a", "get", {})] == [1, 2]
    with pytest.raises(QueryRefused, match=r"^no$"):
        asked("a", "bad", {"n": 1})
    with pytest.raises(QueryRefused, match="was not asked for 'get' with these arguments"):
        asked("a", "get", {})


def test_hindsight() -> None:
    """Hindsight sees the score, the steps of an action, and the model calls."""
    trial = HindsightTrial(_episode(), 0.5)

    assert trial.score == 0.5
    assert [step["event_id"] for step in trial.steps()] == ["e1", "e2", "e3"]
    assert [step["event_id"] for step in trial.steps("drop")] == ["e2"]
    assert [call["event_id"] for call in trial.model_calls()] == ["m1"]
    assert trial.apps["a"].final == 3


def test_credit() -> None:
    """Credit goes to a step or a model call, by its id or as it was given, or to a span in it."""
    trial = HindsightTrial(_episode(), 1.0)

    step = trial.credit(trial.steps("drop")[0], 0.5, why="late")
    call = trial.credit("m1", 1.0, field="text", start=0, end=4)

    assert (step.event_id, step.value, step.target) == ("e2", 0.5, "step")
    assert step.metadata == {"why": "late"}
    assert (call.target, call.field, call.start, call.end) == ("event", "text", 0, 4)
    thought = trial.credit("m1", 1.0, field="reasoning", token_start=0, token_end=4)
    assert [one.space for one in (step, call, thought)] == ["action", "output", "reasoning"]


@pytest.mark.parametrize("target", ["e9", {"event_id": "e9"}, {}])
def test_credit_for_nothing(target: Any) -> None:
    """A credit for an event that the trial does not have is an error naming it."""
    with pytest.raises(UnknownEvent, match=r"the trial has no event '(e9|None)' to credit"):
        HindsightTrial(_episode(), 1.0).credit(target, 1.0)
