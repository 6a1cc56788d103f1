"""What hooks give, checked: numbers are finite, outputs complete, credits for what is there."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, cast

import msgspec

from ...events.values import without_surrogates
from ..authoring.verifiers import VerifierOutput
from ..authoring.views import Credit, UnknownEvent
from .faults import WrongValue, shown
from .protocol import CheckGiven

OUTPUT_LIMIT = 4 * 1024 * 1024
"""Bytes of JSON that a check or a hindsight may give."""

CREDITS_LIMIT = 100_000

_OUTPUT_KEYS = ("score", "scores", "evidence", "feedback")
_credits = msgspec.json.Decoder(list[Credit])


def number(value: Any, what: str, wanted: str = "a finite number") -> float:
    """A number as a float. Raises WrongValue for a truth value, for text, for what isn't finite."""
    kind = cast("type[object]", type(value))
    if kind is not float:
        truth = kind.__name__ in ("bool", "bool_")  # Python's, and those of arrays
        if truth or not hasattr(kind, "__float__"):
            hint = "; write float(…)" if truth else ""
            raise WrongValue(f"{what} is {shown(value)}; it must be {wanted}{hint}")
        try:
            value = float(value)
        except OverflowError:
            raise WrongValue(f"{what} is too large; it must be {wanted}") from None
    if not math.isfinite(value):
        raise WrongValue(f"{what} is {value}; it must be {wanted}")
    return value  # type: ignore[no-any-return]  # it is a float by now


def reward(value: Any) -> float | None:
    """What a reward hook gave. Raises WrongValue."""
    if value is None:
        return None
    plain(value, "reward")
    return number(value, "the reward", "a finite number or None")


def plain(value: Any, hook: str) -> None:
    """Raise WrongValue for what an asynchronous function gives."""
    if isawaitable(value):
        close: Callable[[], None] | None = getattr(value, "close", None)
        if close is not None:
            close()  # else it complains later that nobody awaited it
        raise WrongValue(f"the {hook} is asynchronous; it must be a plain function")


def output(value: Any) -> CheckGiven:
    """What a check gave: a VerifierOutput or a mapping of the same. Raises WrongValue."""
    plain(value, "check")
    if isinstance(value, VerifierOutput):
        fields: Mapping[Any, Any] = msgspec.structs.asdict(value)
    elif _is(value, Mapping):
        fields = value
    else:
        raise WrongValue(
            f"the check gave {shown(value)}; it must give a VerifierOutput, or a mapping with "
            "a score"
        )
    for key in fields:
        if key not in _OUTPUT_KEYS:
            near = difflib.get_close_matches(str(key), _OUTPUT_KEYS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise WrongValue(
                f"the check's output has {shown(key)}; it may have {', '.join(_OUTPUT_KEYS)}{hint}"
            )
    if "score" not in fields:
        raise WrongValue("the check's output has no score")
    return CheckGiven(
        score=number(fields["score"], "the score"),
        scores=_scores(fields.get("scores")),
        evidence=_evidence(fields.get("evidence")),
        feedback=_text(fields.get("feedback"), "feedback"),
    )


def _scores(value: Any) -> dict[str, float]:
    if value is None:
        return {}
    if not _is(value, Mapping):
        raise WrongValue(f"scores is {shown(value)}; it must be a mapping of names to numbers")
    found: dict[str, float] = {}
    for name, score in value.items():
        if not isinstance(name, str):
            raise WrongValue(f"scores has the name {shown(name)}; names are texts")
        found[without_surrogates(name)[0]] = number(score, f"the score {name!r}")
    return found


def _evidence(value: Any) -> list[str]:
    if value is None:
        return []
    if _is(value, (str, bytes)) or not _is(value, Sequence):
        raise WrongValue(f"evidence is {shown(value)}; it must be a list of texts")
    texts: list[str] = []
    for text in value:
        if not isinstance(text, str):
            raise WrongValue(f"evidence has {shown(text)}; it must be a list of texts")
        texts.append(without_surrogates(text)[0])
    return texts


def _text(value: Any, what: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise WrongValue(f"{what} is {shown(value)}; it must be a text")
    return without_surrogates(value)[0]


def credited(given: Any, known: Container[str]) -> bytes:
    """All credits of a hindsight, as JSON. Raises WrongValue, and whatever iterating raises."""
    plain(given, "hindsight")
    if not _is(given, Iterable):
        raise WrongValue(
            f"the hindsight gave {shown(given)}; it must yield credits, or give a list of them"
        )
    credits: list[Credit] = []
    for credit in given:
        try:
            credits.append(_credit(credit, known))
        except WrongValue as error:
            frame = getattr(given, "gi_frame", None)
            error.line = None if frame is None else frame.f_lineno
            raise
        if len(credits) > CREDITS_LIMIT:
            raise WrongValue(f"the hindsight gave more than {CREDITS_LIMIT:,} credits")
    encoded = fitting(credits, "hindsight")
    try:
        _credits.decode(encoded)
    except msgspec.ValidationError as error:
        raise WrongValue(f"a credit of the hindsight has a wrong field: {error}") from None
    return encoded


def _credit(value: Any, known: Container[str]) -> Credit:
    if not isinstance(value, Credit):
        raise WrongValue(
            f"the hindsight gave {shown(value)}; it must give what trial.credit() returns"
        )
    if not _is(value.event_id, str) or value.event_id not in known:  # a Credit made by hand
        raise WrongValue(str(UnknownEvent(str(value.event_id))))
    for first, last in ((value.start, value.end), (value.token_start, value.token_end)):
        if (first is None) != (last is None):
            raise WrongValue("a span needs both its ends: start and end, or token_start and _end")
        if first is not None and last is not None and not 0 <= first <= last:
            raise WrongValue(f"there is no span from {shown(first)} to {shown(last)}")
    return msgspec.structs.replace(value, value=number(value.value, "a credit's value"))


def _is(value: Any, kinds: Any) -> bool:
    """As isinstance, for values of which nothing more is known then either."""
    return isinstance(value, kinds)


def fitting(given: Any, hook: str) -> bytes:
    """What a hook gave, as JSON. Raises WrongValue for what isn't JSON data, or is too much."""
    try:
        encoded = msgspec.json.encode(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongValue(f"the {hook} gave what is no JSON data: {error}") from None
    if len(encoded) > OUTPUT_LIMIT:
        raise WrongValue(
            f"the {hook} gave {len(encoded):,} bytes; at most {OUTPUT_LIMIT:,} can be kept"
        )
    return encoded
