"""The bytes of a document: strict JSON, always the same for the same values.

UTF-8, keys in the order of the struct's fields, two spaces of indent (or one line an object), a
final newline. Floats have msgspec's shortest style: ``1.0``, ``1e-7``, ``1e22``. JSON has no word
for NaN or infinity, and no event can bring one; a sum too large for a float is null.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from fractions import Fraction

import msgspec

_encoder = msgspec.json.Encoder()


def document(value: msgspec.Struct) -> bytes:
    """A document: indented, with a final newline."""
    return msgspec.json.format(_encoder.encode(value), indent=2) + b"\n"


def line(value: msgspec.Struct) -> bytes:
    """One line of a ``.jsonl`` file."""
    return _encoder.encode(value) + b"\n"


def compact(value: object) -> bytes:
    """A value as JSON on one line, without a newline."""
    return _encoder.encode(value)


def seconds(value: float | None) -> float | None:
    """A duration, rounded to microseconds."""
    return None if value is None else round(value, 6)


def known_seconds(value: float, untimed: bool) -> float | None:
    """An event's duration, null where the event says that it is not known."""
    return None if untimed else seconds(value)


def total(values: Iterable[float]) -> float | None:
    """The exactly rounded sum; null when no float can hold it.

    Plain sums depend on the order of the addends and differ between versions of Python.
    """
    known = array("d", values)  # a quarter of a list's size
    try:
        return math.fsum(known)
    except OverflowError:  # perhaps only on the way, which depends on the order
        try:
            return float(exact(known))
        except OverflowError:
            return None


def exact(values: Iterable[float]) -> Fraction:
    """The sum itself."""
    return sum(map(Fraction, values), Fraction())


def total_seconds(values: Iterable[float]) -> float | None:
    """The sum of durations, rounded to microseconds; null when there are none."""
    known = list(values)
    return seconds(total(known)) if known else None
