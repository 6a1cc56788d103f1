"""Applying a verifier to a job's stored trials: its labels are appended, one append a trial."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ...events.clock import Clock, Ids
from ...events.envelope import NewEvent
from ...events.errors import LogCorrupt, VersionConflict
from ...events.kinds import TrialScheduled
from ...projections.source import read_trial
from ..errors import CommandRefused
from .current import CurrentVerifier, JobTask
from .decide import Label, application, refuse
from .stored import StoredTrial, stored_trial
from .trying import Tools, Tried, read_stored_trial, try_one
from .workers import in_order

ATTEMPTS = 20
"""Conflicts in a row after which something is wrong."""


class AppliedTo(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one trial."""

    tried: Tried
    version: str
    """The version that was applied."""
    appended: int
    """Events; 0 where the log had all of it, or where it could not be applied."""
    before: list[str] = []
    """The versions that had labelled the trial, the one applied last at the end."""


def label_of(verifier: CurrentVerifier, *, author: str | None, reason: str | None) -> Label:
    """Under which name the verifier's labels go."""
    if verifier.kind == "human":
        raise CommandRefused(
            f"verifier {verifier.name} is a person, whose scores are kept as they were given; "
            "only code and judges can be applied"
        )
    return Label(
        verifier=verifier.name,
        kind=verifier.kind,
        version=verifier.version,
        digest=verifier.digest,
        weight=verifier.weight,
        author=author,
        reason=reason,
    )


async def apply_verifier(
    tools: Tools,
    verifier: CurrentVerifier,
    label: Label,
    trials: Sequence[TrialScheduled],
    tasks: dict[str, JobTask | None],
    tell: Callable[[AppliedTo], None],
    *,
    clock: Clock,
    ids: Ids,
    written: Callable[[str], Awaitable[None]],
) -> None:
    """Apply the verifier to each trial; `tell` is called in their order.

    Raises CommandRefused before anything is appended. All of a trial's labels are in one append,
    so that a kill leaves all or none of them; applying again adds what is missing. `written` is
    called with each trial that got labels, to write its files.
    """
    await _refuse(tools, label, trials)

    async def one(scheduled: TrialScheduled) -> AppliedTo:
        done = await _apply_one(tools, verifier, label, scheduled, tasks, clock, ids)
        if done.appended:
            await written(scheduled.trial)
        return done

    await in_order(trials, one, tell)


async def _refuse(tools: Tools, label: Label, trials: Sequence[TrialScheduled]) -> None:
    async def known(scheduled: TrialScheduled) -> StoredTrial | None:
        try:
            events = await read_trial(tools.reads, scheduled.trial)
        except LogCorrupt:
            return None  # it is named when its turn comes, and the others go on
        return await stored_trial(scheduled.trial, events, label.verifier, None, tools.log.blobs)

    found: list[StoredTrial] = []

    def keep(trial: StoredTrial | None) -> None:
        if trial is not None and (trial.state == "waiting" or label.version in trial.digests):
            found.append(trial)

    await in_order(trials, known, keep)
    refuse(found, label)


async def _apply_one(
    tools: Tools,
    verifier: CurrentVerifier,
    label: Label,
    scheduled: TrialScheduled,
    tasks: dict[str, JobTask | None],
    clock: Clock,
    ids: Ids,
) -> AppliedTo:
    stream, version = f"trial/{scheduled.trial}", -1
    for _ in range(ATTEMPTS):
        trial = await read_stored_trial(tools, scheduled, verifier.name, tasks)
        if isinstance(trial, str):
            tried = Tried(trial=scheduled.trial, task=scheduled.slot.task, problem=trial)
            return AppliedTo(tried=tried, version=label.version, appended=0)
        refuse([trial], label)
        before = [one for one in trial.said if one is not None]
        existing = trial.existing.get(label.version)
        if verifier.kind == "agent" and existing is not None and existing.check:
            said = trial.said[label.version]  # no model is called for what would not be added
            tried = Tried(
                trial=trial.trial, task=trial.task, now=said, recorded=said,
                recorded_version=label.version,
            )  # fmt: skip
            return AppliedTo(tried=tried, version=label.version, appended=0, before=before)
        version, applied = trial.version, ids.event_id()
        tried = await try_one(tools, verifier, trial, applied=applied)
        if tried.problem is not None:
            return AppliedTo(tried=tried, version=label.version, appended=0)
        payloads = application(label, trial, tried.now, tried.replies, applied=applied)
        events = [
            NewEvent(
                id=applied if number == 0 else ids.event_id(), at=clock.now(), payload=payload,
                causation=None if number == 0 else applied,
            )
            for number, payload in enumerate(payloads)
        ]  # fmt: skip
        try:
            if events:
                await tools.log.append(stream, version, events)
        except VersionConflict:
            continue  # somebody else wrote: look again at what is there
        return AppliedTo(tried=tried, version=label.version, appended=len(events), before=before)
    raise VersionConflict(stream, version, -1)
