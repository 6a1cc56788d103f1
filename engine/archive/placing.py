"""Bringing files in: as plain tars that an engine unpacks into a container, or on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import SandboxError
from ..sandbox.protocol import GivenFile
from .headers import BLOCK, FILE, HARD_LINK, Entry, header
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


def tar_of(files: Sequence[GivenFile]) -> Iterator[bytes]:
    """An uncompressed tar of regular files of the host at absolute paths, in chunks.

    They are root's. It names no folder: those that are there stay as they are.
    """
    for file in sorted(files, key=lambda file: file.path):
        if ".." in file.path.split("/"):
            raise SandboxError(f"{file.path} is no place for a file")
        with open(file.source, "rb") as source:
            status = os.fstat(source.fileno())
            size = status.st_size
            yield header(
                Entry(
                    path=os.fsencode(file.path.strip("/")),
                    kind=FILE,
                    mode=file.mode & 0o777,
                    uid=0,
                    gid=0,
                    size=size,
                    mtime=status.st_mtime_ns,
                )
            )
            while size and (data := source.read(min(size, CHUNK))):
                size -= len(data)
                yield data
            yield bytes(size) + bytes(-status.st_size % BLOCK)
    yield bytes(2 * BLOCK)


def place_file(file: GivenFile, folder: Path, path: str) -> None:
    """Copy a file below a folder that nobody else has touched. Raises SandboxError.

    Folders on the way are made, and any user may write to them, as to those they lie in; nothing
    that is there is replaced, and no link followed.
    """
    *parents, name = [part for part in path.split("/") if part not in ("", ".")] or [""]
    if not name or ".." in (*parents, name):
        raise SandboxError(f"{file.path} is no place for a file")
    try:
        place = folder
        for part in parents:
            place = place / part
            with contextlib.suppress(FileExistsError):
                place.mkdir()
                place.chmod(0o777)
            if not stat.S_ISDIR(os.lstat(place).st_mode):
                raise SandboxError(f"{file.path} can't be made: {part} is no folder")
        with open(file.source, "rb") as source, open(place / name, "xb") as copy:
            shutil.copyfileobj(source, copy, CHUNK)
            os.fchmod(copy.fileno(), file.mode & 0o777)
    except OSError as error:
        raise SandboxError(f"{file.path} can't be made: {error.strerror}") from error
