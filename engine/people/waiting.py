"""Which trials wait for people, and what a reviewer is shown of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from anyio import to_thread

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.errors import LogError
from ...events.kinds import (
    ActionTaken,
    HumanReviewRequested,
    TrialAbandoned,
    TrialFinished,
    TrialScheduled,
)
from ...events.log import BlobStore, EventLog
from ...events.pages import each_event
from ...events.values import BlobRef
from ...projections.document import compact
from ...projections.grading import VerifierResult, verifier_results
from ...projections.result import answer
from ...projections.source import read_trial
from ...projections.texts import full_text, full_value, reference
from ...projections.trial import TrialFold, TrialView
from ..trial.load import replay

STEPS_SHOWN = 50
"""Of a trial's steps, the newest are listed; all of them are in its files."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A review that is owed."""

    job: str
    trial: str
    task: str
    verifier: str
    since: str
    criteria: list[str]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a reviewer is shown. Texts of others: for a terminal they are to be escaped."""

    job: str
    trial: str
    task: str
    agent: str
    requests: list[HumanReviewRequested]
    """Those that are still owed."""
    given: list[str]
    """Verifiers whose reviews are in."""
    answer: str | None
    steps: list[str]
    steps_left_out: int
    final_state: dict[str, str]
    """By app, for an environment."""
    verdicts: list[VerifierResult]
    """Of the automatic verifiers."""
    artifacts: list[str]


async def waiting(log: EventLog, job: str | None = None) -> list[Wanted]:
    """Every review that is owed, of one job or in the whole log, the oldest first."""
    found: list[Wanted] = []
    names = await (_of_log(log) if job is None else _of_job(log, job))
    for trial in names:
        found += _wanted(await log.read(f"trial/{trial}"))
    return sorted(found, key=lambda wanted: (wanted.since, wanted.trial, wanted.verifier))


async def _of_job(log: EventLog, job: str) -> list[str]:
    trials: dict[str, None] = {}
    async for event in each_event(log, f"job/{job}"):
        match decode_or_none(event):
            case TrialScheduled(trial=trial):
                trials[trial] = None
            case TrialAbandoned(trial=trial):
                trials.pop(trial, None)
            case _:
                pass
    return list(trials)


async def _of_log(log: EventLog) -> list[str]:
    """Trials that were asked about and have not finished, by the kinds of their events alone."""
    trials: dict[str, None] = {}
    given_up: set[str] = set()
    async for batch in log.read_all():
        for event in batch:
            if event.kind == HumanReviewRequested.__name__:
                trials[event.stream.removeprefix("trial/")] = None
            elif event.kind == TrialFinished.__name__:
                trials.pop(event.stream.removeprefix("trial/"), None)
            elif event.kind == TrialAbandoned.__name__:
                abandoned = decode_or_none(event)
                if isinstance(abandoned, TrialAbandoned):
                    given_up.add(abandoned.trial)
    return [trial for trial in trials if trial not in given_up]


def _wanted(recorded: Sequence[RecordedEvent]) -> list[Wanted]:
    state = replay(recorded)
    if state.started is None or not state.awaiting:
        return []
    asked_at: dict[str, str] = {}
    for event in recorded:
        if event.kind == HumanReviewRequested.__name__:
            request = decode_or_none(event)
            if isinstance(request, HumanReviewRequested):
                asked_at[request.verifier] = event.at
    return [
        Wanted(
            job=state.started.job,
            trial=state.started.trial,
            task=state.started.slot.task,
            verifier=request.verifier,
            since=asked_at[request.verifier],
            criteria=[criterion.name for criterion in request.criteria],
        )
        for request in state.awaiting
    ]


async def evidence(log: EventLog, trial: str) -> Evidence | None:
    """What a reviewer is shown of a trial; None before its first event."""
    events = await read_trial(log, trial)
    view = await to_thread.run_sync(_fold, events)
    if view is None:
        return None
    blobs = await _texts(log.blobs, view)
    steps = [event for _, event in view.history if isinstance(event, ActionTaken)]
    shown = steps[-STEPS_SHOWN:]
    final = answer(view)
    parts = view.grading.values()
    return Evidence(
        job=view.started.job,
        trial=trial,
        task=view.started.slot.task,
        agent=view.started.slot.agent,
        requests=[p.requested for p in parts if p.requested is not None and p.submitted is None],
        given=[name for name, p in view.grading.items() if p.submitted is not None],
        answer=None if final is None else _plain(final, blobs),
        steps=[_step(step, blobs) for step in shown],
        steps_left_out=len(steps) - len(shown),
        final_state={name: _plain(state, blobs) for name, state in _final(view).items()},
        verdicts=[one for one in verifier_results(view) if one.kind != "human"],
        artifacts=[file.path for file in view.artifacts.artifacts] if view.artifacts else [],
    )


def _final(view: TrialView) -> dict[str, Any]:
    return {} if view.episode_end is None else dict(view.episode_end.apps)


def _fold(events: list[RecordedEvent]) -> TrialView | None:
    fold = TrialFold()
    fold.feed(events)
    if fold.blocked is not None:
        raise fold.blocked
    return fold.record()


async def _texts(blobs: BlobStore, view: TrialView) -> dict[str, bytes]:
    """The blobs of what is shown; one that can't be read is shown by its size instead."""
    values: list[Any] = [answer(view), *_final(view).values()]
    for _, event in view.history[-STEPS_SHOWN * 2 :]:
        if isinstance(event, ActionTaken):
            values += (event.arguments, event.observation, event.error)
    found: dict[str, bytes] = {}
    for value in values:
        ref = reference(value)
        if ref is not None and ref.blob not in found:
            try:
                found[ref.blob] = await blobs.get(ref)
            except LogError:
                continue
    return found


def _step(step: ActionTaken, blobs: dict[str, bytes]) -> str:
    arguments = "" if step.arguments is None else _plain(step.arguments, blobs)
    if step.error is not None:
        outcome = f"refused: {_text(step.error, blobs)}"
    else:
        outcome = _plain(step.observation, blobs)
    return f"{step.turn}. {step.app}.{step.action} {arguments} → {outcome}"


def _plain(value: Any, blobs: dict[str, bytes]) -> str:
    ref = reference(value)
    if ref is not None and ref.blob not in blobs:
        return f"({ref.size} bytes)"
    plain = full_value(value, blobs)
    return plain if isinstance(plain, str) else compact(plain).decode()


def _text(text: str | BlobRef, blobs: dict[str, bytes]) -> str:
    if isinstance(text, BlobRef) and text.blob not in blobs:
        return f"({text.size} bytes)"
    return full_text(text, blobs)
