"""Job folders of Plural, as Plural 0.23 wrote them.

The sample's harness called no model; the tests put calls in that are written as Plural writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from helpers.imports import SAMPLES, files_of, payloads, read_all, records_of
from trialog.engine.importing.fields import RecordsError
from trialog.engine.importing.plural import PluralReader, looks_like_plural
from trialog.engine.importing.records import TrialRead
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    EnvironmentReset,
    EpisodeEnded,
    HindsightCredited,
    ModelCalled,
    StepRewarded,
    TrialErrored,
    TrialFinished,
    TrialScored,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
)

SAMPLE = SAMPLES / "plural" / "desk"
KEY = "trials/trl_81277e58517c765aefce38fc"
ARTIFACTS = f"{KEY}/executions/0/artifacts"


def lines_of(data: bytes) -> list[dict[str, Any]]:
    """The objects of a .jsonl file."""
    return [json.loads(line) for line in data.splitlines()]


def trial(
    change: Callable[[dict[str, Any]], object] = id, files: dict[str, bytes | None] | None = None
) -> TrialRead:
    """The sample's trial, its result and files changed."""
    found: dict[str, bytes | None] = {**files_of(SAMPLE), **(files or {})}
    result = json.loads(found[f"{KEY}/result.json"] or b"")
    change(result)
    found[f"{KEY}/result.json"] = json.dumps(result).encode()
    kept = {name: data for name, data in found.items() if data is not None}
    return PluralReader(records_of(kept)).trial(KEY, "seed")


def artifact(name: str, *items: dict[str, Any]) -> dict[str, bytes | None]:
    """A changed artifact of a line an object."""
    return {f"{ARTIFACTS}/{name}": "\n".join(map(json.dumps, items)).encode()}


def all_of(trial: TrialRead, kind: type[Any]) -> list[Any]:
    """Its events of a kind."""
    return [payload for payload in payloads(trial) if isinstance(payload, kind)]


def one(trial: TrialRead, kind: type[Any]) -> Any:
    """Its only one."""
    [found] = all_of(trial, kind)
    return found


def test_a_job_and_its_trials() -> None:
    """With task, agent, model, attempt and seed."""
    [read] = read_all(PluralReader, files_of(SAMPLE)).values()
    assert (read.task, read.agent, read.model) == (
        "desk-first", "claude-sonnet-5", "anthropic/claude-sonnet-5",
    )  # fmt: skip
    assert (read.attempt, read.seed) == (1, 3623983920)
    job = PluralReader(records_of(files_of(SAMPLE))).job()
    assert job.name == "job_5d308a7487539e1964c36d86"


def test_a_trials_folder_alone() -> None:
    """It is a job of one trial, under the trial's own id."""
    prefix = f"{KEY}/"
    files = {n.removeprefix(prefix): d for n, d in files_of(SAMPLE).items() if n.startswith(prefix)}
    reader = PluralReader(records_of(files))
    assert reader.job().name == "trl_81277e58517c765aefce38fc"
    [read] = read_all(PluralReader, files).values()
    assert one(read, TrialScored).passed
    assert looks_like_plural(list(files), files.__getitem__)


def test_the_episode() -> None:
    """Apps as they began and ended; each step as the apps' host saw it."""
    read = trial()
    reset, ended = one(read, EnvironmentReset), one(read, EpisodeEnded)
    assert reset.apps["desk"].state["answer"] == ""
    assert reset.apps["desk"].control == "owned"
    assert ended.apps["desk"]["answer"] == "store credit"
    assert ended.answer == [{"answer": "store credit"}]
    first, second, third = all_of(read, ActionTaken)
    assert (first.app, first.action, first.observed_by) == ("desk", "read_resource", "host")
    assert first.duration == 1.535082
    assert "No file resources/nothing.md" in second.error
    assert third.observation == {"text": "Submitted."}
    assert one(read, AgentFinished).ended_by == "done"


def test_states_after_steps() -> None:
    """What a step changed is told with it, in full."""
    states = artifact(
        "states.jsonl", {"step": 0, "state": {"desk": 0}}, {"step": 3, "state": {"desk": {"a": 1}}}
    )
    steps = all_of(trial(files=states), ActionTaken)
    assert [{n: c.full for n, c in step.states.items()} for step in steps] == [
        {}, {}, {"desk": [{"a": 1}]},
    ]  # fmt: skip


def test_steps_that_only_the_agent_told_of() -> None:
    """Without the host's record they are the agent's word; and the host's hold without its."""
    told = trial(files={f"{ARTIFACTS}/steps.jsonl": None})
    assert {step.observed_by for step in all_of(told, ActionTaken)} == {"agent"}
    hosted = trial(files={f"{ARTIFACTS}/episode.jsonl": None})
    steps = all_of(hosted, ActionTaken)
    assert [(step.observed_by, step.untimed, step.started_at) for step in steps] == [
        ("host", True, "")
    ] * 3


