"""Taking values out of a manifest, and noting every fault instead of stopping at the first."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import TaskError
from ..tasks.files import Bounds, read_text
from ..tasks.plain import TooMuch, plain
from ..tasks.reader import as_list, as_number, as_positive, as_table, as_text, as_whole, describe
from ..tasks.words import YamlError
from .faults import Fault

if TYPE_CHECKING:
    from ..tasks.yaml12 import YamlText

T = TypeVar("T")


class Faults:
    """Where faults are collected."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, file: Path, line: int, message: str) -> None:
        """Note one."""
        self.found.append(Fault(file=str(file), line=line, message=message))


class Fields:
    """A mapping of a manifest. What is taken from it is checked; what nobody takes is unknown."""

    def __init__(
        self,
        file: Path,
        text: YamlText,
        values: dict[str, Any],
        faults: Faults,
        path: tuple[str | int, ...] = (),
        lines: dict[str, int] | None = None,
    ) -> None:
        self.file = file
        self.faults = faults
        self._text = text
        self._values = values
        self._path = path
        self._asked: list[str] = []
        self.lines: dict[str, int] = {} if lines is None else lines
        """The line of each key that is there."""
        for name in values:
            self.lines[self._key(name)] = self.line(name)

    def _key(self, *path: str | int) -> str:
        steps = (*self._path, *path)
        return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).removeprefix(".")

    def line(self, *path: str | int) -> int:
        """The line of one of its values."""
        return self._text.line(*self._path, *path)

    def fault(self, message: str, *path: str | int) -> None:
        """Note a fault at one of its values; without a path, at the mapping itself."""
        key = self._key(*path)
        self.faults.add(self.file, self.line(*path), f"{key}: {message}" if key else message)

    def names(self) -> list[str]:
        """Every key that is there."""
        return list(self._values)

    def has(self, name: str) -> bool:
        """Whether it is there and not null."""
        return self._values.get(name) is not None

    def raw(self, name: str) -> Any:
        """A value as it stands; null where there is none."""
        self._asked.append(name)
        return self._values.get(name)

    def take(self, name: str, expected: str, convert: Callable[[Any], T | None]) -> T | None:
        """A value; null where there is none, and where it is a wrong one, which is noted."""
        value = self.raw(name)
        if value is None:
            return None
        result = convert(value)
        if result is None:
            self.fault(f"expected {expected}, found {describe(value)}", name)
        return result

    def text(self, name: str, expected: str = "text (put it in quotes)") -> str | None:
        """Text with something in it."""
        found = self.take(name, expected, as_text)
        return None if found is None else str(found)

    def required(self, name: str, why: str) -> str | None:
        """Text that must be there."""
        if not self.has(name) and name not in self._asked:
            self._asked.append(name)
            self.fault(f"the key {name!r} is missing; {why}")
            return None
        return self.text(name)

    def choice(self, name: str, words: Sequence[str]) -> str | None:
        """One of some words."""
        return self.take(
            name, "one of " + ", ".join(words), lambda value: value if value in words else None
        )

    def positive(self, name: str) -> float | None:
        """A number above 0."""
        return self.take(name, "a number above 0", as_positive)

    def number(self, name: str) -> float | None:
        """A finite number."""
        return self.take(name, "a number", as_number)

    def whole(self, name: str) -> int | None:
        """A whole number above 0."""
        return self.take(name, "a whole number above 0", as_whole)

    def boolean(self, name: str) -> bool | None:
        """true or false."""
        return self.take(
            name, "true or false", lambda value: value if isinstance(value, bool) else None
        )

    def mapping(self, name: str) -> dict[str, Any] | None:
        """A mapping of anything."""
        found = self.take(name, "a mapping", as_table)
        return None if found is None else cast("dict[str, Any]", plain(found))

    def anything(self, name: str) -> Any:
        """Any value."""
        return plain(self.raw(name))

    def words(self, name: str) -> list[tuple[int, str]]:
        """A list of texts, each with its index; wrong ones are noted and left out."""
        found: list[tuple[int, str]] = []
        for index, item in enumerate(self.take(name, "a list", as_list) or ()):
            self.lines[self._key(name, index)] = self.line(name, index)
            if as_text(item) is None:
                self.fault(f"expected text, found {describe(item)}", name, index)
            else:
                found.append((index, str(item)))
        return found

    def fields(self, name: str) -> list[Fields]:
        """A list of mappings; wrong ones are noted and left out."""
        found: list[Fields] = []
        for index, item in enumerate(self.take(name, "a list", as_list) or ()):
            values = as_table(item)
            if values is None:
                self.fault(f"expected a mapping, found {describe(item)}", name, index)
                continue
            path = (*self._path, name, index)
            found.append(Fields(self.file, self._text, values, self.faults, path, self.lines))
        return found

    def below(self, name: str) -> Fields:
        """A mapping within, which must be one."""
        values = as_table(self.raw(name))
        assert values is not None
        path = (*self._path, name)
        return Fields(self.file, self._text, values, self.faults, path, self.lines)

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Note each of these that is there: known, but not here."""
        for name in names:
            if self.raw(name) is not None:
                self.fault(why, name)

    def finish(self) -> None:
        """Note each key that nobody asked for, with the nearest known one."""
        for name in self._values:
            if name not in self._asked:
                self.fault(f"unknown key; {nearest(name, self._asked)}", name)


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean …?``, or all that is known."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word, names, n=1) or difflib.get_close_matches(
        word.lower(), names, n=1, cutoff=0.5
    )
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(names)}" if names else "there are none"


def read_fields(file: Path, root: Path, faults: Faults) -> Fields | None:
    """A manifest's mapping; null, and the fault noted, where there is none to read."""
    from ..tasks.yaml12 import read_yaml  # slow to import, and tasks alone have no manifests

    try:
        text = read_yaml(read_text(file, Bounds(root, root), what=file.name))
        value = plain(text.value, words=True)
    except TaskError as error:
        faults.add(file, 1, str(error).removeprefix(f"{error.file}: "))
        return None
    except YamlError as error:
        faults.add(file, error.line or 1, f"no valid YAML: {error}")
        return None
    except TooMuch as error:
        faults.add(file, 1, f"can't be used: {error}")
        return None
    values = {} if value is None else as_table(value)
    if values is None:
        faults.add(file, text.line(), f"expected keys and values, found {describe(value)}")
        return None
    return Fields(file, text, values, faults)
