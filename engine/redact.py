"""Secrets: found by their values and replaced by ``[redacted:NAME]``.

A secret is looked for as it is, as a JSON string would write it, and as one would that quotes such
JSON, as models' tool calls do. Where secrets overlap, all of their bytes go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, cast

import msgspec

SHORTEST = 8
"""Characters; a shorter value stands for too much that is no secret, and is not redacted."""

QUOTED = 2
"""How often JSON may quote JSON in a text."""


class Redactor:
    """Replaces the values of secrets (name → value)."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.too_short = sorted(n for n, value in secrets.items() if 0 < len(value) < SHORTEST)
        """Names of the secrets that are not redacted; the caller warns."""
        names = {
            value.encode("utf-8", "surrogatepass"): name
            for name, value in reversed(list(secrets.items()))
            if len(value) >= SHORTEST
        }
        for _ in range(QUOTED):
            names = _quoted(names)
        self._needles = _Needles(names)
        self._within_json = _Needles(_quoted(names))

    @property
    def empty(self) -> bool:
        """There is nothing to redact."""
        return not self._needles.names

    @property
    def longest(self) -> int:
        """Bytes of the longest form of a secret."""
        return self._needles.longest

    def finds(self, data: bytes) -> bool:
        """Whether a secret is in there."""
        pattern = self._needles.pattern
        return pattern is not None and pattern.search(data) is not None

    def finds_in_json(self, data: bytes) -> bool:
        """Whether a string within this JSON holds a secret."""
        pattern = self._within_json.pattern
        return pattern is not None and pattern.search(data) is not None

    def redact(self, data: bytes) -> bytes:
        """The bytes without the secrets."""
        return self._needles.replace(data, len(data), 0, set()).text if self.finds(data) else data

    def stored(self, data: bytes) -> bytes:
        """The bytes, which may be JSON whose strings are such texts, without the secrets."""
        if not self.finds_in_json(data):
            return data
        found = self._within_json.replace(data, len(data), 0, set()).text
        try:
            value = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return found
        try:
            msgspec.json.decode(found)
        except msgspec.DecodeError:  # a secret had begun within an escape, as in \\u0041
            return msgspec.json.encode(self.value(value))
        return found

    def text(self, text: str) -> str:
        """The text without the secrets."""
        data = text.encode("utf-8", "surrogatepass")
        if not self.finds(data):
            return text
        return self.redact(data).decode("utf-8", "surrogatepass")

    def value(self, value: object) -> object:
        """A JSON value without the secrets in its strings and keys, at any depth."""
        match value:
            case str():
                return self.text(value)
            case dict():
                items = cast("dict[object, object]", value)
                return {self.value(key): self.value(item) for key, item in items.items()}
            case list():
                return [self.value(item) for item in cast("list[object]", value)]
            case _:
                return value

    def stream(self) -> RedactingStream:
        """A redactor of bytes that come in pieces."""
        return RedactingStream(self._needles)


class RedactingStream:
    """Redacts bytes that come in pieces, as if they had come at once.

    It holds back only an end that could be a secret's beginning: fewer bytes than the longest has.
    """

    def __init__(self, needles: _Needles) -> None:
        self._needles = needles
        self._held = b""
        self._covered = 0
        self._names: set[str] = set()

    def feed(self, data: bytes) -> bytes:
        """Add bytes; what can be told is given back."""
        data = self._held + data
        return self._take(data, self._needles.safe_length(data))

    def finish(self) -> bytes:
        """What was still held."""
        return self._take(self._held, len(self._held))

    def _take(self, data: bytes, safe: int) -> bytes:
        if self._needles.pattern is None:
            return data
        result = self._needles.replace(data, safe, self._covered, self._names)
        self._held = data[safe:]
        self._covered = result.end - safe if result.end > safe else 0
        self._names = result.names
        return result.text


class _Replaced(NamedTuple):
    text: bytes
    end: int
    """Where the last secret ended."""
    names: set[str]
    """Of the secrets in the last stretch that was replaced."""


class _Needles:
    """Byte strings to replace, with their names."""

    def __init__(self, names: Mapping[bytes, str]) -> None:
        self.names = names
        self.longest = max((len(value) for value in names), default=0)
        ordered = sorted(names, key=lambda value: (-len(value), value))
        self.pattern = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None

    def safe_length(self, data: bytes) -> int:
        """Bytes before the first place where a secret may have begun that isn't whole yet."""
        safe = len(data)
        for value in self.names:
            first = value[:1]
            at = data.find(first, max(0, len(data) - len(value) + 1))
            while 0 <= at < safe:
                if value.startswith(data[at:]):
                    safe = at
                    break
                at = data.find(first, at + 1)
        return safe

    def replace(self, data: bytes, safe: int, covered: int, names: set[str]) -> _Replaced:
        """Replace every secret that begins before `safe`; the first `covered` bytes are gone.

        `names` are those that were written already for the stretch that covers them.
        """
        pattern = self.pattern
        assert pattern is not None
        parts: list[bytes] = []
        end = covered
        hit = pattern.search(data)
        while hit is not None and hit.start() < safe:
            name = self.names[hit.group()]
            if hit.start() >= end:
                parts.append(data[end : hit.start()])
                names = set()
            if hit.end() > end:
                if name not in names:
                    parts.append(b"[redacted:%s]" % name.encode())
                    names = names | {name}
                end = hit.end()
            hit = pattern.search(data, hit.start() + 1)
        if end < safe:
            parts.append(data[end:safe])
        return _Replaced(b"".join(parts), end, names)


def _quoted(names: Mapping[bytes, str]) -> dict[bytes, str]:
    """The same values, and each as JSON strings write it: plain, in ASCII, with escaped slashes."""
    found = dict(names)
    for value, name in names.items():
        text = value.decode("utf-8", "surrogatepass")
        for ascii_only in (False, True):
            quoted = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            for form in (quoted, quoted.replace("/", "\\/")):
                found.setdefault(form.encode("utf-8", "surrogatepass"), name)
    return found
