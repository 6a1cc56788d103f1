"""An execution's state, read back from the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

from msgspec.structs import replace

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.kinds import TrialEvent, TrialStarted
from ...events.log import EventLog
from .record import stream_of
from .state import TrialState, evolve, judged_again


def replay(recorded: Sequence[RecordedEvent], state: TrialState | None = None) -> TrialState:
    """The state after these events of one stream, from its first on.

    `state` is what the execution begins with of the one that it goes on from. An unknown kind that
    may be passed over counts as a version and changes nothing else; any other raises UnknownEvent.
    """
    state = state or TrialState()
    for event in recorded:
        decoded = decode_or_none(event)
        if decoded is None:
            state = replace(state, version=event.version)
        else:
            state = evolve(state, cast("TrialEvent", decoded))
    return state


def state_of(events: Iterable[RecordedEvent]) -> TrialState:
    """The state after a trial's events, which begin with those of what it goes on from."""
    state = TrialState()
    for _, own in groupby(events, lambda event: event.stream):
        state = replay(list(own), judged_again(state) if state.episode else None)
    return state


async def load_trial(log: EventLog, trial: str) -> TrialState:
    """An execution's state; that of an empty stream when nothing of it was written."""
    return await load_stream(log, stream_of(trial))


async def load_stream(log: EventLog, stream: str, *, until: int | None = None) -> TrialState:
    """The state up to a version, with what holds of the episode that it may go on from."""
    recorded = await log.read(stream, limit=until)
    first = decode_or_none(recorded[0]) if recorded else None
    if not isinstance(first, TrialStarted) or first.continues is None:
        return replay(recorded)
    earlier = await load_stream(log, first.continues.stream, until=first.continues.version)
    return replay(recorded, judged_again(earlier) if earlier.episode else None)
