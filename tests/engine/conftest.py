"""A sandbox for tests that need none: phases are plain processes of the host in plain folders."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest

from trialog.engine.sandbox.protocol import Command, Exit, FileSeen, GivenFile, Mount, Python, Tree
from trialog.engine.trial.folders import TrialFolders
from trialog.events.clock import SystemClock
from trialog.events.kinds.parts import Process, SkippedPath
from trialog.events.log import BlobStore
from trialog.events.memory import MemoryLog


class FakeSandbox:
    """Runs phases as processes of the host; paths of mounts become the host's in words and env."""

    id = "fake-1"
    warnings: list[tuple[str, str]] = []

    def __init__(self, workspace: Path, mounts: list[Mount]) -> None:
        self.workspace = workspace
        self.mounts = mounts
        self.commands: list[Command] = []
        self.fails_before: Exception | None = None
        """Raised in place of the next phase."""
        self.fails_after: Exception | None = None
        """Raised at the end of the next phase."""
        self.exit: Exit | None = None
        """Given back in place of how the next phase ended."""
        self.left: list[Process] = []
        self.copied: list[SkippedPath] | Exception | None = None
        """What the next copy gives back or raises, in place of copying."""

    def host(self, text: str) -> str:
        """A path inside as the host's."""
        for mount in self.mounts:
            if text == mount.target or text.startswith(f"{mount.target}/"):
                return str(mount.source) + text[len(mount.target) :]
        return text

    async def run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        """One phase."""
        self.commands.append(command)
        if self.fails_before is not None:
            raise self.fails_before
        process = await anyio.open_process(
            [self.host(word) for word in command.argv],
            cwd=self.workspace,
            env={"PATH": os.environ["PATH"]}
            | {name: self.host(value) for name, value in command.env.items()},
            stderr=-2,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        code: int | None = None
        try:
            with anyio.move_on_after(command.timeout):
                try:
                    await process.stdin.send(command.stdin)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass
                await process.stdin.aclose()
                async for chunk in process.stdout:
                    output(chunk)
                code = await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                if code is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
                await process.aclose()
        if self.fails_after is not None:
            raise self.fails_after
        if self.exit is not None:
            return self.exit
        return Exit(
            ended_by="timeout" if code is None else "exit",
            code=None if code is None else code if code >= 0 else 128 - code,
            duration=0.01,
            left=self.left,
        )

    async def save_tree(self, path: str, destination: Path, *, cap: int) -> Tree:
        """Not needed here."""
        raise NotImplementedError

    async def copy_file(self, path: str, destination: Path, *, cap: int) -> list[SkippedPath]:
        """Copy one file."""
        if isinstance(self.copied, Exception):
            raise self.copied
        if self.copied is not None:
            return self.copied
        source = anyio.Path(self.host(path))
        await anyio.Path(destination).write_bytes(await source.read_bytes())
        return []

    async def put_files(self, files: Sequence[GivenFile]) -> None:
        """Not needed here."""
        raise NotImplementedError

    async def changed_outside(self) -> list[str] | None:
        """Nothing is known."""
        return None

    def still(self) -> AbstractAsyncContextManager[None]:
        """Nothing runs inside."""
        return nullcontext()

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """Nothing."""
        return []

    async def look(self, path: str, *, cap: int, in_image: bool = False) -> FileSeen:
        """Nothing is anywhere."""
        return FileSeen(kind="missing")

    async def put_back(self, path: str) -> None:
        """Nothing to do."""

    async def replace(self, path: str, data: bytes) -> None:
        """Nothing to do."""

    async def find_python(self) -> Python | None:
        """There is none."""
        return None

    async def remove(self) -> None:
        """Nothing to do."""


class Bench:
    """A trial's folders, a fake sandbox over them, a blob store and the machine's clock."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.folders = TrialFolders(folder / "scratch", workspace="/app")
        self.blobs: BlobStore = MemoryLog().blobs
        self.clock = SystemClock()
        self.sandbox = FakeSandbox(self.workspace, [])

    async def prepare(self, *, prompt: str = "", solution: Path | None = None) -> None:
        """Make everything."""
        self.workspace.mkdir()
        await self.folders.prepare(prompt=prompt, solution=solution)
        self.sandbox.mounts = self.folders.mounts()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Everything that one phase needs, not prepared yet."""
    return Bench(tmp_path)


class Refusals:
    """Makes opening names fail as it would for another user's files; root is refused nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left: dict[str, int] = {}
        opened = os.open

        def refuse(path: Any, *args: Any, **more: Any) -> int:
            name = os.path.basename(os.fsdecode(path))
            if self._left.get(name, 0) > 0:
                self._left[name] -= 1
                raise PermissionError(13, "Permission denied")
            return opened(path, *args, **more)

        monkeypatch.setattr(os, "open", refuse)

    def refuse(self, name: str, times: int = 1000) -> None:
        """Refuse to open what has this name, so many times."""
        self._left[name] = times


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    """Refuses to open files by name."""
    return Refusals(monkeypatch)
