"""trajectory.json: what the agent did, in ATIF 1.7 (Agent Trajectory Interchange Format).

The format is not ours, so its own habits hold: keys without a value are left out, and texts are
written in full, also those that the log keeps as blobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, assert_never, cast

import msgspec

from ..events.kinds import ActionTaken, AgentMessage, EnvironmentReset, ModelCalled
from ..events.values import BlobRef, Json, Text
from .document import compact, document, known_seconds
from .observed import Recorded, observed, observed_blobs
from .result import answer
from .texts import full_text, full_value, reference
from .trial import TrialView
from .usage import usage_total

SCHEMA = "ATIF-v1.7"


class AtifAgent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Who acted."""

    name: str
    version: str
    model_name: str | None = None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One action."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Json]
    extra: dict[str, Json] | None = None


class ObservationResult(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What came of an action."""

    source_call_id: str | None = None
    content: str | None = None
    extra: dict[str, Json] | None = None


class Observation(msgspec.Struct, frozen=True, gc=False):
    """What came of a step's actions."""

    results: list[ObservationResult]


class Metrics(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a model call used."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class AtifStep(msgspec.Struct, omit_defaults=True, gc=False):
    """One turn of the dialogue; built up while the events are read."""

    step_id: int
    source: Literal["system", "user", "agent"]
    message: str
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    llm_call_count: int | None = None
    extra: dict[str, Json] | None = None


class FinalMetrics(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Sums over all model calls."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None


class Trajectory(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """trajectory.json."""

    schema_version: str
    session_id: str
    trajectory_id: str
    agent: AtifAgent
    steps: list[AtifStep]
    notes: str | None = None
    final_metrics: FinalMetrics
    extra: dict[str, Json]


def trajectory(view: TrialView, blobs: Mapping[str, bytes]) -> bytes:
    """The file's bytes. `blobs` has those that `trajectory_blobs` names."""
    started, agent = view.started, view.agent_started
    steps = _Steps(blobs, observed(view, blobs))
    for event, payload in view.history:
        match payload:
            case ActionTaken() as action:
                steps.act(event.id, action)
            case AgentMessage() as message:
                steps.say(event.at, message)
            case ModelCalled() as call:
                steps.call(event.id, call)
            case EnvironmentReset(observation=observation) if observation is not None:
                steps.add("user", steps.plain(observation), event.at)
            case _:
                pass
    if (final := answer(view)) is not None:
        steps.answer(steps.plain(final))
    notes = None
    if not steps.steps:
        notes = "No step of the agent was recorded; the format asks for at least one."
        steps.add("system", "No step of the agent was recorded.", view.started_at)
    used = usage_total(view.usages)
    return document(
        Trajectory(
            schema_version=SCHEMA,
            session_id=started.trial,
            trajectory_id=started.trial,
            agent=AtifAgent(
                started.slot.agent,
                view.agent_version or "unknown",
                started.slot.model or (agent.model if agent else None),
            ),
            steps=steps.steps,
            notes=notes,
            final_metrics=FinalMetrics(
                used.input_tokens,
                used.output_tokens,
                used.cached_tokens,
                used.cost_usd,
                len(steps.steps),
            ),
            extra={"job": started.job, "task": started.slot.task},
        )
    )


def trajectory_blobs(view: TrialView) -> Iterator[BlobRef]:
    """The texts that are blobs and are written in full."""
    values: list[Json | Text | None] = [answer(view)]
    for _, payload in view.history:
        match payload:
            case ActionTaken() as action:
                values += (action.arguments, action.observation, action.error)
            case AgentMessage() as message:
                values += (message.text, message.reasoning)
            case EnvironmentReset(observation=observation):
                values.append(observation)
            case _:
                pass
    for value in values:
        if (ref := reference(value)) is not None:
            yield ref
    yield from observed_blobs(view)


class _Steps:
    """The steps so far. Events that name the same model call, or the same turn, share a step."""

    def __init__(self, blobs: Mapping[str, bytes], recorded: Recorded) -> None:
        self.steps: list[AtifStep] = []
        self._recorded = recorded
        self._blobs = blobs
        self._by_call: dict[str, AtifStep] = {}
        self._turn: int | None = None
        """The turn of the last step, where it is an agent's that no model call is known of."""

    def add(
        self, source: Literal["system", "user", "agent"], message: str, at: str | None
    ) -> AtifStep:
        step = AtifStep(len(self.steps) + 1, source, message, at or None)
        self.steps.append(step)
        self._turn = None
        return step

    def call(self, event_id: str, call: ModelCalled) -> None:
        if call.error is not None or call.purpose not in (None, "agent"):
            return  # no turn of the agent's came of it; its cost is in the final metrics
        used = call.usage
        step = self.add("agent", "", call.started_at)
        step.model_name = call.model_reported or call.model
        step.metrics = Metrics(
            used.input_tokens, used.output_tokens, used.cached_tokens, used.cost_usd
        )
        step.llm_call_count = 1
        self._by_call[event_id] = step

    def say(self, at: str, message: AgentMessage) -> None:
        text = full_text(message.text, self._blobs)
        match message.role:
            case "system" | "user" as source:
                self.add(source, text, at)
            case "tool":
                self._observe(at, text)
            case "assistant":
                step = self._by_call.get(message.model_call or "")
                if step is None:
                    step = self.add("agent", text, at)
                    self._turn = message.turn
                else:
                    step.message = f"{step.message}\n{text}" if step.message else text
                if message.reasoning is not None:
                    step.reasoning_content = full_text(message.reasoning, self._blobs)
            case _:
                assert_never(message.role)

    def act(self, event_id: str, action: ActionTaken) -> None:
        step = self._by_call.get(action.model_call or "")
        if step is None:
            step = self._same_turn(action.turn) or self.add("agent", "", action.started_at)
            self._turn = action.turn
        call_id = action.tool_call or event_id
        given = None if action.arguments is None else full_value(action.arguments, self._blobs)
        if given is None:
            given = self._recorded.arguments.get(call_id)
        found = self._recorded.results.get(call_id)
        calls = step.tool_calls = step.tool_calls or []
        calls.append(
            ToolCall(
                call_id,
                action.action,
                _arguments(given),
                {
                    "app": action.app,
                    "duration_sec": known_seconds(action.duration, action.untimed),
                    "event_id": event_id,
                    "observed_by": action.observed_by,
                },
            )
        )
        if action.error is not None:
            extra: dict[str, Json] = {"error": True}
            if action.observation is not None:
                extra["observation"] = full_value(action.observation, self._blobs)
            self._result(
                step, ObservationResult(call_id, full_text(action.error, self._blobs), extra)
            )
        elif action.observation is not None:
            self._result(step, ObservationResult(call_id, self.plain(action.observation)))
        elif found is not None:
            from_model: dict[str, Json] = {"source": "model_call"}
            self._result(step, ObservationResult(call_id, found, from_model))

    def answer(self, text: str) -> None:
        last = self.steps[-1] if self.steps else None
        if last is None or last.source != "agent" or last.message != text:
            self.add("agent", text, None)

    def plain(self, value: Json) -> str:
        """A value as text: a string as it is, anything else as JSON."""
        value = full_value(value, self._blobs)
        return value if isinstance(value, str) else compact(value).decode()

    def _same_turn(self, turn: int) -> AtifStep | None:
        return self.steps[-1] if self._turn == turn and self.steps else None

    def _observe(self, at: str, text: str) -> None:
        last = self.steps[-1] if self.steps else None
        if last is None or last.source != "agent":
            self.add("system", text, at)
        else:
            self._result(last, ObservationResult(None, text))

    def _result(self, step: AtifStep, result: ObservationResult) -> None:
        if step.observation is None:
            step.observation = Observation([])
        step.observation.results.append(result)


def _arguments(value: Json) -> dict[str, Json]:
    if value is None:
        return {}
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {"value": value}
