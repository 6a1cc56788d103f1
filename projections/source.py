"""Reading a job out of its log: from events to the bytes of its files, one trial at a time."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from contextlib import suppress
from functools import partial

import anyio
from anyio import to_thread
from msgspec.structs import replace

from ..events.checking import ChainCheck, check_chain
from ..events.codec import decode
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, LogError
from ..events.gathered import GatheredReads, Reads
from ..events.kinds import TrialStarted
from ..events.kinds.parts import Continues
from ..events.log import BlobStore, EventLog
from .errors import JobUnknown
from .files import (
    Files,
    job_files,
    needed_blobs,
    no_job_files,
    no_trial_files,
    trial_files,
)
from .heads import RecordedHeads
from .regrades import Regrade
from .summary import SummaryFold
from .trial import TrialFold, TrialView

PAGE = 200
"""Events of a job's own stream that are read at a time."""
FEW = 100
"""Events whose hashes are checked at once; more of them in a thread."""
MAX_CONTINUED = 100
"""Executions in a row that go on from each other, at most."""


async def read_trial(
    log: Reads, trial: str, *, until: int | None = None, verify: bool = True
) -> list[RecordedEvent]:
    """A trial's events, after those of the execution that it goes on from.

    `until` leaves out what has a higher position. Raises LogCorrupt where the log does not have
    what the trial says it goes on from; with `verify`, also where a hash chain is broken.
    """
    events = up_to(await log.read(f"trial/{trial}"), until)
    if verify:
        await _check(events)
    return await _with_earlier(log, events, verify=verify)


async def _with_earlier(
    log: Reads, events: list[RecordedEvent], *, verify: bool
) -> list[RecordedEvent]:
    """A trial's own events, after those of the execution that it goes on from."""
    first = events
    for _ in range(MAX_CONTINUED):
        place = _continues(first)
        if place is None:
            return events
        first = (await log.read(place.stream))[: place.version]
        if verify:
            await _check(first)
        if len(first) < place.version or first[-1].hash.hex() != place.hash:
            raise LogCorrupt(
                f"stream {events[-1].stream!r}",
                f"it goes on from {place.stream!r} version {place.version}, "
                "which is not in the log or is another event",
            )
        events = first + events
    raise LogCorrupt(
        f"stream {events[-1].stream!r}", f"it goes on from more than {MAX_CONTINUED} executions"
    )


async def _check(events: list[RecordedEvent]) -> None:
    if len(events) > FEW:
        await to_thread.run_sync(check_chain, events)
    else:  # in less time than the way to a thread takes
        check_chain(events)


async def trial_view(log: EventLog, trial: str) -> TrialView | None:
    """An execution as its events tell it, None before the first. Raises LogCorrupt."""
    return await to_thread.run_sync(folded, await read_trial(log, trial))


async def files_of(blobs: BlobStore, view: TrialView, regrades: Sequence[Regrade] = ()) -> Files:
    """An execution's files, with the blobs that their texts are in."""
    found: dict[str, bytes] = {}
    missing: dict[str, LogError] = {}
    for ref in needed_blobs(view):
        try:
            found[ref.blob] = await blobs.get(ref)
        except LogError as error:
            missing[ref.blob] = error
    return await to_thread.run_sync(trial_files, view, found, missing, regrades)


