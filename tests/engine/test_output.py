"""What a command prints is kept whole or with a marked cut, in flat memory."""

from __future__ import annotations

import hashlib
import re
import time
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.output import OutputCapture, store_output
from trialog.engine.redact import Redactor
from trialog.events.memory import MemoryLog

CUT = re.compile(rb"\n\[\.\.\. (\d+) bytes cut \.\.\.\]\n")


def pieces(data: bytes, borders: Sequence[int]) -> list[bytes]:
    """The data, cut at these places."""
    places = [0, *sorted(min(b, len(data)) for b in borders), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def capture(data: bytes, borders: Sequence[int] = (), **settings: object):  # type: ignore[no-untyped-def]
    """Feed data in pieces."""
    taken = OutputCapture(**settings)  # type: ignore[arg-type]
    for piece in pieces(data, borders):
        taken.feed(piece)
    return taken.finish()


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6), st.integers(2, 200))
def test_as_a_naive_model(data: bytes, borders: list[int], limit: int) -> None:
    """Total, hash and kept bytes do not depend on how the output came."""
    found = capture(data, borders, limit=limit)
    assert found.total == len(data)
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert found.truncated == (len(data) > limit)
    try:
        data.decode()
        assert not found.invalid_utf8
    except UnicodeDecodeError:
        assert found.invalid_utf8
    if not found.truncated:
        assert found.data == data
        return
    (mark,) = [m for m in CUT.finditer(found.data) if valid_cut(data, found.data, m)][:1]
    head, tail = found.data[: mark.start()], found.data[mark.end() :]
    assert limit // 2 - 3 <= len(head) <= limit // 2
    assert limit - limit // 2 - 3 <= len(tail) <= limit - limit // 2


def valid_cut(data: bytes, kept: bytes, mark: re.Match[bytes]) -> bool:
    """Whether this is the cut: output may hold such a line itself."""
    head, tail = kept[: mark.start()], kept[mark.end() :]
    gone = len(data) - len(head) - len(tail)
    return data.startswith(head) and data.endswith(tail) and int(mark[1]) == gone


@given(st.text(min_size=30, max_size=200), st.integers(8, 29), st.lists(st.integers(0, 400)))
def test_cut_between_characters(text: str, limit: int, borders: list[int]) -> None:
    """The cut never splits a character: valid text stays valid."""
    data = text.encode()
    found = capture(data, borders, limit=limit)
    assert not found.invalid_utf8
    assert found.truncated == (len(data) > limit)
    found.data.decode()


@given(st.integers(0, 40), st.integers(0, 40), st.integers(10, 60))
def test_cut_outside_of_marks(before: int, after: int, limit: int) -> None:
    """The cut is never inside of a redaction's mark, and no part of a secret is kept."""
    secret = "0123456789"
    data = b"a" * before + secret.encode() * 3 + b"b" * after
    found = capture(data, range(0, 80, 7), limit=limit, redactor=Redactor({"TOKEN": secret}))
    kept = CUT.split(found.data)
    for part in kept[::2]:
        assert re.fullmatch(rb"(a|b|\[redacted:TOKEN\])*", part), part
    whole = data.replace(secret.encode(), b"[redacted:TOKEN]")
    assert found.total == len(whole)
    assert found.sha256 == hashlib.sha256(whole).hexdigest()


def test_invalid_bytes_across_a_border() -> None:
    """Bytes that are not UTF-8 are kept as they came; a character over a read's border is whole."""
    sign = "\U0001f600".encode()
    start = b"x" * 409_774 + b"\xe2\x82"
    filler = b"y" * (7 * 65_536 - len(start) - 2)
    data = start + filler + sign + b"\xff\xfe" + b"reward 1\n"
    borders = range(65_536, len(data), 65_536)
    assert any(data[b - 2 : b + 2] == sign for b in borders)
    found = capture(data, borders)
    assert (found.data, found.invalid_utf8, found.truncated) == (data, True, False)
    text = found.data.decode("utf-8", "replace")
    assert text.count("\U0001f600") == 1
    assert text.count("\ufffd") == 3  # one for the cut sign, one for each of the two bytes


