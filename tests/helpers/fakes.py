"""Clocks, ids and sandboxes that do as they are told."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Literal

import anyio
import zstandard
from msgspec.structs import replace

from trialog.engine.archive import remove_tree
from trialog.engine.sandbox.protocol import (
    Command,
    Exit,
    FileSeen,
    GivenFile,
    Image,
    ImageRequest,
    Python,
    Sandbox,
    SandboxSpec,
    Tree,
)
from trialog.events.clock import format_time
from trialog.events.kinds.parts import SkippedPath


class TickingClock:
    """Each look at it is a millisecond later; the monotonic clock stands still."""

    def __init__(self, start: int = 1_790_000_000_000_000) -> None:
        self._at = start

    def now(self) -> str:
        """One millisecond after the last look."""
        self._at += 1000
        return format_time(self._at)

    def monotonic(self) -> float:
        """Always the same, so that every duration is 0."""
        return 100.0


class CountingIds:
    """Ids in order."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def event_id(self) -> str:
        """The next one, in the form of a UUIDv7."""
        return f"01900000-0000-7000-8000-{next(self._numbers):012x}"

    def suffix(self) -> str:
        """The next one, as eight hex digits."""
        return f"{next(self._numbers):08x}"


Phase = Callable[["FakeSandbox", Command, Callable[[bytes], None]], Awaitable[Exit]]


async def passes(sandbox: FakeSandbox, command: Command, output: Callable[[bytes], None]) -> Exit:
    """An agent that writes an answer; a verifier that finds it right."""
    if "test.sh" in command.argv[-1]:
        output(b"PASS\n")
        await sandbox.write("/logs/verifier/reward.txt", b"1.0\n")
    else:
        output(b"working\n")
    return Exit(ended_by="exit", code=0, duration=0.0)


class FakeSandbox:
    """Runs `backend.phase` in place of a command."""

    def __init__(self, backend: FakeBackend, spec: SandboxSpec) -> None:
        self.backend = backend
        self.spec = spec
        self.phases = 0
        self.removals = 0
        self.given: dict[str, bytes] = {}

    @property
    def id(self) -> str:
        """By its trial and folder."""
        return f"fake-{self.spec.scratch.name}"

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """None."""
        return []

    @property
    def own_loopback(self) -> bool:
        """It is the test's own process."""
        return False

    def folder(self, target: str) -> Path:
        """The host's folder that is mounted at a path."""
        return next(m.source for m in self.spec.mounts if m.target == target)

    async def write(self, path: str, data: bytes) -> None:
        """Write a file below a mount."""
        folder, _, name = path.rpartition("/")
        await anyio.Path(self.folder(folder), name).write_bytes(data)

    async def run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        """As the backend was told."""
        self.phases += 1
        self.backend.commands.append((self.spec.trial, command))
        return await self.backend.phase(self, command, output)

    async def save_tree(self, path: str, destination: Path, *, cap: int) -> Tree:
        """An archive of nothing, unless the backend was told so."""
        await self.backend.on_save(self)
        await anyio.Path(destination).write_bytes(self.backend.archive)
        return Tree(size=0, files=0)

    async def copy_file(self, path: str, destination: Path, *, cap: int) -> list[SkippedPath]:
        """What the backend was told is there."""
        found = self.backend.files.get(path)
        if isinstance(found, Exception):
            raise found
        if found is None:
            return [SkippedPath(path=path, reason="no such file")]
        await anyio.Path(destination).write_bytes(found)
        return []

    async def put_files(self, files: Sequence[GivenFile]) -> None:
        """Keep their paths and bytes."""
        await self.backend.on_put(self)
        for file in files:
            self.given[file.path] = await anyio.Path(file.source).read_bytes()

    async def changed_outside(self) -> list[str] | None:
        """Nothing, unless the backend was told so."""
        return self.backend.outside

    def still(self) -> AbstractAsyncContextManager[None]:
        """Nothing runs inside."""
        return nullcontext()

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """Nothing, unless the backend was told so."""
        await self.backend.on_changed(self)
        return []

    async def look(self, path: str, *, cap: int, in_image: bool = False) -> FileSeen:
        """Nothing is anywhere."""
        await self.backend.on_look(self)
        return FileSeen(kind="missing")

    async def put_back(self, path: str) -> None:
        """Nothing to do."""

    async def replace(self, path: str, data: bytes) -> None:
        """Nothing to do."""

    async def find_python(self) -> Python | None:
        """There is none."""
        return None

    async def remove(self) -> None:
        """As the backend was told."""
        self.removals += 1
        await self.backend.on_remove(self)
        self.backend.alive.discard(self.id)
        self.backend.removed.append(self.id)


async def nothing(*_: object) -> None:
    """Do nothing."""
    await anyio.lowlevel.checkpoint()


class FakeBackend:
    """A SandboxBackend whose every step can be replaced."""

    name: Literal["docker", "bubblewrap"] = "bubblewrap"
    no_listener: str | None = None

    def __init__(self, phase: Phase = passes) -> None:
        self.phase = phase
        self.on_prepare: Callable[[ImageRequest], Awaitable[None]] = nothing
        self.on_create: Callable[[SandboxSpec], Awaitable[None]] = nothing
        self.on_save: Callable[[FakeSandbox], Awaitable[None]] = nothing
        self.on_put: Callable[[FakeSandbox], Awaitable[None]] = nothing
        self.files: dict[str, bytes | Exception] = {}
        """What an agent leaves, by its path, and what goes wrong with taking it out."""
        self.sandboxes: list[FakeSandbox] = []
        self.on_remove: Callable[[FakeSandbox], Awaitable[None]] = nothing
        self.on_changed: Callable[[FakeSandbox], Awaitable[None]] = nothing
        self.on_look: Callable[[FakeSandbox], Awaitable[None]] = nothing
        self.on_reclaim: Callable[[Path], Awaitable[None]] = nothing
        self.outside: list[str] | None = []
        self.archive = zstandard.compress(b"\0" * 1024)
        """What a saved workspace is."""
        self.digest = "sha256:" + "0" * 64
        self.image = Image(name=None)
        """What `prepare` gives, with `digest`."""
        self.commands: list[tuple[str, Command]] = []
        self.alive: set[str] = set()
        self.removed: list[str] = []
        self.specs: list[SandboxSpec] = []
        self.requests: list[ImageRequest] = []

    async def prepare(self, request: ImageRequest) -> Image:
        """The host's own system."""
        self.requests.append(request)
        await self.on_prepare(request)
        return replace(self.image, digest=self.digest)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox that does as told."""
        self.specs.append(spec)
        await self.on_create(spec)
        sandbox = FakeSandbox(self, spec)
        self.sandboxes.append(sandbox)
        self.alive.add(sandbox.id)
        return sandbox

    async def reap(self, *, log_id: str | None = None) -> list[str]:
        """Nothing is ever left."""
        return []

    async def reclaim(self, folder: Path, image: Image | None = None) -> None:
        """As this process's own."""
        await self.on_reclaim(folder)
        await anyio.to_thread.run_sync(remove_tree, folder)

    async def aclose(self) -> None:
        """Nothing to close."""

    def agents_run(self) -> int:
        """How many agent phases there were."""
        return sum("test.sh" not in command.argv[-1] for _, command in self.commands)

    def verifiers_run(self) -> int:
        """How many verifier phases there were."""
        return sum("test.sh" in command.argv[-1] for _, command in self.commands)
