"""Trials that functions alone regrade, many at a time.

One read for all of them, one round of calls, one commit: what a trial costs by itself is then
little more than reading it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import anyio

from ...events.codec import decode_or_none
from ...events.drafts import recorded
from ...events.envelope import Appended, NewEvent, RecordedEvent
from ...events.errors import BlobAltered, BlobMissing, LogCorrupt
from ...events.kinds import RegradeFailed, RegradeScored
from ...projections.episode import episode_blobs, is_plain
from ...projections.regrade_files import RegradeFiles
from ...projections.trial import TrialFold
from ..hooks.protocol import Recorded, TrialGiven
from .answering import Answers
from .context import Context
from .episode import EpisodeRegrade
from .plan import Refusal, unreadable
from .report import TrialRegraded, answered_trial
from .stored import StoredFold, StoredTrial

TOGETHER = 64
"""Trials that are read, checked and answered in one go."""

YOUNG = 50_000
"""Allocations, net, between collections of the youngest: more than the groups at work hold, which
are freed without the collector. It would look through them many times before."""

_GROUPS = 3
"""So many of these at once: one is read while another is checked, and a third waits for a check
that takes long."""


def grouped(trials: Sequence[str], takes: Callable[[str], bool], size: int) -> Iterator[list[str]]:
    """The trials in their order: neighbours that are taken together in groups, others alone."""
    group: list[str] = []
    for trial in trials:
        alone = not takes(trial)
        if group and (alone or len(group) == size):
            yield group
            group = []
        if alone:
            yield [trial]
        else:
            group.append(trial)
    if group:
        yield group


class _Read(NamedTuple):
    """A trial as the log has it."""

    stored: StoredTrial
    fold: TrialFold
    """For its files."""
    events: list[RecordedEvent]


class _Queued(NamedTuple):
    """A trial whose answer is on its way into the log."""

    read: _Read
    work: EpisodeRegrade
    outcome: RegradeScored | RegradeFailed
    new: list[NewEvent]
    ticket: Awaitable[Appended]


class Together:
    """Regrades groups of trials by functions; what their files need is kept as they go by."""

    def __init__(
        self, context: Context, answers: Answers, files: RegradeFiles, tasks: Mapping[str, str]
    ) -> None:
        self._context = context
        self._answers = answers
        self._files = files
        self._tasks = tasks
        self._turns = anyio.CapacityLimiter(_GROUPS)

    def takes(self, trial: str) -> bool:
        """Whether a trial needs nothing but functions, and what people said."""
        task = self._context.episodes.get(self._tasks[trial])
        return task is not None and not task.judges

    async def regrade(self, trials: Sequence[str]) -> list[TrialRegraded | None]:
        """Each trial's answer; None where the log has it already."""
        async with self._turns:
            told: dict[str, TrialRegraded | None] = {}
            works: list[tuple[_Read, EpisodeRegrade]] = []
            events = await self._files.events(trials)
            for trial, read in zip(trials, events, strict=True):
                found = await self._read(trial, read)
                if isinstance(found, Refusal):
                    told[trial] = await self._answers.skip(self._unread(trial), found)
                elif (earlier := self._earlier(found.stored)) is not None:
                    self._answers.count(earlier)
                    self._files.add(trial, found.fold, found.events)
                    told[trial] = None
                else:
                    work = EpisodeRegrade(self._context, found.stored)
                    refused = await work.prepare()
                    if refused is None:
                        works.append((found, work))
                    else:
                        told[trial] = await self._answers.skip(found.stored, refused)
            for one in await self._answer(works):
                told[one.trial] = one
            await self._files.settle()
            return [told[trial] for trial in trials]

    def _unread(self, trial: str) -> StoredTrial:
        return StoredTrial(trial=trial, task=self._tasks[trial])

    def _earlier(self, trial: StoredTrial) -> RegradeScored | RegradeFailed | None:
        return trial.answered.get(self._context.planned.regrade_id)

    async def _read(self, trial: str, events: list[RecordedEvent] | LogCorrupt) -> _Read | Refusal:
        """The trial, with its episode and its fold, out of one decoding of its events."""
        context = self._context
        if isinstance(events, LogCorrupt):
            return unreadable(events)
        try:
            plain, blobs = is_plain(events), dict[str, bytes]()
            if not plain:
                blobs = {r.blob: await context.log.blobs.get(r) for r in episode_blobs(events)}
            task = context.data(self._tasks[trial])
            stored = StoredFold(trial, task, blobs, finished=context.finished, plain=plain)
            fold = TrialFold(keep=False)
            for event in events:
                payload = decode_or_none(event)
                stored.take(event, payload)
                if payload is not None:
                    fold.take(event, payload)
            return _Read(stored.stored(), fold, events)
        except (LogCorrupt, BlobMissing, BlobAltered) as error:
            return unreadable(error)

    async def _answer(self, works: Sequence[tuple[_Read, EpisodeRegrade]]) -> list[TrialRegraded]:
        """Check these trials, and put what came of it into the log."""
        answers = self._answers
        told: list[TrialRegraded] = []
        queued: list[_Queued] = []
        for (read, work), given in zip(works, await self._given(works), strict=True):
            outcome = await answers.outcome(work, work.conclude(given))
            if isinstance(outcome, Refusal):
                told.append(await answers.skip(work.trial, outcome))
                continue
            first = answers.first(answers.started(work))
            new = [first, *answers.rest(first, [outcome])]
            queued.append(_Queued(read, work, outcome, new, answers.queue(work.trial, new)))
        for read, work, outcome, new, ticket in queued:
            appended = await answers.append(work.trial, new, ticket)
            answers.count(outcome)
            self._keep(read, new, recorded(read.events[-1], new, appended))
            told.append(answered_trial(work.trial, outcome, work.notes))
        return told

    async def _given(
        self, works: Sequence[tuple[_Read, EpisodeRegrade]]
    ) -> list[TrialGiven | Exception | None]:
        """What functions gave for each; None where there are none that check."""
        asked: dict[int, Recorded] = {}
        for number, (_, work) in enumerate(works):
            checked = work.checked()
            if checked is not None:
                asked[number] = checked
        given: list[TrialGiven | Exception | None] = [None] * len(works)
        if asked:
            assert self._context.hooks is not None
            found = await self._context.hooks.check_each(list(asked.values()))
            for number, one in zip(asked, found, strict=True):
                given[number] = one
        return given

    def _keep(
        self, read: _Read, new: Sequence[NewEvent], events: list[RecordedEvent] | None
    ) -> None:
        """Have the trial's files follow from what is at hand, unless the log has it otherwise."""
        if events is None:
            return
        for event, one in zip(events, new, strict=True):
            read.fold.take(event, one.payload)
        self._files.add(read.stored.trial, read.fold, [*read.events, *events])
