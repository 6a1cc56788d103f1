"""A stopped container's files through its engine alone, where its storage can't be read.

Slower, a call or two for each path, so only what could steer a verifier is asked about. The engine
can't remove a file: one that the image has not is emptied in its place, which takes its effect.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import stat
import tarfile
from collections.abc import AsyncGenerator, Callable
from pathlib import PurePosixPath

from anyio import to_thread

from ..protocol import FileSeen
from .api import CHUNK, Engine, EngineRefused
from .changes import Changes
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

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """As the engine lists them; None where that takes it too long."""
        rows = await self._changes.rows(self._engine, self._container, self._image)
        if rows is None:
            return None
        paths = [path for path, _ in rows if not path.startswith(self._mounts)]
        found = [path for path in paths if wanted(path)]
        if self._workspace is not None:
            tar = await self._tar(self._container, self._workspace) or b""
            found += await to_thread.run_sync(_names, tar, self._workspace, wanted, links)
        if links is not None:
            found += await self._links(paths, links)
        folders = [path for path in found if (await self.look(path, 0)).kind == "folder"]
        return sorted(set(found) - set(folders))

    async def _links(self, paths: list[str], wanted: Callable[[bytes], bool]) -> list[str]:
        """The links among changed paths, packages' own left out: each costs a call."""
        asked = [path for path in paths if path.startswith(self._workdir)]
        asked += [path for path in paths if not path.startswith((self._workdir, *_PACKAGES))]
        found: list[str] = []
        for path in asked[:MOST_ASKED]:
            at = await self._engine.stat(self._container, path)
            if at is not None and at.kind == stat.S_IFLNK and wanted(os.fsencode(at.target)):
                found.append(path)
        return found

    async def look(self, path: str, cap: int, *, in_image: bool = False) -> FileSeen:
        """What is at a path."""
        container = await self._image_container() if in_image else self._container
        at = await self._engine.stat(container, path)
        if at is None:
            return FileSeen(kind="missing")
        match at.kind:
            case stat.S_IFDIR:
                return FileSeen(kind="folder")
            case stat.S_IFLNK:
                return FileSeen(kind="link", data=at.target.encode())
            case stat.S_IFREG if at.size <= cap:
                tar = await self._tar(container, path)
                data = await to_thread.run_sync(_only_file, tar or b"")
                return FileSeen(kind="file", data=data, sha256=hashlib.sha256(data).hexdigest())
            case stat.S_IFREG:
                return FileSeen(kind="file")
            case _:
                return FileSeen(kind="other")

    async def put_back(self, path: str) -> None:
        """Make a path as the image has it, or empty."""
        folder, _, name = path.rpartition("/")
        tar = None
        image = await self._image_container()
        if await self._engine.stat(image, path) is not None:
            tar = await self._tar(image, path)
        if tar is None:
            tar = _file(name, b"", 0o644)
        await self._put(folder or "/", tar)

    async def replace(self, path: str, data: bytes) -> None:
        """Give a file other bytes; its owner and mode stay."""
        old = await self._tar(self._container, path) or b""
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
            async with self._engine.read_tree(container, path) as chunks:
                async for chunk in chunks:
                    data += chunk
                    if len(data) > LARGEST:
                        raise OSError(f"{path} holds more than {LARGEST} bytes")
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise
        return bytes(data)

    async def _put(self, folder: str, tar: bytes) -> None:
        try:
            await self._engine.write_tree(self._container, folder, _pieces(tar))
        except EngineRefused as error:
            raise OSError(error.message) from error


async def _pieces(data: bytes) -> AsyncGenerator[bytes]:
    for place in range(0, len(data), CHUNK):
        yield data[place : place + CHUNK]


def _names(
    tar: bytes,
    workspace: str,
    wanted: Callable[[str], bool],
    links: Callable[[bytes], bool] | None,
) -> list[str]:
    found: list[str] = []
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", errors="surrogateescape") as opened:
        for info in opened:
            path = PurePosixPath(workspace, *PurePosixPath(info.name).parts[1:])
            target = os.fsencode(info.linkname)
            leads = links is not None and info.issym() and links(target)
            if not info.isdir() and (leads or wanted(str(path))):
                found.append(str(path))
    return found


def _only_file(tar: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as opened:
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
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", errors="surrogateescape") as old:
        info = old.next()
        if info is None or not info.isreg():
            raise OSError("it is no plain file")
        info.size = len(data)
        info.pax_headers = {}
        with tarfile.open(fileobj=packed, mode="w", errors="surrogateescape") as new:
            new.addfile(info, io.BytesIO(data))
    return packed.getvalue()
