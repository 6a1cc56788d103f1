"""A stored job's trials, as the console's lines are made of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from ...events.codec import decode_known, decode_or_none
from ...events.errors import LogCorrupt
from ...events.kinds import (
    AgentFinished,
    JobCancelled,
    TrialAbandoned,
    TrialScheduled,
    TrialUnscored,
)
from ...events.kinds.parts import Slot
from ...events.log import EventLog
from ...events.pages import each_event
from ...events.values import unescape
from ...projections.regrade_summary import RegradeSummary
from ...projections.regrades import by_weight, latest_verdict
from ...projections.result import Result, result
from ...projections.source import JobSource, read_trial
from ...projections.trial import TrialFold, TrialView
from ..job.report import TrialEnded
from ..job.state import slot_key
from ..regrade.progress import finished_regrades
from ..trial.decide import first_failed
from ..trial.state import HookFailure
from .tally import Tally
from .text import text_of

__all__ = (
    "JobRows",
    "OpenTrial",
    "UnreadableTrial",
    "cancel_reason",
    "hook_failures",
    "read_job",
    "row_of",
    "summary_of",
    "view_of",
)


class OpenTrial(msgspec.Struct, frozen=True):
    """The execution of a slot that has not finished, where it is the newest."""

    trial: str
    task: str
    agent: str
    model: str | None
    parameters: dict[str, Any]
    attempt: int
    waits: bool
    """For a person."""


class UnreadableTrial(msgspec.Struct, frozen=True):
    """An execution whose record is damaged, or of a later release."""

    trial: str
    task: str
    agent: str
    model: str | None
    parameters: dict[str, Any]
    attempt: int
    error: str


class JobRows(NamedTuple):
    """The executions of a job: what counts of each slot, in the order of tasks and agents."""

    ended: list[TrialEnded]
    """Of each slot the last that finished."""
    open: list[OpenTrial]
    superseded: list[str]
    """Earlier executions of their slots, and those that were given up."""
    tally: Tally
    unreadable: list[UnreadableTrial]
    """Executions whose records can't be read to their ends, whatever became of their slots."""


async def view_of(log: EventLog, trial: str) -> TrialView | None:
    """What the log says of a trial, without its history."""
    fold = TrialFold(keep=False)
    fold.feed(await read_trial(log, trial))
    return fold.record()


async def summary_of(log: EventLog, job: str) -> dict[str, Any]:
    """The content of the job's summary.json as of now. Raises what keeps it from being read."""
    return (await summaries_of(log, job, readable=False))[0]


async def summaries_of(
    log: EventLog, job: str, *, readable: bool = True
) -> tuple[dict[str, Any], RegradeSummary | None]:
    """The same, and the content of regrade-summary.json where there is one. With `readable`, both
    without the executions that can't be read."""
    files = await JobSource(log, job, verify=True).summary(readable=readable)
    for problem in files.problems:
        raise problem.error
    found: dict[str, Any] = msgspec.json.decode(files.documents["summary.json"])
    regraded = files.documents.get("regrade-summary.json")
    if regraded is None:
        return found, None
    return found, msgspec.json.decode(regraded, type=RegradeSummary)


async def cancel_reason(log: EventLog, job: str) -> str | None:
    """Who cancelled the job last, and why, in words; null where nobody did."""
    told: str | None = None
    async for event in each_event(log, f"job/{job}"):
        match decode_known(event):
            case JobCancelled(author=author, reason=reason):
                told = "cancelled" + (f" by {author}" if author else "")
                told += f": {reason}" if reason else ""
            case _:
                pass
    return told


