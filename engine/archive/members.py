"""Reading an archive, entry by entry."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, cast

import zstandard

from ..sandbox.protocol import TreeTooLarge
from .headers import FILE, FOLDER, HARD_LINK, LINK, Entry

_KINDS = {
    tarfile.REGTYPE: FILE,
    tarfile.AREGTYPE: FILE,
    tarfile.LNKTYPE: HARD_LINK,
    tarfile.SYMTYPE: LINK,
    tarfile.DIRTYPE: FOLDER,
}


class Member:
    """An entry of an archive and the way to its bytes, valid until the next one is asked for."""

    def __init__(self, entry: Entry, content: IO[bytes] | None) -> None:
        self.entry = entry
        self._content = content

    def read(self, size: int) -> bytes:
        """The next bytes of a file, at most `size`; empty at its end."""
        return b"" if self._content is None else self._content.read(size)


def members(archive: Path) -> Iterator[Member]:
    """All entries of an archive, in its order."""
    with (
        open(archive, "rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as stream,
        tarfile.open(
            fileobj=cast("IO[bytes]", stream), mode="r|", encoding="utf-8", errors="surrogateescape"
        ) as tar,
    ):
        for info in tar:
            entry = entry_of(info)
            if entry is not None:
                yield Member(entry, tar.extractfile(info) if entry.kind == FILE else None)
            forget_members(tar)


def read_member(archive: Path, path: str, cap: int) -> bytes | None:
    """The bytes of a regular file in an archive, None when it holds none at this path.

    Raises TreeTooLarge when there are more than `cap` bytes.
    """
    wanted = os.fsencode(path.strip("/"))
    for member in members(archive):
        if member.entry.path != wanted:
            continue
        if member.entry.kind == HARD_LINK:
            return read_member(archive, os.fsdecode(member.entry.link), cap)
        if member.entry.kind != FILE:
            return None
        if member.entry.size > cap:
            raise TreeTooLarge(cap)
        return member.read(member.entry.size)
    return None


def entry_of(info: tarfile.TarInfo) -> Entry | None:
    """What a tar's header says; None for kinds that no tree keeps."""
    kind = _KINDS.get(info.type)
    if kind is None:
        return None
    times = info.pax_headers.get("mtime")
    mtime = int(Decimal(times) * 1_000_000_000) if times else int(info.mtime) * 1_000_000_000
    return Entry(
        path=plain_path(os.fsencode(info.name)),
        kind=kind,
        mode=info.mode & 0o7777,
        uid=info.uid,
        gid=info.gid,
        size=info.size if kind == FILE else 0,
        mtime=mtime,
        link=os.fsencode(info.linkname) if kind in (LINK, HARD_LINK) else b"",
    )


def plain_path(path: bytes) -> bytes:
    """A tar's path without ``./`` and slashes at its ends; empty for the tree's own folder."""
    path = path.strip(b"/")
    while path.startswith(b"./"):
        path = path[2:].lstrip(b"/")
    return b"" if path == b"." else path


def forget_members(tar: tarfile.TarFile) -> None:
    """Keep memory flat: a TarFile remembers every header it has read."""
    tar.members = []  # type: ignore[attr-defined]  # public, but not in the type stubs
