"""Job folders of BenchFlow, as BenchFlow 0.7 wrote them.

The sample was run with its oracle, so its trajectories have no message: the tests put lines in that
are written as BenchFlow writes an ACP session.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.imports import SAMPLES, files_of, payloads, read_all, records_of
from trialog.engine.importing.benchflow import BenchflowReader, looks_like_benchflow
from trialog.engine.importing.fields import RecordsError
from trialog.engine.importing.harbor import looks_like_harbor
from trialog.engine.importing.records import TrialRead
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    ArtifactsSaved,
    TrialErrored,
    TrialScored,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
    WarningRaised,
)
from trialog.events.kinds.parts import Usage

SAMPLE = SAMPLES / "benchflow" / "two-tasks"
HELLO = "says-hello__223ea035"
SESSION: list[dict[str, Any]] = [
    {"type": "user_message", "text": "Write hello into hello.txt."},
    {"type": "agent_thought", "text": "A shell will do."},
    {"type": "agent_message", "text": "I write it."},
    {
        "type": "tool_call", "tool_call_id": "c1", "kind": "execute", "title": "bash",
        "status": "completed", "raw_input": {"command": "echo hello > hello.txt"},
        "content": [{"type": "content", "content": {"type": "text", "text": "done"}}],
    },
    {"type": "tool_call", "tool_call_id": "c2", "kind": "read", "title": "", "status": "failed",
     "content": [{"type": "diff"}], "raw_output": {"code": 1}},
    {"type": "user_message", "text": "And now?"},
    {"type": "agent_message", "text": "Finished."},
    {"type": "agent_timeout", "reason": "late", "timeout_sec": 1.0},
    {"type": "agent_thought", "text": "or not"},
]  # fmt: skip


def rollout(session: list[dict[str, Any]] | None = None, **changed: Any) -> TrialRead:
    """One rollout of the sample, changed."""
    files = files_of(SAMPLE)
    result = json.loads(files[f"{HELLO}/result.json"])
    files[f"{HELLO}/result.json"] = json.dumps({**result, **changed}).encode()
    if session is not None:
        lines = "\n".join(json.dumps(line) for line in session)
        files[f"{HELLO}/trajectory/acp_trajectory.jsonl"] = lines.encode()
    return BenchflowReader(records_of(files)).trial(HELLO, "seed")


def one(trial: TrialRead, kind: type[Any]) -> Any:
    """Its only event of a kind."""
    [found] = [payload for payload in payloads(trial) if isinstance(payload, kind)]
    return found


def test_a_job_and_its_rollouts() -> None:
    """Each rollout is a trial, with its reward and its output."""
    read = read_all(BenchflowReader, files_of(SAMPLE))
    assert {t.task: one(t, TrialScored).rewards for t in read.values()} == {
        "says-hello": {"reward": 1.0},
        "says-less": {"reward": 0.5, "spelling": 1.0},
    }
    assert one(read[HELLO], VerifierScored).duration == 17.4
    assert [a.path for a in one(read[HELLO], ArtifactsSaved).artifacts] == ["hello.txt"]
    assert BenchflowReader(records_of(files_of(SAMPLE))).job().name == "2026-11-30__22-14-40"


def test_a_session_becomes_events() -> None:
    """Thoughts belong to the message that follows, tool calls are actions that the agent saw."""
    told = payloads(rollout(SESSION))
    said = [(e.role, e.text, e.reasoning) for e in told if isinstance(e, AgentMessage)]
    assert said == [
        ("user", "Write hello into hello.txt.", None),
        ("assistant", "I write it.", "A shell will do."),
        ("user", "And now?", None),
        ("assistant", "Finished.", None),
        ("assistant", "", "or not"),
    ]
    first, second = [e for e in told if isinstance(e, ActionTaken)]
    assert (first.action, first.tool_call, first.observation) == ("bash", "c1", "done")
    assert first.arguments == {"command": "echo hello > hello.txt"}
    assert (first.observed_by, first.untimed, first.turn) == ("agent", True, 1)
    assert (second.action, second.observation) == ("read", {"code": 1})
    assert second.error == "the tool call failed"


def test_usage_that_nobody_measured_is_null() -> None:
    """The zeros beside `unavailable` are no figures."""
    assert one(rollout(), AgentFinished).reported_usage is None
    measured = {"n_input_tokens": 5, "n_output_tokens": 2, "usage_source": "provider"}
    given = one(rollout(agent_result=measured), AgentFinished).reported_usage
    assert given == Usage(input_tokens=5, output_tokens=2)


def test_errors() -> None:
    """Of the agent, with and without a grade; of the verifier; and agents that ran too long."""
    failed = rollout(error="it broke", rewards=None)
    assert one(failed, AgentFailed).error == "it broke"
    assert one(failed, TrialErrored).error == "it broke"
    graded = rollout(error="it broke")
    assert one(graded, AgentFinished).error == "it broke"
    assert one(graded, TrialScored).passed
    verifier = rollout(rewards=None, verifier_error="the test crashed")
    assert one(verifier, VerifierFailed).error == "the test crashed"
    assert one(verifier, TrialUnscored).error == "the test crashed"
    assert one(rollout(), AgentFinished).ended_by == "done"
    late = rollout(agent_timeout_info={"timeout_sec": 1})
    assert one(late, AgentFinished).ended_by == "agent_timeout"
    idle = rollout(idle_timeout_info={"timeout_sec": 1})
    assert one(idle, AgentFinished).ended_by == "idle_timeout"


def test_a_session_that_cant_be_read_costs_no_trial() -> None:
    """A warning names the file and line."""
    read = rollout([*SESSION, {"text": "no type"}])
    assert "acp_trajectory.jsonl:10: type: expected text" in one(read, WarningRaised).message
    assert not any(isinstance(payload, ActionTaken) for payload in payloads(read))
    assert one(read, TrialScored).passed


def test_what_is_no_finished_trial() -> None:
    """A rollout without a result, and a reviewer's own run, are left out with the reason."""
    files = files_of(SAMPLE)
    del files[f"{HELLO}/result.json"]
    with pytest.raises(RecordsError, match=f"{HELLO}/result.json: is not there: the rollout has"):
        BenchflowReader(records_of(files)).trial(HELLO, "seed")
    with pytest.raises(RecordsError, match="purpose: this is a reviewer's run"):
        rollout(purpose="reviewer")
    nested = {**files_of(SAMPLE), f"{HELLO}/review/result.json": b"{}"}
    assert len(BenchflowReader(records_of(nested)).trials()) == 2


def test_only_its_own_folders_are_its() -> None:
    """Its folders are told from Harbor's, whose files have the same names."""
    files = files_of(SAMPLE)
    assert looks_like_benchflow(list(files), files.__getitem__)
    assert not looks_like_harbor(list(files), files.__getitem__)
    harbor = files_of(SAMPLES / "harbor" / "by-hand")
    assert not looks_like_benchflow(list(harbor), harbor.__getitem__)
    assert not looks_like_benchflow(["a/result.json"], lambda name: b"no JSON")
