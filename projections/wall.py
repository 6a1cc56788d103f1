"""How long a job ran: over all the times that an engine worked on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from ..events.clock import format_time, parse_time
from ..events.envelope import RecordedEvent
from .document import total_seconds

GRACE = 90_000_000
"""Microseconds after an interruption in which what ran then may still end."""


class Sessions:
    """The spans from JobStarted or a JobResumed to the end of the work.

    The engine's own figure holds where it wrote one. A session that was cut off ends with the last
    event that was recorded in it. Times compare as text: they all have one form.
    """

    def __init__(self) -> None:
        self._starts: list[str] = []
        self._last: list[str] = []
        self._wall: list[float | None] = []
        self._cut: list[str | None] = []
        """From when on events are no longer the session's."""

    def start(self, at: str) -> None:
        """A session begins."""
        self._starts.append(at)
        self._last.append(at)
        self._wall.append(None)
        self._cut.append(None)

    def interrupt(self, at: str) -> None:
        """It was told to stop: what runs gets a while to end. What comes still later is somebody
        else's doing."""
        if self._starts:
            self._last[-1] = max(self._last[-1], at)
            self._cut[-1] = format_time(parse_time(at) + GRACE)

    def finish(self, wall_seconds: float | None) -> None:
        """The engine says how long it took; null: it was not there any more."""
        if not self._starts:
            return
        if wall_seconds is not None:
            self._wall[-1] = wall_seconds
        elif self._cut[-1] is None:
            self._cut[-1] = self._last[-1]

    def saw(self, events: Iterable[RecordedEvent]) -> None:
        """Events of the job or its trials: a session lasted at least as long as they came."""
        if None not in self._wall:
            return
        for event in events:
            session = bisect_right(self._starts, event.at) - 1
            if session >= 0:
                cut = self._cut[session]
                if event.at > self._last[session] and (cut is None or event.at <= cut):
                    self._last[session] = event.at

    def wall_seconds(self) -> float | None:
        """The sum over sessions that ended; null before the first has."""
        spans: list[float] = []
        for session, start in enumerate(self._starts):
            wall, resumed = self._wall[session], session + 1 < len(self._starts)
            if wall is not None:
                spans.append(wall)
            elif resumed or self._cut[session] is not None:
                end = self._last[session]
                if resumed:
                    end = min(end, self._starts[session + 1])
                spans.append((parse_time(end) - parse_time(start)) / 1_000_000)
        return total_seconds(spans)
