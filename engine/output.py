"""What a command prints: head and tail of it, its length and its hash, in memory that is flat."""

from __future__ import annotations

import codecs
import hashlib
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from ..events.kinds.parts import Output
from ..events.log import BlobStore
from .redact import Redactor

LIMIT = 16 * 1024 * 1024
"""Bytes of output that are kept."""

_MARK = b"[redacted:"
_LONGEST_MARK = 1024


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """Output that is complete."""

    data: bytes
    """All of it, or head and tail with a line between them that counts what was cut."""
    total: int
    """Bytes, after redaction."""
    sha256: str
    """Hex, of all of it after redaction."""
    truncated: bool
    invalid_utf8: bool


class OutputCapture:
    """Takes output piece by piece, on the event loop.

    With `spool`, what is printed can also be read from that file while it comes, redacted, up to
    `limit` bytes.
    """

    def __init__(
        self,
        limit: int = LIMIT,
        *,
        redactor: Redactor | None = None,
        spool: Path | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._half = limit // 2
        self._limit = limit
        self._redacted = redactor is not None and not redactor.empty
        self._stream = redactor.stream() if redactor is not None and self._redacted else None
        self._spool = None if spool is None else _Spool(spool, limit)
        self._monotonic = monotonic
        self._head = bytearray()
        self._tail = bytearray()
        self._hash = hashlib.sha256()
        self._decoder: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
        self.total = 0
        """Bytes so far, after redaction."""
        self.last_at = monotonic()
        """When output came last, or the capture began; seconds of the monotonic clock."""

    def feed(self, data: bytes) -> None:
        """Take output."""
        self.last_at = self._monotonic()
        self._keep(data if self._stream is None else self._stream.feed(data))

    def finish(self) -> Captured:
        """The output is complete; call once."""
        if self._stream is not None:
            self._keep(self._stream.finish())
        if self._spool is not None:
            self._spool.close()
        self._check_utf8(b"", final=True)
        truncated = self.total > self._limit
        return Captured(
            data=self._cut() if truncated else bytes(self._head + self._tail),
            total=self.total,
            sha256=self._hash.hexdigest(),
            truncated=truncated,
            invalid_utf8=self._decoder is None,
        )

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self.total += len(data)
        self._hash.update(data)
        self._check_utf8(data)
        if self._spool is not None:
            self._spool.write(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # More than the tail is kept, so that the cut can see what it would split.
        spare = len(self._tail) - (self._limit - self._half) - _LONGEST_MARK
        if spare > 0:
            del self._tail[:spare]

    def _check_utf8(self, data: bytes, *, final: bool = False) -> None:
        if self._decoder is None:
            return
        try:
            self._decoder.decode(data, final)
        except UnicodeDecodeError:
            self._decoder = None

    def _cut(self) -> bytes:
        before = bytes(self._head)
        before = before[: _whole_characters(before)]
        if self._redacted:
            before = before[: _before_open_mark(before)]
        untrimmed = len(self._head) + len(self._tail) == self.total
        rest = self._head + self._tail if untrimmed else self._tail
        start = _next_character(rest, len(rest) - (self._limit - self._half))
        if self._redacted:
            start = _after_split_mark(rest, start)
        after = bytes(rest[start:])
        gone = self.total - len(before) - len(after)
        return before + b"\n[... %d bytes cut ...]\n" % gone + after


async def store_output(blobs: BlobStore, captured: Captured) -> Output:
    """Put output into the blob store and describe it as events do."""
    return Output(
        blob=await blobs.put(captured.data),
        total=captured.total,
        sha256=captured.sha256,
        truncated=captured.truncated,
        invalid_utf8=captured.invalid_utf8,
    )


def _whole_characters(data: bytes) -> int:
    """The length without a character at the end that isn't whole."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if needed > back else len(data)
    return len(data)


def _next_character(data: bytearray, start: int) -> int:
    """The first place from `start` on that isn't within a character."""
    for ahead in range(min(4, len(data) - start)):
        if data[start + ahead] & 0xC0 != 0x80:
            return start + ahead
    return start


def _before_open_mark(data: bytes) -> int:
    at = data.rfind(_MARK, max(0, len(data) - _LONGEST_MARK))
    if at >= 0 and data.find(b"]", at) < 0:
        return at
    for length in range(min(len(_MARK) - 1, len(data)), 0, -1):
        if data.endswith(_MARK[:length]):
            return len(data) - length
    return len(data)


def _after_split_mark(data: bytearray, start: int) -> int:
    at = data.rfind(_MARK, 0, start + len(_MARK) - 1)
    if at < 0 or at >= start:
        return start
    end = data.find(b"]", at)
    return end + 1 if end >= start else start


class _Spool:
    """A file that grows while output comes; one thread of the process writes all of them."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._left = limit
        # There from the first: whoever looks tells silence from a killed engine by it.
        _jobs.put((path, b""))
        _start_writer()

    def write(self, data: bytes) -> None:
        if self._left > 0:
            _jobs.put((self._path, data[: self._left]))
            self._left -= len(data)
            if self._left <= 0:
                _jobs.put((self._path, b"\n[... the rest is in the trial's files ...]\n"))

    def close(self) -> None:
        _jobs.put((self._path, None))


_jobs: queue.SimpleQueue[tuple[Path, bytes | None]] = queue.SimpleQueue()
_writer: threading.Thread | None = None


def _start_writer() -> None:
    global _writer
    if _writer is None or not _writer.is_alive():
        _writer = threading.Thread(target=_write_spools, name="trialog-spool", daemon=True)
        _writer.start()


def _write_spools() -> None:
    """Append to the files; a live log that can't be written is no reason to stop a trial."""
    files: dict[Path, BinaryIO] = {}
    while True:
        path, data = _jobs.get()
        try:
            if data is None:
                files.pop(path).close()
                continue
            if path not in files:
                files[path] = cast("BinaryIO", open(path, "ab", buffering=0))
            files[path].write(data)
        except (OSError, KeyError):
            continue
