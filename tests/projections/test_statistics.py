"""Rates, means and their intervals."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.projections.statistics import (
    mean,
    mean_of,
    pass_at,
    pass_at_each,
    rate,
    student_t,
    wilson,
)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [
        (1, 12.706204736174705),
        (2, 4.302652729749464),
        (30, 2.042272456301238),
        (31, 2.0395134463964085),
        (50, 2.0085591121007611),
        (100, 1.9839715185235523),
        (1000, 1.9623390808264085),
    ],
)
def test_student_t_quantiles(freedom: int, expected: float) -> None:
    """The quantiles are those of the published tables, to nine digits."""
    assert math.isclose(expected, student_t(freedom), abs_tol=1e-9)


def test_student_t_falls_towards_the_normal_quantile() -> None:
    """More degrees of freedom, a smaller quantile; the table and the series join."""
    quantiles = [student_t(n) for n in range(1, 200)]

    assert sorted(quantiles, reverse=True) == quantiles
    assert math.isclose(1.959963984540054, student_t(10**9), abs_tol=1e-8)


def test_wilson_interval() -> None:
    """Wilson's interval of 8 in 10, as the textbooks have it."""
    low, high = wilson(8, 10)

    assert (0.4902, 0.9433) == (round(low, 4), round(high, 4))


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_wilson_at_the_ends(n: int) -> None:
    """No success has exactly 0 as its lower end, and all successes exactly 1 as the upper."""
    assert wilson(0, n)[0] == 0.0
    assert wilson(n, n)[1] == 1.0


@given(st.integers(1, 500), st.data())
def test_wilson_holds_the_rate(n: int, data: st.DataObject) -> None:
    """The interval lies in 0 … 1 and holds the estimate."""
    hits = data.draw(st.integers(0, n))

    low, high = wilson(hits, n)

    assert 0.0 <= low <= hits / n <= high <= 1.0


def test_a_rate_of_nothing_is_null() -> None:
    """Without a trial there is no rate, and the denominator says so."""
    found = rate(0, 0)

    assert (None, 0, None, None, "wilson") == (
        found.value, found.n, found.low, found.high, found.method,
    )  # fmt: skip
    assert (0.5, 2) == (rate(1, 2).value, rate(1, 2).n)


def test_a_mean_with_its_interval() -> None:
    """Student's t interval of 1, 2, 3: 2 ± 4.3027 · 1/√3."""
    found = mean([1.0, 2.0, 3.0])

    half = 4.302652729749464 / math.sqrt(3)
    assert 2.0 == found.value
    assert found.low is not None
    assert found.high is not None
    assert math.isclose(2 - half, found.low)
    assert math.isclose(2 + half, found.high)
    assert "student_t" == found.method


@pytest.mark.parametrize(("values", "value"), [([], None), ([0.5], 0.5)])
def test_too_few_values_have_no_interval(values: list[float], value: float | None) -> None:
    """One value says nothing about spread, and none nothing at all."""
    found = mean(values)

    assert (value, len(values), None, None) == (found.value, found.n, found.low, found.high)


@pytest.mark.parametrize(
    "values",
    [
        [1.7e308, 1.7e308, 1.7e308],  # the sum is too large, the mean is not
        [1.7e308, -1.7e308],  # the squares are too large
        [1e153, -1e153, 1e153, -1e153],
        [1.7e308, 1.6e308, 1.7e308, 1.6e308],  # the sum of squares is too large
        [1.79769e308, 1.79769e308, 1.797e308],
    ],
)
def test_huge_rewards_make_no_infinity(values: list[float]) -> None:
    """Whatever the range of a task's rewards, every figure is a number or null."""
    found = mean(values)

    for figure in (found.value, found.low, found.high):
        assert figure is None or math.isfinite(figure)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_means_are_finite_and_independent_of_order(values: list[float]) -> None:
    """A mean does not depend on the order of the trials."""
    found = mean(values)

    assert found == mean(sorted(values))
    for figure in (found.value, found.low, found.high):
        assert figure is None or math.isfinite(figure)


def test_missing_values_count_as_zero() -> None:
    """A mean over more trials than have a value takes the others as 0."""
    assert 0.5 == mean_of([1.0], 2)


def test_pass_at_k_is_unbiased() -> None:
    """One minus the chance that k drawn attempts all failed."""
    assert 0.5 == pass_at(1, [(4, 2)])
    assert pass_at(2, [(4, 2)]) == 1 - 1 / 6
    assert 1.0 == pass_at(3, [(4, 2)])


def test_pass_at_k_is_the_mean_of_its_groups() -> None:
    """Each task weighs the same; a group with fewer than k attempts is left out."""
    assert 0.75 == pass_at(1, [(2, 1), (1, 1)])
    assert 1.0 == pass_at(2, [(2, 1), (1, 0)])
    assert pass_at(3, [(2, 1)]) is None


@given(
    st.integers(0, 60),
    st.lists(st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))),
)
def test_pass_at_every_k(most: int, groups: list[tuple[int, int]]) -> None:
    """All at once are the very same numbers as one by one."""
    alone = {k: pass_at(k, groups) for k in range(1, most + 1)}
    assert {k: v for k, v in alone.items() if v is not None} == pass_at_each(most, Counter(groups))


def test_pass_at_k_of_many_attempts() -> None:
    """Large numbers of attempts lose no precision."""
    assert math.isclose(1 - 0.5**10, pass_at(10, [(100_000, 50_000)]) or 0, rel_tol=1e-4)
