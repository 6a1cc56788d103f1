"""A stopped container's files through its engine alone, where its storage can't be read.

Slower, a call or two for each path, so only what could steer a verifier is asked about. The engine
can't remove a file: one that the image has not is emptied in its place, which takes its effect.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import stat
import tarfile
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import PurePosixPath

from anyio import to_thread

from ..protocol import FileSeen
from .api import CHUNK, Engine, EngineRefused, PathStat, is_gone
from .changes import ADDED, Changes
from .labels import own_labels

LARGEST = 256 * 1024 * 1024
"""Bytes of what is put back at once."""

MOST_ASKED = 2000
"""Changed paths that are asked whether they are links."""

_PACKAGES = ("/usr/", "/var/", "/lib", "/etc/", "/bin/", "/sbin/", "/opt/")


class RemoteFiles:
    """`workspace` is `workdir` where that is a volume, else null; `mounts` are passed over."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        image: str,
        mounts: list[str],
        workspace: str | None,
        changes: Changes,
        workdir: str,
    ) -> None:
        self._changes = changes
        self._engine = engine
        self._container = container
        self._image = image
        self._mounts = tuple(f"{mount}/" for mount in mounts)
        self._workspace = workspace
        self._workdir = f"{workdir.rstrip('/')}/"
        self._untouched: str | None = None
        self._added: set[str] = set()
        """Paths that the image has not, as the engine said."""

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """As the engine lists them; None where that takes it too long."""
        rows = await self._changes.rows(self._engine, self._container, self._image)
        if rows is None:
            return None
        self._added = {path for path, kind in rows if kind == ADDED}
        paths = [path for path, _ in rows if not path.startswith(self._mounts)]
        found = {path for path in paths if wanted(path)}
        if self._workspace is not None:
            tar = await self._tar(self._container, self._workspace)
            found |= set(
                await to_thread.run_sync(_names, tar or b"", self._workspace, wanted, links)
            )
        asked = [] if links is None else self._may_be_links(paths, found)
        for path in [*found, *asked]:
            try:
                at = await self._stat(self._container, path)
            except OSError:
                found.add(path)  # it is looked at again by whoever puts it back
                continue
            if at is not None and at.kind == stat.S_IFDIR:
                found.discard(path)
            elif at is not None and at.kind == stat.S_IFLNK and links is not None:
                if links(os.fsencode(at.target)):
                    found.add(path)
        return sorted(found)

    def _may_be_links(self, paths: list[str], found: Collection[str]) -> list[str]:
        """Changed paths to be asked whether they are links, which costs a call each."""
        others = [path for path in paths if path not in found]
        asked = [path for path in others if path.startswith(self._workdir)]
        asked += [path for path in others if not path.startswith((self._workdir, *_PACKAGES))]
        return asked[:MOST_ASKED]

    async def _stat(self, container: str, path: str) -> PathStat | None:
        with _told_by(path):
            return await self._engine.stat(container, path)

    async def look(self, path: str, cap: int, *, in_image: bool = False) -> FileSeen:
        """What is at a path. Raises OSError."""
        if in_image and path in self._added:
            return FileSeen(kind="missing")
        container = await self._image_container() if in_image else self._container
        at = await self._stat(container, path)
        if at is None:
            return FileSeen(kind="missing")
        match at.kind:
            case stat.S_IFDIR:
                return FileSeen(kind="folder")
            case stat.S_IFLNK:
                return FileSeen(kind="link", data=os.fsencode(at.target))
            case stat.S_IFREG if at.size <= cap:
                tar = await self._tar(container, path)
                if tar is None:
                    return FileSeen(kind="missing")
                data = await to_thread.run_sync(_only_file, tar)
                return FileSeen(kind="file", data=data, sha256=hashlib.sha256(data).hexdigest())
            case stat.S_IFREG:
                return FileSeen(kind="file")
            case _:
                return FileSeen(kind="other")

    async def put_back(self, path: str) -> None:
        """Make a path as the image has it, or empty. Raises OSError."""
        folder, _, name = path.rpartition("/")
        tar = None
        if path not in self._added:
            image = await self._image_container()
            if await self._stat(image, path) is not None:
                tar = await self._tar(image, path)
        if tar is None:
            tar = _file(name, b"", 0o644)
        await self._put(folder or "/", tar)

    async def replace(self, path: str, data: bytes) -> None:
        """Give a file other bytes; its owner and mode stay. Raises OSError."""
        old = await self._tar(self._container, path)
        if old is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        folder = path.rpartition("/")[0]
        await self._put(folder or "/", await to_thread.run_sync(_with_bytes, old, data))

    async def aclose(self) -> None:
        """Remove the container that shows the image's files."""
        if self._untouched is not None:
            await self._engine.remove(self._untouched)

    async def _image_container(self) -> str:
        """A container of the image that is never started."""
        if self._untouched is None:
            config = {
                "Image": self._image,
                "Cmd": ["/"],
                "Entrypoint": [],
                "Labels": own_labels(),
                "NetworkDisabled": True,
            }
            name = f"trialog-look-{secrets.token_hex(6)}"
            self._untouched, _ = await self._engine.create(name, config)
        return self._untouched

    async def _tar(self, container: str, path: str) -> bytes | None:
        data = bytearray()
        try:
            with _told_by(path):
                async with self._engine.read_tree(container, path) as chunks:
                    async for chunk in chunks:
                        data += chunk
                        if len(data) > LARGEST:
                            raise OSError(f"{path} holds more than {LARGEST} bytes")
        except FileNotFoundError:
            return None
        return bytes(data)

    async def _put(self, folder: str, tar: bytes) -> None:
        with _told_by(folder):
            await self._engine.write_tree(self._container, folder, _pieces(tar))


