"""The one line that says how far a job is."""

from __future__ import annotations

from ...projections.statistics import rate
from ..job.report import Progress
from .text import duration, percent

__all__ = ("Pace", "progress_line")


class Pace:
    """How fast trials end, since the first report of this run."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._done_before = 0

    def seen(self, progress: Progress, now: float) -> None:
        """Take the first report as the beginning: what an earlier run did is no work of this."""
        if self._began is None:
            self._began = now
            self._done_before = progress.done

    def a_minute(self, progress: Progress, now: float) -> float | None:
        """Trials a minute; null before the first has ended."""
        done = progress.done - self._done_before
        if self._began is None or done <= 0 or now <= self._began:
            return None
        return done / (now - self._began) * 60

    def left(self, progress: Progress, now: float) -> float | None:
        """Seconds until the rest is done at this pace."""
        rate = self.a_minute(progress, now)
        return None if rate is None else (progress.slots - progress.done) / rate * 60


def progress_line(progress: Progress, pace: Pace, now: float) -> str:
    """``12/40 done, 4 running, 24 waiting · pass rate 58.3% [32.0%, 80.7%] · 3.2/min · …``."""
    parts = [
        f"{progress.done}/{progress.slots} done, {progress.running} running, "
        f"{progress.waiting} waiting"
    ]
    n = progress.scored + progress.errored
    if n:
        figure = rate(progress.passed, n)
        parts.append(
            f"pass rate {percent(figure.value)} [{percent(figure.low)}, {percent(figure.high)}]"
        )
    if progress.unscored:
        parts.append(f"{progress.unscored} unscored")
    speed = pace.a_minute(progress, now)
    left = pace.left(progress, now)
    if speed is not None and left is not None:
        parts.append(f"{speed:.1f}/min")
        parts.append(f"{duration(left)} left")
    return " · ".join(parts)
