"""Which trials a regrade takes."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from ...events.kinds import TrialScheduled
from ...events.log import EventLog
from ..errors import CommandRefused, ConfigError
from ..job.state import JobState
from ..labels.trials import counting_trials


async def choose_trials(
    log: EventLog, job: str, state: JobState, *, trial: str | None, include: Sequence[str]
) -> list[TrialScheduled]:
    """One trial of the job; else of each slot the execution that counts.

    `include` are patterns for names of tasks or trials. Raises ConfigError when nothing is left,
    and CommandRefused for a trial that the job does not have.
    """
    if trial is not None:
        for tries in state.executions.values():
            for one in tries:
                if one.trial == trial:
                    return [one]
        raise CommandRefused(f"job {job} has no trial {trial!r}")
    found = await counting_trials(log, state)
    chosen = [
        one
        for one in found
        if not include
        or any(fnmatchcase(name, glob) for glob in include for name in (one.slot.task, one.trial))
    ]
    if not chosen:
        names = ", ".join(sorted({one.slot.task for one in found})[:5])
        reason = f"no trial is left of {len(found)} (tasks: {names})" if found else "it has none"
        raise ConfigError(f"{reason}", key="--include" if include else job)
    return chosen
