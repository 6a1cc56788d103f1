"""An execution's state, read back from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.kinds import TrialEvent
from ...events.log import EventLog
from .record import stream_of
from .state import TrialState, evolve


def replay(recorded: Sequence[RecordedEvent]) -> TrialState:
    """The state after these events of one stream, from its first on.

    An unknown kind that may be passed over counts as a version and changes nothing else; any other
    raises UnknownEvent.
    """
    state = TrialState()
    for event in recorded:
        decoded = decode_or_none(event)
        if decoded is None:
            state = replace(state, version=event.version)
        else:
            state = evolve(state, cast("TrialEvent", decoded))
    return state


async def load_trial(log: EventLog, trial: str) -> TrialState:
    """An execution's state; that of an empty stream when nothing of it was written."""
    return replay(await log.read(stream_of(trial)))
