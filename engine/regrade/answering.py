"""What comes of a regrade's trials goes into the log, and is counted."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ...events.envelope import Appended, NewEvent
from ...events.errors import EventInvalid, LogCorrupt, LogError, VersionConflict, said
from ...events.kinds import (
    RegradeFailed,
    RegradeScored,
    RegradeSkipped,
    RegradeStarted,
    TrialEvent,
)
from ..job.execution import log_fault
from ..job.record import JobRecord
from .context import Context
from .episode import EpisodeRegrade
from .plan import Refusal
from .report import TrialRegraded, refused_trial
from .script import ScriptRegrade
from .stored import StoredTrial

Work = ScriptRegrade | EpisodeRegrade
Outcome = RegradeScored | RegradeFailed | Refusal

ATTEMPTS = 20
"""Conflicts in a row after which something is wrong."""


class Answers:
    """The answers of one running regrade; `cause` is the event that planned it."""

    def __init__(self, context: Context, record: JobRecord, cause: str, skipped: int) -> None:
        self._context = context
        self._record = record
        self._cause = cause
        self._digests = {task.task: task.digest for task in context.planned.tasks}
        self.counts = {"regraded": 0, "failed": 0, "not_regradable": skipped}

    def started(self, work: Work) -> RegradeStarted:
        """The event that a trial's regrade begins with."""
        context, planned = self._context, self._context.planned
        return RegradeStarted(
            regrade_id=planned.regrade_id,
            task_digest=self._digests[work.trial.task],
            verifiers=work.verifiers,
            sandbox=context.backend.name if isinstance(work, ScriptRegrade) else None,
            image_digest=work.image_digest,
            author=planned.author,
            reason=planned.reason,
            supersedes=work.trial.standing,
            notes=work.notes,
        )

    def first(self, started: RegradeStarted) -> NewEvent:
        """The same on its way into the log."""
        return self._new(started, self._cause)

    def rest(self, first: NewEvent, events: Sequence[TrialEvent]) -> list[NewEvent]:
        """What comes after it."""
        return [self._new(event, first.id) for event in events]

    def _new(self, event: TrialEvent, cause: str) -> NewEvent:
        context = self._context
        return NewEvent(
            id=context.ids.event_id(), at=context.clock.now(), payload=event,
            causation=cause or None,
        )  # fmt: skip

    def queue(self, trial: StoredTrial, events: Sequence[NewEvent]) -> Awaitable[Appended]:
        """Begin to append to a trial; for `append`, which must follow."""
        return self._context.log.append(f"trial/{trial.trial}", trial.version, events)

    async def append(
        self,
        trial: StoredTrial,
        events: Sequence[NewEvent],
        queued: Awaitable[Appended] | None = None,
    ) -> Appended:
        """Append to a trial, after whatever else was appended to it meanwhile."""
        ticket = queued or self.queue(trial, events)
        for _ in range(ATTEMPTS):
            try:
                appended = await ticket
            except VersionConflict:
                trial.version = (await self._context.log.head(f"trial/{trial.trial}")).version
                ticket = self.queue(trial, events)
            else:
                trial.version = appended.version
                return appended
        raise VersionConflict(f"trial/{trial.trial}", trial.version, -1)

    async def skip(self, trial: StoredTrial, refused: Refusal) -> TrialRegraded:
        """A trial can't be regraded."""
        await self._record.tell(
            RegradeSkipped(
                regrade_id=self._context.planned.regrade_id, trial=trial.trial,
                reason=refused.reason, category=refused.category,
            ),
            cause=self._cause,
        )  # fmt: skip
        self.counts["not_regradable"] += 1
        return refused_trial(trial, refused)

    def count(self, outcome: RegradeScored | RegradeFailed) -> None:
        """A trial has its answer."""
        self.counts["failed" if isinstance(outcome, RegradeFailed) else "regraded"] += 1

    async def outcome(self, work: Work, given: Awaitable[Outcome]) -> Outcome:
        """What comes of it; a fault of ours, or of the machine, ends this trial and no other."""
        try:
            return await given
        except EventInvalid as error:
            return await self._fault(work, error)
        except LogCorrupt as error:
            return Refusal("trial_unreadable", str(error))
        except LogError:
            raise
        except Exception as error:  # the others must go on
            return await self._fault(work, error)

    async def _fault(self, work: Work, error: Exception) -> RegradeFailed:
        await log_fault(work.trial.trial, error)
        return RegradeFailed(
            regrade_id=self._context.planned.regrade_id,
            error=f"{type(error).__name__}: {said(error)}",
            category="host_failed" if isinstance(error, OSError) else "engine_fault",
            infrastructure=True,
        )
