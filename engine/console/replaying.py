"""Every event of a trial, as they were recorded or as they come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...events.codec import decode_known
from ...events.envelope import RecordedEvent
from ...events.kinds import TrialAbandoned, TrialFinished, TrialStarted
from ...projections.timeline import timeline_line
from ..errors import ConfigError
from .rows import cancel_reason
from .session import Request, Session, opened
from .text import escaped

__all__ = ("event_document", "replay_trial")


async def replay_trial(request: Request, trial: str, *, at: int | None, follow: bool) -> int:
    """``trialog replay``; gives the exit code."""
    request.terminal.streaming = True
    if at is not None and follow:
        raise ConfigError("--at and --follow exclude each other; give one")
    async with opened(request, trial) as session:
        name = await session.trial(trial)
        if follow:
            await _follow(session, name)
            return 0
        events = await session.log.read(f"trial/{name}", limit=at)
        _show(session, events)
        await _tell_cancelled(session, events)
        if at is not None and len(events) < at:
            session.terminal.message(f"note: the trial has {len(events)} events")
    return 0


async def _follow(session: Session, trial: str) -> None:
    """Show what is there and what comes, until the trial has finished or was given up."""
    stream = f"trial/{trial}"
    first = decode_known((await session.log.read(stream, limit=1))[0])
    streams = [stream]
    if isinstance(first, TrialStarted):
        streams.append(f"job/{first.job}")
    async for batch in session.log.subscribe(streams=streams):
        _show(session, [event for event in batch if event.stream == stream])
        for event in batch:
            match decode_known(event):
                case TrialFinished():
                    return
                case TrialAbandoned(trial=name, reason=reason) if name == trial:
                    session.terminal.message(f"note: given up: {escaped(reason)}")
                    return
                case _:
                    pass


async def _tell_cancelled(session: Session, events: Sequence[RecordedEvent]) -> None:
    """Who cancelled the trial, and why, which is in the job's stream."""
    first = decode_known(events[0])
    if isinstance(first, TrialStarted) and any(
        isinstance(one, TrialFinished) and one.outcome == "cancelled"
        for one in map(decode_known, events)
    ):
        reason = await cancel_reason(session.log, first.job)
        if reason is not None:
            session.terminal.message(f"note: the job was {escaped(reason)}")


def _show(session: Session, events: Iterable[RecordedEvent]) -> None:
    for event in events:
        if session.terminal.json:
            session.terminal.data(event_document(event))
        else:
            session.terminal.line(escaped(timeline_line(event)))


def event_document(event: RecordedEvent) -> dict[str, Any]:
    """An event as JSON, `data` as it is stored."""
    return {
        "position": event.position,
        "stream": event.stream,
        "version": event.version,
        "kind": event.kind,
        "schema": event.schema,
        "id": event.id,
        "at": event.at,
        "causation": event.causation,
        "ignorable": event.ignorable,
        "data": msgspec.Raw(event.data.encode(errors="replace")),
        "hash": event.hash.hex(),
    }
