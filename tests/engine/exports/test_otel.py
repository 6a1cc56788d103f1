"""Traces, read by OpenTelemetry's own definition of the form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from helpers.exports import exported
from helpers.given import (
    action,
    agent_finished,
    recorded,
    sandbox,
    scored,
    started,
    step_rewarded,
    trial,
    trial_scored,
    unknown,
    verifier_started,
)
from helpers.golden import JOB, golden_log
from helpers.training import broken, called, played, ran
from trialog.engine.exports.otel.trace import trace_of
from trialog.events.errors import UnknownEvent
from trialog.events.kinds import AgentStarted, JudgeSampled, TrialFinished, VerifierApplied
from trialog.events.kinds.parts import Usage
from trialog.projections.document import line

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "files"


def read(data: bytes) -> TracesData:
    """One line; raises for a field or a value that the form does not have."""
    return json_format.Parse(_in_base64(data), TracesData())


def _in_base64(data: bytes) -> str:
    """OTLP has ids in hex where protobuf's own JSON has base64."""
    import base64

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: base64.b64encode(bytes.fromhex(item)).decode()
                if key in {"traceId", "spanId", "parentSpanId"}
                else turned(item)
                for key, item in value.items()
            }
        return [turned(item) for item in value] if isinstance(value, list) else value

    return json.dumps(turned(json.loads(data)))


def spans_of(traces: TracesData) -> list[Span]:
    """All spans of a line."""
    (resource,) = traces.resource_spans
    (scope,) = resource.scope_spans
    return list(scope.spans)


def spans(items: list[Any]) -> list[Span]:
    """A trial's spans, as a collector has them."""
    made = trace_of(recorded("trial/t__00000001", items))
    return [
        json_format.Parse(_in_base64(line(span)), Span())
        for span in made
    ]  # fmt: skip


def known(span: Span | Any) -> dict[str, Any]:
    """A span's attributes, or an event's."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


async def test_every_line_is_a_whole_trace() -> None:
    """Each line is one trial: ids are of the right length and unique, one span has no parent, all
    others' parents are there, and nothing ends before it begins."""
    async with golden_log(GOLDEN) as log:
        data, _ = await exported(log, JOB, "otel")
    lines = data.splitlines()
    assert len(lines) == 4

    for found in map(read, lines):
        made = spans_of(found)
        ids = {span.span_id for span in made}
        assert {(16, 8)} == {(len(span.trace_id), len(span.span_id)) for span in made}
        assert len(ids) == len(made)
        assert 1 == len({span.trace_id for span in made})
        (root,) = (span for span in made if not span.parent_span_id)
        assert made[0] == root
        assert {span.parent_span_id for span in made[1:]} <= ids
        assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in made)


async def test_no_event_is_lost() -> None:
    """Each event of the trial is a span, the end of one, or an event on one."""
    async with golden_log(GOLDEN) as log:
        data, _ = await exported(log, JOB, "otel")
        ids = {event.id for event in await log.read("trial/t__00000001")}

    named: set[str] = set()
    for span in spans_of(read(data.splitlines()[0])):
        names = {"trialog.event_id", "trialog.end_event_id"}
        for one in (span, *span.events):
            named |= {value for key, value in known(one).items() if key in names}
    assert set() == ids - named


def test_the_tree_of_a_trial() -> None:
    """The agent's actions and calls are below its phase, phases below the trial."""
    found = spans(ran(*played()))
    names = {span.span_id: span.name for span in found}

    tree = [(names.get(span.parent_span_id), span.name) for span in found]
    assert tree[:2] == [(None, "trial t"), ("trial t", "invoke_agent chat")]
    assert ("invoke_agent chat", "chat m-1") in tree
    assert ("invoke_agent chat", "execute_tool add") in tree
    assert ("trial t", "verify exact") == tree[-1]
    assert {Span.SPAN_KIND_CLIENT} == {span.kind for span in found if span.name == "chat m-1"}


def test_times_are_the_recorded_ones() -> None:
    """An action begins when it says so; a phase lasts from event to event, and what had taken a
    while ends with its event."""
    items = [
        started(), sandbox(start_seconds=0.25), AgentStarted(name="a"), action(duration=0.5),
        agent_finished(), TrialFinished(outcome="cancelled"),
    ]  # fmt: skip
    root, box, agent, act = spans(items)
    first = root.start_time_unix_nano

    def within(span: Span) -> tuple[float, float]:
        return (
            (span.start_time_unix_nano - first) / 1e9, (span.end_time_unix_nano - first) / 1e9,
        )  # fmt: skip

    assert [(0.0, 5.0), (0.75, 1.0), (2.0, 4.0), (3.0, 3.5)] == [
        within(span) for span in (root, box, agent, act)
    ]


def test_an_action_whose_time_is_not_known() -> None:
    """It stands where its event was written, without length, and says so."""
    items = [started(), action(started_at="", duration=0.0, untimed=True)]

    root, act = spans(items)

    assert 10**9 == act.start_time_unix_nano - root.start_time_unix_nano
    assert act.start_time_unix_nano == act.end_time_unix_nano
    assert known(act)["trialog.untimed"]


