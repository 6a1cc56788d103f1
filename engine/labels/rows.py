"""Training data, a line a step: what each verifier gave it, and what the trial came to. Pure.

A row names its step by the event's id, so neither calls in parallel nor a call that was made again
nor a shortened context moves a reward to another step. What was not scored is null, never 0.
Rewards of steps, credit in hindsight and the score at the end are never added up together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ...events.kinds import ActionTaken, TrialScored
from ...events.values import Json, unescape
from ...projections.document import total
from ...projections.rewards import RewardLine, Source, TargetLine
from ...projections.texts import full_text, full_value
from ...projections.trial import TrialView
from .ledger import Applied, FailedReward, Ledger
from .masks import Ending, Mask, ending_of, mask_of, short

SCHEMA = "trialog.training/1"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What one verifier gave. `value` is null where its reward failed; `error` says why."""

    record_id: str | None
    verifier: str
    version: str | None
    source: Source
    value: float | None
    weight: float | None
    space: str
    target: TargetLine
    metadata: dict[str, Json]
    error: str | None = None


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One action."""

    schema: str
    kind: Literal["step"] = "step"
    job: str
    trial: str
    task: str
    agent: str
    model: str | None
    attempt: int
    execution: int
    event_id: str
    step: int
    """1, 2, 3 …: its place among the trial's steps."""
    turn: int
    model_call: str | None
    tool_call: str | None
    app: str
    action: str
    arguments: Json | None
    observation: Json | None
    error: str | None
    observed_by: str
    reward: float | None
    """The sum of its step rewards; null where no verifier gave one."""
    credit: float | None
    """The sum of what it was credited in hindsight; null where nothing was."""
    to_go: float | None
    """Rewards and credit of this turn's steps from here on, and of later turns discounted."""
    rewards: list[Given]
    terminated: bool
    truncated: bool
    masked: bool
    mask_reason: str | None
    mask_detail: str | None


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is no step, such as a model call, and was credited."""

    schema: str
    kind: Literal["event"] = "event"
    job: str
    trial: str
    event_id: str
    event: str
    """Its kind."""
    turn: int | None
    credit: float | None
    rewards: list[Given]
    masked: bool
    mask_reason: str | None
    mask_detail: str | None


class Totals(msgspec.Struct, frozen=True):
    """Sums by space, such as ``{"action": 0.5}``; empty where nothing was given."""

    step: dict[str, float | None]
    hindsight: dict[str, float | None]
    terminal: dict[str, float | None]
    """The trial's reward; a masked trial has none."""


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial came to; the last line of each."""

    schema: str
    kind: Literal["trial"] = "trial"
    job: str
    trial: str
    task: str
    agent: str
    model: str | None
    attempt: int
    execution: int
    seed: int | None
    parameters: dict[str, Json]
    outcome: str | None
    passed: bool | None
    score: float | None
    reward: float | None
    """At the end, from a verifier; null where the trial is masked."""
    rewards: list[Given]
    """What each verifier that scores gave at the end."""
    steps: int
    totals: Totals
    gamma: float
    discounted: float | None
    """Rewards and credit of all steps, each turn's discounted by gamma once more."""
    terminated: bool
    truncated: bool
    ended_by: str | None
    versions: dict[str, str]
    applied: list[Applied]
    masked: bool
    mask_reason: str | None
    mask_detail: str | None


Row: TypeAlias = StepRow | EventRow | TrialRow


def rows(
    ledger: Ledger,
    blobs: Mapping[str, bytes],
    *,
    gamma: float = 1.0,
    regrades: Sequence[str] = (),
) -> Iterator[Row]:
    """A trial's rows in the order of its events. `blobs` has those that trajectory_blobs names,
    `regrades` are the ids of the job's finished ones."""
    view = ledger.view
    mask, ending = mask_of(view, regrades), ending_of(view)
    given = _by_event(ledger)
    steps = [(event.id, step) for event, step in view.history if isinstance(step, ActionTaken)]
    to_go = returns([(step.turn, _sum(given.get(id, ()))) for id, step in steps], gamma)
    last = steps[-1][0] if steps else None
    number = 0
    for event, payload in view.history:
        found = given.pop(event.id, [])
        if isinstance(payload, ActionTaken):
            yield _step_row(
                view, event.id, payload, number + 1, found, to_go[number], blobs, mask,
                ending if event.id == last else Ending(False, False, None),
            )  # fmt: skip
            number += 1
        elif found:
            yield EventRow(
                schema=SCHEMA, job=view.started.job, trial=view.started.trial, event_id=event.id,
                event=event.kind, turn=getattr(payload, "turn", None), credit=_sum(found),
                rewards=found, masked=mask is not None,
            mask_reason=mask.reason if mask else None, mask_detail=mask.detail if mask else None,
            )  # fmt: skip
    yield _trial_row(ledger, mask, ending, number, to_go[0] if to_go else None, gamma)