def test_an_unfinished_character_at_the_end() -> None:
    """A character that the output's end cuts is not valid."""
    assert capture(b"ok \xe2\x82").invalid_utf8
    assert not capture("ok €".encode(), [4, 5]).invalid_utf8


def test_16_mib_are_kept() -> None:
    """Without another limit all of 16 MiB is kept, and of more the total is still known."""
    whole, piece = OutputCapture(), b"z" * (1024 * 1024)
    for _ in range(16):
        whole.feed(piece)
    found = whole.finish()
    assert (found.truncated, len(found.data)) == (False, 16 * 1024 * 1024)
    longer = OutputCapture()
    for _ in range(17):
        longer.feed(piece)
    found = longer.finish()
    assert (found.truncated, found.total) == (True, 17 * 1024 * 1024)
    assert len(found.data) < 16 * 1024 * 1024 + 100


def test_memory_stays_flat() -> None:
    """Far more output than the limit takes no more memory than about twice the limit."""
    limit = 256 * 1024
    taken = OutputCapture(limit)
    piece = b"z" * 10_000
    tracemalloc.start()
    for _ in range(2000):
        taken.feed(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    found = taken.finish()
    assert found.total == 20_000_000
    assert peak < 3 * limit
    assert len(found.data) < limit + 100


def test_the_time_of_the_last_output() -> None:
    """When output came last is known, for deadlines on silence."""
    now = 5.0
    taken = OutputCapture(monotonic=lambda: now)
    assert taken.last_at == 5.0
    now = 7.5
    taken.feed(b"x")
    assert taken.last_at == 7.5


def wait_for(path: Path, wanted: bytes) -> bytes:
    """A file's bytes, once they are these or too much time has passed."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes() == wanted:
            break
        time.sleep(0.005)
    return path.read_bytes()


async def test_spool(tmp_path: Path) -> None:
    """Output can be followed in a file while it comes, redacted, without blocking the loop."""
    from anyio import to_thread

    spool = tmp_path / "live.txt"
    taken = OutputCapture(spool=spool, redactor=Redactor({"T": "12345678"}))
    taken.feed(b"hello 1234")
    assert await to_thread.run_sync(wait_for, spool, b"hello ") == b"hello "
    taken.feed(b"5678\n")
    wanted = b"hello [redacted:T]\n"
    assert await to_thread.run_sync(wait_for, spool, wanted) == wanted
    assert taken.finish().data == wanted


async def test_spool_is_bounded(tmp_path: Path) -> None:
    """The live file stops at the limit, with a line that says so."""
    from anyio import to_thread

    spool = tmp_path / "live.txt"
    taken = OutputCapture(10, spool=spool)
    for _ in range(100):
        taken.feed(b"abcdefg")
    taken.finish()
    wanted = b"abcdefgabc\n[... the rest is in the trial's files ...]\n"
    assert await to_thread.run_sync(wait_for, spool, wanted) == wanted


async def test_spool_that_cannot_be_written(tmp_path: Path) -> None:
    """A live file that can't be written does not disturb the capture."""
    taken = OutputCapture(spool=tmp_path / "missing" / "live.txt")
    taken.feed(b"x")
    assert taken.finish().data == b"x"


async def test_store() -> None:
    """The stored output names its blob, total, hash and flags."""
    log = MemoryLog()
    output = await store_output(log.blobs, capture(b"abc\xff" * 10, limit=20))
    assert (output.total, output.truncated, output.invalid_utf8) == (40, True, True)
    assert output.sha256 == hashlib.sha256(b"abc\xff" * 10).hexdigest()
    kept = await log.blobs.get(output.blob)
    assert kept.startswith(b"abc\xff")
    assert b"bytes cut" in kept
