"""The episode that hooks are given, folded from a trial's events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.given import recorded
from trialog.events.codec import encode
from trialog.events.kinds import (
    ActionTaken,
    AgentFinished,
    AgentMessage,
    AppQueried,
    ArtifactsSaved,
    EnvironmentReset,
    EpisodeEnded,
    Event,
    HindsightCredited,
    HumanReviewSubmitted,
    ModelCalled,
    StepRewarded,
    VerifierScored,
)
from trialog.events.kinds.parts import AppState, StateChange, Target, Usage
from trialog.events.kinds.trial import Artifact
from trialog.events.values import blob_ref
from trialog.projections.episode import (
    AppData,
    EpisodeData,
    EpisodeFold,
    RewardData,
    StepData,
    TaskData,
    episode_blobs,
    episode_data,
    is_plain,
)

TASK = TaskData(name="count", instructions="Count to two.", expected=2)


def reset(**apps: Any) -> EnvironmentReset:
    """A world with these apps."""
    states = {name: AppState(state=state, control="owned") for name, state in apps.items()}
    return EnvironmentReset(apps=states, seed=7, observation="go")


def taken(turn: int, **more: Any) -> ActionTaken:
    """One action."""
    fields: dict[str, Any] = {
        "turn": turn, "app": "counter", "action": "add", "arguments": {"n": 1},
        "observation": turn, "started_at": "", "duration": 0.0, "observed_by": "host",
    }  # fmt: skip
    return ActionTaken(**(fields | more))


def ended(answer: Any = None, **apps: Any) -> EpisodeEnded:
    """The end of an episode."""
    return EpisodeEnded(apps=apps, terminated=True, truncated=False, reason="done", answer=answer)


def scored(score: float, **more: Any) -> VerifierScored:
    """A verdict."""
    fields: dict[str, Any] = {
        "verifier": "v", "verifier_kind": "deterministic", "version": "1.0.0", "digest": "d",
        "weight": 1.0, "score": score, "source": "verifier", "duration": 0.0,
    }  # fmt: skip
    return VerifierScored(**(fields | more))


def fold(*payloads: Event, blobs: dict[str, bytes] | None = None) -> EpisodeData:
    """The episode of these events, whose ids are e1, e2, …"""
    folded = EpisodeFold("t__1", TASK)
    for number, payload in enumerate(payloads, 1):
        folded.feed(f"e{number}", payload, blobs or {})
    return folded.data(blobs or {})


def test_whole_episode() -> None:
    """Apps, steps with the states after them, answer and outcome are as they were told."""
    episode = fold(
        reset(counter={"value": 0}, log=[]),
        taken(1, states={"counter": StateChange(full=[{"value": 1}])}),
        taken(2, states={
            "counter": StateChange(patch=[{"op": "replace", "path": "/value", "value": 2}])
        }),
        taken(3, observation=None, error="no more"),
        ended(counter={"value": 2}, log=[], answer=[2]),
    )  # fmt: skip
    assert episode.apps == {
        "counter": AppData(initial={"value": 0}, final={"value": 2}),
        "log": AppData(initial=[], final=[]),
    }
    assert [step.states for step in episode.steps] == [
        {"counter": {"value": 1}}, {"counter": {"value": 2}}, {},
    ]  # fmt: skip
    assert episode.steps[2] == StepData(
        event_id="e4", turn=3, app="counter", action="add", arguments={"n": 1}, error="no more"
    )
    assert (episode.seed, episode.first_observation, episode.answer) == (7, "go", [2])
    assert (episode.terminated, episode.truncated, episode.reason) == (True, False, "done")


def test_unfinished_episode_has_its_states_of_now() -> None:
    """Before its end, an episode's final states are those after the last step."""
    episode = fold(reset(counter=0), taken(1, states={"counter": StateChange(full=[1])}))
    assert episode.apps["counter"].final == 1
    assert not episode.terminated


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (ended(), None),
        (ended(answer=[None]), [None]),
        (ended(answer=[""]), [""]),
        (AgentFinished(ended_by="answer", answer=["x"], duration=0.0), ["x"]),
    ],
)
def test_no_answer_is_not_an_empty_one(payload: Event, answer: list[Any] | None) -> None:
    """An answer is a list of one, so that null and empty answers can be told from none."""
    assert fold(payload).answer == answer