async def read_job(log: EventLog, job: str, *, kept: Collection[str] = ()) -> JobRows:
    """Read every execution of a job, one after the other; `kept` are trials with a sandbox."""
    slots: dict[str, list[TrialScheduled]] = {}
    abandoned: set[str] = set()
    async for event in each_event(log, f"job/{job}"):
        match decode_or_none(event):
            case TrialScheduled() as scheduled:
                slots.setdefault(slot_key(scheduled.slot), []).append(scheduled)
            case TrialAbandoned(trial=trial):
                abandoned.add(trial)
            case _:
                pass
    ended: list[tuple[Slot, TrialEnded]] = []
    unfinished: list[tuple[Slot, OpenTrial]] = []
    unreadable: list[tuple[Slot, UnreadableTrial]] = []
    superseded: list[str] = []
    tally = Tally()
    source = JobSource(log, job, verify=True)
    regrades = [one.id for one in by_weight(await finished_regrades(log, job))]
    for tries in slots.values():
        counts: TrialEnded | None = None
        for scheduled in tries:
            newest, slot = scheduled is tries[-1], scheduled.slot
            view, corrupt = await _read(source, scheduled.trial)
            if corrupt is not None:
                unreadable.append((slot, UnreadableTrial(*_of_slot(scheduled), str(corrupt))))
            if view is not None and view.finish is not None:
                if counts is not None:
                    superseded.append(counts.trial)
                counts = row_of(view, kept=scheduled.trial in kept, regrades=regrades)
            elif corrupt is not None:
                continue
            elif newest and scheduled.trial not in abandoned:
                waits = view is not None and view.awaiting_review
                if waits and counts is not None:  # the review will be what counts
                    superseded.append(counts.trial)
                    counts = None
                unfinished.append((slot, OpenTrial(*_of_slot(scheduled), waits)))
            else:
                superseded.append(scheduled.trial)
        if counts is not None:
            ended.append((tries[-1].slot, counts))
    ended.sort(key=lambda pair: _order(pair[0]))
    unfinished.sort(key=lambda pair: _order(pair[0]))
    unreadable.sort(key=lambda pair: _order(pair[0]))
    for _, row in ended:
        tally.take(row)
    return JobRows(
        ended=[row for _, row in ended],
        open=[row for _, row in unfinished],
        superseded=superseded,
        tally=tally,
        unreadable=[row for _, row in unreadable],
    )


async def _read(source: JobSource, trial: str) -> tuple[TrialView | None, LogCorrupt | None]:
    """What the log says of a trial, and what it can't be read past."""
    events = await source.events(trial)
    if isinstance(events, LogCorrupt):
        return None, events
    fold = TrialFold(keep=False)
    fold.feed(events)
    return fold.record(), fold.blocked


def _of_slot(scheduled: TrialScheduled) -> tuple[str, str, str, str | None, dict[str, Any], int]:
    """A trial's name and its slot, as the fields of its row begin."""
    slot = scheduled.slot
    given: dict[str, Any] = unescape(slot.parameters)
    return scheduled.trial, slot.task, slot.agent, slot.model, given, slot.attempt


def _order(slot: Slot) -> tuple[str, str, str, str, int]:
    given = msgspec.json.encode(slot.parameters, order="sorted").decode()
    return (slot.task, slot.agent, slot.model or "", given, slot.attempt)


def row_of(view: TrialView, *, kept: bool = False, regrades: Sequence[str] = ()) -> TrialEnded:
    """A finished trial as it was reported when it ended, and which of the job's finished
    `regrades` (ids) gave it a verdict since."""
    later = latest_verdict(view, regrades)
    found = cast("Result", result(view))
    unscored = found.outcome == "unscored"
    error = found.verifier_error if unscored else found.error
    if found.outcome == "scored" and found.rewards is None:
        error = found.verifier_error
    elif found.outcome == "scored":
        error = None
    given = [part.failed or part.scored for part in view.grading.values()]
    judged = [verdict for verdict in given if verdict is not None]
    failed = first_failed(judged) if unscored else None
    conclusion, end = view.conclusion, view.agent_end
    return TrialEnded(
        trial=found.trial_name,
        task=found.task_name,
        agent=found.agent,
        model=found.model,
        attempt=found.attempt,
        execution=found.execution,
        outcome=cast("Any", found.outcome),
        passed=found.passed,
        reward=(found.rewards or {}).get("reward"),
        tools=found.n_tool_calls,
        parameters=unescape(view.started.slot.parameters),
        error=text_of(error),
        category=found.verifier_error_category if unscored else found.error_category,
        verifier=failed.verifier if failed and len(judged) > 1 else None,
        agent_error=text_of(end.error) if isinstance(end, AgentFinished) else None,
        tampered=len(found.tamper),
        kept=kept,
        infrastructure=isinstance(conclusion, TrialUnscored) and conclusion.infrastructure,
        warnings=[text_of(warning.message) or "" for warning in found.warnings],
        hook_failures=hook_failures(found),
        regraded=later.regrade_id if later else None,
    )


def hook_failures(found: Result) -> list[HookFailure]:
    """A stored trial's verifiers whose reward or hindsight failed."""
    rewards = [
        HookFailure(
            verifier=one.verifier, hook="reward", steps=one.steps, error=text_of(one.error) or ""
        )
        for one in found.reward_errors
    ]
    return rewards + [
        HookFailure(verifier=one.verifier, hook="hindsight", error=text_of(one.error) or "")
        for one in found.hindsight_errors
    ]
