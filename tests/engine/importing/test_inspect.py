"""Logs of Inspect AI, as Inspect AI 0.3 wrote them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from helpers.imports import EVAL, EVAL_JSON, payloads, read_all, records_of
from trialog.engine.importing.fields import RecordsError
from trialog.engine.importing.inspect_ai import InspectReader
from trialog.engine.importing.inspect_sample import as_score
from trialog.engine.importing.records import Records, TrialRead
from trialog.engine.importing.sources import Archive, hashed
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    ModelCalled,
    TrialErrored,
    TrialScored,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
)


def archived() -> InspectReader:
    """The sample archive."""
    source = Archive(EVAL)
    return InspectReader(Records(source, hashed(source).refs))


def log() -> dict[str, Any]:
    """The sample log that is one file."""
    found: dict[str, Any] = json.loads(EVAL_JSON.read_text())
    return found


def read(changed: dict[str, Any]) -> dict[str, TrialRead]:
    """The trials of a log of one file."""
    return read_all(InspectReader, {"log.json": json.dumps(changed).encode()})


def sample(name: str) -> dict[str, Any]:
    """The log with one sample alone, and that sample."""
    whole = log()
    whole["samples"] = [one for one in whole["samples"] if one["id"] == name]
    return whole


def only(trials: dict[str, TrialRead]) -> TrialRead:
    """The one trial that there is."""
    [trial] = trials.values()
    return trial


def test_a_sample_and_epoch_is_a_trial() -> None:
    """Three samples in two epochs are six trials, each with its task, model and attempt."""
    reader = archived()
    read = [reader.trial(key, "seed") for key in reader.trials()]
    slots = {(t.task, t.agent, t.model, t.attempt) for t in read}
    solver = "system_message,use_tools,falls_over,generate"
    assert slots == {
        (f"arithmetic/{name}", solver, "mockllm/model", epoch)
        for name in ("sum", "wrong", "broken")
        for epoch in (1, 2)
    }
    job = reader.job()
    assert job.version == "0.3.285"
    assert job.name.startswith("arithmetic_")
    assert job.started_at is not None
    assert job.finished_at is not None


def test_the_transcript_becomes_events() -> None:
    """Messages come once, each call and tool call with what belongs to it."""
    reader = archived()
    told = payloads(reader.trial("samples/sum_epoch_1.json", "seed"))
    said = [(one.role, one.text) for one in told if isinstance(one, AgentMessage)]
    assert said == [
        ("system", "You add."),
        ("user", "What is 1 + 1?"),
        ("assistant", "tool call for tool add"),
        ("assistant", "2"),
    ]
    first, second = [one for one in told if isinstance(one, ModelCalled)]
    assert (first.usage.input_tokens, first.usage.output_tokens) == (40, 22)
    assert first.request["messages"][1]["content"] == "What is 1 + 1?"
    assert len(second.request["messages"]) == 4
    assert (first.turn, second.turn) == (1, 2)
    [action] = [one for one in told if isinstance(one, ActionTaken)]
    assert (action.action, action.arguments, action.observation) == ("add", {"x": 1, "y": 1}, "2")
    assert action.tool_call == "call-1"
    trial = reader.trial("samples/sum_epoch_1.json", "seed")
    asked = [e.id for e in trial.events if isinstance(e.payload, ModelCalled)]
    assert action.model_call == asked[0]


def test_scorers_are_verifiers() -> None:
    """Each scorer's letter is its number, and the trial's score follows by the usual rule."""
    told = payloads(only(read(sample("sum"))))
    scored = [one for one in told if isinstance(one, VerifierScored)]
    assert [(one.verifier, one.score) for one in scored] == [("match", 1.0), ("includes", 1.0)]
    assert scored[0].details["value"] == "C"
    assert scored[0].digest == ""
    [verdict] = [one for one in told if isinstance(one, TrialScored)]
    assert verdict.passed
    assert verdict.rewards == {"reward": 1.0}


def test_a_sample_that_failed_is_errored() -> None:
    """Its error is the trial's; nothing is graded."""
    told = payloads(only(read(sample("broken"))))
    assert any(isinstance(one, AgentFailed) for one in told)
    [errored] = [one for one in told if isinstance(one, TrialErrored)]
    assert errored.category == "imported_error"
    assert "fell over" in str(errored.error)


def test_what_has_no_event_is_kept() -> None:
    """Keys of a sample that nothing stands for are its opaque data."""
    trial = only(read(sample("sum")))
    assert trial.data["metadata"] == {"level": 1}
    assert trial.data["target"] == "2"


