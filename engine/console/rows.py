"""A stored job's trials, as the console's lines are made of them."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ...events.codec import decode_or_none
from ...events.kinds import TrialScheduled, TrialUnscored
from ...events.log import EventLog
from ...projections.result import Result, result
from ...projections.source import JobSource, read_trial
from ...projections.trial import TrialFold, TrialView
from ..job.report import TrialEnded
from .text import text_of

__all__ = ("JobRows", "read_job", "row_of", "summary_of", "view_of")


class JobRows(msgspec.Struct, frozen=True, kw_only=True):
    """The executions of a job that count, and those that have not finished."""

    ended: list[TrialEnded]
    """Of each slot the last that finished, in the order in which they were scheduled."""
    open: list[str]
    """Names of executions that may still end."""
    warnings: dict[str, list[str]]
    """Messages of the trials' warnings, with the tasks that they came up in."""

    @property
    def not_scored(self) -> list[TrialEnded]:
        """Those without a score."""
        return [trial for trial in self.ended if trial.outcome != "scored"]

    @property
    def idle_timeouts(self) -> int:
        """How many were stopped for being idle."""
        return sum(trial.category == "idle_timeout" for trial in self.ended)


async def view_of(log: EventLog, trial: str) -> TrialView | None:
    """What the log says of a trial, without its history."""
    fold = TrialFold(keep=False)
    fold.feed(await read_trial(log, trial))
    return fold.record()


async def summary_of(log: EventLog, job: str) -> dict[str, Any]:
    """The content of the job's summary.json as of now. Raises what keeps it from being read."""
    files = await JobSource(log, job).summary()
    for problem in files.problems:
        raise problem.error
    found: dict[str, Any] = msgspec.json.decode(files.documents["summary.json"])
    return found


async def read_job(log: EventLog, job: str) -> JobRows:
    """Read every execution of a job, one after the other."""
    ended: dict[str, TrialEnded] = {}
    waiting: list[str] = []
    for event in await log.read(f"job/{job}"):
        scheduled = decode_or_none(event)
        if not isinstance(scheduled, TrialScheduled):
            continue
        view = await view_of(log, scheduled.trial)
        if view is None or view.finish is None:
            waiting.append(scheduled.trial)
            continue
        slot = scheduled.slot
        key = [slot.task, slot.agent, slot.model, slot.parameters, slot.attempt]
        ended[msgspec.json.encode(key).decode()] = row_of(view)
    warnings: dict[str, list[str]] = {}
    for trial in ended.values():
        for message in trial.warnings:
            warnings.setdefault(message, []).append(trial.task)
    return JobRows(ended=list(ended.values()), open=waiting, warnings=warnings)


def row_of(view: TrialView) -> TrialEnded:
    """A finished trial as it was reported when it ended."""
    found = cast("Result", result(view))
    unscored = found.outcome == "unscored"
    error = found.verifier_error if unscored else found.error
    if found.outcome == "scored" and found.rewards is None:
        error = found.verifier_error
    elif found.outcome == "scored":
        error = None
    conclusion = view.conclusion
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
        error=text_of(error),
        category=found.verifier_error_category if unscored else found.error_category,
        infrastructure=isinstance(conclusion, TrialUnscored) and conclusion.infrastructure,
        warnings=[text_of(warning.message) or "" for warning in found.warnings],
    )
