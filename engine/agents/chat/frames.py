"""What the shell's driver prints: the commands' own output, and frames that only the engine knows.

A frame is a line of its own: the call's random word, `begun` or `ended`, and a number. Pure.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

_DIGITS = 10
_LONGEST = 64
"""Bytes of a frame's line behind the word; what is longer is output."""


class Frame(msgspec.Struct, frozen=True):
    """A command began, with this process id, or ended, with this exit code."""

    what: Literal["begun", "ended"]
    number: int


Piece: TypeAlias = bytes | Frame


class FrameReader:
    """Tells frames of the current call from output, piece by piece."""

    def __init__(self) -> None:
        self._held = b""
        self._mark: bytes | None = None

    def expect(self, word: str) -> None:
        """From here on, this word makes a frame."""
        self._mark = f"\n{word} ".encode()

    def feed(self, data: bytes) -> list[Piece]:
        """What these bytes complete."""
        data = self._held + data
        self._held = b""
        pieces: list[Piece] = []
        while data:
            mark = self._mark
            at = -1 if mark is None else data.find(mark)
            if mark is None or at < 0:
                whole = len(data) - (0 if mark is None else _begun_mark(data, mark))
                pieces.append(data[:whole])
                self._held = data[whole:]
                break
            end = data.find(b"\n", at + len(mark))
            if end < 0 and len(data) - at - len(mark) <= _LONGEST:
                pieces.append(data[:at])
                self._held = data[at:]
                break
            frame = _frame(data[at + len(mark) : end]) if end >= 0 else None
            if frame is None:
                pieces.append(data[: at + 1])
                data = data[at + 1 :]
                continue
            pieces += [data[:at], frame]
            data = data[end + 1 :]
        return [piece for piece in pieces if piece != b""]

    def finish(self) -> bytes:
        """There is no more: what was held back."""
        held, self._held = self._held, b""
        return held


def _begun_mark(data: bytes, mark: bytes) -> int:
    """How many bytes at the end may be the beginning of a mark."""
    for length in range(min(len(mark) - 1, len(data)), 0, -1):
        if data.endswith(mark[:length]):
            return length
    return 0


def _frame(words: bytes) -> Frame | None:
    what, _, number = words.partition(b" ")
    if not number.isdigit() or len(number) > _DIGITS:
        return None
    match what:
        case b"begun":
            return Frame("begun", int(number))
        case b"ended":
            return Frame("ended", int(number))
        case _:
            return None
