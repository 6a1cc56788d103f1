"""Packing a tar stream that an engine gave, into the same canonical form as a folder."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import IO

from ..sandbox.protocol import Tree, TreeTooLarge
from .headers import BLOCK, FOLDER, HARD_LINK, LINK, Entry
from .members import entry_of, forget_members, plain_path
from .walk import LONGEST_PATH
from .writing import CHUNK, HEADER_FLOOR, Skips, Writer, cancellation_check

LONGEST_NAME = 255
"""Bytes of a name in a folder."""

_OTHER_KINDS = {
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.GNUTYPE_SPARSE: "a sparse entry",
}


def pack_tar(
    tar_file: Path, destination: Path, cap: int, root: str, *, longest: int | None = None
) -> Tree:
    """Pack the tree below `root` in an uncompressed tar, as `pack_folder` would.

    `root` is the folder's name in the tar, empty for the tar's own top. `destination` must not
    exist yet; `cap` counts the files' bytes. `longest` is the bytes of a path in the tar beyond
    which its maker leaves out what there is without a word: folders so deep that something in them
    can be missing are noted as skipped. Raises TreeTooLarge, leaving nothing behind.
    """
    with open(tar_file, "rb") as source, Writer(destination, cap) as writer:
        found = _scan(source, root, cap, writer.skips)
        if longest is not None:
            deepest = longest - len(f"/{root}/".encode("utf-8", "surrogateescape")) - LONGEST_NAME
            for path, (entry, _) in found.items():
                if entry.kind == FOLDER and len(path) >= deepest:
                    writer.skips.add(path[:1024], "what is in it may have too long a path")
        first_names: dict[bytes, bytes] = {}
        for path in sorted(found, key=lambda path: path.split(b"/") if path else []):
            entry, offset = found[path]
            if entry.kind == HARD_LINK:
                resolved = _resolve(found, entry)
                if resolved is None:
                    writer.skips.add(path, "a hard link to nothing in the tree", entry.link)
                    continue
                entry, offset = resolved
            if entry.kind in (FOLDER, LINK):
                writer.entry(entry._replace(path=path))
            elif entry.path in first_names:  # by the name that the tar has the bytes under
                link = first_names[entry.path]
                writer.entry(entry._replace(path=path, kind=HARD_LINK, size=0, link=link))
            else:
                first_names[entry.path] = path
                writer.claim(entry.size)
                writer.entry(entry._replace(path=path))
                _copy(source, offset, entry.size, writer)
    return writer.tree()


def _scan(source: IO[bytes], root: str, cap: int, skips: Skips) -> dict[bytes, tuple[Entry, int]]:
    """Every entry below the root, by path, with the place of its bytes in the tar."""
    found: dict[bytes, tuple[Entry, int]] = {}
    prefix = plain_path(root.encode("utf-8", "surrogateescape"))
    check = cancellation_check()
    headers = 0
    with tarfile.open(fileobj=source, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            check()
            headers += BLOCK + len(info.name)
            if headers > max(cap, HEADER_FLOOR):
                raise TreeTooLarge(cap)
            name = plain_path(info.name.encode("utf-8", "surrogateescape"))
            path = _below(name, prefix)
            entry = entry_of(info)
            if path is None or b".." in path.split(b"/"):
                skips.add(name[:1024], "it lies outside the tree")
            elif len(path) > LONGEST_PATH:
                skips.add(path[:1024], "its path is too long")
            elif entry is None or info.issparse():
                skips.add(path, _OTHER_KINDS.get(info.type, "no file, folder or link"))
            else:
                if entry.kind == HARD_LINK:
                    target = _below(plain_path(entry.link), prefix)
                    entry = entry._replace(link=entry.link if target is None else target)
                found[path] = (entry._replace(path=path), info.offset_data)
            forget_members(tar)
    return found


def _below(name: bytes, prefix: bytes) -> bytes | None:
    if not prefix:
        return name
    if name == prefix:
        return b""
    return name[len(prefix) + 1 :] if name.startswith(prefix + b"/") else None


def _resolve(found: dict[bytes, tuple[Entry, int]], entry: Entry) -> tuple[Entry, int] | None:
    """The entry that a hard link means; links to links are followed, but not for ever."""
    for _ in range(100):
        target = found.get(entry.link)
        if target is None or target[0].kind == FOLDER:
            return None
        if target[0].kind != HARD_LINK:
            return target
        entry = target[0]
    return None


def _copy(source: IO[bytes], offset: int, size: int, writer: Writer) -> None:
    source.seek(offset)
    left = size
    while left:
        data = source.read(min(left, CHUNK))
        if not data:
            raise tarfile.ReadError("the tar ends within a file")
        writer.content(data)
        left -= len(data)
    writer.end_content(size)
