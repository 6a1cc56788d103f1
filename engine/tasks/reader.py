"""Taking settings out of a table with type checks, and telling what was not taken."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from ..errors import TaskError
from .model import TaskWarning
from .words import Word

T = TypeVar("T")

_WORDS = {"yes": True, "on": True, "no": False, "off": False}


def describe(value: Any) -> str:
    """A value in a few words, for messages."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value[:60]!r}"
        case int() | float():
            return f"the number {str(value)[:60]}"
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


class Table:
    """One table of a settings file. What is taken from it is checked; the rest is known or not."""

    def __init__(
        self, file: Path, prefix: str, values: Mapping[str, Any], warnings: list[TaskWarning]
    ) -> None:
        self.file = file
        self.prefix = prefix
        self.warnings = warnings
        self._values = values
        self._asked: set[str] = set()

    def key(self, name: str) -> str:
        """A setting's whole name."""
        return f"{self.prefix}.{name}" if self.prefix else name

    def error(self, name: str, message: str) -> TaskError:
        """An error at one setting."""
        return TaskError(message, file=self.file, key=self.key(name))

    def warn(self, code: str, name: str, message: str) -> None:
        """A warning at one setting."""
        self.warnings.append(TaskWarning(code, f"{self.file.name}: {self.key(name)}: {message}"))

    def raw(self, name: str) -> Any:
        """A setting as it stands; None when it is not there."""
        self._asked.add(name)
        return self._values.get(name)

    def has(self, name: str) -> bool:
        """Whether it is there and not null."""
        return self._values.get(name) is not None

    def take(self, name: str, expected: str, convert: Callable[[Any], T | None]) -> T | None:
        """A setting, or None when it is not there; `convert` gives None for a wrong one."""
        value = self.raw(name)
        if value is None:
            return None
        result = convert(value)
        if result is None:
            raise self.error(name, f"expected {expected}, found {describe(value)}")
        return result

    def text(self, name: str) -> str | None:
        """Text with something in it."""
        return self.take(name, "text (put it in quotes)", as_text)

    def boolean(self, name: str) -> bool | None:
        """true or false."""
        return self.take(name, "true or false", as_bool)

    def seconds(self, name: str) -> float | None:
        """A number of seconds."""
        return self.take(name, "a number of seconds above 0", as_positive)

    def positive(self, name: str) -> float | None:
        """A number above 0."""
        return self.take(name, "a number above 0", as_positive)

    def whole(self, name: str) -> int | None:
        """A whole number above 0."""
        return self.take(name, "a whole number above 0", as_whole)

    def choice(self, name: str, words: Iterable[str]) -> str | None:
        """One of some words."""
        known = tuple(words)
        expected = "one of " + ", ".join(known)
        return self.take(name, expected, lambda v: v if v in known else None)

    def table(self, name: str) -> Table:
        """A table within; an empty one when it is not there."""
        value = self.take(name, "a table", as_table)
        return Table(self.file, self.key(name), value or {}, self.warnings)

    def strings(self, name: str) -> list[str] | None:
        """A list of texts."""
        return self.take(name, "a list of texts", as_strings)

    def env(self, name: str) -> dict[str, str]:
        """A table of environment variables."""
        inner = self.table(name)
        found: dict[str, str] = {}
        for variable, value in inner.items():
            if not variable or "=" in variable or "\0" in variable:
                raise inner.error(
                    variable,
                    "no name of an environment variable: one has a character or more, and no = "
                    "among them",
                )
            if not isinstance(value, str):
                raise inner.error(
                    variable, f"expected text, found {describe(value)}; put it in quotes"
                )
            if "\0" in value:
                raise inner.error(variable, "a variable can't hold a NUL character")
            found[variable] = str(value)
        return found

    def items(self) -> Iterable[tuple[str, Any]]:
        """All settings of the table, which are all known by that."""
        self._asked.update(self._values)
        return self._values.items()

    def peek(self) -> Mapping[str, Any]:
        """All settings of the table, without a claim to know them."""
        return self._values

    def known(self, *names: str) -> None:
        """Settings that are kept and ask for nothing."""
        self._asked.update(names)

    def finish(self) -> None:
        """Warn of every setting that nobody asked for, with the nearest known name."""
        for name in self._values:
            if name not in self._asked:
                near = difflib.get_close_matches(name, sorted(self._asked), n=1)
                hint = f"; did you mean {self.key(near[0])}?" if near else ""
                self.warn("task_setting_unknown", name, f"not a known setting, ignored{hint}")


def as_text(value: Any) -> str | None:
    """Text with something in it and no NUL."""
    return value if isinstance(value, str) and value.strip() and "\0" not in value else None


def as_bool(value: Any) -> bool | None:
    """True or false; also YAML's unquoted yes, no, on and off."""
    if isinstance(value, Word):
        return _WORDS[value.lower()]
    return value if isinstance(value, bool) else None


def as_number(value: Any) -> float | None:
    """A finite number that is no boolean."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_positive(value: Any) -> float | None:
    """A finite number above 0."""
    number = as_number(value)
    return number if number is not None and number > 0 else None


def as_whole(value: Any) -> int | None:
    """A whole number above 0, also when it is written as 2048.0."""
    number = as_positive(value)
    return int(number) if number is not None and number.is_integer() and number < 2**53 else None


def as_table(value: Any) -> dict[str, Any] | None:
    """A table."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Any] | None:
    """A list."""
    return list(cast("Sequence[Any]", value)) if isinstance(value, list) else None


def as_strings(value: Any) -> list[str] | None:
    """A list of texts."""
    items = as_list(value)
    if items is None or any(as_text(item) is None for item in items):
        return None
    return [str(item) for item in items]
