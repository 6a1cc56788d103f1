"""SHA-256 over a folder's files: their paths, executable bits and bytes, in sorted order.

For each file, by ascending bytes of its path: the path's length as an 8-byte big-endian integer,
the path's bytes, ``x`` (the owner may execute it), ``-`` (he may not) or ``l`` (a link that is
kept as a link), the content's length as an 8-byte big-endian integer, the content. A kept link's
content is the text of its target. Folders count only by what is in them. docs/tasks.md has a test
vector.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from ..errors import TaskError
from .files import Entry, chunks


def digest(entries: Iterable[Entry]) -> str:
    """``sha256:…`` over the files and links among the entries, in any order."""
    total = hashlib.sha256()
    for entry in sorted(entries, key=lambda entry: entry.key):
        if entry.kind == "folder":
            continue
        total.update(_sized(entry.key))
        if entry.kind == "link":
            total.update(b"l" + _sized(os.fsencode(os.readlink(entry.place))))
            continue
        size = entry.place.stat().st_size
        total.update((b"x" if entry.mode & 0o100 else b"-") + size.to_bytes(8, "big"))
        read = 0
        for chunk in chunks(entry.place):
            total.update(chunk)
            read += len(chunk)
        if read != size:
            raise TaskError("changed while it was being read; try again", file=entry.place)
    return f"sha256:{total.hexdigest()}"


def file_digests(entries: Iterable[Entry]) -> dict[str, str]:
    """The SHA-256 (hex) of each file among the entries, by its path."""
    digests: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "file":
            one = hashlib.sha256()
            for chunk in chunks(entry.place):
                one.update(chunk)
            digests[entry.path] = one.hexdigest()
    return digests


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data
