"""What the end of a job tells beyond its figures, gathered trial by trial."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from ..job.report import TrialEnded
from .hook_errors import HookErrors
from .table import Groups
from .text import escaped, plural

__all__ = ("Tally", "agent_line", "kept_lines", "tamper_line")

_NAMES_SHOWN = 5


class Tally:
    """The trials of a job that count, summed up."""

    def __init__(self) -> None:
        self.not_scored: list[TrialEnded] = []
        self.faults: Counter[str] = Counter()
        """How often scored trials' agents failed, by category."""
        self.tampered: list[str] = []
        self.kept: list[str] = []
        """Trials whose sandboxes are still there."""
        self.warnings: dict[str, list[str]] = {}
        """Messages of the trials' warnings, with the tasks that they came up in."""
        self.groups = Groups()
        self.hook_errors = HookErrors()

    @property
    def idle_timeouts(self) -> int:
        """How many agents were stopped for being idle."""
        return self.faults["idle_timeout"]

    def take(self, trial: TrialEnded) -> None:
        """Count a trial."""
        if trial.kept:
            self.kept.append(trial.trial)
        if trial.will_retry:
            return
        if trial.outcome != "scored":
            self.not_scored.append(trial)
        elif trial.category is not None:
            self.faults[trial.category] += 1
        if trial.tampered:
            self.tampered.append(trial.trial)
        for message in trial.warnings:
            self.warnings.setdefault(message, []).append(trial.task)
        self.groups.take(trial)
        self.hook_errors.take(trial.hook_failures)


def agent_line(tally: Tally) -> str | None:
    """``Agents: 4 agent_exit, 1 agent_timeout (see trialog explain agent_exit)``."""
    faults = [(name, count) for name, count in tally.faults.most_common() if count]
    if not faults:
        return None
    told = ", ".join(f"{count} {escaped(name)}" for name, count in faults)
    return f"Agents: {told} (see trialog explain {escaped(faults[0][0])})"


def tamper_line(tally: Tally) -> str | None:
    """Which trials left something where the verifier works."""
    if not tally.tampered:
        return None
    return (
        f"tamper: {plural(len(tally.tampered), 'trial')} left something in the verifier's places: "
        f"{_names(tally.tampered)}; trialog show TRIAL lists it"
    )


def kept_lines(tally: Tally) -> list[str]:
    """Which sandboxes are still there, and what can be done with them."""
    if not tally.kept:
        return []
    one = shlex.quote(escaped(tally.kept[0]))
    return [
        f"{plural(len(tally.kept), 'sandbox', 'sandboxes')} kept: {_names(tally.kept)}",
        f"      next: `trialog exec {one} -- CMD` runs a program there; "
        "`trialog clean` removes what was kept",
    ]


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(map(escaped, names[:_NAMES_SHOWN]))
    more = len(names) - _NAMES_SHOWN
    return shown if more <= 0 else f"{shown} and {more} more"