def test_rewards_name_their_steps() -> None:
    """Each names the event of the step that it is about; hindsight and spans too."""
    read = trial()
    steps = [e.id for e in read.events if isinstance(e.payload, ActionTaken)]
    rewards = all_of(read, StepRewarded)
    assert [(r.target.event_id, r.value) for r in rewards] == list(
        zip(steps, (0.5, -0.1, 0.5), strict=True)
    )
    line = lines_of(files_of(SAMPLE)[f"{ARTIFACTS}/rewards.jsonl"])[0]
    target = {"kind": "event", "event_id": "e2", "start": 1, "end": 3}
    more = artifact(
        "rewards.jsonl",
        {**line, "source": "hindsight", "weight": 2.0, "target": target},
        {**line, "target": {"kind": "step", "event_id": "e99"}},
        {**line, "source": "verifier"},
    )
    changed = trial(files=more)
    credit = one(changed, HindsightCredited)
    assert (credit.target.target, credit.target.start, credit.weight) == ("event", 1, 2.0)
    assert all_of(changed, StepRewarded) == []


def test_model_calls() -> None:
    """Each request is whole again, though the record has only what was new in it."""
    call = {
        "kind": "model.call", "event_id": "m1", "turn": 1, "model": "m", "messages_offset": 0,
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "tools": ["submit"], "text": "t", "tool_calls": [], "usage": {"input_tokens": 7},
        "started_at": "2026-11-30T22:19:01+00:00", "duration_ms": 500.0,
    }  # fmt: skip
    then = {
        **call, "event_id": "m2", "messages_offset": 2, "text": "", "duration_ms": None,
        "messages": [{"role": "assistant", "content": "t"}],
    }  # fmt: skip
    read = trial(files=artifact("episode.jsonl", call, then))
    first, second = all_of(read, ModelCalled)
    assert first.usage.input_tokens == 7
    assert (first.latency, second.untimed) == (0.5, True)
    assert [m["role"] for m in second.request["messages"]] == ["system", "user", "assistant"]
    said = [(m.role, m.text) for m in all_of(read, AgentMessage)]
    assert said == [("system", "s"), ("user", "u"), ("assistant", "t")]


def test_verdicts() -> None:
    """Scores, evidence; one that failed leaves the trial unscored, and so does one that waits."""
    scored = one(trial(), VerifierScored)
    assert (scored.verifier, scored.score, len(scored.evidence)) == ("desk-check", 1.0, 2)

    def failed(result: dict[str, Any]) -> None:
        result["verifier_results"][0].update(status="failed", score=None, feedback="it raised")

    assert one(trial(failed), VerifierFailed).error == "it raised"
    assert one(trial(failed), TrialUnscored).error == "it raised"

    def waits(result: dict[str, Any]) -> None:
        result["status"] = "awaiting_review"
        result["verifier_results"][0].update(status="awaiting_review", score=None)

    assert one(trial(waits), TrialFinished).outcome == "unscored"


def test_how_trials_end() -> None:
    """A failure is an error, a cancelled trial is cancelled, and a limit is a limit."""

    def fails(result: dict[str, Any]) -> None:
        result.update(
            status="failed", error_code="HARNESS", error_message="it died", verifier_results=[]
        )

    assert one(trial(fails), AgentFailed).error == "HARNESS: it died"
    assert one(trial(fails), TrialErrored).error == "HARNESS: it died"
    cancelled = trial(lambda result: result.update(status="cancelled"))
    assert one(cancelled, TrialFinished).outcome == "cancelled"
    late = trial(lambda result: result.update(stop_reason="max_turns"))
    assert one(late, AgentFinished).ended_by == "max_turns"


def test_bad_records_are_refused_by_name() -> None:
    """The message has the file, the key and what was found."""
    with pytest.raises(RecordsError, match=r"receipt\.execution_id: expected a whole number"):
        trial(lambda result: result["receipt"].pop("execution_id"))
    apps = artifact("apps.json", {"desk": {"control": "mine", "initial": {}, "final": {}}})
    with pytest.raises(RecordsError, match=r"apps\.json: desk\.control: expected one of owned"):
        trial(files=apps)
    with pytest.raises(RecordsError, match=r"steps\.jsonl:1: no JSON"):
        trial(files={f"{ARTIFACTS}/steps.jsonl": b"{"})
    files = files_of(SAMPLE)
    del files[f"{KEY}/result.json"]
    with pytest.raises(RecordsError, match=r"result\.json: is not there: the trial has not"):
        PluralReader(records_of(files)).trial(KEY, "seed")


def test_only_its_own_folders_are_its() -> None:
    """Of the others' none is."""
    files = files_of(SAMPLE)
    assert looks_like_plural(list(files), files.__getitem__)
    for other in (SAMPLES / "harbor" / "by-hand", SAMPLES / "benchflow" / "two-tasks"):
        found = files_of(other)
        assert not looks_like_plural(list(found), found.__getitem__)
    assert not looks_like_plural(["result.json"], lambda name: b"no JSON")
