"""How far two verifiers agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.given import Item, recorded, scored, started, trial_scored
from trialog.engine.errors import ConfigError
from trialog.engine.labels.agreement import (
    Compared,
    agreements,
    kappa,
    parse_compared,
    scores_of,
)
from trialog.engine.labels.ledger import ledger_of
from trialog.events.kinds import (
    HumanReviewRequested,
    HumanReviewSubmitted,
    TrialFinished,
    VerifierApplied,
)
from trialog.events.kinds.parts import Criterion
from trialog.events.values import escape


def scores(items: list[Item], verifier: str, version: str | None = None) -> dict[str, float]:
    """A verifier's scores of a trial."""
    found = ledger_of(recorded("trial/t__00000001", [started(), *items]))
    assert found is not None
    return scores_of(found, Compared(verifier, version))


def judged(score: float | None, low: float = 1.0, high: float = 5.0) -> list[Criterion]:
    """One criterion."""
    return [Criterion(name="tone", score=score, min_score=low, max_score=high, weight=1.0)]


JUDGE = scored(
    0.5, verifier="judge", verifier_kind="agent", version="1", criteria=judged(3.0),
    scores={"tone": 0.5},
)  # fmt: skip
ASKED = HumanReviewRequested(
    verifier="person", version="1", digest="d", weight=1.0, instructions="", criteria=[]
)
GIVEN = HumanReviewSubmitted(verifier="person", score=0.75, criteria=judged(1.5, 0.0, 2.0))


def test_criteria_are_compared_on_one_range() -> None:
    """A judge's 3 on 1 … 5 is 0.5, and so is a person's 1 on 0 … 2."""
    assert {"tone": 0.5, "score": 0.5} == scores([JUDGE], "judge")
    assert {"tone": 0.75, "score": 0.75} == scores([ASKED, GIVEN], "person")


def test_sub_scores_stand_in_for_criteria() -> None:
    """A check has no criteria; its sub-scores are compared by their names."""
    check = scored(1.0, scores={"speed": 0.25})

    assert {"speed": 0.25, "score": 1.0} == scores([check], "script")


def test_names_are_compared_as_they_were_given() -> None:
    """A name that the log has to escape meets the same name of a judge's or a later label's."""
    check = scored(1.0, scores={"$tone": 0.25})
    label = VerifierApplied(
        verifier="late", verifier_kind="deterministic", version="2", digest="d", score=1.0,
        scores=escape({"$tone": 0.5}),
    )  # fmt: skip
    items: list[Item] = [check, trial_scored(1.0), TrialFinished(outcome="scored"), ("a", label)]

    stored = scored(1.0, scores=escape({"$tone": 0.25}))
    assert {"$$tone": 0.25} == stored.scores
    assert {"$tone": 0.25, "score": 1.0} == scores([stored], "script")
    assert {"$tone": 0.5, "score": 1.0} == scores(items, "late")


def test_what_is_no_score_does_not_count() -> None:
    """A 0 of the engine's, a missing reward and another verifier are no score."""
    assert {} == scores([scored(0.0, source="engine")], "script")
    assert {} == scores([scored(0.0, source="engine", missing=True)], "script")
    assert {} == scores([scored(1.0)], "other")
    assert {} == scores([ASKED], "person")
    assert {"score": 0.5} == scores(
        [scored(0.5, verifier="judge", verifier_kind="agent", criteria=judged(None))], "judge"
    )


def test_a_later_label_stands() -> None:
    """A score that was applied later is compared, unless a version is asked for."""
    applied = VerifierApplied(
        verifier="judge", verifier_kind="agent", version="2", digest="d", score=1.0,
        scores={"tone": 1.0},
    )  # fmt: skip
    items: list[Item] = [
        JUDGE, trial_scored(0.5), TrialFinished(outcome="scored"), ("a", applied),
    ]  # fmt: skip

    assert {"tone": 1.0, "score": 1.0} == scores(items, "judge")
    assert {"tone": 0.5, "score": 0.5} == scores(items, "judge", "1")
    assert {"tone": 1.0, "score": 1.0} == scores(items, "judge", "2")
    assert {} == scores(items, "judge", "3")
    assert {} == scores([ASKED, GIVEN], "person", "9")


@pytest.mark.parametrize("text", ["", "@1", "judge@"])
def test_what_names_no_verifier_is_refused(text: str) -> None:
    """NAME or NAME@VERSION, and the error says so."""
    with pytest.raises(ConfigError, match="NAME@VERSION"):
        parse_compared(text)


def test_names_are_read() -> None:
    """A version is optional."""
    assert (Compared("judge"), Compared("judge", "1.0.0")) == (
        parse_compared("judge"), parse_compared("judge@1.0.0"),
    )  # fmt: skip
    assert ("judge", "judge@1") == (str(Compared("judge")), str(Compared("judge", "1")))


def test_each_criterion_has_its_own_agreement() -> None:
    """Only trials and criteria that both scored count; the whole score comes last."""
    pairs = [
        ({"tone": 0.5, "score": 0.5}, {"tone": 0.5, "other": 1.0, "score": 0.75}),
        ({"tone": 0.25, "score": 0.5}, {"tone": 0.5, "score": 0.5}),
        ({"score": 0.0}, {"tone": 0.5, "score": 0.25}),
    ]

    tone, whole = agreements(pairs, tolerance=0.25)

    assert ("tone", 2, 0.5, 1.0) == (tone.criterion, tone.trials, tone.exact, tone.within)
    assert (0.125, 0.125) == (tone.mean_difference, tone.mean_distance)
    assert ("score", 3, 1 / 3, 1.0) == (whole.criterion, whole.trials, whole.exact, whole.within)
    assert whole.low < whole.exact < whole.high
    assert 0.5 == agreements(pairs[:2], tolerance=0.1)[0].within


def test_equal_but_for_rounding() -> None:
    """Scores that differ by a rounding error are the same."""
    (row,) = agreements([({"score": 1 / 3}, {"score": 0.1 + 7 / 30})], tolerance=0.0)

    assert (1.0, 1.0) == (row.exact, row.within)


def test_kappa_of_a_textbook() -> None:
    """Two raters of fifty: 20 yes both, 15 no both, 5 and 10 apart, kappa 0.4."""
    pairs = [(1.0, 1.0)] * 20 + [(1.0, 0.0)] * 5 + [(0.0, 1.0)] * 10 + [(0.0, 0.0)] * 15

    assert pytest.approx(0.4) == kappa(pairs)


def test_where_kappa_makes_no_sense() -> None:
    """For one trial, for one value throughout, and for many values there is no kappa."""
    assert None is kappa([(1.0, 1.0)])
    assert None is kappa([(1.0, 1.0)] * 9)
    assert None is kappa([(number / 10, number / 10) for number in range(11)])
    assert 1.0 == kappa([(number / 10, number / 10) for number in range(10)])


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0]))))
def test_kappa_is_from_minus_1_to_1(pairs: list[tuple[float, float]]) -> None:
    """Whatever two raters give, kappa is within its range, and the same the other way round."""
    found = kappa(pairs)

    assert found is None or -1.0 <= found <= 1.0
    assert found == pytest.approx(kappa([(b, a) for a, b in pairs]))
