"""A container's files through its engine alone, beside a process that changes them."""

from __future__ import annotations

import errno
import io
import stat
import tarfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from trialog.engine.sandbox.docker.api import Engine, EngineRefused, PathStat
from trialog.engine.sandbox.docker.changes import ADDED, Changes
from trialog.engine.sandbox.docker.remote import RemoteFiles


class FakeEngine:
    """An engine whose answers are given; it counts what it is asked."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked = Counter[str]()
        self.refusals: dict[str, EngineRefused] = {}
        self.cut = False

    def _ask(self, call: str) -> None:
        self.asked[call] += 1
        if call in self.refusals:
            raise self.refusals[call]

    async def json(self, method: str, path: str) -> list[dict[str, Any]]:
        """Which paths changed: all were added."""
        return [{"Path": path, "Kind": ADDED} for path in self.files]

    async def create(self, name: str, config: dict[str, Any]) -> tuple[str, list[str]]:
        """A container of the image."""
        self._ask("create")
        return "image", []

    async def stat(self, container: str, path: str) -> PathStat | None:
        """What is at a path."""
        self._ask("stat")
        if container == "image" or path not in self.files:
            return None
        return PathStat(stat.S_IFREG, len(self.files[path]), "")

    @asynccontextmanager
    async def read_tree(self, container: str, path: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """A file as a tar."""
        self._ask("read")

        async def chunks() -> AsyncGenerator[bytes]:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as tar:
                info = tarfile.TarInfo(path.rpartition("/")[2])
                info.size = len(self.files[path])
                tar.addfile(info, io.BytesIO(self.files[path]))
            yield b"" if self.cut else packed.getvalue()

        yield chunks()

    async def write_tree(self, container: str, path: str, tar: AsyncIterator[bytes]) -> None:
        """Take a tar."""
        self._ask("write")
        async for _ in tar:
            pass


def remote(engine: FakeEngine) -> RemoteFiles:
    """The files of a container of it."""
    return RemoteFiles(cast(Engine, engine), "box", "image", [], None, Changes(), "/app")


async def test_how_often_the_engine_is_asked() -> None:
    """Nothing is asked of the image that it is known not to have, nor the same thing twice."""
    engine = FakeEngine({f"/app/{n}/conftest.py": b"x" for n in range(300)})
    files = remote(engine)
    found = await files.changed(lambda _: True, links=lambda _: True)
    assert found is not None
    assert found == sorted(engine.files)
    assert engine.asked == {"stat": 300}
    for path in found:
        assert (await files.look(path, 100)).data == b"x"
        assert (await files.look(path, 100, in_image=True)).kind == "missing"
        await files.put_back(path)
    assert engine.asked == {"stat": 600, "read": 300, "write": 300}


@pytest.mark.parametrize("call", ["stat", "read", "write"])
async def test_refusals(call: str) -> None:
    """What the engine can't reach is told in the system's terms: gone, or to be tried again."""
    path = "/app/conftest.py"
    engine = FakeEngine({path: b"x"})
    files = remote(engine)
    engine.refusals[call] = EngineRefused(500, "")
    with pytest.raises(OSError, match="can't reach") as caught:
        await (files.look(path, 100) if call == "stat" else files.replace(path, b"y"))
    assert caught.value.errno == errno.ESTALE
    if call != "stat":
        engine.refusals[call] = EngineRefused(404, "Could not find the file /app in container box")
        with pytest.raises(FileNotFoundError):
            await files.replace(path, b"y")
    engine.refusals[call] = EngineRefused(404, "No such container: box")
    with pytest.raises(EngineRefused):
        await (files.look(path, 100) if call == "stat" else files.replace(path, b"y"))


async def test_what_can_not_be_asked_about_is_among_the_changed() -> None:
    """Whoever puts it back looks again."""
    engine = FakeEngine({"/app/x": b""})
    engine.refusals["stat"] = EngineRefused(500, "")
    assert await remote(engine).changed(lambda _: False, links=lambda _: False) == ["/app/x"]


async def test_an_archive_that_was_cut_off() -> None:
    """A file that changed while it was read is tried again, too."""
    engine = FakeEngine({"/app/conftest.py": b"x"})
    engine.cut = True
    for doing in (
        remote(engine).look("/app/conftest.py", 9),
        remote(engine).replace("/app/conftest.py", b""),
    ):
        with pytest.raises(OSError, match="archive") as caught:
            await doing
        assert caught.value.errno == errno.ESTALE
