"""Given events, when a submission, then an event or a refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.given import Item, started, verifier_started
from helpers.given import scored as verdict
from trialog.engine.errors import CommandRefused, ConfigError
from trialog.engine.people.decide import Scores, Submission, decide, parse_scores, rubric_score
from trialog.engine.trial.state import TrialState, fold
from trialog.events.kinds import (
    HumanReviewRequested,
    HumanReviewSubmitted,
    TrialFinished,
    TrialScored,
)
from trialog.events.kinds.parts import Criterion, CriterionAsked


def asked(name: str = "person", *criteria: CriterionAsked) -> HumanReviewRequested:
    """A person is asked for help, 0 to 2, unless other criteria are given."""
    return HumanReviewRequested(
        verifier=name, version="1.0.0", digest="d", weight=1.0, instructions="look",
        criteria=list(criteria) or [criterion("help", 0.0, 2.0)],
    )  # fmt: skip


def criterion(name: str, low: float, high: float, weight: float = 1.0) -> CriterionAsked:
    """A question with a range."""
    return CriterionAsked(
        name=name, description="", weight=weight, min_score=low, max_score=high, blocker=False
    )


TWO = asked("person", criterion("help", 0.0, 2.0), criterion("tone", 1.0, 5.0, weight=3.0))


def after(*events: Item) -> TrialState:
    """A trial whose automatic verifier has scored, and what came then."""
    return fold([started(), verifier_started(), verdict(1.0), *events])  # type: ignore[list-item]


def submit(state: TrialState, *scores: str, verifier: str = "person") -> HumanReviewSubmitted:
    """What the words lead to."""
    words = Submission(
        verifier=verifier, scores=parse_scores(scores), feedback="good", reviewer="ann"
    )
    return decide(state, words, "t__1")


def test_one_criterion_takes_a_bare_score() -> None:
    """With one criterion a number is enough; it is brought to 0 … 1 over its range."""
    assert HumanReviewSubmitted(
        verifier="person",
        reviewer="ann",
        score=0.5,
        criteria=[Criterion(name="help", score=1.0, min_score=0.0, max_score=2.0, weight=1.0)],
        feedback="good",
    ) == submit(after(asked()), "1")
    assert submit(after(asked()), "help=1") == submit(after(asked()), "1")


def test_criteria_are_weighted() -> None:
    """Each criterion is brought to 0 … 1 over its own range, then counts by its weight."""
    review = submit(after(TWO), "help=2", "tone=3")

    assert (1.0 * 1.0 + 3.0 * 0.5) / 4.0 == review.score
    assert [2.0, 3.0] == [one.score for one in review.criteria]


def test_a_bare_score_needs_one_criterion() -> None:
    """With several criteria a number alone is refused, and the message names them."""
    with pytest.raises(CommandRefused, match="help, tone"):
        submit(after(TWO), "2")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (("help=2",), "no score for tone"),
        (("help=2", "tone=3", "tune=3"), "did you mean tone"),
        (("help=2", "tone=3", "xyz=3"), "there are: help, tone"),
        (("help=2.5", "tone=3"), "from 0 to 2"),
        (("help=2", "tone=0.5"), "from 1 to 5"),
        (("help=-1", "tone=3"), "from 0 to 2"),
    ],
)
def test_scores_that_do_not_fit(scores: tuple[str, ...], message: str) -> None:
    """A missing or unknown criterion, or a value out of its range, is refused by name."""
    assert submit(after(TWO), "help=2", "tone=3")

    with pytest.raises(CommandRefused, match=message):
        submit(after(TWO), *scores)


@pytest.mark.parametrize("ends", ["0", "2"])
def test_the_ends_of_a_range_are_in_it(ends: str) -> None:
    """A range includes both of its ends, and they come to exactly 0 and 1."""
    assert float(ends) / 2 == submit(after(asked()), ends).score


def test_a_second_submission_is_refused() -> None:
    """A review can't be sent twice, whether the trial still waits for another or is over."""
    given_already = submit(after(asked(), asked("other")), "1")
    over = [given_already, TrialScored(passed=False, score=0.5), TrialFinished(outcome="scored")]

    with pytest.raises(CommandRefused, match="can't be edited, replaced or sent twice"):
        submit(after(asked(), asked("other"), given_already), "1")
    with pytest.raises(CommandRefused, match="can't be edited, replaced or sent twice"):
        submit(after(asked(), *over), "2")


def test_a_second_submission_is_told_who_was_first() -> None:
    """By the name that the first reviewer gave, where one was given."""
    sent = submit(after(asked(), asked("other")), "1")
    for reviewer, told in (("ann", "is in already, by ann; "), (None, "is in already; ")):
        first = msgspec.structs.replace(sent, reviewer=reviewer)
        with pytest.raises(CommandRefused, match=told):
            submit(after(asked(), asked("other"), first), "1")


def test_a_trial_that_waits_for_nobody() -> None:
    """A trial that asks nobody, or that was ended, takes no review."""
    with pytest.raises(CommandRefused, match="waits for no person"):
        submit(after(), "1")
    with pytest.raises(CommandRefused, match="over and waits for nobody"):
        submit(after(asked(), TrialFinished(outcome="cancelled")), "1")
    with pytest.raises(CommandRefused, match="no event"):
        submit(TrialState(), "1")


def test_an_unknown_verifier() -> None:
    """Who is not asked can't answer; the message names the nearest, or all that are asked."""
    with pytest.raises(CommandRefused, match="did you mean person"):
        submit(after(asked()), "1", verifier="persona")
    with pytest.raises(CommandRefused, match="asks person"):
        submit(after(asked()), "1", verifier="script")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no score is given"),
        (("two",), "no finite number"),
        (("nan",), "no finite number"),
        (("inf",), "no finite number"),
        (("help=",), "no finite number"),
        (("1", "2"), "stands alone"),
        (("1", "help=2"), "stands alone"),
        (("help=1", "help=2"), "twice"),
    ],
)
def test_words_that_are_no_scores(words: tuple[str, ...], message: str) -> None:
    """What is no finite number, or says one thing twice, is wrong usage."""
    with pytest.raises(ConfigError, match=message):
        parse_scores(words)


def test_words_that_are_scores() -> None:
    """A criterion's name may have an equals sign in it; the value stands behind the last."""
    assert Scores(2.0) == parse_scores(["2"])
    assert Scores(None, {"a": 1.0, "b=c": 2.0}) == parse_scores(["a=1", "b=c=2"])


def made(score: float, low: float, high: float, weight: float) -> Criterion:
    """A criterion that was scored."""
    return Criterion(name="c", score=score, min_score=low, max_score=high, weight=weight)


def test_weights_that_are_all_zero() -> None:
    """Criteria of no weight count alike."""
    assert 0.5 == rubric_score([made(1.0, 0.0, 1.0, 0.0), made(0.0, 0.0, 1.0, 0.0)])


@given(
    st.lists(
        st.tuples(
            st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.floats(0.0, 1.0), st.floats(0.0, 1e3)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_scores_are_from_0_to_1(parts: list[tuple[float, float, float, float]]) -> None:
    """Whatever the ranges and weights are, the score is from 0 to 1; full marks are exactly 1."""
    ranges = [(low, low + width, low + width * at, weight) for low, width, at, weight in parts]
    criteria: list[Any] = [
        made(min(max(score, low), high), low, high, weight)
        for low, high, score, weight in ranges
        if low < high
    ]
    full = [made(high, low, high, weight) for low, high, _, weight in ranges if low < high]

    if criteria:
        assert 0.0 <= rubric_score(criteria) <= 1.0
        assert 1.0 == rubric_score(full)
