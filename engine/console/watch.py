"""Shows a running job: takes its reports on the event loop, and prints them in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from ...events.clock import Clock, SystemClock
from ..job.report import JobClosed, JobOpened, Notice, Progress, Report, TrialBegan, TrialEnded
from .lines import labels, trial_line
from .progress import Pace, progress_line
from .tally import Tally
from .terminal import Terminal
from .text import escaped, plural

__all__ = ("JobWatch",)

_REFRESH = 0.5
_PLAIN_EVERY = 30.0


class JobWatch:
    """A Watcher that shows what it is told; a context manager around the job's run."""

    def __init__(
        self, terminal: Terminal, config: Mapping[str, Any], *, clock: Clock | None = None
    ) -> None:
        self.tally = Tally()
        """Of the trials of this run."""
        self.said: set[str] = set()
        """Notices, as they were given."""
        self._terminal = terminal
        self.config = config
        self._clock = clock or SystemClock()
        self._queue: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._print_all, name="console", daemon=True)
        self._progress: Progress | None = None
        self._pace = Pace()
        self._told = self._clock.monotonic()

    def __call__(self, report: Report) -> None:
        """Take a report; never blocks."""
        self._queue.put(report)

    def __enter__(self) -> Self:
        self._terminal.patient = True
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._queue.put(None)
        self._thread.join()

    def _print_all(self) -> None:
        try:
            while True:
                try:
                    report = self._queue.get(timeout=_REFRESH)
                except queue.Empty:
                    self._refresh()
                    continue
                if report is None:
                    return
                self._show(report)
        finally:
            self._terminal.end_live()

    def _show(self, report: Report) -> None:
        if self._terminal.json:
            self._terminal.data(report)
        match report:
            case JobOpened():
                verb = "resumed" if report.resumed else "started"
                answers = f", models answered by job {report.replays}" if report.replays else ""
                self._terminal.message(
                    f"Job {escaped(report.job)} {verb}: {plural(report.slots, 'trial')} "
                    f"on {report.sandbox}{escaped(answers)}"
                )
            case Notice():
                self.said.add(report.message)
                word = "note" if report.level == "info" else report.level
                self._terminal.message(f"{word}: {escaped(report.message)}")
            case TrialEnded():
                self._ended(report)
            case Progress():
                self._progress = report
                self._pace.seen(report, self._clock.monotonic())
                self._refresh()
            case TrialBegan() | JobClosed():
                pass

    def _ended(self, trial: TrialEnded) -> None:
        self._terminal.line(trial_line(trial, labels(trial, self.config)))
        self.tally.take(trial)

    def _refresh(self) -> None:
        if self._progress is None:
            return
        now = self._clock.monotonic()
        if self._terminal.live_allowed:
            self._terminal.show_live(progress_line(self._progress, self._pace, now))
        elif now - self._told >= _PLAIN_EVERY and self._progress.done < self._progress.slots:
            self._told = now
            self._terminal.message(progress_line(self._progress, self._pace, now))
