"""Trials whose 0 is the engine's, since nothing usable came from their verifier."""

from __future__ import annotations

from typing import Any

import msgspec

from ...events.kinds import RegradeScored
from ...events.log import EventLog
from ...projections.source import JobSource, read_trial
from .progress import finished_regrades
from .stored import read_stored

REASON = "reverify: the engine had given 0, because nothing usable came from the verifier"


async def engine_given(log: EventLog, job: str) -> list[str]:
    """The trials of a job that have no verdict of a verifier's yet, in the summary's order."""
    finished = {one.id for one in await finished_regrades(log, job)}
    files = await JobSource(log, job, verify=True).summary(readable=True)
    for problem in files.problems:  # of the job's own stream
        raise problem.error
    summary = msgspec.json.decode(files.documents["summary.json"], type=dict[str, Any])
    given = summary["engine_given_rewards"]["trials"]
    found: list[str] = []
    for trial in given:
        stored = read_stored(trial, await read_trial(log, trial))
        if not any(
            isinstance(one, RegradeScored) and one.reward_source == "verifier" and id in finished
            for id, one in stored.answered.items()
        ):
            found.append(trial)
    return found
