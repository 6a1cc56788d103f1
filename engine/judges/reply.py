"""Reading a judge's reply: either one score for each criterion, or why it can't be used.

A reply counts when it holds exactly one JSON object, alone, in a fence or in prose, and that object
fits the rubric. Whatever could be read in two ways is not read at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

from ...events.values import without_surrogates
from ..authoring.verifiers import RubricCriterion
from ..verifier.number import shown

LONGEST = 256 * 1024
"""Characters of a reply that are read; a longer one does not fit."""

_THOUGHT = ("<think>", "</think>")

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
    """Why a reply can't be used, in words that the judge is told too."""

    reason: str


Read: TypeAlias = Marks | Malformed


class _Unfit(Exception):
    """Raised while reading; the message becomes Malformed's."""


def read_reply(text: str, criteria: Sequence[RubricCriterion], finish: str | None = None) -> Read:
    """Read a reply. `finish` is why the model stopped, in the endpoint's words. Never raises."""
    try:
        if finish in _UNFINISHED:
            raise _Unfit(_UNFINISHED[finish])  # noqa: TRY301
        return _marks(_only_object(text), criteria)
    except _Unfit as error:
        return Malformed(str(error))
    except RecursionError:
        return Malformed("the reply is JSON nested too deep")


def _only_object(text: str) -> dict[str, Any]:
    """The one object of a reply; twice the same is one."""
    if len(text) > LONGEST:
        raise _Unfit(f"the reply is over {LONGEST} characters long")
    text = _without_thought(text.strip().removeprefix("\ufeff").strip())
    if not text:
        raise _Unfit("the reply is empty")
    whole = _whole(text)
    if isinstance(whole, dict):
        return cast("dict[str, Any]", whole)
    if whole is not None:
        raise _Unfit(f"the reply is {_kind(whole)}, not a JSON object")
    found = _objects(text)
    if not found:
        raise _Unfit("the reply has no JSON object")
    if len({json.dumps(one, sort_keys=True) for one in found}) > 1:
        raise _Unfit("the reply has several JSON objects that differ")
    return found[0]


def _without_thought(text: str) -> str:
    """The reply without the thoughts that some models put before it in tags."""
    begin, end = _THOUGHT
    if not text.startswith(begin):
        return text
    _, found, rest = text.partition(end)
    if not found:
        raise _Unfit(f"the reply is cut off: {begin} without {end}")
    return rest.strip()


def _whole(text: str) -> Any:
    """The reply's value where it is JSON and nothing else; None where it isn't (or is null)."""
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return None
    return value if end == len(text) else None


def _objects(text: str) -> list[dict[str, Any]]:
    """Every object in prose. A brace that is no object's makes it anyone's guess what is meant."""
    found: list[dict[str, Any]] = []
    place = 0
    while (start := text.find("{", place)) >= 0:
        if "}" in text[place:start]:
            raise _Unfit("the reply has braces that are no JSON object")
        try:
            value, place = _DECODER.raw_decode(text, start)
        except ValueError as error:
            raise _Unfit(f"the reply has braces that are no JSON object: {error}") from None
        found.append(value)
    if "}" in text[place:]:
        raise _Unfit("the reply has braces that are no JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unfit(f"key {_name(twice)} is given twice")
    return made


def _no_constant(word: str) -> NoReturn:
    raise _Unfit(f"{word} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _marks(found: dict[str, Any], criteria: Sequence[RubricCriterion]) -> Marks:
    names = [criterion.name for criterion in criteria]
    if unknown := [name for name in found if name not in names]:
        raise _Unfit(f"{_name(unknown[0])} is no criterion; the criteria are {_names(names)}")
    if missing := [name for name in names if name not in found]:
        raise _Unfit(f"no score for {_names(missing)}")
    scores: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for criterion in criteria:
        given = found[criterion.name]
        scores[criterion.name] = _score(given, criterion)
        if (reason := given.get("reason")) is not None:
            reasons[criterion.name] = without_surrogates(reason)[0]
    return Marks(scores, reasons)


def _score(given: Any, criterion: RubricCriterion) -> float:
    name = _name(criterion.name)
    if not isinstance(given, dict):
        raise _Unfit(f"{name} is {_kind(given)}, not an object with `reason` and `score`")
    entry = cast("dict[str, Any]", given)
    if unknown := [key for key in entry if key not in ("reason", "score")]:
        raise _Unfit(f"{name} has {_name(unknown[0])} beside `reason` and `score`")
    if not isinstance(entry.get("reason"), str | None):
        raise _Unfit(f"the reason for {name} is {_kind(entry['reason'])}, not text")
    if "score" not in entry:
        raise _Unfit(f"{name} has no `score`")
    score = entry["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise _Unfit(f"the score for {name} is {_kind(score)}, not a number")
    if not criterion.min_score <= score <= criterion.max_score:
        number = repr(score) if isinstance(score, float) or abs(score) < 10**20 else "a huge number"
        raise _Unfit(
            f"the score for {name} is {number}, outside of "
            f"{criterion.min_score:g} to {criterion.max_score:g}"
        )
    # An integer that a float can't hold exactly may round to just outside of the range.
    return min(max(float(score), criterion.min_score), criterion.max_score) + 0.0


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return f"the text {_name(value)}"
        case list():
            return "a list"
        case dict():
            return "an object"
        case float() if not math.isfinite(value):
            return "a number that is too large"
        case _:
            return "a number"


def _name(text: str) -> str:
    return f'"{shown(text)}"'


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(_name, names))