class JobSource:
    """A job's files as the log has them; with `until`, as it had them at that position.

    Keeps the summary's fold, so that one trial's end costs one trial's reading. What is kept of a
    trial afterwards is a line in the summary. With `verify`, the hash chain of every stream is
    checked, and that it has what JobFinished recorded: from one at fault nothing is made.
    """

    def __init__(
        self, log: EventLog, job: str, *, until: int | None = None, verify: bool = False
    ) -> None:
        self.job = job
        self._log = log
        self._reads = GatheredReads(log)
        self._until = until
        self._verify = verify
        self._summary = SummaryFold()
        self._version = 0
        self._chain = ChainCheck(f"job/{job}") if verify else None
        self._heads = RecordedHeads(self._summary.trials)
        self._broken: LogCorrupt | None = None
        self._reading = anyio.Lock(fast_acquire=True)
        self._seen: dict[str, int] = {}
        """The versions that summaries have seen of trials in flight."""

    @property
    def broken(self) -> LogCorrupt | None:
        """Where the chain of the job's own stream is broken, as far as it was read."""
        return self._broken

    @property
    def regrades(self) -> Sequence[Regrade]:
        """Those that are finished, as far as the job's own stream was read."""
        return tuple(self._summary.regrades.finished)

    async def trials(self) -> Collection[str]:
        """Every execution's name, in the order in which they were scheduled."""
        await self._read_job()
        return self._summary.trials

    async def folder(self) -> str:
        """The job's folder, relative to the log's. Raises JobUnknown.

        Raises LogCorrupt where the first event, which names it, can't be believed.
        """
        await self._read_job()
        if self._broken is not None and self._chain is not None and not self._chain.version:
            raise self._broken
        if self._summary.started is None:
            if self._summary.blocked is not None:
                raise self._summary.blocked
            raise JobUnknown(self.job, self._until)
        return self._summary.started.folder

    async def trial(self, trial: str) -> Files | None:
        """An execution's files, None before its first event. Its part of the summary is kept."""
        return await self.files(trial, await self.events(trial))

    async def files(self, trial: str, events: list[RecordedEvent] | LogCorrupt) -> Files | None:
        """The same, of events that were read by `events`."""
        try:
            view = await to_thread.run_sync(folded, events)
        except LogCorrupt as corrupt:
            self.keep(trial, corrupt)
            return no_trial_files(corrupt)
        if view is None:
            return None
        self.keep(trial, view, events)
        files = await files_of(self._log.blobs, view, self.regrades)
        return replace(files, due=True) if self._summary.abandoned(trial) else files

    async def events(self, trial: str) -> list[RecordedEvent] | LogCorrupt:
        """An execution's events, or why they can't be had; for `folded`, then `keep`."""
        if trial not in self._summary:
            await self._read_job()
        try:
            return await self._read(trial)
        except LogCorrupt as corrupt:
            return corrupt

    async def _read(self, trial: str) -> list[RecordedEvent]:
        events = await read_trial(self._reads, trial, until=self._until, verify=self._verify)
        self._check_end(trial, events)
        return events

    async def events_each(self, trials: Sequence[str]) -> list[list[RecordedEvent] | LogCorrupt]:
        """The same of several executions, in one go where nothing is wrong with the log."""
        if any(trial not in self._summary for trial in trials):
            await self._read_job()
        try:
            read = await self._log.read_each([f"trial/{trial}" for trial in trials])
        except LogCorrupt:  # one of them is at fault
            return [await self.events(trial) for trial in trials]
        read = [up_to(events, self._until) for events in read]
        broken: Sequence[LogCorrupt | None] = [None] * len(read)
        if self._verify:
            broken = await to_thread.run_sync(_breaks, read)
        return [
            corrupt or await self._whole(trial, events)
            for trial, events, corrupt in zip(trials, read, broken, strict=True)
        ]

    async def _whole(
        self, trial: str, events: list[RecordedEvent]
    ) -> list[RecordedEvent] | LogCorrupt:
        try:
            events = await _with_earlier(self._log, events, verify=self._verify)
            self._check_end(trial, events)
        except LogCorrupt as corrupt:
            return corrupt
        return events

    def _check_end(self, trial: str, events: list[RecordedEvent]) -> None:
        if self._verify and self._broken is None:  # else what JobFinished says can't be believed
            self._heads.check(trial, events)

    async def summary(self, under_way: Container[str] = (), *, readable: bool = False) -> Files:
        """The job's own files, from everything that the log has now; for `readable` see
        `job_files`.

        What is new of trials `under_way` is left for when they end, so that a summary in between
        costs nothing for them.
        """
        await self._read_job()
        for trial in self._summary.open_trials:
            if trial not in under_way:
                await self._catch_up(trial)
        if self._broken is not None:
            return no_job_files(self._broken)
        return await to_thread.run_sync(partial(job_files, self._summary, readable=readable))

    async def _read_job(self) -> None:
        """Take in what is new in the job's own stream, each event once, whoever else does."""
        async with self._reading:
            while await self._read_page() == PAGE:
                pass

    async def _read_page(self) -> int:
        page = await self._log.read(f"job/{self.job}", after=self._version, limit=PAGE)
        events = up_to(page, self._until)
        if self._chain is not None and self._broken is None:
            # What comes after a broken place still tells which trials there are.
            self._broken = await to_thread.run_sync(_break, self._chain, events)
        self._summary.feed(events)
        if self._chain is not None and self._broken is None:
            await self._take_heads(events)
        if events:
            self._version = events[-1].version
        return len(events)

    async def _take_heads(self, events: list[RecordedEvent]) -> None:
        for ref in self._heads.feed(events):
            with suppress(LogError, OSError):
                await to_thread.run_sync(self._heads.listed, await self._log.blobs.get(ref))

    async def _catch_up(self, trial: str) -> None:
        """Take in a trial that had not finished, if there is something new of it."""
        try:
            seen = self._seen.get(trial, 0)
            if seen and (await self._log.head(f"trial/{trial}")).version == seen:
                return
            events = await self._read(trial)
            view = await to_thread.run_sync(partial(folded, events, keep=False))
        except LogCorrupt as corrupt:
            self.keep(trial, corrupt)
            return
        if view is not None:
            self._seen[trial] = events[-1].version
            self.keep(trial, view, events)

    def keep(
        self,
        trial: str,
        known: TrialView | LogCorrupt,
        events: list[RecordedEvent] | LogCorrupt | None = None,
    ) -> None:
        """Keep an execution's part of the summary."""
        if trial in self._summary:
            self._summary.trial(trial, known, events if isinstance(events, list) else ())
        if isinstance(known, TrialView) and known.finish is not None:
            self._seen.pop(trial, None)