def test_model_calls_speak_the_genai_conventions() -> None:
    """A call has its operation, provider, models, tokens, place and failure; a judge's reply is
    below its verifier."""
    call = called(
        1, usage=Usage(input_tokens=10, output_tokens=5, cost_usd=0.25), form="messages",
        endpoint="https://models.example:8443/v1", model_reported="m-1-2026",
    )  # fmt: skip
    lost = called(2, error="slow down", response=None, status=429, failure="unavailable")
    sample = JudgeSampled(
        verifier="j", sample=1, attempt=1, valid=True, reply="{}", model="m-2", usage=Usage(),
        latency=0.5,
    )  # fmt: skip
    items = [
        started(), AgentStarted(name="chat"), call, lost, agent_finished(),
        verifier_started(verifier="j", verifier_kind="agent"), verifier_started(), sample,
        TrialFinished(outcome="cancelled"),
    ]  # fmt: skip

    found = {span.name: span for span in spans(items) if span.name != "chat m-1"}
    first, second = (span for span in spans(items) if span.name == "chat m-1")

    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.model": "m-1-2026",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "trialog.cost_usd": 0.25,
        "server.address": "models.example",
        "server.port": 8443,
    }.items() <= known(first).items()
    assert "error.type" not in known(first)
    assert (Status.STATUS_CODE_ERROR, "slow down") == (second.status.code, second.status.message)
    assert ("unavailable", 429) == (
        known(second)["error.type"], known(second)["http.response.status_code"],
    )  # fmt: skip
    assert found["verify j"].span_id == found["chat m-2"].parent_span_id


def test_what_went_wrong_is_an_error() -> None:
    """A verifier that failed, and the trial that it left without a score, have the status of an
    error with the words; a trial that failed its test has not."""
    root, *_, verifier = spans(broken())
    (ok, *_) = spans(trial(0.0))

    assert Status.STATUS_CODE_ERROR == root.status.code == verifier.status.code
    assert "KeyError: 'done'" == verifier.status.message
    assert "verifier_error" == known(verifier)["error.type"]
    assert Status.STATUS_CODE_UNSET == ok.status.code
    assert (False, 0.0) == tuple(known(ok)[f"trialog.{name}"] for name in ("passed", "score"))


def test_rewards_are_on_their_steps() -> None:
    """A step's reward is an event of its span, a verifier's score one of the verifier's."""
    items = [
        started(), AgentStarted(name="a"), ("s1", action()), step_rewarded("s1", 0.5),
        agent_finished(), verifier_started(), scored(1.0), trial_scored(1.0),
        TrialFinished(outcome="scored"),
    ]  # fmt: skip

    values = {
        span.name: known(event)["gen_ai.evaluation.score.value"]
        for span in spans(items)
        for event in span.events
        if event.name == "gen_ai.evaluation.result"
    }
    assert {"execute_tool run": 0.5, "verify script": 1.0} == values


def test_labels_say_whose_they_are() -> None:
    """A reward that was applied later has its version, and names the event that has the rest."""
    applied = VerifierApplied(
        verifier="progress", verifier_kind="deterministic", version="2.0.0", digest="d", score=0.5
    )
    later = step_rewarded("s1", 0.25, version="2.0.0", applied="label")
    items = [
        started(), AgentStarted(name="a"), ("s1", action()), step_rewarded("s1", 0.5),
        agent_finished(), TrialFinished(outcome="scored"), ("label", applied), later,
    ]  # fmt: skip

    made = spans(items)

    (step,) = [span for span in made if span.name == "execute_tool run"]
    names = ("gen_ai.evaluation.score.value", "trialog.verifier.version")
    first, second = [known(event) for event in step.events]
    assert [(0.5, "1.0.0"), (0.25, "2.0.0")] == [
        tuple(one[name] for name in names) for one in (first, second)
    ]
    assert "trialog.applied_event_id" not in first
    (label,) = [event for event in made[0].events if event.name == "VerifierApplied"]
    assert second["trialog.applied_event_id"] == known(label)["trialog.event_id"]
    parts = ("verifier.name", "verifier.version", "verifier.digest", "score")
    assert ["progress", "2.0.0", "d", 0.5] == [known(label)[f"trialog.{one}"] for one in parts]


def test_a_trial_that_was_cut_off_has_open_ends() -> None:
    """What nothing ended ends with the last event, and says so."""
    root, agent, _ = spans([started(), AgentStarted(name="a"), action()])

    assert known(root)["trialog.unfinished"]
    assert (Status.STATUS_CODE_ERROR, "it was cut off") == (agent.status.code, agent.status.message)
    assert agent.end_time_unix_nano == root.end_time_unix_nano


def test_an_unknown_event_stops_it_unless_it_may_be_passed_over() -> None:
    """A later release's event is an event on the trace where it may be passed over; else the trace
    would be wrong without it, and is refused."""
    events = recorded("trial/t__00000001", [started(), AgentStarted(name="a"), action()])
    passed = [*events[:2], unknown(events[2], ignorable=True)]

    (_, agent) = trace_of(passed)
    assert ["FutureThing"] == [event.name for event in agent.events]
    with pytest.raises(UnknownEvent):
        trace_of([*events[:2], unknown(events[2], ignorable=False)])
