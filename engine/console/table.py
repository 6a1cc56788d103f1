"""Tables of plain text, and the figures of a job's groups as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...projections.statistics import Interval, mean, pass_at, rate
from ..job.report import TrialEnded
from .text import escaped, number, percent

__all__ = ("Group", "Groups", "aligned", "figure_lines")

MOST_TASKS = 12
"""Tasks that a table of them has room for."""
_KS = (1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100)


class Group:
    """The trials of one group that count: those scored or errored, the latter as 0."""

    def __init__(self) -> None:
        self.passed = 0
        self.rewards: list[float] = []
        self.attempts: dict[tuple[str, ...], tuple[int, int]] = {}
        """Of each task, agent, model and parameters: attempts, and those that passed."""

    def take(self, key: tuple[str, ...], trial: TrialEnded) -> None:
        """Count one more trial."""
        passed = bool(trial.passed) and trial.outcome == "scored"
        self.passed += passed
        self.rewards.append((trial.reward or 0.0) if trial.outcome == "scored" else 0.0)
        n, hits = self.attempts.get(key, (0, 0))
        self.attempts[key] = (n + 1, hits + passed)

    @property
    def rate(self) -> Interval:
        """The share that passed."""
        return rate(self.passed, len(self.rewards))

    @property
    def reward(self) -> Interval:
        """The mean reward."""
        return mean(self.rewards)

    def pass_at(self, k: int) -> float | None:
        """The chance that one of `k` attempts passes; null where none had so many."""
        return pass_at(k, self.attempts.values())


class Groups:
    """A job's trials by agent, model and parameters, and by task."""

    def __init__(self) -> None:
        self.who: dict[tuple[str, str, str], Group] = {}
        self.tasks: dict[str, Group] = {}

    def take(self, trial: TrialEnded) -> None:
        """Count a trial, if it counts."""
        if trial.outcome not in ("scored", "errored"):
            return
        given = " ".join(f"{name}={value}" for name, value in sorted(trial.parameters.items()))
        who = (trial.agent, trial.model or "", given)
        key = (trial.task, *who)
        self.who.setdefault(who, Group()).take(key, trial)
        self.tasks.setdefault(trial.task, Group()).take(key, trial)


def figure_lines(groups: Groups, config: Mapping[str, Any]) -> list[str]:
    """Pass rate, mean reward and pass@k of each agent, model and set of parameters, and of each
    task where they are few. Nothing for a job that has one of each and one attempt."""
    attempts = int(config.get("attempts") or 1)
    if not groups.who or (len(groups.who) < 2 and attempts < 2):
        return []
    ks = [k for k in sorted({*_KS, attempts}) if k <= attempts] if attempts > 1 else []
    if len(ks) > 6:
        ks = [k for k in ks if k in (1, 5, 10, 100, attempts)]
    names = {"AGENT": 0, "MODEL": 1, "PARAMETERS": 2}
    used = {
        title: place
        for title, place in names.items()
        if place == 0 or any(who[place] for who in groups.who)
    }
    rows = (
        ([who[place] for place in used.values()], group)
        for who, group in sorted(groups.who.items())
    )
    lines = list(_figures(list(used), rows, ks))
    if 1 < len(groups.tasks) <= MOST_TASKS:
        tasks = (([name], group) for name, group in sorted(groups.tasks.items()))
        lines += _figures(["TASK"], tasks, ks)
    return lines


def _figures(
    titles: list[str], rows: Iterable[tuple[list[str], Group]], ks: Sequence[int]
) -> Iterator[str]:
    table = [(*titles, "PASSED", "RATE", "95%", "REWARD", *(f"PASS@{k}" for k in ks))]
    for names, group in rows:
        share = group.rate
        table.append(
            (
                *(escaped(name) or "–" for name in names),
                f"{group.passed}/{share.n}",
                percent(share.value),
                f"{percent(share.low)}–{percent(share.high)}",
                number(group.reward.value),
                *(percent(group.pass_at(k)) for k in ks),
            )
        )
    return aligned(table, indent="  ")


def aligned(table: Sequence[Sequence[str]], *, indent: str = "") -> Iterator[str]:
    """Rows of cells as lines with even columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield indent + "  ".join(padded).rstrip()
