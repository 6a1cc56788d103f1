"""Values of TOML and YAML as plain JSON values, within limits."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from .words import Word

DEEPEST = 50
MOST = 100_000


class TooMuch(ValueError):
    """More values, or deeper ones, than a settings file has."""


def plain(value: Any, *, words: bool = False) -> Any:
    """A value as JSON can hold it: dates and what is no finite 64-bit number become text.

    YAML's aliases are written out, so a small text can be a large value: raises TooMuch when there
    are over 100,000 values or more than 50 levels. `words` keeps unquoted yes and no apart.
    """
    count = 0

    def convert(value: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if depth > DEEPEST:
            raise TooMuch(f"nested deeper than {DEEPEST} levels")
        if count > MOST:
            raise TooMuch(f"more than {MOST} values")
        match value:
            case None | bool():
                return value
            case Word():
                return value if words else str(value)
            case str():
                return _text(value)
            case int():
                return value if -(2**63) <= value < 2**63 else hex(value)
            case float():
                return value if math.isfinite(value) else str(value)
            case datetime.datetime() | datetime.date() | datetime.time():
                return value.isoformat()
            case dict():
                pairs = cast("Mapping[Any, Any]", value).items()
                return {_text(str(key)): convert(item, depth + 1) for key, item in pairs}
            case list() | tuple() | set():
                return [convert(item, depth + 1) for item in cast("Iterable[Any]", value)]
            case _:
                return str(value)

    return convert(value, 0)


def _text(text: str) -> str:
    """Text that UTF-8 can hold: YAML's escapes can make half a character."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
