"""Job folders of Harbor, as Harbor 0.26 wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from helpers.imports import HARBOR, files_of, payloads, read_all, records_of
from trialog.engine.importing.fields import RecordsError
from trialog.engine.importing.harbor import HarborReader, looks_like_harbor
from trialog.engine.importing.records import TrialRead
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    AgentStarted,
    ArtifactsSaved,
    Event,
    ModelCalled,
    TrialErrored,
    TrialFinished,
    TrialScored,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
    WarningRaised,
)
from trialog.events.kinds.parts import Usage
from trialog.events.values import blob_ref

HELLO, LESS, FALLEN = "says-hello__Q7mCFYs", "says-less__StaXLgC", "falls-over__NEz75WM"


def trial(key: str = HELLO, change: Callable[[dict[str, Any]], object] = id) -> TrialRead:
    """One trial of the sample, its result changed."""
    files = files_of(HARBOR)
    result = json.loads(files[f"{key}/result.json"])
    change(result)
    files[f"{key}/result.json"] = json.dumps(result).encode()
    return HarborReader(records_of(files)).trial(key, "seed")


def one(trial: TrialRead, kind: type[Any]) -> Any:
    """Its only event of a kind."""
    [found] = [payload for payload in payloads(trial) if isinstance(payload, kind)]
    return found


def test_a_job_and_its_trials() -> None:
    """Every folder with a result is a trial, with its task, agent and model."""
    read = read_all(HarborReader, files_of(HARBOR))
    assert {key: (t.task, t.agent, t.model) for key, t in read.items()} == {
        HELLO: ("says-hello", "hand", "none/model-1"),
        LESS: ("says-less", "hand", "none/model-1"),
        FALLEN: ("falls-over", "hand", "none/model-1"),
    }
    job = HarborReader(records_of(files_of(HARBOR))).job()
    assert (job.name, job.version) == ("by-hand", "0.26.0")
    assert job.data["result.json"]["n_total_trials"] == 3


def test_the_agents_trajectory_becomes_events() -> None:
    """Its steps are messages, calls and actions that the agent alone saw."""
    told = payloads(trial())
    said = [(e.role, str(e.text)) for e in told if isinstance(e, AgentMessage)]
    assert said == [
        ("user", "Write hello into hello.txt.\n"),
        ("assistant", "I write the file."),
        ("assistant", "It is written."),
    ]
    [action] = [e for e in told if isinstance(e, ActionTaken)]
    assert (action.action, action.observation) == ("bash", "hello\n")
    assert (action.observed_by, action.untimed) == ("agent", True)
    assert [e.usage.input_tokens for e in told if isinstance(e, ModelCalled)] == [20, 40]
    started = one(trial(), AgentStarted)
    assert (started.name, started.version) == ("hand", "0.1")
    reported = Usage(input_tokens=60, output_tokens=13, cached_tokens=4, cost_usd=0.001)
    assert one(trial(), AgentFinished).reported_usage == reported


def test_rewards_are_the_scripts() -> None:
    """`reward` is the score, others are beside it; output and reward files are kept as blobs."""
    read = trial(LESS)
    scored = one(read, VerifierScored)
    assert (scored.score, scored.scores) == (0.5, {"spelling": 1.0})
    assert [file.path for file in scored.files] == ["reward.json"]
    verdict = one(read, TrialScored)
    assert (verdict.passed, verdict.rewards) == (False, {"reward": 0.5, "spelling": 1.0})
    printed = one(trial(), VerifierScored).output
    assert printed.blob == blob_ref(files_of(HARBOR)[f"{HELLO}/verifier/test-stdout.txt"])


def test_artifacts_are_artifacts() -> None:
    """What lies in artifacts/ is saved under its own path."""
    saved = one(trial(), ArtifactsSaved)
    assert [artifact.path for artifact in saved.artifacts] == ["manifest.json"]
    assert saved.untimed


def test_an_agent_that_fell_over_and_was_graded() -> None:
    """Its error is told, and its score stands."""
    read = trial(FALLEN)
    end = one(read, AgentFinished)
    assert end.error == "RuntimeError: the agent fell over"
    assert end.error_category == "imported_error"
    assert one(read, TrialFinished).outcome == "scored"


def ungraded(result: dict[str, Any]) -> None:
    """No verifier ran."""
    result.update(verifier_result=None, verifier=None)


def test_an_error_without_a_grade() -> None:
    """The trial is errored with Harbor's exception; what its agent had used until then is kept."""

    def used(result: dict[str, Any]) -> None:
        ungraded(result)
        result["agent_result"] = {"n_input_tokens": 7}

    read = trial(FALLEN, used)
    assert one(read, AgentFailed).error == "RuntimeError: the agent fell over"
    assert one(read, TrialErrored).category == "imported_error"
    assert read.data["agent_result"] == {"n_input_tokens": 7}