@pytest.mark.parametrize("inside", [True, False])
def test_large_values_come_out_of_their_blobs(inside: bool) -> None:
    """States, observations and answers that are blobs are given as the values they hold."""
    state, answer = {"big": "x" * 10}, "long"
    data = msgspec.json.encode(state)
    told = msgspec.json.encode(answer if inside else [answer])
    blobs = {blob_ref(b).blob: b for b in (data, told, b"plain text")}
    ref = blob_ref(told)
    given_answer: Any = [ref] if inside else ref
    payloads: list[Event] = [
        reset(counter=blob_ref(data)),
        taken(1, states={"counter": StateChange(full=blob_ref(data))}, arguments=None),
        taken(2, states={
            "counter": StateChange(patch=[{"op": "add", "path": "/more", "value": 1}])
        }, observation=blob_ref(b"plain text"), error=blob_ref(b"plain text")),
        ended(answer=given_answer, counter=blob_ref(data)),
    ]  # fmt: skip
    episode = fold(*payloads, blobs=blobs)
    assert episode.apps["counter"] == AppData(initial=state, final=state)
    assert episode.steps[0].states == {"counter": state}
    assert episode.steps[0].arguments == {}
    assert episode.steps[1].states == {"counter": {**state, "more": 1}}
    assert episode.steps[1].observation == episode.steps[1].error == "plain text"
    assert episode.answer == ["long"]
    found = {ref.blob for ref in episode_blobs(recorded("trial/t__1", payloads))}
    assert found == blobs.keys()


def test_an_answer_in_a_blob_of_its_own_is_wrapped() -> None:
    """A blob that holds the bare answer is an answer, too."""
    told = msgspec.json.encode("bare")
    ref = blob_ref(told)
    assert fold(ended(answer=ref), blobs={ref.blob: told}).answer == ["bare"]


def test_users_dollar_keys_come_back() -> None:
    """Keys that were escaped on their way into the log are given as the app had them."""
    episode = fold(reset(counter={"$$blob": 1}), taken(1, arguments={"$$n": 1}))
    assert episode.apps["counter"].initial == {"$blob": 1}
    assert episode.steps[0].arguments == {"$n": 1}


def test_rewards_and_scores_are_listed() -> None:
    """Step rewards, credit, verdicts and people's scores are there; later labels are not."""
    step = StepRewarded(
        verifier="v", version="1.0.0", digest="d", target=Target(target="step", event_id="e1"),
        value=0.5, weight=1.0, space="action",
    )  # fmt: skip
    credit = HindsightCredited(
        verifier="v", version="1.0.0", digest="d", target=Target(target="step", event_id="e1"),
        value=0.1, weight=1.0, space="action",
    )  # fmt: skip
    replace = msgspec.structs.replace
    episode = fold(
        step,
        replace(step, applied="a"),
        credit,
        replace(credit, applied="a"),
        scored(1.0),
        scored(0.5, verifier_kind="agent", verifier="j"),
        scored(0.0, source="engine"),
        HumanReviewSubmitted(verifier="p", score=0.25, criteria=[]),
    )
    assert episode.rewards == [
        RewardData(verifier="v", version="1.0.0", value=0.5, source="step", event_id="e1"),
        RewardData(verifier="v", version="1.0.0", value=0.1, source="hindsight", event_id="e1"),
        RewardData(verifier="v", version="1.0.0", value=1.0, source="verifier", event_id="e5"),
        RewardData(verifier="j", version="1.0.0", value=0.5, source="judge", event_id="e6"),
        RewardData(verifier="p", version=None, value=0.25, source="human", event_id="e8"),
    ]


def test_calls_queries_and_artifacts() -> None:
    """Model calls add up to the usage; queries and artifacts are as they were recorded."""
    call = ModelCalled(
        model="m", request={"a": 1}, response=None, error="cut", usage=Usage(input_tokens=3),
        started_at="", latency=0.1, retries=0,
    )  # fmt: skip
    second = msgspec.structs.replace(call, error=None, usage=Usage(input_tokens=4, cost_usd=0.5))
    artifact = Artifact(path="a.txt", blob=blob_ref(b"x"), sha256="s", size=1)
    episode = fold(
        call,
        second,
        AppQueried(verifier="v", app="crm", action="get", arguments={"id": 1}, answer=[1]),
        AppQueried(verifier="v", app="crm", action="get", error="gone", step="e9"),
        ArtifactsSaved(artifacts=[artifact], duration=0.0),
        AgentMessage(role="assistant", text="hello"),
    )
    assert episode.usage == {"model_calls": 2, "input_tokens": 7, "cost_usd": 0.5}
    assert [c["event_id"] for c in episode.model_calls] == ["e1", "e2"]
    assert episode.model_calls[0]["error"] == "cut"
    assert [(q.arguments, q.answer, q.error, q.step) for q in episode.queries] == [
        ({"id": 1}, [1], None, None), ({}, None, "gone", "e9"),
    ]  # fmt: skip
    assert episode.artifacts == [{"path": "a.txt", "size": 1, "sha256": "s"}]


