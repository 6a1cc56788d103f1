"""How far two verifiers agree, criterion by criterion, over the trials that both scored. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from ...events.values import unescape
from ...projections.document import total
from ...projections.statistics import wilson
from ...projections.trial import Grading
from ..errors import ConfigError
from ..trial.decide import share
from .ledger import Ledger

SCORE = "score"
"""The name under which whole scores are compared."""

CATEGORIES = 10
"""Different values up to which kappa makes sense: with more, hardly any two are ever equal."""

DIGITS = 9
"""Values that are equal to so many decimals are equal."""


class Compared(msgspec.Struct, frozen=True):
    """A verifier by its name, and perhaps its version; without one, as its scores stand."""

    name: str
    version: str | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far two verifiers agree on one criterion. Scores are compared on the range 0 to 1."""

    criterion: str
    trials: int
    """That both scored."""
    exact: float
    """The share of trials with the same score; `low` and `high` are its 95 % interval."""
    low: float
    high: float
    within: float
    """The share of trials with scores no further apart than the tolerance."""
    mean_difference: float | None
    """Of the second from the first: above 0 where the second gives more."""
    mean_distance: float | None
    kappa: float | None
    """Cohen's kappa: 1 is full agreement, 0 what chance would give. Null where it makes no sense:
    for many different values, or where both gave one and the same value throughout."""


def parse_compared(text: str) -> Compared:
    """``NAME`` or ``NAME@VERSION``. Raises ConfigError."""
    name, at, version = text.partition("@")
    if not name or (at and not version):
        raise ConfigError(f"{text!r} names no verifier; write NAME or NAME@VERSION")
    return Compared(name, version or None)


def scores_of(ledger: Ledger, verifier: Compared) -> dict[str, float]:
    """A verifier's scores of one trial by criterion, 0 to 1, `score` the whole; empty for none.

    A score that was applied later stands in place of the run's, unless a version is asked for.
    """
    found: dict[str, float] = {}
    part = ledger.view.grading.get(verifier.name)
    if part is not None:
        found = _of_run(part, verifier.version)
    for applied in ledger.applied:
        wanted = verifier.version in (None, applied.version)
        if applied.verifier == verifier.name and wanted and applied.score is not None:
            found = {**unescape(applied.scores), SCORE: applied.score}
    return found


def _of_run(part: Grading, version: str | None) -> dict[str, float]:
    asked, given, scored = part.requested, part.submitted, part.scored
    if given is not None and version in (None, asked.version if asked else None):
        return {c.name: share(c) for c in given.criteria} | {SCORE: given.score}
    if scored is None or scored.missing or scored.source == "engine":
        return {}
    if version not in (None, scored.version):
        return {}
    criteria = {c.name: share(c) for c in scored.criteria if c.score is not None}
    return {**(criteria or unescape(scored.scores)), SCORE: scored.score}


def agreements(
    pairs: Sequence[tuple[dict[str, float], dict[str, float]]], *, tolerance: float
) -> list[Agreement]:
    """The agreement on each criterion that both scored somewhere; `score` comes last."""
    names: dict[str, None] = {}
    for first, second in pairs:
        names |= dict.fromkeys(name for name in first if name in second and name != SCORE)
    found: list[Agreement] = []
    for name in (*names, SCORE):
        values = [(a[name], b[name]) for a, b in pairs if name in a and name in b]
        if values:
            found.append(_agreement(name, values, tolerance))
    return found


def _agreement(name: str, values: list[tuple[float, float]], tolerance: float) -> Agreement:
    rounded = [(round(a, DIGITS), round(b, DIGITS)) for a, b in values]
    count = len(values)
    same = sum(a == b for a, b in rounded)
    low, high = wilson(same, count)
    near = sum(abs(a - b) <= tolerance + 10**-DIGITS for a, b in values)
    return Agreement(
        criterion=name,
        trials=count,
        exact=same / count,
        low=low,
        high=high,
        within=near / count,
        mean_difference=_mean([b - a for a, b in values]),
        mean_distance=_mean([abs(b - a) for a, b in values]),
        kappa=kappa(rounded),
    )


def _mean(values: list[float]) -> float | None:
    summed = total(values)
    return None if summed is None else summed / len(values)


def kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Cohen's kappa over pairs of categories; null where it makes no sense."""
    count = len(pairs)
    if count < 2 or len({value for pair in pairs for value in pair}) > CATEGORIES:
        return None
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    observed = sum(a == b for a, b in pairs) / count
    expected = math.fsum(first[value] * second[value] for value in first) / (count * count)
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)
