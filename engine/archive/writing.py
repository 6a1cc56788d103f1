"""The writer that every archive goes through: fixed format, fixed compression, a cap."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import anyio.from_thread
import zstandard

from ...events.kinds.parts import SkippedPath
from ..sandbox.protocol import Tree, TreeTooLarge
from .headers import BLOCK, FILE, Entry, header

LEVEL = 3
"""zstd's level; together with one thread it fixes the bytes."""

CHUNK = 256 * 1024
HEADER_FLOOR = 64 * 1024 * 1024
"""Headers may always take so many bytes, however small the cap on contents."""

MOST_SKIPPED = 1000
"""Paths that are listed singly; the rest is counted in one last entry."""


class Skips:
    """Paths that were not kept; a bounded list."""

    def __init__(self) -> None:
        self._paths: list[SkippedPath] = []
        self._more = 0

    def add(self, path: bytes, reason: str, target: bytes | None = None) -> None:
        """Note a path."""
        if len(self._paths) >= MOST_SKIPPED:
            self._more += 1
            return
        to = None if target is None else target.decode("utf-8", "replace")
        name = path.decode("utf-8", "replace") or "."
        self._paths.append(SkippedPath(path=name, reason=reason, target=to))

    def listed(self) -> list[SkippedPath]:
        """What was noted."""
        if not self._more:
            return self._paths
        return [*self._paths, SkippedPath(path="…", reason=f"and {self._more} more paths")]


class Writer:
    """Writes entries in the order they come; a failure leaves no file behind."""

    def __init__(self, destination: Path, cap: int) -> None:
        self._destination = destination
        self._cap = cap
        self._headers = 0
        self._written = 0
        self.size = 0
        self.files = 0
        self.skips = Skips()
        self.check = cancellation_check()

    def __enter__(self) -> Writer:
        self._file = open(self._destination, "xb")
        compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self._stream = compressor.stream_writer(self._file, closefd=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        complete = False
        try:
            if error is None:
                self._stream.write(bytes(2 * BLOCK))
                self._stream.flush(zstandard.FLUSH_FRAME)
                complete = True
        finally:
            self._file.close()
            if not complete:
                self._destination.unlink(missing_ok=True)

    def claim(self, size: int) -> None:
        """Count a file's bytes before they are read. Raises TreeTooLarge."""
        self.size += size
        if self.size > self._cap:
            raise TreeTooLarge(self._cap)

    def entry(self, entry: Entry) -> None:
        """Write a header; a file's bytes follow it through `content`."""
        data = header(entry)
        self._headers += len(data)
        if self._headers > max(self._cap, HEADER_FLOOR):
            raise TreeTooLarge(self._cap)
        if entry.kind == FILE:
            self.files += 1
        self._stream.write(data)
        self.check()

    def content(self, data: bytes) -> None:
        """Write some of a file's bytes."""
        self._stream.write(data)
        if len(data) >= CHUNK:
            self.check()

    def end_content(self, size: int) -> None:
        """Fill up the last block of a file of `size` bytes."""
        if size % BLOCK:
            self._stream.write(bytes(-size % BLOCK))

    def tree(self) -> Tree:
        """What was written."""
        return Tree(size=self.size, files=self.files, skipped=self.skips.listed())


def cancellation_check() -> Callable[[], None]:
    """Raises in a worker thread when the task that waits for it was cancelled."""
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:  # not a worker thread of anyio's
        return lambda: None
    return anyio.from_thread.check_cancelled


def read_exactly(fd: int, size: int) -> bytes:
    """Up to `size` bytes; fewer only at the file's end."""
    data = os.read(fd, size)
    if len(data) == size:
        return data
    parts = [data]
    left = size - len(data)
    while data and left:
        data = os.read(fd, left)
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