@contextmanager
def _told_by(path: str) -> Generator[None]:
    """The engine's refusals in the system's terms: a process that is kept may be their cause.

    ESTALE stands for what another try may come through. That the container is gone stays as it is.
    """
    try:
        yield
    except EngineRefused as error:
        if is_gone(error):
            raise
        number = errno.ENOENT if error.status == 404 else errno.ESTALE
        raise OSError(
            number, error.message or "the container engine can't reach it", path
        ) from error


async def _pieces(data: bytes) -> AsyncGenerator[bytes]:
    for place in range(0, len(data), CHUNK):
        yield data[place : place + CHUNK]


@contextmanager
def _readable() -> Generator[None]:
    """An archive that was cut off is one of what changed while it was read."""
    try:
        yield
    except tarfile.TarError as error:
        raise OSError(errno.ESTALE, f"its archive can't be read: {error}") from error


def _names(
    tar: bytes,
    workspace: str,
    wanted: Callable[[str], bool],
    links: Callable[[bytes], bool] | None,
) -> list[str]:
    found: list[str] = []
    with (
        _readable(),
        tarfile.open(fileobj=io.BytesIO(tar), mode="r:", errors="surrogateescape") as opened,
    ):
        for info in opened:
            path = PurePosixPath(workspace, *PurePosixPath(info.name).parts[1:])
            target = os.fsencode(info.linkname)
            leads = links is not None and info.issym() and links(target)
            if not info.isdir() and (leads or wanted(str(path))):
                found.append(str(path))
    return found


def _only_file(tar: bytes) -> bytes:
    with _readable(), tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as opened:
        info = opened.next()
        file = opened.extractfile(info) if info is not None and info.isreg() else None
        return b"" if file is None else file.read()


def _file(name: str, data: bytes, mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", errors="surrogateescape") as tar:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), mode
        tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def _with_bytes(tar: bytes, data: bytes) -> bytes:
    packed = io.BytesIO()
    with (
        _readable(),
        tarfile.open(fileobj=io.BytesIO(tar), mode="r:", errors="surrogateescape") as old,
    ):
        info = old.next()
        if info is None or not info.isreg():
            raise OSError(errno.ESTALE, "it is no plain file any more")
        info.size = len(data)
        info.pax_headers = {}
        with tarfile.open(fileobj=packed, mode="w", errors="surrogateescape") as new:
            new.addfile(info, io.BytesIO(data))
    return packed.getvalue()
