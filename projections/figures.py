"""Counts, rates and means over a set of slots: what summary.json says of all and of each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from .statistics import Interval, mean, mean_of, pass_at_each, rate


class Standing(msgspec.Struct, frozen=True, gc=False):
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


def figures(cells: Sequence[Cell], slots: int, *, given_up: bool = False) -> Figures:
    """The figures of these slots; `slots` is how many there are to be.

    An errored trial counts as 0; unscored, waiting and cancelled ones are left out and counted
    beside it. `given_up`: the job was cancelled, and what has no outcome has that one.
    """
    standings = [cell.standing for cell in cells if cell.standing is not None]
    by_outcome = {
        outcome: [s for s in standings if s.outcome == outcome]
        for outcome in ("scored", "unscored", "errored", "awaiting_review", "cancelled")
    }
    scored, errored = by_outcome["scored"], by_outcome["errored"]
    passed = sum(s.passed for s in scored)
    cancelled = len(by_outcome["cancelled"])
    waiting = len(by_outcome["awaiting_review"])
    if given_up:
        cancelled += max(slots - len(standings), 0) + waiting
        waiting = 0
    return Figures(
        counts=Counts(
            slots=slots,
            scored=len(scored),
            passed=passed,
            failed=len(scored) - passed,
            unscored=len(by_outcome["unscored"]),
            errored=len(errored),
            awaiting_review=waiting,
            cancelled=cancelled,
            superseded=sum(cell.superseded for cell in cells),
        ),
        pass_rate=rate(passed, len(scored) + len(errored)),
        mean_reward=mean([s.reward for s in scored] + [0.0] * len(errored)),
        scores=_scores(cells),
        pass_at_k=_pass_at_k(cells),
    )


def _counted(cells: Iterable[Cell]) -> list[tuple[Cell, Standing]]:
    return [
        (cell, cell.standing)
        for cell in cells
        if cell.standing is not None and cell.standing.outcome in ("scored", "errored")
    ]


def _scores(cells: Iterable[Cell]) -> dict[str, float]:
    """The mean of each sub-score, by name.

    The denominator is every counted trial of the tasks that have the sub-score at all: a trial
    that lost it counts as 0, and a task that never had it does not count.
    """
    trials: dict[str, int] = {}
    given: dict[str, dict[str, list[float]]] = {}
    for cell, standing in _counted(cells):
        trials[cell.task] = trials.get(cell.task, 0) + 1
        for name, value in standing.scores.items():
            given.setdefault(name, {}).setdefault(cell.task, []).append(value)
    means: dict[str, float] = {}
    for name in sorted(given):
        tasks = given[name]
        values = [value for found in tasks.values() for value in found]
        means[name] = mean_of(values, sum(trials[task] for task in tasks))
    return means


def _pass_at_k(cells: Sequence[Cell]) -> dict[str, float] | None:
    most = max((cell.attempt for cell in cells), default=1)
    if most < 2:
        return None
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for cell, standing in _counted(cells):
        tally = groups.setdefault(cell.group, [0, 0])
        tally[0] += 1
        tally[1] += standing.passed
    chances = pass_at_each(most, ((n, c) for n, c in groups.values()))
    return {str(k): chance for k, chance in chances.items()}
