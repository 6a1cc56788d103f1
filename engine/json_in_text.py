"""The one JSON object in what a model wrote: alone, in a fence, or in prose.

Whatever could be read in two ways is not read at all. This module is also copied into reviewers'
sandboxes, so it uses the standard library alone and nothing newer than Python 3.8.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

SHOWN = 80
"""Characters of a word of the text's that a message repeats."""

_THOUGHT = ("<think>", "</think>")


class Unfit(Exception):
    """Why a text can't be used."""

    def __init__(self, message: str, told: str | None = None) -> None:
        self.told = told or message
        """The same without a word of the text's own, for telling it to whoever wrote that."""
        super().__init__(message)


def only_object(text: str, what: str = "the reply") -> dict[str, Any]:
    """The one object of a text; twice the same is one. Raises Unfit, RecursionError."""
    text = _without_thought(text.strip().lstrip("\ufeff").strip(), what)
    if not text:
        raise Unfit(f"{what} is empty")
    whole = _whole(text)
    if isinstance(whole, dict):
        return cast("dict[str, Any]", whole)
    if whole is not None:
        raise Unfit(f"{what} is {_kind(whole)}, not a JSON object")
    found = _objects(text, what)
    if not found:
        raise Unfit(f"{what} has no JSON object")
    if len({json.dumps(one, sort_keys=True) for one in found}) > 1:
        raise Unfit(f"{what} has several JSON objects that differ")
    return found[0]


def named(text: str) -> str:
    """A text's own word as a message repeats it: quoted, on one line, and cut when it is long."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: SHOWN + 1])
    return f'"{line}"' if len(text) <= SHOWN else f'"{line[:SHOWN]}…"'


def _without_thought(text: str, what: str) -> str:
    """The text without the thoughts that some models put before it in tags."""
    begin, end = _THOUGHT
    if not text.startswith(begin):
        return text
    _, found, rest = text.partition(end)
    if not found:
        raise Unfit(f"{what} is cut off: {begin} without {end}")
    return rest.strip()


def _whole(text: str) -> Any:
    """The text's value where it is JSON and nothing else; None where it isn't (or is null)."""
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return None
    return value if end == len(text) else None


def _objects(text: str, what: str) -> list[dict[str, Any]]:
    """Every object in prose. A brace that is no object's makes it anyone's guess what is meant."""
    found: list[dict[str, Any]] = []
    place = 0
    while (start := text.find("{", place)) >= 0:
        if "}" in text[place:start]:
            raise Unfit(f"{what} has braces that are no JSON object")
        try:
            value, place = _DECODER.raw_decode(text, start)
        except ValueError as error:
            raise Unfit(f"{what} has braces that are no JSON object: {error}") from None
        found.append(value)
    if "}" in text[place:]:
        raise Unfit(f"{what} has braces that are no JSON object")
    return found


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    return (
        "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "a number"
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unfit(f"key {named(twice)} is given twice", "a key is given twice")
    return made


def _no_constant(word: str) -> NoReturn:
    raise Unfit(f"{word} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
