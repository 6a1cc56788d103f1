"""Trials written in one form, one after the other. What can't be read is told, and the rest goes
on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import msgspec
from anyio import to_thread

from ...events.checking import ChainCheck
from ...events.envelope import RecordedEvent
from ...events.errors import LogCorrupt, LogError, said
from ...events.kinds import TrialScheduled
from ...events.log import EventLog
from ...events.pages import pages
from ..labels.asof import AsOf
from ..labels.masks import mask_of
from .form import Form, TrialRead
from .reading import UNREADABLE, Selection, each_stream, read_one, tasks_of
from .recorded import event_lines
from .training import Trl

Write: TypeAlias = Callable[[bytes], Awaitable[object]]
Tell: TypeAlias = Callable[[str, LogError], object]
"""Is told what becomes of each trial or stream that is damaged, and why."""


class Written(msgspec.Struct):
    """What came of it."""

    count: int = 0
    left_out: int = 0
    altered: int = 0
    """Streams that were written as they lie, though their hash chains are broken."""
    masked: Counter[str] = msgspec.field(default_factory=Counter[str])
    """Trials that are not to be trained on, by the reason."""


async def write_trials(
    log: EventLog, selection: Selection, form: Form, write: Write, tell: Tell,
    moment: AsOf | None = None,
) -> Written:  # fmt: skip
    """Write every trial that has begun; `moment` is the one that rewards are shown as of."""
    tasks = await tasks_of(log, selection.job) if isinstance(form, Trl) else {}
    written = Written()
    for scheduled in selection.trials:
        task = tasks.get(scheduled.slot.task)
        try:
            read = await read_one(
                log, scheduled.trial, blobs=form.blobs, moment=moment,
                regrades=selection.regrades, instructions=task.data.instructions if task else "",
            )  # fmt: skip
            data = await to_thread.run_sync(partial(_made, form, scheduled, read))
        except UNREADABLE as error:
            written.left_out += 1
            tell(f"{scheduled.trial} is left out", error)
            data = form.left_out(scheduled, said(error))
        else:
            written.count += read is not None
            if read is not None and (mask := mask_of(read.ledger.view, read.regrades)):
                written.masked[mask.reason] += 1
        await write(data)
    await write(await to_thread.run_sync(form.end))
    return written


def _made(form: Form, scheduled: TrialScheduled, read: TrialRead | None) -> bytes:
    return form.left_out(scheduled, None) if read is None else form.trial(read)


async def write_events(log: EventLog, selection: Selection, write: Write, tell: Tell) -> Written:
    """Write every event of the job's stream and its executions', or of the trial's own.

    What was altered is written as it lies, for whoever wants to see it, and told.
    """
    written = Written()
    async for stream in each_stream(log, selection):
        chain: ChainCheck | None = ChainCheck(stream)
        try:
            async for events in pages(log, stream):
                broken = await to_thread.run_sync(_broken, chain, events)
                if broken is not None:
                    chain = None  # what follows fits the broken place, or does not: all is said
                    written.altered += 1
                    tell(f"{stream} is written as it lies", broken)
                await write(await to_thread.run_sync(event_lines, events))
                written.count += len(events)
        except UNREADABLE as error:
            written.left_out += 1
            tell(f"the rest of {stream} is left out", error)
    return written


def _broken(chain: ChainCheck | None, events: list[RecordedEvent]) -> LogCorrupt | None:
    if chain is not None:
        try:
            chain.follow(events)
        except LogCorrupt as corrupt:
            return corrupt
    return None
