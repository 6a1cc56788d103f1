"""Reading a judge's reply: either one score for each criterion, or why it can't be used.

A reply counts when it holds exactly one JSON object, alone, in a fence or in prose, and that object
fits the rubric. Whatever could be read in two ways is not read at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from ...events.values import without_surrogates
from ..authoring.verifiers import RubricCriterion
from ..json_in_text import Unfit, named, only_object

LONGEST = 256 * 1024
"""Characters of a reply that are read; a longer one does not fit."""

_UNFINISHED = {
    "length": "the reply was cut off",
    "content_filter": "the endpoint's filter held the reply back",
    "refusal": "the model refused",
    "error": "the endpoint answered with an error in place of a reply",
}
"""Ends of a reply that leave nothing to read, by the word that the endpoint has for them."""


class Marks(NamedTuple):
    """What a judge gave: each criterion's score on its own range, and its reason."""

    scores: dict[str, float]
    reasons: dict[str, str]


class Malformed(NamedTuple):
    """Why a reply can't be used."""

    reason: str
    told: str
    """The same in words that the judge is told: none of them are the reply's, since it may repeat
    what the judged work says."""


Read: TypeAlias = Marks | Malformed


def read_reply(text: str, criteria: Sequence[RubricCriterion], finish: str | None = None) -> Read:
    """Read a reply. `finish` is why the model stopped, in the endpoint's words. Never raises."""
    try:
        if finish in _UNFINISHED:
            raise Unfit(_UNFINISHED[finish])  # noqa: TRY301
        if len(text) > LONGEST:
            raise Unfit(f"the reply is over {LONGEST} characters long")  # noqa: TRY301
        return _marks(only_object(text), criteria)
    except Unfit as error:
        return Malformed(str(error), error.told)
    except RecursionError:
        deep = "the reply is JSON nested too deep"
        return Malformed(deep, deep)


def _marks(found: dict[str, Any], criteria: Sequence[RubricCriterion]) -> Marks:
    names = [criterion.name for criterion in criteria]
    if unknown := [name for name in found if name not in names]:
        the_criteria = f"is no criterion; the criteria are {_names(names)}"
        raise Unfit(f"{named(unknown[0])} {the_criteria}", f"a key {the_criteria}")
    if missing := [name for name in names if name not in found]:
        raise Unfit(f"no score for {_names(missing)}")
    scores: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for criterion in criteria:
        given = found[criterion.name]
        scores[criterion.name] = _score(given, criterion)
        if (reason := given.get("reason")) is not None:
            reasons[criterion.name] = without_surrogates(reason)[0]
    return Marks(scores, reasons)


def _score(given: Any, criterion: RubricCriterion) -> float:
    name = named(criterion.name)
    if not isinstance(given, dict):
        raise _another(f"{name} is", given, "not an object with `reason` and `score`")
    entry = cast("dict[str, Any]", given)
    if unknown := [key for key in entry if key not in ("reason", "score")]:
        beside = "beside `reason` and `score`"
        raise Unfit(f"{name} has {named(unknown[0])} {beside}", f"{name} has a key {beside}")
    if not isinstance(entry.get("reason"), str | None):
        raise _another(f"the reason for {name} is", entry["reason"], "not text")
    if "score" not in entry:
        raise Unfit(f"{name} has no `score`")
    score = entry["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise _another(f"the score for {name} is", score, "not a number")
    if not criterion.min_score <= score <= criterion.max_score:
        number = repr(score) if isinstance(score, float) or abs(score) < 10**20 else "a huge number"
        raise Unfit(
            f"the score for {name} is {number}, outside of "
            f"{criterion.min_score:g} to {criterion.max_score:g}"
        )
    # An integer that a float can't hold exactly may round to just outside of the range.
    return min(max(float(score), criterion.min_score), criterion.max_score) + 0.0


def _another(where: str, value: Any, expected: str) -> Unfit:
    kind = _kind(value)
    told = "a text" if isinstance(value, str) else kind
    return Unfit(f"{where} {kind}, {expected}", f"{where} {told}, {expected}")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return f"the text {named(value)}"
        case list():
            return "a list"
        case dict():
            return "an object"
        case float() if not math.isfinite(value):
            return "a number that is too large"
        case _:
            return "a number"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(named, names))
