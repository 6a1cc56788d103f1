"""JSON of other systems' records, taken key by key. What nobody takes is kept as it is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from ...events.clock import format_time
from ..errors import ConfigError
from ..tasks.reader import describe

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63


class RecordsError(ConfigError):
    """A record of another system's is not as that system writes it."""


def parse(data: bytes, file: str) -> Any:
    """The JSON in a file. NaN and what no event can hold become text. Raises RecordsError."""
    try:
        return plain(json.loads(data.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        raise RecordsError(f"no JSON: {str(error)[:200]}", file=file) from None


def parse_object(data: bytes, file: str) -> Fields:
    """The JSON object in a file. Raises RecordsError."""
    return Fields.of(parse(data, file), file, "")


def plain(value: Any) -> Any:
    """A value as events can hold it: numbers beyond JSON's own, and NaN, as their text."""
    match value:
        case dict():
            return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
        case list():
            return [plain(item) for item in cast("Sequence[Any]", value)]
        case float() if not math.isfinite(value):
            return str(value)
        case int() if not -_LARGEST <= value < 2 * _LARGEST:
            return str(value)
        case _:
            return value


class Fields:
    """A JSON object of a record. What is taken from it is checked; `rest` is what was not."""

    def __init__(self, file: str, prefix: str, values: Mapping[str, Any]) -> None:
        self.file = file
        self.prefix = prefix
        self.values = values
        self._taken: set[str] = set()

    @classmethod
    def of(cls, value: Any, file: str, key: str) -> Fields:
        """A value that must be an object. Raises RecordsError."""
        if not isinstance(value, dict):
            raise RecordsError(
                f"expected an object, found {describe(value)}", file=file, key=key or None
            )
        return cls(file, key, cast("dict[str, Any]", value))

    def error(self, name: str, message: str) -> RecordsError:
        """An error at one key."""
        return RecordsError(message, file=self.file, key=self._key(name))

    def raw(self, name: str) -> Any:
        """A value as it stands; None where it is not there."""
        self._taken.add(name)
        return self.values.get(name)

    def text(self, name: str) -> str | None:
        """Text, or None."""
        return self._take(name, "text", lambda v: v if isinstance(v, str) else None)

    def needed(self, name: str) -> str:
        """Text that must be there."""
        found = self.text(name)
        if not found:
            raise self.error(name, "expected text, found " + ("none" if found is None else "''"))
        return found

    def number(self, name: str) -> float | None:
        """A finite number, or None."""
        return self._take(name, "a number", finite)

    def whole(self, name: str) -> int | None:
        """A whole number, or None."""
        return self._take(name, "a whole number", _whole)

    def truth(self, name: str) -> bool | None:
        """true, false, or None."""
        return self._take(name, "true or false", lambda v: v if isinstance(v, bool) else None)

    def time(self, name: str) -> str | None:
        """A time as events have it, or None. One without a zone is taken as UTC."""
        return self._take(name, "a time", as_time)

    def table(self, name: str) -> Fields:
        """An object; an empty one where there is none."""
        value = self.raw(name)
        return Fields.of({} if value is None else value, self.file, self._key(name))

    def tables(self, name: str) -> list[Fields]:
        """A list of objects; an empty one where there is none."""
        return [
            Fields.of(item, self.file, f"{self._key(name)}[{place}]")
            for place, item in enumerate(self.items(name))
        ]

    def items(self, name: str) -> list[Any]:
        """A list; an empty one where there is none."""
        found = self._take(name, "a list", lambda v: cast("Any", v) if type(v) is list else None)
        return found or []

    def rest(self) -> dict[str, Any] | None:
        """What was not taken; None where there is nothing. Nulls say nothing and are left out."""
        left = {k: v for k, v in self.values.items() if k not in self._taken and v is not None}
        return left or None

    def _key(self, name: str) -> str:
        return f"{self.prefix}.{name}" if self.prefix else name

    def _take(self, name: str, expected: str, convert: Callable[[Any], T | None]) -> T | None:
        value = self.raw(name)
        if value is None:
            return None
        found = convert(value)
        if found is None:
            raise self.error(name, f"expected {expected}, found {describe(value)}")
        return found


def finite(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_time(value: Any) -> str | None:
    """A time as events have it: of ISO 8601, or of seconds since 1970; None for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            return format_time((moment - _EPOCH) // timedelta(microseconds=1))
        seconds = finite(value)
        return None if seconds is None else format_time(round(seconds * 1_000_000))
    except (ValueError, OverflowError, OSError):
        return None


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from one time to another; None where one is not known, or they are turned round."""
    if start is None or end is None or end < start:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)) / timedelta(seconds=1)
