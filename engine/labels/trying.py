"""Trying a verifier's current code on a job's stored trials. Nothing is appended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ...events.errors import LogError
from ...events.gathered import Reads
from ...events.kinds import JudgeSampled, TrialScheduled
from ...events.log import EventLog
from ...projections.source import read_trial
from ..errors import ConfigError
from ..hooks.protocol import Hooks
from ..judges.judge import NothingRecorded
from .current import CurrentVerifier, JobTask
from .replay import Judging, rejudge, replay
from .said import Difference, Said, differences
from .stored import StoredTrial, stored_trial
from .workers import in_order


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """What verifiers are run with."""

    log: EventLog
    reads: Reads
    """Of the same log, for many trials at once."""
    hooks: Hooks
    judging: Judging


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a verifier gives now for one trial, and what the log has of it."""

    trial: str
    task: str
    problem: str | None = None
    """Why it could not be tried; then there is nothing else."""
    now: Said = Said()
    recorded: Said = Said()
    recorded_version: str | None = None
    """The version that the log has this from; null where it has nothing of this verifier."""
    differences: list[Difference] = []
    steps: dict[str, str] = {}
    """Of the differences' events: the step's number and action, ``2 (add)``."""
    replies: list[JudgeSampled] = []
    """A judge's, that were asked for now."""


def chosen_trials(
    verifier: str, trials: Sequence[TrialScheduled], tasks: dict[str, JobTask | None]
) -> list[TrialScheduled]:
    """The trials of tasks that list the verifier; all trials where no task does."""
    listing = {name for name, task in tasks.items() if task and verifier in task.verifiers}
    return [one for one in trials if one.slot.task in listing] if listing else list(trials)


async def try_verifier(
    tools: Tools,
    verifier: CurrentVerifier,
    trials: Sequence[TrialScheduled],
    tasks: dict[str, JobTask | None],
    tell: Callable[[Tried], None],
) -> None:
    """Try the verifier on each trial; `tell` is called in their order."""

    async def one(scheduled: TrialScheduled) -> Tried:
        trial = await read_stored_trial(tools, scheduled, verifier.name, tasks)
        if isinstance(trial, str):
            return Tried(trial=scheduled.trial, task=scheduled.slot.task, problem=trial)
        return await try_one(tools, verifier, trial)

    await in_order(trials, one, tell)


async def read_stored_trial(
    tools: Tools, scheduled: TrialScheduled, verifier: str, tasks: dict[str, JobTask | None]
) -> StoredTrial | str:
    """A trial as the log has it, or why it can't be had."""
    task = tasks.get(scheduled.slot.task)
    try:
        events = await read_trial(tools.reads, scheduled.trial, verify=True)
        trial = await stored_trial(
            scheduled.trial, events, verifier, task.data if task else None, tools.log.blobs
        )
    except LogError as error:
        return str(error)
    return "it has not begun" if trial is None else trial


async def try_one(
    tools: Tools, verifier: CurrentVerifier, trial: StoredTrial, *, applied: str | None = None
) -> Tried:
    """Try the verifier on one trial. `applied` is the event that new replies belong to."""
    recorded_version = version_to_compare(trial, verifier.version)
    recorded = trial.said[recorded_version] if trial.said else Said()
    tried = Tried(
        trial=trial.trial, task=trial.task, recorded=recorded, recorded_version=recorded_version
    )
    replies: list[JudgeSampled] = []
    if verifier.kind == "human":
        now = recorded  # what a person gave is kept
    elif trial.state == "open":
        return msgspec.structs.replace(tried, problem="it has not finished")
    elif trial.problem is not None or trial.episode is None:
        return msgspec.structs.replace(tried, problem=trial.problem or "it has no episode")
    elif verifier.source is not None:
        now = await replay(verifier.source, trial, tools.hooks)
    else:
        try:
            now, replies = await rejudge(verifier, trial, tools.judging, applied)
        except NothingRecorded as error:
            return msgspec.structs.replace(tried, problem=str(error))
    found = differences(recorded, now)
    return msgspec.structs.replace(
        tried, now=now, differences=found, steps=_steps(trial, found), replies=replies
    )


def _steps(trial: StoredTrial, found: Sequence[Difference]) -> dict[str, str]:
    wanted = {difference.event_id for difference in found}
    steps = trial.episode.steps if trial.episode else []
    return {
        step.event_id: f"{number} ({step.action})"
        for number, step in enumerate(steps, 1)
        if step.event_id in wanted
    }


def version_to_compare(trial: StoredTrial, version: str) -> str | None:
    """The recorded version that is compared with: the same one, else the newest."""
    if version in trial.said:
        return version
    return next(reversed(trial.said), None)


def refuse_script(verifier: str, tasks: dict[str, JobTask | None]) -> None:
    """Raise ConfigError for a job whose tasks have test scripts in place of verifiers."""
    if tasks and not any(tasks.values()):
        raise ConfigError(
            f"verifier {verifier!r} can't be tried: the job's tasks are graded by test scripts, "
            "which have no recorded states; `trialog run --from JOB` grades by the scripts of today"
        )
