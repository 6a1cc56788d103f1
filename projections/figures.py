"""Counts, rates and means over a set of slots: what summary.json says of all and of each group."""

from __future__ import annotations

from array import array
from collections import Counter

import msgspec

from .statistics import Interval, mean, mean_of, pass_at_each, rate


class Standing(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How a slot stands: its last finished execution, or one that waits for a person."""

    outcome: str
    """`scored`, `unscored`, `errored`, `cancelled`, or `awaiting_review`."""
    passed: bool
    reward: float
    """0 where there was none."""
    scores: dict[str, float]


class Cell(msgspec.Struct, frozen=True, gc=False):
    """A slot as the figures see it."""

    task: str
    group: tuple[str, str, str, str]
    """What its attempts share: task, agent, model, parameters."""
    attempt: int
    superseded: int
    """Executions before the one that counts."""
    standing: Standing | None


class Counts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many slots stand how; `superseded` counts executions."""

    slots: int
    scored: int
    passed: int
    failed: int
    unscored: int
    errored: int
    awaiting_review: int
    cancelled: int
    superseded: int


class Figures(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The figures of one set of slots."""

    counts: Counts
    pass_rate: Interval
    mean_reward: Interval
    scores: dict[str, float]
    pass_at_k: dict[str, float] | None


class Tally:
    """Adds up slots. Those of a group come one after the other.

    An errored trial counts as 0; unscored, waiting and cancelled ones are left out and counted
    beside it.
    """

    def __init__(self) -> None:
        self.slots = 0
        self._outcomes: Counter[str] = Counter()
        self._passed = 0
        self._superseded = 0
        self._rewards = array("d")
        self._counted: Counter[str] = Counter()
        """Trials that count, by task."""
        self._scores: dict[str, tuple[array[float], set[str]]] = {}
        """Each sub-score's values, and the tasks that have it."""
        self._attempts = 1
        self._group: tuple[str, str, str, str] | None = None
        self._tried = self._solved = 0
        """Of the group's attempts."""
        self._groups: Counter[tuple[int, int]] = Counter()
        """How many groups before it there were of each (tried, solved)."""

    def take(self, cell: Cell) -> None:
        """One more slot."""
        self.slots += 1
        self._superseded += cell.superseded
        self._attempts = max(self._attempts, cell.attempt)
        if cell.standing is None:
            return
        self._outcomes[cell.standing.outcome] += 1
        if cell.standing.outcome in ("scored", "errored"):
            self._count(cell, cell.standing)

    def _count(self, cell: Cell, standing: Standing) -> None:
        scored = standing.outcome == "scored"
        self._passed += scored and standing.passed
        self._rewards.append(standing.reward if scored else 0.0)
        self._counted[cell.task] += 1
        for name, value in standing.scores.items():
            values, tasks = self._scores.setdefault(name, (array("d"), set()))
            values.append(value)
            tasks.add(cell.task)
        if cell.group != self._group:
            self._groups[self._tried, self._solved] += 1
            self._group, self._tried, self._solved = cell.group, 0, 0
        self._tried += 1
        self._solved += standing.passed

    def figures(self, slots: int, *, given_up: bool = False) -> Figures:
        """The figures of these slots; `slots` is how many there are to be.

        `given_up`: the job was cancelled, and what has no outcome has that one.
        """
        outcomes = self._outcomes
        scored, errored = outcomes["scored"], outcomes["errored"]
        cancelled, waiting = outcomes["cancelled"], outcomes["awaiting_review"]
        if given_up:
            cancelled += max(slots - outcomes.total(), 0) + waiting
            waiting = 0
        return Figures(
            counts=Counts(
                slots=slots,
                scored=scored,
                passed=self._passed,
                failed=scored - self._passed,
                unscored=outcomes["unscored"],
                errored=errored,
                awaiting_review=waiting,
                cancelled=cancelled,
                superseded=self._superseded,
            ),
            pass_rate=rate(self._passed, scored + errored),
            mean_reward=mean(self._rewards),
            scores=self._sub_scores(),
            pass_at_k=self._pass_at_k(),
        )

    def _sub_scores(self) -> dict[str, float]:
        """The mean of each sub-score, by name.

        The denominator is every counted trial of the tasks that have the sub-score at all: a trial
        that lost it counts as 0, and a task that never had it does not count.
        """
        return {
            name: mean_of(values, sum(self._counted[task] for task in tasks))
            for name, (values, tasks) in sorted(self._scores.items())
        }

    def _pass_at_k(self) -> dict[str, float] | None:
        if self._attempts < 2:
            return None
        groups = self._groups + Counter({(self._tried, self._solved): 1})
        chances = pass_at_each(self._attempts, groups)
        return {str(k): chance for k, chance in chances.items()}
