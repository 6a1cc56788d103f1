"""Memory that the engine and a hook process share.

The process notes here which call it is in, since when, and what earlier ones gave. So the engine
sees a call that takes too long without being told, and loses nothing when the process dies.
"""

from __future__ import annotations

import mmap
import os
from typing import NamedTuple

_HEADER = 64
OUTBOX = 512 * 1024
TRACE = 64 * 1024
SIZE = _HEADER + OUTBOX + TRACE

LOADING = 1 << 32
"""Added to a source's number: it is being loaded; no call has begun."""

_SEQ, _INDEX, _SINCE, _SKIP, _LENGTH = range(5)


class Current(NamedTuple):
    """The call that a process is in; `seq` 0: none."""

    seq: int
    place: int
    """The call's number in its work; or LOADING and its source's."""
    since: int
    """Nanoseconds of the monotonic clock."""


class Page:
    """The shared memory, from either side."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, SIZE)
        self._words = memoryview(self._map)[:_HEADER].cast("Q")

    @staticmethod
    def make() -> int:
        """A descriptor of new shared memory, to be handed to the process."""
        fd = os.memfd_create("trialog-hooks", os.MFD_CLOEXEC)
        os.ftruncate(fd, SIZE)
        os.lseek(fd, _HEADER + OUTBOX, os.SEEK_SET)  # where faulthandler will write
        return fd

    def begin(self, seq: int, index: int, now: int) -> None:
        """For the process: this call begins."""
        words = self._words
        words[_INDEX] = index
        words[_SINCE] = now
        words[_SEQ] = seq

    def end(self) -> None:
        """For the process: no call is going on."""
        self._words[_SEQ] = 0

    @property
    def current(self) -> Current:
        """What the process is at."""
        words = self._words
        while True:
            seen = Current(words[_SEQ], words[_INDEX], words[_SINCE])
            if seen == (words[_SEQ], words[_INDEX], words[_SINCE]):
                return seen

    @property
    def skip(self) -> int:
        """Works up to this number are begun no more: others have them now."""
        return self._words[_SKIP]

    @skip.setter
    def skip(self, seq: int) -> None:
        self._words[_SKIP] = seq

    def put(self, frame: bytes) -> bool:
        """For the process: keep a frame until it is sent. False where there is no room."""
        length = self._words[_LENGTH]
        if length + len(frame) > OUTBOX:
            return False
        at = _HEADER + length
        self._map[at : at + len(frame)] = frame
        self._words[_LENGTH] = length + len(frame)
        return True

    @property
    def kept(self) -> bytes:
        """The frames that are not sent yet."""
        return self._map[_HEADER : _HEADER + min(self._words[_LENGTH], OUTBOX)]

    def sent(self) -> None:
        """For the process: what was kept is sent."""
        self._words[_LENGTH] = 0

    @property
    def trace(self) -> str:
        """What faulthandler wrote when it was asked, or when the process crashed."""
        raw = self._map[_HEADER + OUTBOX :]
        return raw.rstrip(b"\0").decode("utf-8", "replace")

    def close(self) -> None:
        """Give the memory back."""
        self._words.release()
        self._map.close()
