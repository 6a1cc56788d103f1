"""Files out of a container that does not run, and a saved workspace into one."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

import anyio
from anyio import to_thread

from ....events.kinds.parts import SkippedPath
from ...archive import members, pack_folder, pack_tar, place_file, tar_at, tar_of
from ...archive.headers import FILE, HARD_LINK, LINK
from ...errors import SandboxError
from ..protocol import GivenFile, Mount, Tree, TreeTooLarge
from .api import CHUNK, Engine, EngineRefused, is_gone

IN_MEMORY = 4 * 1024 * 1024
"""Bytes of a tar that are collected before they are written to disk."""

LONGEST_PATH = 2048
"""Bytes of a path that is copied out of a folder."""

PATH_MAX = 4095
"""Bytes of a path that the engine can look at; what is deeper is not in its archives."""

_A_LINK = "a link, which is not followed"
_NOT_REGULAR = "not a regular file"
_MISSING = "there is no such file"


async def save_tree(
    engine: Engine, container: str, path: str, destination: Path, cap: int, scratch: Path
) -> Tree:
    """Pack a folder of a container. One that is missing, or no folder, is packed as empty."""
    async with _fetched(engine, container, path, cap, scratch) as tar:
        return await to_thread.run_sync(_pack, tar, destination, cap, path)


async def copy_file(
    engine: Engine, container: str, path: str, destination: Path, cap: int, scratch: Path
) -> list[SkippedPath]:
    """Copy a regular file, or a folder's regular files; what was not copied."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    plain = "/".join(parts)
    if ".." in parts:
        return [SkippedPath(path=path, reason="it may not contain ..")]
    refused = await _check_way(engine, container, parts)
    if refused is not None:
        return [refused]
    async with _fetched(engine, container, "/" + plain, cap, scratch) as tar:
        if tar is None:
            return [SkippedPath(path=plain, reason=_MISSING)]
        return await to_thread.run_sync(_copy, tar, destination, cap, plain)


async def restore(engine: Engine, container: str, path: str, archive: Path) -> None:
    """Put a saved workspace into a folder of a container, which is not changed by anything else.

    It goes in from the root on: an engine refuses links that lead out of the folder it unpacks
    into, and leaves that folder's own mode and owner as they are.
    """
    await engine.write_tree(container, "/", _in_thread(tar_at(archive, path)))


async def put_files(
    engine: Engine, container: str, files: Sequence[GivenFile], mounts: Sequence[Mount]
) -> None:
    """Put files of this machine into a container that has run nothing yet, or where it mounts."""
    mounted = {mount.target: mount.source for mount in mounts}
    inside: list[GivenFile] = []
    for file in files:
        parents = [str(parent) for parent in PurePosixPath(file.path).parents]
        target = next((parent for parent in parents if parent in mounted), None)
        if target is None:
            inside.append(file)
        else:
            rest = str(PurePosixPath(file.path).relative_to(target))
            await to_thread.run_sync(place_file, file, mounted[target], rest)
    if not inside:
        return
    try:
        await engine.write_tree(container, "/", _in_thread(tar_of(inside)))
    except EngineRefused as error:
        if is_gone(error):
            raise
        named = ", ".join(file.path for file in inside[:3]) + (" …" if len(inside) > 3 else "")
        raise SandboxError(f"{named} can't be made: {error.message}") from error


async def _check_way(engine: Engine, container: str, parts: list[str]) -> SkippedPath | None:
    """No component may be a link; the engine would follow all but the last."""
    plain = "/".join(parts)
    for index in range(len(parts)):
        so_far = "/".join(parts[: index + 1])
        last = index + 1 == len(parts)
        at = await engine.stat(container, "/" + so_far)
        if at is None:
            return SkippedPath(path=plain, reason=_MISSING)
        if at.kind == stat.S_IFLNK:
            reason = _A_LINK if last else f"{so_far} is a link, which is not followed"
            # The engine reads no link that leads in a circle, and names no target of it.
            target = await _target(engine, container, "/" + so_far) if at.target else None
            return SkippedPath(path=plain, reason=reason, target=target or at.target or None)
        if not last and at.kind != stat.S_IFDIR:
            return SkippedPath(path=plain, reason=_MISSING)
        if at.kind not in (stat.S_IFREG, stat.S_IFDIR):
            return SkippedPath(path=plain, reason=_NOT_REGULAR)
    return None


async def _target(engine: Engine, container: str, path: str) -> str | None:
    """Where a link points, as it says itself; the engine's own answer is where that leads."""
    async with engine.read_tree(container, path) as chunks:
        tar = b"".join([chunk async for chunk in chunks])
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", errors="surrogateescape") as opened:
        link = opened.next()
    return link.linkname if link is not None and link.issym() else None


