"""Tar headers, byte for byte: ustar, with a pax record only for what ustar can't say.

Written here, because the standard library's headers differ between Python versions and an
archive's bytes are its name.
"""

from __future__ import annotations

from typing import NamedTuple

BLOCK = 512

FILE = b"0"
HARD_LINK = b"1"
LINK = b"2"
FOLDER = b"5"

_LARGEST_ID = 0o7777777
_LARGEST_SIZE = 0o77777777777


class Entry(NamedTuple):
    """What a header says."""

    path: bytes
    """Relative, without a leading ``./``; empty for the tree's own folder."""
    kind: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    """Nanoseconds since 1970."""
    link: bytes = b""
    """Where a link points; for a hard link the path of the file's first name in the tree."""


def header(entry: Entry) -> bytes:
    """The blocks that stand before an entry's bytes."""
    path = entry.path or b"."
    if entry.kind == FOLDER:
        path += b"/"
    records: list[tuple[bytes, bytes]] = []
    if len(path) > 100 or not path.isascii():
        records.append((b"path", path))
    if len(entry.link) > 100 or not entry.link.isascii():
        records.append((b"linkpath", entry.link))
    if not all(_is_utf8(value) for _, value in records):
        records.insert(0, (b"hdrcharset", b"BINARY"))
    uid, gid, size = entry.uid, entry.gid, entry.size
    seconds, nanoseconds = divmod(entry.mtime, 1_000_000_000)
    if uid > _LARGEST_ID:
        records.append((b"uid", b"%d" % uid))
        uid = 0
    if gid > _LARGEST_ID:
        records.append((b"gid", b"%d" % gid))
        gid = 0
    if size > _LARGEST_SIZE:
        records.append((b"size", b"%d" % size))
        size = 0
    if nanoseconds or not 0 <= seconds <= _LARGEST_SIZE:
        records.append((b"mtime", _decimal(entry.mtime)))
        if not 0 <= seconds <= _LARGEST_SIZE:
            seconds = 0
    block = _block(path, entry.kind, entry.mode, uid, gid, size, seconds, entry.link)
    if not records:
        return block
    body = b"".join(_record(name, value) for name, value in records)
    before = _block(b"././@PaxHeader", b"x", 0o644, 0, 0, len(body), 0, b"")
    return before + padded(body) + block


def padded(data: bytes) -> bytes:
    """The bytes, filled up to whole blocks."""
    return data + bytes(-len(data) % BLOCK)


def _block(
    path: bytes, kind: bytes, mode: int, uid: int, gid: int, size: int, mtime: int, link: bytes
) -> bytes:
    start = b"%-100b%07o\0%07o\0%07o\0%011o\0%011o\0" % (b"", mode, uid, gid, size, mtime)
    block = bytearray(BLOCK)
    block[100:148] = start[100:]
    block[: len(path[:100])] = path[:100]
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[157 : 157 + len(link[:100])] = link[:100]
    block[257:265] = b"ustar\x0000"
    block[329:345] = b"0000000\x000000000\x00"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _record(name: bytes, value: bytes) -> bytes:
    rest = b" " + name + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return b"%d" % length + rest


def _decimal(nanoseconds: int) -> bytes:
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    text = b"%d.%09d" % (seconds, rest)
    return (b"-" if nanoseconds < 0 else b"") + text.rstrip(b"0").rstrip(b".")


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
