"""Packing a folder of this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..sandbox.protocol import Tree
from .headers import FILE, FOLDER, HARD_LINK, LINK, Entry
from .walk import Found, open_file, open_folder, reason_of, walk
from .writing import CHUNK, Writer, read_exactly

WHOLE = 1024 * 1024
"""Files up to this size are read before their header is written, so that it can't be wrong."""


def pack_folder(folder: Path, destination: Path, cap: int) -> Tree:
    """Pack a folder; `destination` must not exist yet.

    `cap` bounds the files' apparent sizes in bytes (a sparse file counts whole). Owners are kept
    as numbers, times in nanoseconds, links as they are. Sockets, pipes, devices and what can't be
    read are noted in the tree's `skipped`. Raises TreeTooLarge, leaving nothing behind.
    """
    root = open_folder(folder)
    try:
        with Writer(destination, cap) as writer:
            writer.entry(_entry(b"", FOLDER, os.fstat(root)))
            first_names: dict[tuple[int, int], bytes] = {}
            for found in walk(root, writer.skips):
                _add(writer, found, first_names)
        return writer.tree()
    finally:
        os.close(root)


def _add(writer: Writer, found: Found, first_names: dict[tuple[int, int], bytes]) -> None:
    status = found.status
    if stat.S_ISDIR(status.st_mode):
        writer.entry(_entry(found.path, FOLDER, status))
        return
    identity = (status.st_dev, status.st_ino)
    if status.st_nlink > 1 and identity in first_names:
        writer.entry(_entry(found.path, HARD_LINK, status, link=first_names[identity]))
        return
    try:
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(found.name, dir_fd=found.folder)
            writer.entry(_entry(found.path, LINK, status, link=target))
        elif not _add_file(writer, found):
            return
    except OSError as error:
        if error.filename is None:  # the archive's own file: the disk is full, say
            raise
        writer.skips.add(found.path, reason_of(error))
        return
    if status.st_nlink > 1:
        first_names[identity] = found.path


def _add_file(writer: Writer, found: Found) -> bool:
    size = found.status.st_size
    writer.claim(size)
    try:
        fd = open_file(found)
    except OSError:
        writer.size -= size
        raise
    if fd is None:
        writer.size -= size
        writer.skips.add(found.path, "it changed while the tree was read")
        return False
    try:
        if size <= WHOLE:
            data = read_exactly(fd, size)
            writer.size -= size - len(data)
            writer.entry(_entry(found.path, FILE, found.status, size=len(data)))
            writer.content(data)
            writer.end_content(len(data))
            return True
        writer.entry(_entry(found.path, FILE, found.status, size=size))
        left = size
        while left and (data := os.read(fd, min(left, CHUNK))):
            writer.content(data)
            left -= len(data)
        if left:
            writer.skips.add(found.path, f"it shrank while it was read: {left} bytes are zeros")
        while left:
            writer.content(bytes(min(left, CHUNK)))
            left -= min(left, CHUNK)
        writer.end_content(size)
        return True
    finally:
        os.close(fd)


def _entry(
    path: bytes, kind: bytes, status: os.stat_result, *, size: int = 0, link: bytes = b""
) -> Entry:
    return Entry(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        gid=status.st_gid,
        size=size,
        mtime=status.st_mtime_ns,
        link=link,
    )
