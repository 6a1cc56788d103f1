"""Saved work and recorded episodes: what an execution needs of an earlier one to be graded."""

from __future__ import annotations

import msgspec

from ...events.kinds import ArtifactsSaved, TrialUnscored
from ...events.kinds.parts import Continues
from ...events.log import EventLog
from ...events.values import BlobRef
from ..errors import CommandRefused
from .load import load_stream, replay
from .state import TrialState, judged_again

DEPTH = 64
"""Executions in a chain after which something is wrong."""


class SavedWork(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's work, in the blob store."""

    archive: BlobRef
    artifacts: ArtifactsSaved | None
    place: Continues
    """Where in which stream it was saved."""
    tools: int
    agent_category: str | None
    """The agent's error category, which goes with its work."""


async def find_saved_work(log: EventLog, stream: str) -> SavedWork:
    """The work that a stream saved, or the one that it goes on from. Raises CommandRefused."""
    until: int | None = None
    for _ in range(DEPTH):
        recorded = await log.read(stream, limit=until)
        state = replay(recorded)
        if state.workspace is not None:
            version = state.workspace_version
            done = state.agent_finished
            return SavedWork(
                archive=state.workspace.archive,
                artifacts=state.artifacts,
                place=Continues(
                    stream=stream, version=version, hash=recorded[version - 1].hash.hex()
                ),
                tools=state.tools,
                agent_category=done.error_category if done else None,
            )
        if state.started is None or state.started.continues is None:
            break
        stream, until = state.started.continues.stream, state.started.continues.version
    raise CommandRefused(f"stream {stream!r} has no saved workspace to grade")


class RecordedEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that an earlier execution recorded to its end, and could not get judged."""

    place: Continues
    """Behind all that verifiers said of it."""
    state: TrialState
    """What the execution that judges it again begins with."""
    seed: int | None


async def find_episode(log: EventLog, stream: str) -> RecordedEpisode:
    """The episode of an execution that is finished and unscored. Raises CommandRefused."""
    recorded = await log.read(stream)
    end = next((e for e in recorded if e.kind == TrialUnscored.__name__), None)
    version = 0 if end is None else end.version - 1
    state = await load_stream(log, stream, until=version)
    if not state.episode or state.started is None:
        raise CommandRefused(f"stream {stream!r} has no recorded episode to judge")
    return RecordedEpisode(
        place=Continues(stream=stream, version=version, hash=recorded[version - 1].hash.hex()),
        state=judged_again(state),
        seed=state.started.seed,
    )