def test_a_log_without_a_transcript_gives_its_dialogue() -> None:
    """Messages and tool calls come from the messages, and their times are not known."""
    whole = sample("sum")
    whole["samples"][0].update(events=[], events_data=None)
    told = payloads(only(read(whole)))
    assert not any(isinstance(one, ModelCalled) for one in told)
    [action] = [one for one in told if isinstance(one, ActionTaken)]
    assert (action.action, action.observation) == ("add", "2")
    assert action.untimed
    assert action.started_at == ""
    roles = [one.role for one in told if isinstance(one, AgentMessage)]
    assert roles == ["system", "user", "assistant", "assistant"]


def test_attachments_are_put_back() -> None:
    """A value that the log keeps apart is in the event whole."""
    whole = sample("sum")
    [one] = whole["samples"]
    one["attachments"] = {"abc": "the long result"}
    [tool] = [event for event in one["events"] if event["event"] == "tool"]
    tool["result"] = "attachment://abc"
    [action] = [e for e in payloads(only(read(whole))) if isinstance(e, ActionTaken)]
    assert action.observation == "the long result"


def test_a_limit_ends_the_agent() -> None:
    """The kind of limit decides how it ended; its work was scored all the same."""
    for kind, expected in (
        ("message", "max_turns"),
        ("time", "max_seconds"),
        ("token", "truncated"),
    ):
        whole = sample("sum")
        whole["samples"][0]["limit"] = {"type": kind, "limit": 3}
        [end] = [e for e in payloads(only(read(whole))) if isinstance(e, AgentFinished)]
        assert end.ended_by == expected
        assert kind in str(end.error)


def test_a_scorers_model_call_is_no_turn() -> None:
    """What a scorer asks a model is no part of the dialogue, but its tokens are known."""
    whole = sample("sum")
    events = whole["samples"][0]["events"]
    scorer = next(e for e in events if e["event"] == "score")
    call = dict(next(e for e in events if e["event"] == "model"), span_id=scorer["span_id"])
    events.insert(events.index(scorer), call)
    calls = [e for e in payloads(only(read(whole))) if isinstance(e, ModelCalled)]
    assert [(one.purpose, one.turn) for one in calls] == [(None, 1), (None, 2), ("scorer", None)]


def test_a_score_that_is_no_number_leaves_the_trial_unscored() -> None:
    """A table of numbers names no score; it is told, and nothing is made up."""
    whole = sample("sum")
    whole["samples"][0]["scores"] = {"two": {"value": {"a": 1, "b": 0}, "explanation": "why"}}
    told = payloads(only(read(whole)))
    [failed] = [one for one in told if isinstance(one, VerifierFailed)]
    assert '{"a":1,"b":0}' in str(failed.error)
    [verdict] = [one for one in told if isinstance(one, TrialUnscored)]
    assert verdict.category == "imported_unscored"


def test_a_sample_without_scores_is_unscored() -> None:
    """No score is no 0."""
    whole = sample("sum")
    whole["samples"][0]["scores"] = {}
    assert any(isinstance(one, TrialUnscored) for one in payloads(only(read(whole))))


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), ("yes", 1.0), ("False", 0.0), (True, 1.0),
        (0.25, 0.25), ("0.25", 0.25), (3, 3.0), ("nan", None), ("good", None), ([1], None),
        (math.inf, None), (None, None),
    ],
)  # fmt: skip
def test_scores_count_as_inspect_counts_them(value: Any, score: float | None) -> None:
    """Letters, words and numbers; anything else is no score."""
    assert as_score(value) == score


def test_a_killed_evaluation_has_its_start() -> None:
    """An archive without its header still tells what was evaluated."""
    source = Archive(EVAL)
    names = hashed(source).refs
    reader = InspectReader(Records(source, {k: v for k, v in names.items() if k != "header.json"}))
    assert len(reader.trials()) == 6
    assert reader.job().finished_at is None
    assert reader.trial("samples/sum_epoch_1.json", "seed").agent


def test_bad_logs_are_refused_by_name() -> None:
    """The message has the file, the key, what was found, and what to do."""
    whole = log()
    whole["version"] = 3
    with pytest.raises(RecordsError, match=r"log\.json: version: expected 1 or 2, found 3; read"):
        read(whole)
    with pytest.raises(RecordsError, match=r"log\.json: no JSON"):
        read_all(InspectReader, {"log.json": b'{"version": 2, '})
    with pytest.raises(RecordsError, match=r"expected an object, found a list"):
        read_all(InspectReader, {"log.json": b"[]"})
    whole = sample("sum")
    whole["samples"][0]["epoch"] = "one"
    with pytest.raises(RecordsError, match=r"samples\[0\]\.epoch: expected a whole number"):
        read(whole)
    with pytest.raises(RecordsError, match=r"header\.json: is not in the archive"):
        InspectReader(records_of({"a": b"", "b": b""})).job()
