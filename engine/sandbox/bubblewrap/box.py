"""One sandbox: folders that stay, and phases that come and go."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import CancelScope, to_thread

from ....events.errors import said
from ....events.kinds.parts import SkippedPath
from ...archive import copy_out, pack_folder, place_file, remove_tree
from ...errors import SandboxError, SandboxGone, SandboxStartTimeout
from ...memory_file import memory_file
from ..listening import listen_inside
from ..protocol import Command, Exit, FileSeen, GivenFile, Listener, Python, Tree
from .changes import list_changes
from .descriptors import options_file, stray_descriptors
from .entries import find_changed, look, put_back, replace
from .keeping import Beside
from .layout import Layout, is_system, real_place
from .limits import Held
from .phase import BWRAP, Phase
from .pythons import find_python
from .records import MARK, forget_record


class _Ready(NamedTuple):
    """What a phase is started with; the descriptors are its own."""

    options: int
    stdin: int
    stray: list[int]
    """Descriptors that are not handed on."""
    killed: int
    """Processes that had been killed for want of memory before it."""
    program: str
    beside: Beside | None


@functools.cache
def program_on(path: str | None) -> str:
    """Where bwrap is on a PATH, so that no start tries every folder again. Blocks."""
    return shutil.which(BWRAP, path=path) or BWRAP


class BubblewrapSandbox:
    """A sandbox of bubblewrap's; made by BubblewrapBackend.create."""

    def __init__(
        self, box_id: str, own: Path, layout: Layout, held: Held, network: bool, state: Path
    ) -> None:
        self._id = box_id
        self._own = own
        self._layout = layout
        self._held = held
        self._state = state
        self._phase: Phase | None = None
        self._kept: Phase | None = None
        """A phase that goes on beside the next one."""
        self._scope: CancelScope | None = None
        self._over: anyio.Event | None = None
        """Set when the phase that runs is over and dead."""
        self._warnings = list(held.warnings)
        if network:
            self._warnings.append(
                ("network_shared", "the task has a network: it is the host's own, ports included")
            )

    @property
    def id(self) -> str:
        """A random name; the phases' processes carry it."""
        return self._id

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """Codes and messages of what could not be had as asked."""
        return self._warnings

    @property
    def own_loopback(self) -> bool:
        """Unless its task has a network."""
        return not self._layout.shares_network

    @property
    def phase_id(self) -> int | None:
        """The id on the host of the running phase's first process, once it has one."""
        return None if self._phase is None else self._phase.inner

    async def run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        """Run one phase; see the protocol."""
        if self._over is not None:
            raise SandboxError("a phase is running in this sandbox already")
        if command.user not in (None, str(os.geteuid())):
            raise SandboxError(
                f"bubblewrap has one user inside, so nothing can run as {command.user!r}; "
                "use --sandbox docker"
            )
        over = self._over = anyio.Event()
        try:
            with CancelScope() as self._scope:
                return await self._run(command, output)
            raise SandboxGone("the sandbox was removed while a phase ran in it")
        finally:
            over.set()
            self._over = None

    async def _run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        if command.listener is not None and not self.own_loopback:
            raise SandboxError("the loopback of a sandbox with a network is not its own")
        if command.network and not self._layout.lends_network:
            raise SandboxError("the sandbox was not made to have a network")
        if command.keep and self._kept is not None:
            raise SandboxError("one phase at most can be kept")
        ready = await to_thread.run_sync(self._before, command)
        begun = anyio.current_time()
        try:
            phase = self._phase = Phase.start(
                f"{MARK}{self._id}",
                self._words(command),
                ready.options,
                ready.stdin,
                stray=ready.stray,
                gated=self._held.anything or command.listener is not None,
                keep=command.keep,
                beside=ready.beside,
                program=ready.program,
            )
        finally:
            if ready.beside is not None:
                ready.beside.close()
        dead = False
        try:
            why = await phase.watch(
                output,
                prepare=partial(self._prepare, command.listener),
                start_timeout=command.start_timeout,
                seconds=command.timeout,
                idle_seconds=command.idle_timeout,
                quiet_for=command.quiet_for,
            )
            if phase.stays:
                code, left = phase.go_on(output), phase.left
                self._kept = phase
            else:
                killed = [] if why == "exit" and not command.keep else await phase.kill()
                code = phase.ended(output)
                left = phase.left if why == "exit" else killed
            dead = True
            duration = anyio.current_time() - begun
        finally:
            if not dead:
                await phase.kill()
            if self._kept is not phase:
                phase.close()
                await self._end_kept()
            self._phase = None
        if why == "start":
            raise SandboxStartTimeout(f"no phase could start within {command.start_timeout:g} s")
        if not phase.has_started:
            raise await self._start_error(phase.complaint)
        killed_now = 0
        if self._held.counts_memory:
            killed_now = await to_thread.run_sync(self._killed_for_memory)
        return Exit(
            ended_by=why,
            code=code if why == "exit" else None,
            duration=duration,
            left=left,
            out_of_memory=killed_now > ready.killed,
        )

    async def _prepare(self, listener: Listener | None, first: int) -> None:
        """Limit a phase by its first process, and listen where it can."""
        if self._held.anything:
            try:
                await to_thread.run_sync(self._held.apply, first)
            except OSError as error:
                raise SandboxError(f"the sandbox's limits can't be set: {said(error)}") from error
        if listener is not None:
            listener.take(await to_thread.run_sync(listen_inside, first, listener.port))

    def _beside(self) -> Beside | None:
        """What a phase enters to have the network of the one that was kept."""
        kept = self._kept
        if kept is None or kept.inner is None or self._layout.shares_network:
            return None
        try:
            return Beside(kept.inner)
        except OSError as error:
            raise SandboxGone(
                f"what the phase before had left is gone: {error.strerror}"
            ) from error

    async def _end_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            try:
                await kept.kill()
            finally:
                kept.close()

    def _killed_for_memory(self) -> int:
        group = self._held.group
        return 0 if group is None else group.killed_for_memory()

    async def _start_error(self, complaint: str) -> SandboxError:
        if not await to_thread.run_sync(self._own.is_dir):
            return SandboxGone(f"the sandbox's folder {self._own} is gone")
        return SandboxError(f"bubblewrap could not start: {complaint}")

    def _words(self, command: Command) -> list[str]:
        """The program and its words. Variables that a shell does not hand on go through `env`."""
        _, unusual = self._layout.environment(command)
        if not unusual:
            return command.argv
        return [
            "/usr/bin/env",
            *(f"{name}={value}" for name, value in unusual.items()),
            *command.argv,
        ]

    def _before(self, command: Command) -> _Ready:
        killed = self._killed_for_memory()
        stray = stray_descriptors()
        program = program_on(os.environ.get("PATH"))
        beside = self._beside()
        try:
            return _Ready(*self._descriptors(command), stray, killed, program, beside)
        except BaseException:
            if beside is not None:
                beside.close()
            raise

    def _descriptors(self, command: Command) -> tuple[int, int]:
        self._check_there()
        usual, _ = self._layout.environment(command)
        options = self._layout.arguments(
            usual,
            keep=command.keep,
            beside=self._kept is not None,
            network=command.network,
        )
        if any("\0" in word for word in [*options, *command.argv]):
            raise SandboxError("a program's words and variables can't hold a NUL byte")
        arguments = options_file(options)
        try:
            if command.stdin:
                return arguments, memory_file(command.stdin)
            return arguments, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            os.close(arguments)
            raise

    async def save_tree(self, path: str, destination: Path, *, cap: int) -> Tree:
        """Pack a folder; see the protocol."""
        return await to_thread.run_sync(self._save_tree, path, destination, cap)

    def _save_tree(self, path: str, destination: Path, cap: int) -> Tree:
        self._check_there()
        place = self._layout.host_place(path)
        if place is None:
            raise SandboxError(f"{path} is the host's own, not the sandbox's")
        try:
            folder = real_place(*place)
        except (FileNotFoundError, NotADirectoryError):
            folder = None
        if folder is None or not folder.is_dir():
            raise SandboxError(f"there is no folder {path} in the sandbox")
        return pack_folder(folder, destination, cap)

    def _check_there(self) -> None:
        if not self._own.is_dir():
            raise SandboxGone(f"the sandbox's folder {self._own} is gone")
        self._layout.unlock()

    async def copy_file(self, path: str, destination: Path, *, cap: int) -> list[SkippedPath]:
        """Copy a file or a folder's files out; see the protocol."""
        return await to_thread.run_sync(self._copy_file, path, destination, cap)

    def _copy_file(self, path: str, destination: Path, cap: int) -> list[SkippedPath]:
        self._check_there()
        place = self._layout.host_place(path)
        if place is None:
            own = is_system(path)
            reason = "it is the host's own, not the sandbox's" if own else "there is no such file"
            return [SkippedPath(path=path.lstrip("/"), reason=reason)]
        return _copy(path, place, destination, cap)

    async def put_files(self, files: Sequence[GivenFile]) -> None:
        """Copy files of the host in, before the first phase; see the protocol."""
        await to_thread.run_sync(self._put_files, files)

    def _put_files(self, files: Sequence[GivenFile]) -> None:
        self._check_there()
        for file in files:
            place = self._layout.host_place(file.path)
            if place is None:
                raise SandboxError(
                    f"{file.path} can't be had here: bubblewrap runs on the host's own system"
                )
            place_file(file, *place)

    async def changed_outside(self) -> list[str] | None:
        """Paths in /tmp, /logs and HOME, which were empty in the beginning."""
        return await to_thread.run_sync(self._changed_outside)

    def _changed_outside(self) -> list[str]:
        self._check_there()
        return list_changes(self._layout)

    def still(self) -> AbstractAsyncContextManager[None]:
        """What is kept runs on; every step is safe beside it. See the protocol."""
        return nullcontext()

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """Paths in the sandbox's own folders, which began empty; see the protocol."""
        return await to_thread.run_sync(self._changed, wanted, links)

    def _changed(
        self, wanted: Callable[[str], bool], links: Callable[[bytes], bool] | None
    ) -> list[str]:
        self._check_there()
        return find_changed(self._layout, wanted, links=links)

    async def look(self, path: str, *, cap: int, in_image: bool = False) -> FileSeen:
        """What is at a path; see the protocol."""
        return await to_thread.run_sync(partial(look, self._layout, path, cap, in_image=in_image))

    async def put_back(self, path: str) -> None:
        """Remove what is at a path, since there was nothing; see the protocol."""
        await to_thread.run_sync(put_back, self._layout, path)

    async def replace(self, path: str, data: bytes) -> None:
        """Give a file other bytes; see the protocol."""
        await to_thread.run_sync(replace, self._layout, path, data)

    async def find_python(self) -> Python | None:
        """The host's own python3; see the protocol."""
        return await to_thread.run_sync(find_python)

    async def remove(self) -> None:
        """Kill what runs and remove everything."""
        if self._over is not None and self._scope is not None:
            self._scope.cancel()
            await self._over.wait()
        await self._end_kept()
        await to_thread.run_sync(self.discard)

    def discard(self) -> None:
        """Remove everything, when nothing runs; blocks."""
        remove_tree(self._own)
        if self._held.group is not None:
            self._held.group.remove()
        forget_record(self._state, self._id)


def _copy(path: str, place: tuple[Path, str], destination: Path, cap: int) -> list[SkippedPath]:
    """Copy out; the paths that are given back are those that they have inside."""
    folder, rest = place
    skipped = copy_out(folder, rest, destination, cap)
    if not skipped:
        return []
    top = path.strip("/")
    inside: list[SkippedPath] = []
    for each in skipped:
        below = each.path.removeprefix(rest).lstrip("/") if rest else each.path
        name = f"{top}/{below}" if below and below != "." else top
        inside.append(SkippedPath(path=name, reason=each.reason, target=each.target))
    return inside