def test_stored_events_give_the_same_episode() -> None:
    """Replayed from the log, the episode is the one that the running trial had."""
    payloads: list[Event] = [
        reset(counter=0),
        taken(1, states={"counter": StateChange(full=[1])}),
        AgentFinished(ended_by="done", duration=0.0),
        ended(counter=1),
    ]
    events = recorded("trial/t__1", payloads)
    live = EpisodeFold("t__1", TASK)
    for event, payload in zip(events, payloads, strict=True):
        live.feed(event.id, payload, {})
    assert episode_data("t__1", TASK, events, {}) == live.data({})
    assert episode_blobs(events) == []


@given(st.booleans(), st.booleans())
def test_plain_values_need_no_look(ended_too: bool, asked: bool) -> None:
    """Where no key begins with a dollar, an episode is the same without a look at its values."""
    change = [{"op": "replace", "path": "/deep/n", "value": 2}]
    payloads: list[Event] = [
        reset(counter={"deep": {"n": 1}, "list": [1, {"x": "y$"}]}),
        taken(1, states={"counter": StateChange(patch=change)}),
        taken(2, states={"counter": StateChange(full=[{"deep": {"n": 3}}])}),
        AgentFinished(ended_by="answer", answer=[{"a": [1]}], duration=0.0),
        *([AppQueried(verifier="v", app="counter", action="get", arguments={"k": 1}, answer=[2])]
          if asked else []),
        *([ended(counter={"deep": {"n": 3}})] if ended_too else []),
    ]  # fmt: skip
    events = recorded("trial/t__1", payloads)
    assert is_plain(events)
    plain = EpisodeFold("t__1", TASK, plain=True)
    for event, payload in zip(events, payloads, strict=True):
        plain.feed(event.id, payload, {})
    assert plain.data({}) == episode_data("t__1", TASK, events, {})
    assert plain.data({}).steps[0].states == {
        "counter": {"deep": {"n": 2}, "list": [1, {"x": "y$"}]}
    }
    escaped = recorded("trial/t__1", [reset(counter={"$$mine": 1})])
    assert not is_plain(escaped)


def test_unknown_kinds_are_passed_over() -> None:
    """An event that says it may be passed over changes nothing of an episode."""
    (event,) = recorded("trial/t__1", [reset(counter=0)])
    unknown = msgspec.structs.replace(event, kind="FromTheFuture", ignorable=True)
    assert episode_data("t__1", TASK, [unknown], {}) == fold()
    assert episode_blobs([unknown]) == []


def test_queries_and_calls_may_be_blobs() -> None:
    """The blobs of questions, answers and model calls are among those an episode needs."""
    refs = [blob_ref(bytes([n])) for n in range(4)]
    call = ModelCalled(
        model="m", request=refs[0], response=refs[1], usage=Usage(), started_at="", latency=0.0,
        retries=0,
    )  # fmt: skip
    query = AppQueried(verifier="v", app="a", action="b", arguments=refs[2], answer=refs[3])
    finished = AgentFinished(ended_by="answer", answer=[refs[0]], duration=0.0)
    said = AgentMessage(role="assistant", text=blob_ref(b"not an episode's"))
    found = episode_blobs(recorded("trial/t__1", [call, query, finished, said]))
    assert found == refs


@given(st.integers(0, 4))
def test_folding_may_be_interrupted_anywhere(cut: int) -> None:
    """Looking at the episode in between changes nothing of it."""
    payloads: list[Event] = [
        reset(counter=0),
        taken(1, states={"counter": StateChange(full=[1])}),
        taken(2),
        ended(counter=1),
    ]
    whole = EpisodeFold("t__1", TASK)
    looked = EpisodeFold("t__1", TASK)
    for number, payload in enumerate(payloads):
        whole.feed(str(number), payload, {})
        looked.feed(str(number), payload, {})
        if number == cut:
            looked.data({})
    assert looked.data({}) == whole.data({})
    assert encode(payloads[0])
