"""An archive as a plain tar of paths from the root on, as an engine unpacks it into a container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .headers import BLOCK, FILE, HARD_LINK, header
from .members import members
from .writing import CHUNK


def tar_at(archive: Path, folder: str) -> Iterator[bytes]:
    """An uncompressed tar that holds an archive's tree at a folder's absolute path, in chunks.

    The tree's own folder is an entry as well, so that its mode, owner and time arrive, too.
    """
    place = folder.strip("/").encode("utf-8", "surrogateescape")
    waiting = bytearray()
    for member in members(archive):
        entry = member.entry
        moved = entry._replace(path=place + b"/" + entry.path if entry.path else place)
        if entry.kind == HARD_LINK:
            moved = moved._replace(link=place + b"/" + entry.link)
        waiting += header(moved)
        if entry.kind == FILE:
            while data := member.read(CHUNK):
                waiting += data
                if len(waiting) >= CHUNK:
                    yield bytes(waiting)
                    waiting.clear()
            waiting += bytes(-entry.size % BLOCK)
        if len(waiting) >= CHUNK:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting) + bytes(2 * BLOCK)