def _break(chain: ChainCheck, events: list[RecordedEvent]) -> LogCorrupt | None:
    """Where the chain is broken, None for nowhere."""
    try:
        chain.follow(events)
    except LogCorrupt as corrupt:
        return corrupt
    return None


def _breaks(streams: Sequence[list[RecordedEvent]]) -> list[LogCorrupt | None]:
    """Where each stream's chain is broken, None for nowhere."""
    return [_break(ChainCheck(events[0].stream), events) if events else None for events in streams]


def up_to(events: list[RecordedEvent], position: int | None) -> list[RecordedEvent]:
    """Those at a position and before; all where there is none."""
    if position is None:
        return events
    return [event for event in events if event.position <= position]


def _continues(events: list[RecordedEvent]) -> Continues | None:
    """The place that a stream goes on from, as its first event says."""
    if not events or events[0].kind != TrialStarted.__name__:
        return None
    if '"continues"' not in events[0].data:  # most go on from none, and need no decoding
        return None
    try:
        started = decode(events[0])
    except LogCorrupt:
        return None  # the fold meets it too, and says so
    return started.continues if isinstance(started, TrialStarted) else None


def folded(events: list[RecordedEvent] | LogCorrupt, *, keep: bool = True) -> TrialView | None:
    """An execution as these events tell it, None without any; see TrialFold for `keep`.

    Raises LogCorrupt.
    """
    if isinstance(events, LogCorrupt):
        raise events
    return _fed(TrialFold(keep=keep), events)


def _fed(fold: TrialFold, events: list[RecordedEvent]) -> TrialView | None:
    """The view after these events. Raises what stopped the fold before there was one."""
    fold.feed(events)
    view = fold.record()
    if view is None and fold.blocked is not None:
        raise fold.blocked
    return view