def returns(values: list[tuple[int, float | None]], gamma: float) -> list[float | None]:
    """For each step, given its turn and value: what is still to come, later turns discounted.

    Steps of one turn are not discounted against each other. Null where nothing more was given.
    """
    found: list[float | None] = []
    ahead: list[float] = []
    """What is still to come, with each value's discount, so that they are summed exactly."""
    before: int | None = None
    for turn, value in reversed(values):
        if before is not None and turn != before:
            ahead = [one * gamma for one in ahead] if gamma != 1.0 else ahead
        before = turn
        if value is not None:
            ahead.append(value)
        found.append(total(ahead) if ahead else None)
    found.reverse()
    return found


def _by_event(ledger: Ledger) -> dict[str, list[Given]]:
    """What was given to each event of the episode, in the order in which it was."""
    found: dict[str, list[Given]] = {}
    rewarded: set[tuple[str, str, str | None]] = set()
    for line in ledger.lines:
        if line.granularity == "step":
            found.setdefault(line.target.event_id, []).append(given(line))
            if line.source == "step":
                rewarded.add((line.target.event_id, line.verifier, line.version))
    for failure in ledger.failed:
        if (failure.step, failure.verifier, failure.version) not in rewarded:
            found.setdefault(failure.step, []).append(_failed(failure))
    return found


def given(line: RewardLine) -> Given:
    """A line of the ledger as an entry of a row."""
    return Given(
        record_id=line.record_id, verifier=line.verifier, version=line.version, source=line.source,
        value=line.value, weight=line.weight, space=line.space, target=line.target,
        metadata=unescape(line.metadata),
    )  # fmt: skip


def _failed(failure: FailedReward) -> Given:
    return Given(
        record_id=None, verifier=failure.verifier, version=failure.version, source="step",
        value=None, weight=None, space="action", target=TargetLine("step", failure.step),
        metadata={}, error=short(failure.error),
    )  # fmt: skip


def _sum(entries: Iterable[Given], *sources: Source) -> float | None:
    values = [
        one.value
        for one in entries
        if one.value is not None and (not sources or one.source in sources)
    ]
    return total(values) if values else None


def _step_row(
    view: TrialView,
    event_id: str,
    step: ActionTaken,
    number: int,
    found: list[Given],
    to_go: float | None,
    blobs: Mapping[str, bytes],
    mask: Mask | None,
    ending: Ending,
) -> StepRow:
    started, slot = view.started, view.started.slot
    return StepRow(
        schema=SCHEMA, job=started.job, trial=started.trial, task=slot.task, agent=slot.agent,
        model=slot.model, attempt=slot.attempt, execution=started.execution, event_id=event_id,
        step=number, turn=step.turn, model_call=step.model_call, tool_call=step.tool_call,
        app=step.app, action=step.action, arguments=full_value(step.arguments, blobs),
        observation=full_value(step.observation, blobs),
        error=None if step.error is None else full_text(step.error, blobs),
        observed_by=step.observed_by, reward=_sum(found, "step"),
        credit=_sum(found, "hindsight"), to_go=to_go, rewards=found,
        terminated=ending.terminated, truncated=ending.truncated, masked=mask is not None,
            mask_reason=mask.reason if mask else None, mask_detail=mask.detail if mask else None,
    )  # fmt: skip


def _trial_row(
    ledger: Ledger,
    mask: Mask | None,
    ending: Ending,
    steps: int,
    discounted: float | None,
    gamma: float,
) -> TrialRow:
    view = ledger.view
    started, slot = view.started, view.started.slot
    scored = view.conclusion if isinstance(view.conclusion, TrialScored) else None
    reward = terminal_reward(view) if mask is None else None
    return TrialRow(
        schema=SCHEMA, job=started.job, trial=started.trial, task=slot.task, agent=slot.agent,
        model=slot.model, attempt=slot.attempt, execution=started.execution, seed=started.seed,
        parameters=unescape(slot.parameters),
        outcome=view.finish.payload.outcome if view.finish else None,
        passed=scored.passed if scored else None, score=scored.score if scored else None,
        reward=reward,
        rewards=[given(line) for line in ledger.lines if line.granularity == "terminal"],
        steps=steps,
        totals=Totals(
            by_space(line for line in ledger.lines if line.source == "step"),
            by_space(line for line in ledger.lines if line.source == "hindsight"),
            {} if reward is None else {"output": reward},
        ),
        gamma=gamma, discounted=discounted, terminated=ending.terminated,
        truncated=ending.truncated, ended_by=ending.ended_by, versions=ledger.versions,
        applied=ledger.applied, masked=mask is not None,
            mask_reason=mask.reason if mask else None, mask_detail=mask.detail if mask else None,
    )  # fmt: skip


def terminal_reward(view: TrialView) -> float | None:
    """The reward at the trial's end, as its result has it."""
    scored = view.conclusion if isinstance(view.conclusion, TrialScored) else None
    if scored is None or scored.rewards is None:
        return None
    return scored.rewards.get("reward")


def by_space(lines: Iterable[RewardLine]) -> dict[str, float | None]:
    """The sum of the values in each space, in the order in which the spaces first come up."""
    values: dict[str, list[float]] = {}
    for line in lines:
        values.setdefault(line.space, []).append(line.value)
    return {space: total(found) for space, found in values.items()}


def valid_gamma(gamma: float) -> bool:
    """Whether it can discount: above 0, at most 1."""
    return math.isfinite(gamma) and 0.0 < gamma <= 1.0