@asynccontextmanager
async def _fetched(
    engine: Engine, container: str, path: str, cap: int, scratch: Path
) -> AsyncGenerator[Path | None]:
    """A path of a container as a tar on this machine; None when nothing is there."""
    # Headers and padding count beside the files' bytes, which alone are held to the cap.
    most = 2 * cap + 64 * 1024 * 1024
    place = scratch / f"tree-{secrets.token_hex(4)}.tar"
    waiting = bytearray()
    total = 0
    try:
        try:
            async with engine.read_tree(container, path) as chunks:
                async for chunk in chunks:
                    waiting += chunk
                    total += len(chunk)
                    if total > most:
                        raise TreeTooLarge(cap)
                    if len(waiting) >= IN_MEMORY:
                        await to_thread.run_sync(_append, place, bytes(waiting))
                        waiting.clear()
        except EngineRefused as error:
            if not error.link_circle and (error.status != 404 or is_gone(error)):
                raise
            yield None
            return
        await to_thread.run_sync(_append, place, bytes(waiting))
        yield place
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_forget, place)


def _append(place: Path, data: bytes) -> None:
    with open(place, "ab") as tar:
        tar.write(data)


def _forget(place: Path) -> None:
    place.unlink(missing_ok=True)


def _check_end(tar: Path, path: str) -> None:
    """An engine that fails midway ends its answer as if all were said."""
    with open(tar, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1024))
        if size < 1024 or file.read().strip(b"\0"):
            raise SandboxError(f"the engine's archive of {path} breaks off")


def _pack(tar: Path | None, destination: Path, cap: int, path: str) -> Tree:
    if tar is None:
        return _pack_nothing(destination, cap, path, "there is no such folder", None)
    _check_end(tar, path)
    with tarfile.open(tar, "r:", errors="surrogateescape") as opened:
        first = opened.next()
    if first is not None and not first.isdir():
        target = first.linkname if first.issym() else None
        return _pack_nothing(destination, cap, path, "not a folder", target)
    try:
        return _repack(tar, destination, cap, path)
    except tarfile.TarError as error:
        raise SandboxError(f"the engine's archive of {path} can't be read: {error}") from error


def _repack(tar: Path, destination: Path, cap: int, path: str) -> Tree:
    place = PurePosixPath(path)
    above = len(os.fsencode(str(place.parent).rstrip("/")))
    return pack_tar(tar, destination, cap, place.name, longest=PATH_MAX - above)


def _pack_nothing(destination: Path, cap: int, path: str, reason: str, target: str | None) -> Tree:
    empty = destination.with_name(destination.name + ".empty")
    empty.mkdir()
    try:
        pack_folder(empty, destination, cap)
    finally:
        empty.rmdir()
    skipped = SkippedPath(path=path, reason=reason, target=target)
    return Tree(size=0, files=0, skipped=[skipped])


def _copy(tar: Path, destination: Path, cap: int, path: str) -> list[SkippedPath]:
    """Through the canonical form, which has no names that lead out and no links to follow."""
    _check_end(tar, path)
    packed = tar.with_suffix(".packed")
    try:
        tree = _repack(tar, packed, cap, "/" + path)
        skipped = [
            SkippedPath(path=f"{path}/{one.path}", reason=one.reason, target=one.target)
            for one in tree.skipped
        ]
        skipped += _unpack_files(packed, destination, path)
    finally:
        packed.unlink(missing_ok=True)
    return skipped


def _unpack_files(packed: Path, destination: Path, path: str) -> list[SkippedPath]:
    skipped: list[SkippedPath] = []
    for member in members(packed):
        entry = member.entry
        name = os.fsdecode(entry.path)
        full = f"{path}/{name}" if name else path
        target = destination / name if name else destination
        if entry.kind == LINK:
            skipped.append(SkippedPath(path=full, reason=_A_LINK, target=os.fsdecode(entry.link)))
        elif entry.kind not in (FILE, HARD_LINK):
            if not name:
                destination.mkdir()
        elif len(entry.path) > LONGEST_PATH:
            skipped.append(SkippedPath(path=full[:1024], reason="its path is too long"))
        elif entry.kind == HARD_LINK:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(destination / os.fsdecode(entry.link), target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb") as copy:
                while data := member.read(CHUNK):
                    copy.write(data)
                os.fchmod(copy.fileno(), entry.mode & 0o777 | 0o600)
    return skipped


async def _in_thread(chunks: Iterator[bytes]) -> AsyncGenerator[bytes]:
    """The chunks of a blocking iterator."""
    while (data := await to_thread.run_sync(next, chunks, None)) is not None:
        yield data