def test_a_trial_that_was_cancelled() -> None:
    """It is cancelled here too."""

    def cancel(result: dict[str, Any]) -> None:
        ungraded(result)
        result["exception_info"]["exception_type"] = "CancelledError"

    assert one(trial(FALLEN, cancel), TrialFinished).outcome == "cancelled"


def test_an_agent_that_ran_too_long() -> None:
    """Harbor's word for it is ours."""

    def late(result: dict[str, Any]) -> None:
        result["exception_info"]["exception_type"] = "AgentTimeoutError"

    assert one(trial(FALLEN, late), AgentFinished).ended_by == "agent_timeout"


@pytest.mark.parametrize(
    ("rewards", "score", "others"),
    [
        ({"accuracy": 1}, 1.0, {}),
        ({"reward": 1, "a": 0.5}, 1.0, {"a": 0.5}),
        ({"a": 1, "b": 1}, None, "no score is named reward: a=1, b=1"),
        ({"reward": "good"}, None, "the verifier's reward is no number: 'good'"),
        ({}, None, "the verifier wrote no reward"),
        (None, None, "the verifier wrote no reward"),
    ],
)
def test_which_number_is_the_reward(rewards: Any, score: float | None, others: Any) -> None:
    """`reward`, or the only one; of several none is picked, and nothing is no 0."""
    read = trial(HELLO, lambda result: result.update(verifier_result={"rewards": rewards}))
    if score is None:
        assert others in one(read, VerifierFailed).error
        assert one(read, TrialUnscored).category == "imported_unscored"
    else:
        scored = one(read, VerifierScored)
        assert (scored.score, scored.scores) == (score, others)


def test_a_trajectory_that_cant_be_read_costs_no_trial() -> None:
    """The score stands, nothing of half a trajectory is told, and a warning names the file."""
    files = files_of(HARBOR)
    place = f"{HELLO}/agent/trajectory.json"
    trajectory = json.loads(files[place])
    trajectory["steps"][1]["source"] = None
    files[place] = json.dumps(trajectory).encode()
    read = HarborReader(records_of(files)).trial(HELLO, "seed")
    warned = one(read, WarningRaised)
    assert warned.code == "imported_unreadable"
    assert "trajectory.json: steps[1].source: expected text" in warned.message
    kinds: list[type[Event]] = [AgentMessage, ActionTaken]
    assert not any(isinstance(payload, kind) for payload in payloads(read) for kind in kinds)
    assert one(read, TrialScored).passed


def test_what_has_no_event_is_kept() -> None:
    """Harbor's own ids, checksums and settings are the trial's opaque data."""
    data = trial().data
    assert data["task_checksum"]
    assert data["trial_uri"].startswith("file:///home/me/")


def test_a_trial_that_has_not_ended_says_so() -> None:
    """A folder with a configuration alone is a trial, and why it can't be read is told."""
    files = files_of(HARBOR)
    del files[f"{HELLO}/result.json"]
    reader = HarborReader(records_of(files))
    assert HELLO in reader.trials()
    with pytest.raises(RecordsError, match=f"{HELLO}/result.json: is not there: the trial has not"):
        reader.trial(HELLO, "seed")


def test_bad_results_are_refused_by_name() -> None:
    """The message has the file, the key and what was found."""
    with pytest.raises(RecordsError, match=r"result\.json: task_name: expected text, found none"):
        trial(HELLO, lambda result: result.pop("task_name"))
    with pytest.raises(RecordsError, match=r"schema_version: expected 1, found 2"):
        trial(HELLO, lambda result: result.update(schema_version=2))
    with pytest.raises(RecordsError, match=r"started_at: expected a time, found the text 'noon'"):
        trial(HELLO, lambda result: result.update(started_at="noon"))
    with pytest.raises(RecordsError, match=r"agent_info: expected an object, found a list"):
        trial(HELLO, lambda result: result.update(agent_info=[]))


def test_only_harbors_folders_are_its() -> None:
    """Another folder with a config.json in it is not taken for one."""
    files = files_of(HARBOR)
    assert looks_like_harbor(list(files), files.__getitem__)
    assert not looks_like_harbor(["a/config.json"], lambda name: b"{}")
    assert not looks_like_harbor(["a/config.json"], lambda name: b"no JSON")
    assert not looks_like_harbor(["config.json"], lambda name: b"{}")
