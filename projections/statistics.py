"""Rates, means and their 95 % intervals. Only ``+ - * /`` and the square root are used, which give
the same bits on every machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from .document import exact, total

Z = 1.959963984540054
"""The normal distribution's quantile at 0.975."""

_T = (
    12.706204736174705, 4.302652729749464, 3.1824463052837095, 2.7764451051977943,
    2.5705818356363155, 2.44691185114497, 2.3646242515927853, 2.3060041352041667,
    2.2621571627982053, 2.228138851986275, 2.2009851600916397, 2.178812829667229,
    2.1603686564627926, 2.144786687917804, 2.1314495455597755, 2.1199052992212546,
    2.109815577833317, 2.1009220402410387, 2.0930240544083096, 2.085963447265865,
    2.0796138447276804, 2.0738730679040263, 2.0686576104190486, 2.063898561628026,
    2.0595385527532977, 2.055529438642873, 2.0518305164802855, 2.048407141795245,
    2.0452296421327043, 2.042272456301238,
)  # fmt: skip
"""Student's t at 0.975 for 1 … 30 degrees of freedom; above that the series below is exact to
nine digits."""


class Interval(msgspec.Struct, frozen=True):
    """An estimate with its 95 % interval. Null where `n` is too small to say."""

    value: float | None
    n: int
    low: float | None
    high: float | None
    method: str


def student_t(freedom: int) -> float:
    """The quantile of Student's t at 0.975."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z, z2 = Z, Z * Z
    terms = (
        z * (z2 + 1) / 4,
        z * ((5 * z2 + 16) * z2 + 3) / 96,
        z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
        z * (((((27 * z2 + 339) * z2 + 930) * z2 - 1782) * z2 - 765) * z2 + 17955) / 368640,
    )
    tail = 0.0
    for term in reversed(terms):  # Horner's rule in 1 / freedom
        tail = (tail + term) / freedom
    return z + tail


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share of `hits` among `n`, which is at least 1."""
    p, z2 = hits / n, Z * Z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return 0.0 if hits == 0 else centre - half, 1.0 if hits == n else centre + half


def rate(hits: int, n: int) -> Interval:
    """A share of successes, with Wilson's interval."""
    if n == 0:
        return Interval(None, 0, None, None, "wilson")
    low, high = wilson(hits, n)
    return Interval(hits / n, n, low, high, "wilson")


def mean_of(values: Sequence[float], n: int) -> float:
    """The mean over `n`, at least as many as there are values; the others count as 0."""
    whole = total(values)
    return float(exact(values) / n) if whole is None else whole / n


def mean(values: Sequence[float]) -> Interval:
    """A mean, with Student's t interval; one value alone has none."""
    n = len(values)
    if n == 0:
        return Interval(None, 0, None, None, "student_t")
    centre = mean_of(values, n)
    if n == 1:
        return Interval(centre, n, None, None, "student_t")
    squares = total((value - centre) * (value - centre) for value in values)
    if squares is None or not math.isfinite(squares):
        return Interval(centre, n, None, None, "student_t")
    half = student_t(n - 1) * math.sqrt(squares / (n - 1) / n)
    return Interval(centre, n, centre - half, centre + half, "student_t")


def pass_at(k: int, groups: Iterable[tuple[int, int]]) -> float | None:
    """The chance that at least one of `k` attempts passes, without bias.

    Each group is (attempts, passed); the mean is over the groups with at least `k` attempts.
    Null when there is none.
    """
    chances = [1 - math.comb(n - c, k) / math.comb(n, k) for n, c in groups if n >= k]
    return mean_of(chances, len(chances)) if chances else None


def pass_at_each(most: int, groups: Mapping[tuple[int, int], int]) -> dict[int, float]:
    """`pass_at` for every k up to `most` that a group has enough attempts for.

    `groups` says how many groups there are of each (attempts, passed).
    """
    chances: dict[int, list[float]] = {}
    for (attempts, passed), times in groups.items():
        drawn_failed = drawn = 1
        for k in range(1, min(attempts, most) + 1):
            # From one binomial coefficient to the next: anew for each k they cost k times as much.
            drawn_failed = drawn_failed * (attempts - passed - k + 1) // k
            drawn = drawn * (attempts - k + 1) // k
            chances.setdefault(k, []).extend([1 - drawn_failed / drawn] * times)
    return {k: mean_of(found, len(found)) for k, found in sorted(chances.items())}
