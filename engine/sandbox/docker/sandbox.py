"""One container that lives through a trial's phases."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from ....events.kinds.parts import Process, SkippedPath
from ...errors import SandboxError, SandboxGone
from ..listening import listen_inside
from ..protocol import (
    Command,
    Exit,
    FileSeen,
    GivenFile,
    Listener,
    Python,
    SandboxSpec,
    Tree,
)
from . import keeping
from .api import Engine, EngineRefused, is_gone
from .changes import Changes, overlay
from .config import HOSTS, HOSTS_TEXT, runs_by_exec, same_user
from .keeping import Freezer
from .layers import LayeredFiles, OverlayFiles, Place
from .listening import GATE, first_process, make_gate
from .network import OwnNetwork
from .phase import CONTROL, SCRIPT, STDIN, PhaseOutput, new_mark, script
from .pythons import Pythons
from .remote import RemoteFiles
from .running import Following
from .trees import copy_file, put_files, save_tree
from .ways import ByExec, Direct, Way

KILLED = 137
NO_PROGRAM = 127
"""As a shell exits where a program is not there."""
_NO_PROGRAM = re.compile(r"exec.*(no such file|not found|permission denied)", re.I | re.S)
STAY_UP = b"while :; do sleep 3600; done\n"

_UNFROZEN = "unable to freeze"
"""What the engine says where processes kept it from freezing them."""


class DockerSandbox:
    """A container. It runs only while a phase does."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        spec: SandboxSpec,
        *,
        warnings: list[tuple[str, str]],
        changes: Changes,
        pythons: Pythons,
        volume: str | None = None,
        network: OwnNetwork | None = None,
    ) -> None:
        """`network`: what is lent to a phase."""
        self._engine = engine
        self._container = container
        self._spec = spec
        self._by_exec = runs_by_exec(spec)
        self._warnings = warnings
        self._changes = changes
        self._pythons = pythons
        self._volume = volume
        self._reached: OverlayFiles | RemoteFiles | None = None
        self._inspected: dict[str, Any] | None = None
        self._running = False
        self._had_a_phase = False
        self._kept = False
        """Processes of the last phase are there still."""
        self._freezer = Freezer(engine, container)
        self._network = network
        self._has_network = False
        """One was lent, and not taken back."""
        self._gate = -1
        """A descriptor, while a phase is held back."""

    @property
    def id(self) -> str:
        """The container's id."""
        return self._container

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """Codes and messages of what could not be had as asked."""
        return list(self._warnings)

    @property
    def own_loopback(self) -> bool:
        """Each container has one."""
        return True

    async def run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        """Run one phase to its end; see the protocol."""
        if self._running:
            raise RuntimeError("a sandbox runs one phase at a time")
        self._running = True
        try:
            with self._noticing():
                return await self._run(command, output)
        finally:
            self._running = False

    async def _run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        way = self._way(command)
        mark = new_mark()
        env = {**self._spec.env, **command.env}
        listener = command.listener
        text = script(
            mark, command.argv, env, self._spec.workdir,
            stays=command.keep, gate=None if listener is None else GATE,
        )  # fmt: skip
        await self._lend_network(wanted=command.network)
        if command.keep:
            await self._refuse_to_keep(command)
        # What stays from an earlier phase may not read what this one is given.
        mode = 0o600 if self._kept else 0o644
        await to_thread.run_sync(_write_control, self._spec.scratch, text, command.stdin, mode)
        printed = PhaseOutput(mark, output)
        left: list[Process] = []

        async def stopping() -> None:
            left.extend(await self._running_now(printed))

        ours: list[int | None] = []

        async def end_command() -> None:
            assert printed.first is not None
            own = await keeping.end_command(self._engine, self._container, printed.first)
            ours.append(own)

        stop = end_command if command.keep else None
        prepare = None if listener is None else partial(self._prepare, listener)
        following = Following(way, printed, command, self._kill, stop, prepare)
        try:
            async with self._gated(listener is not None):
                ended_by = await following.run(stopping)
        except SandboxGone:
            raise
        except SandboxError as error:
            # Its first phase had a shell: whoever worked in the sandbox took it away since then.
            if not (self._had_a_phase and _NO_PROGRAM.search(str(error))):
                raise
            output(f"{error}\n".encode())
            return Exit(ended_by="exit", code=NO_PROGRAM, duration=following.duration)
        self._had_a_phase = True
        if ended_by == "exit":
            code = await self._code(following, printed)
            left = printed.left
        else:
            code = None
        self._kept = command.keep
        if command.keep and ended_by != "exit":
            left = [one for one in printed.left if one.pid not in ours] if printed.ended else []
        if self._by_exec and not command.keep:
            await self._kill()
        return Exit(
            ended_by=ended_by,
            code=code,
            duration=following.duration,
            left=left,
            out_of_memory=await self._out_of_memory(code),
        )

    @asynccontextmanager
    async def _gated(self, gated: bool) -> AsyncGenerator[None]:
        """The phase's gate is there meanwhile."""
        if not gated:
            yield
            return
        self._gate = await to_thread.run_sync(make_gate, self._spec.scratch)
        try:
            yield
        finally:
            os.close(self._gate)

    async def _prepare(self, listener: Listener) -> None:
        """Listen in the container, and let its phase go on."""
        told: int = (await self._engine.inspect(self._container))["State"]["Pid"]
        first = await to_thread.run_sync(first_process, self._container, told)
        listener.take(await to_thread.run_sync(listen_inside, first, listener.port))
        os.write(self._gate, b"go\n")

    async def _lend_network(self, *, wanted: bool) -> None:
        """Have a network for this phase, or have none."""
        if self._spec.limits.network or wanted == self._has_network:
            return
        if self._network is None or not self._spec.lends_network:
            raise SandboxError("the sandbox was not made to have a network")
        if wanted:
            self._has_network = True
            await self._network.lend(self._container)
        else:
            await self._network.take_back(self._container)
            self._has_network = False

    def _way(self, command: Command) -> Way:
        if self._by_exec:
            user = command.user
            if self._spec.keeps_processes and not command.keep:
                user = user or keeping.ROOT
            return ByExec(self._engine, self._container, user)
        if not same_user(command.user or self._spec.image.user, self._spec.image.user):
            raise SandboxError(
                f"a phase as user {command.user!r} needs a sandbox made for separate users"
            )
        return Direct(self._engine, self._container)

    async def _refuse_to_keep(self, command: Command) -> None:
        """Raise SandboxError where what this phase leaves could not be kept from the next."""
        if not self._spec.keeps_processes:
            raise SandboxError("a phase that is kept needs a sandbox made for it")
        await self._engine.start(self._container)
        closed = [mount.target for mount in self._spec.mounts if mount.closed]
        await keeping.refuse_if_within_reach(self._engine, self._container, command.user, closed)

    @asynccontextmanager
    async def _still(self) -> AsyncGenerator[None]:
        """What was kept stands still meanwhile."""
        if not self._kept:
            yield
            return
        async with self._freezer.still():
            yield

    async def _code(self, following: Following, printed: PhaseOutput) -> int:
        """The exit code of a phase that ended; a phase that never began, or was cut, is a fault."""
        code = printed.code if following.code is None else following.code
        if not printed.begun:
            raise SandboxError(
                "the sandbox's first process could not run: /bin/sh ended with exit code "
                f"{code} and said {printed.early!r}. The image needs /bin/sh, and the engine must "
                "see this machine's folders"
            )
        if printed.code is None and code == KILLED and not self._by_exec:
            state = (await self._engine.inspect(self._container))["State"]
            if not state["OOMKilled"]:
                raise SandboxGone(
                    f"container {self._container[:12]} was killed from outside while it ran"
                )
        return KILLED if code is None else code

    async def _out_of_memory(self, code: int | None) -> bool:
        if code == 0 or (self._spec.limits.memory_mb is None and code != KILLED):
            return False
        return bool((await self._engine.inspect(self._container))["State"]["OOMKilled"])

    async def _running_now(self, printed: PhaseOutput) -> list[Process]:
        """What runs in the container beside its first process and what an entrypoint had begun."""
        listed: list[tuple[int, int, str]] = []
        with anyio.move_on_after(2):
            listed = await self._engine.processes(self._container)
        there = {pid for pid, _, _ in listed}
        others = printed.before
        found: list[Process] = []
        for pid, parent, name in listed:
            if parent not in there and name == "sh":
                continue  # first processes: the container's, and the phase's where it came by exec
            if name in others:
                others.remove(name)
                continue
            found.append(Process(pid=pid, name=name))
        return found

    async def _kill(self) -> None:
        await self._engine.kill(self._container)

    async def stay_up(self) -> None:
        """Run without a phase, until it is killed: for programs of whoever looks into it."""
        with self._noticing():
            await to_thread.run_sync(_write_control, self._spec.scratch, STAY_UP, b"")
            await self._engine.start(self._container)

    async def save_tree(self, path: str, destination: Path, *, cap: int) -> Tree:
        """Pack a folder of the sandbox; see the protocol."""
        with self._noticing():
            async with self._still():
                return await save_tree(
                    self._engine, self._container, path, destination, cap, self._spec.scratch
                )

    async def copy_file(self, path: str, destination: Path, *, cap: int) -> list[SkippedPath]:
        """Copy a regular file or a folder's regular files out; see the protocol."""
        with self._noticing():
            async with self._still():
                return await copy_file(
                    self._engine, self._container, path, destination, cap, self._spec.scratch
                )

    async def put_files(self, files: Sequence[GivenFile]) -> None:
        """Copy files of the host in, before the first phase; see the protocol."""
        with self._noticing():
            await put_files(self._engine, self._container, files, self._spec.mounts)

    async def changed_outside(self) -> list[str] | None:
        """Paths changed outside the workspace and the mounts; see the protocol."""
        inside = [self._spec.workdir, CONTROL, *(mount.target for mount in self._spec.mounts)]
        with self._noticing():
            layers = overlay(await self._seen())
            async with self._still():
                return await self._changes.outside(
                    self._engine, self._container, inside, self._spec.image, layers
                )

    @asynccontextmanager
    async def still(self) -> AsyncGenerator[None]:
        """What was kept is frozen; see the protocol. An engine that can't freeze goes without."""
        async with AsyncExitStack() as stack:
            try:
                with self._noticing():
                    await stack.enter_async_context(self._still())
            except EngineRefused as error:
                if _UNFROZEN in error.message:
                    raise OSError(errno.EBUSY, "its processes can't be held still") from error
            yield

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """Paths that are not as the image has them; see the protocol."""
        with self._noticing():
            return await (await self._files()).changed(wanted, links=links)

    async def look(self, path: str, *, cap: int, in_image: bool = False) -> FileSeen:
        """What is at a path; see the protocol."""
        with self._noticing():
            return await (await self._files()).look(path, cap, in_image=in_image)

    async def put_back(self, path: str) -> None:
        """Make a path as the image has it; see the protocol."""
        with self._noticing():
            await (await self._files()).put_back(path)

    async def replace(self, path: str, data: bytes) -> None:
        """Give a file other bytes; see the protocol."""
        with self._noticing():
            await (await self._files()).replace(path, data)

    async def _files(self) -> OverlayFiles | RemoteFiles:
        """The container's files: in the engine's storage, where this process may change it."""
        if self._reached is not None:
            return self._reached
        inspected = await self._seen()
        mounts: list[dict[str, Any]] = inspected.get("Mounts") or []
        workdir = self._spec.workdir
        volume = next(
            (
                one
                for one in mounts
                if one.get("Type") == "volume" and one["Destination"] == workdir
            ),
            None,
        )
        others = [CONTROL, *(mount.target for mount in self._spec.mounts)]
        layers = overlay(inspected)
        # What is mounted in a container that runs may be changed through its engine alone.
        if (
            layers is not None
            and not self._kept
            and await to_thread.run_sync(os.access, layers.upper, os.W_OK)
        ):
            place = None if volume is None else Place(workdir, Path(volume["Source"]))
            self._reached = OverlayFiles(LayeredFiles(layers, place, others))
        else:
            assert self._spec.image.digest is not None
            image = self._spec.image.digest
            self._reached = RemoteFiles(
                self._engine,
                self._container,
                image,
                others,
                None if volume is None else workdir,
                self._changes,
                workdir,
            )
        return self._reached

    async def _seen(self) -> dict[str, Any]:
        """What the engine tells of the container's storage, which stays as it is."""
        if self._inspected is None:
            self._inspected = await self._engine.inspect(self._container)
        return self._inspected

    async def find_python(self) -> Python | None:
        """The image's own python3; see the protocol."""
        assert self._spec.image.digest is not None
        return await self._pythons.find(self._spec.image.digest)

    async def remove(self) -> None:
        """Kill what runs and remove the container and its volume."""
        if self._reached is not None:
            await self._reached.aclose()
        await self._engine.remove(self._container)
        if self._volume is not None:
            await self._engine.remove_volume(self._volume)

    @contextmanager
    def _noticing(self) -> Generator[None]:
        """Say it when the container is gone."""
        try:
            yield
        except EngineRefused as error:
            if is_gone(error):
                raise SandboxGone(
                    f"container {self._container[:12]} was removed from outside"
                ) from error
            raise


def make_control(scratch: Path) -> None:
    """Make the folder that the container sees as its control folder, and its hosts file."""
    (scratch / "control").mkdir(mode=0o755, exist_ok=True)
    (scratch / "control").chmod(0o755)
    hosts = scratch / HOSTS
    hosts.write_text(HOSTS_TEXT)
    hosts.chmod(0o644)
    _write_control(scratch, b"exit 125\n", b"")


def _write_control(scratch: Path, text: bytes, stdin: bytes, mode: int = 0o644) -> None:
    for name, data in ((SCRIPT, text), (STDIN, stdin)):
        place = scratch / "control" / name
        new = place.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        os.replace(new, place)
