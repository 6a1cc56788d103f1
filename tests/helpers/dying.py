"""A log whose process dies, for tests of what is gone on with afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from trialog.engine.errors import JobStopped
from trialog.events.envelope import Appended, NewEvent
from trialog.events.errors import LogPoisoned
from trialog.events.log import EventLog


class DyingLog:
    """A log whose process dies: after so many appends nothing more is written."""

    def __init__(self, log: EventLog, appends: int) -> None:
        self._log = log
        self._left = appends

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def die(self) -> None:
        """Write nothing more from now on."""
        self._left = 0

    def append(
        self, stream: str, expected_version: int, events: Sequence[NewEvent]
    ) -> Awaitable[Appended]:
        """Append while alive."""
        if self._left <= 0:
            raise LogPoisoned("test", "the process is dead")
        self._left -= 1
        return self._log.append(stream, expected_version, events)


def died(error: BaseException) -> bool:
    """Whether it is the dying log that ended everything."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return isinstance(error, LogPoisoned | JobStopped)
