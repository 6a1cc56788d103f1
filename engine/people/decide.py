"""What a person may submit of a trial, and the event that it becomes: state and words in, event or
refusal out. Plain functions: no clock, no log, nothing awaited."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence

import msgspec

from ...events.kinds import HumanReviewRequested, HumanReviewSubmitted
from ...events.kinds.parts import Criterion, CriterionAsked
from ...events.values import Text
from ..errors import CommandRefused, ConfigError
from ..trial.decide import share
from ..trial.state import TrialState


class Scores(msgspec.Struct, frozen=True):
    """What the reviewer gave: a number for the only criterion, or numbers by criterion."""

    only: float | None = None
    named: Mapping[str, float] = {}


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A person's review of a trial."""

    verifier: str
    scores: Scores
    feedback: Text | None = None
    reviewer: str | None = None


def parse_scores(given: Sequence[str]) -> Scores:
    """Scores as they are typed: ``2``, or ``criterion=2`` once for each. Raises ConfigError."""
    only: list[float] = []
    named: dict[str, float] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        number = _number(value, text)
        if not equals:
            only.append(number)
        elif name.strip() in named:
            raise ConfigError(f"criterion {name.strip()!r} is scored twice", key="--score")
        else:
            named[name.strip()] = number
    if not given:
        raise ConfigError(
            "no score is given; write --score 2 or --score criterion=2", key="--score"
        )
    if len(only) > 1 or (only and named):
        raise ConfigError(
            "a score without a criterion's name stands alone; name the criteria: "
            "--score criterion=value, once for each",
            key="--score",
        )
    return Scores(only[0] if only else None, named)


def _number(text: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{whole!r} gives no finite number", key="--score")
    return number


def decide(state: TrialState, submission: Submission, trial: str) -> HumanReviewSubmitted:
    """The event that the submission becomes. Raises CommandRefused, which says why none."""
    asked = _asked(state, submission.verifier, trial)
    scores = _complete(asked, submission.scores)
    criteria = [
        Criterion(
            name=criterion.name, score=scores[criterion.name], min_score=criterion.min_score,
            max_score=criterion.max_score, weight=criterion.weight, blocker=criterion.blocker,
        )
        for criterion in asked.criteria
    ]  # fmt: skip
    return HumanReviewSubmitted(
        verifier=asked.verifier, reviewer=submission.reviewer, score=rubric_score(criteria),
        criteria=criteria, feedback=submission.feedback,
    )  # fmt: skip


def rubric_score(criteria: Sequence[Criterion]) -> float:
    """The criteria's scores within their ranges by their weights, 0 to 1."""
    total = math.fsum(criterion.weight for criterion in criteria)
    if total == 0.0:
        return math.fsum(map(share, criteria)) / len(criteria)
    weighted = math.fsum(criterion.weight * share(criterion) for criterion in criteria)
    return min(max(weighted / total, 0.0), 1.0)


def _asked(state: TrialState, verifier: str, trial: str) -> HumanReviewRequested:
    if state.version == 0:
        raise CommandRefused(f"trial {trial} has no event yet")
    asked = {request.verifier: request for request in state.requested}
    submitted = {given.verifier: given.reviewer for given in state.submitted}
    if verifier in asked and verifier in submitted:
        by = f", by {submitted[verifier]}" if submitted[verifier] else ""
        raise CommandRefused(
            f"the review of {verifier} for trial {trial} is in already{by}; "
            "a review can't be edited, replaced or sent twice"
        )
    if not asked:
        raise CommandRefused(
            f"trial {trial} waits for no person; `trialog human list` shows those that do"
        )
    waiting = [request.verifier for request in state.awaiting]
    if verifier not in asked:
        names = waiting or list(asked)
        near = difflib.get_close_matches(verifier, names, n=1)
        known = f"did you mean {near[0]}?" if near else f"it asks {', '.join(names)}"
        raise CommandRefused(f"trial {trial} asks no person as {verifier!r}; {known}")
    if verifier not in waiting:
        raise CommandRefused(
            f"trial {trial} is over and waits for nobody; `trialog show {trial}` shows its end"
        )
    return asked[verifier]


def _complete(asked: HumanReviewRequested, given: Scores) -> dict[str, float]:
    """A score for every criterion, within its range."""
    known = {criterion.name: criterion for criterion in asked.criteria}
    if given.only is not None:
        if len(known) != 1:
            raise CommandRefused(
                f"{asked.verifier} has {len(known)} criteria ({', '.join(known)}); "
                "give --score criterion=value once for each"
            )
        scores = {next(iter(known)): given.only}
    else:
        scores = dict(given.named)
    for name in scores:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise CommandRefused(f"{asked.verifier} has no criterion {name!r}; {hint}")
    missing = [name for name in known if name not in scores]
    if missing:
        raise CommandRefused(
            f"no score for {', '.join(missing)}; a review gives one for every criterion of "
            f"{asked.verifier}"
        )
    for name, score in scores.items():
        _check_range(known[name], score)
    return scores


def _check_range(criterion: CriterionAsked, score: float) -> None:
    if not criterion.min_score <= score <= criterion.max_score:
        raise CommandRefused(
            f"{criterion.name}: {score:g} is out of its range; "
            f"give a number from {criterion.min_score:g} to {criterion.max_score:g}"
        )
