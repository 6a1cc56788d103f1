"""Training data in the form that TRL's trainers read: a prompt and a completion a line. Pure.

Both are lists of messages ("conversational prompt-completion"). There is no `messages` key, since
TRL refuses rows that have both; `prompt` + `completion` is the conversation. Every other column is
passed to reward functions by its name. Rewards name their step by the event's id and the message
that has the call, and lists that belong together have the same length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from ...events.kinds import AgentMessage
from ...events.values import Json
from ...projections.document import compact
from ...projections.trajectory import AtifStep, Trajectory, trajectory
from .ledger import Ledger
from .masks import ending_of, mask_of
from .rows import EventRow, Given, StepRow, TrialRow, rows


class Function(msgspec.Struct, frozen=True):
    """What was called."""

    name: str
    arguments: dict[str, Json]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One action within an assistant's message."""

    type: Literal["function"] = "function"
    id: str
    function: Function


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message; `role` and `content` are always there."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class Credited(msgspec.Struct, frozen=True, kw_only=True):
    """One reward of a step or a model call, flat, so that every row has the same columns."""

    event_id: str
    verifier: str
    version: str | None
    source: str
    space: str
    value: float | None
    weight: float | None
    field: str | None
    start: int | None
    end: int | None
    token_start: int | None
    token_end: int | None
    error: str | None


class TrlRow(msgspec.Struct, frozen=True, kw_only=True):
    """One trial."""

    prompt: list[Message]
    completion: list[Message]
    reward: float | None
    """At the end; null where the trial is masked."""
    step_ids: list[str]
    step_messages: list[int | None]
    """Which message of the completion has the step's call, from 0."""
    step_rewards: list[float | None]
    step_credits: list[float | None]
    step_returns: list[float | None]
    credited: list[Credited]
    terminated: bool
    truncated: bool
    masked: bool
    mask_reason: str | None
    mask_detail: str | None
    job: str
    trial: str
    task: str
    agent: str
    model: str | None
    attempt: int


def trl_row(
    ledger: Ledger,
    blobs: Mapping[str, bytes],
    *,
    instructions: str = "",
    gamma: float = 1.0,
    regrades: Sequence[str] = (),
) -> TrlRow:
    """A trial's row. The `instructions` and the first observation are the prompt where the log has
    no messages. `blobs` has those that trajectory_blobs names, `regrades` as in `rows`."""
    view = ledger.view
    told = msgspec.json.decode(trajectory(view, blobs), type=Trajectory)
    dialogue = [] if told.notes is not None else told.steps
    first = next((n for n, step in enumerate(dialogue) if step.source == "agent"), len(dialogue))
    prompt = [message for step in dialogue[:first] for message, _ in _messages(step)]
    if instructions and not any(isinstance(said, AgentMessage) for _, said in view.history):
        seen = [message.content for message in prompt]  # the first observation, where there is one
        prompt = [Message(role="user", content="\n\n".join([instructions, *seen]))]
    completion: list[Message] = []
    places: dict[str, int] = {}
    for step in dialogue[first:]:
        for message, events in _messages(step):
            places |= dict.fromkeys(events, len(completion))
            completion.append(message)
    found = list(rows(ledger, blobs, gamma=gamma, regrades=regrades))
    steps = [row for row in found if isinstance(row, StepRow)]
    mask, ending = mask_of(view, regrades), ending_of(view)
    started, slot = view.started, view.started.slot
    return TrlRow(
        prompt=prompt,
        completion=completion,
        reward=next(row.reward for row in found if isinstance(row, TrialRow)),
        step_ids=[row.event_id for row in steps],
        step_messages=[places.get(row.event_id) for row in steps],
        step_rewards=[row.reward for row in steps],
        step_credits=[row.credit for row in steps],
        step_returns=[row.to_go for row in steps],
        credited=[
            _credited(row.event_id, given)
            for row in found
            if isinstance(row, StepRow | EventRow)
            for given in row.rewards
        ],
        terminated=ending.terminated,
        truncated=ending.truncated,
        masked=mask is not None,
        mask_reason=mask.reason if mask else None,
        mask_detail=mask.detail if mask else None,
        job=started.job,
        trial=started.trial,
        task=slot.task,
        agent=slot.agent,
        model=slot.model,
        attempt=slot.attempt,
    )


def _messages(step: AtifStep) -> Iterator[tuple[Message, list[str]]]:
    """A step's messages, each with the ids of the actions that it calls for."""
    if step.source != "agent":
        yield Message(role=step.source, content=step.message), []
        return
    calls = step.tool_calls or []
    yield (
        Message(
            role="assistant",
            content=step.message,
            reasoning_content=step.reasoning_content,
            tool_calls=[
                Call(id=call.tool_call_id, function=Function(call.function_name, call.arguments))
                for call in calls
            ]
            or None,
        ),
        [str((call.extra or {}).get("event_id")) for call in calls],
    )
    names = {call.tool_call_id: call.function_name for call in calls}
    answered: set[str | None] = set()
    for result in step.observation.results if step.observation else ():
        id = result.source_call_id
        answered.add(id)
        yield (
            Message(
                role="tool", content=result.content or "", tool_call_id=id,
                name=names.get(id or ""),
            ),
            [],
        )  # fmt: skip
    for id, name in names.items():
        if id not in answered:  # chat templates want an answer to every call
            yield (
                Message(role="tool", content=compact(None).decode(), tool_call_id=id, name=name),
                [],
            )


def _credited(event_id: str, given: Given) -> Credited:
    target = given.target
    return Credited(
        event_id=event_id, verifier=given.verifier, version=given.version, source=given.source,
        space=given.space, value=given.value, weight=given.weight, field=target.field,
        start=target.start, end=target.end, token_start=target.token_start,
        token_end=target.token_end, error=given.error,
    )  # fmt: skip
