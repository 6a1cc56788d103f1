"""``command:PATH``: any program or script of the host as an agent."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from msgspec.structs import replace

from ...events.kinds import AgentFailed
from ..errors import ConfigError
from ..tasks.scripts import interpreter
from ..trial.folders import AGENT_FOLDER
from .program import program_environment, run_program
from .protocol import AgentContext, AgentOutcome
from .report import Following, report_age
from .report_file import ACTIONS_FILE

PROGRAM_CAP = 256 * 1024 * 1024
"""Bytes of a program."""

CATCH_UP_SEC = 5.0
"""For the report of a phase that was cut off."""

_T = TypeVar("_T")
_NATIVE = b"\x7fELF"


class CommandAgent:
    """A program that was read once, so that every trial runs the same bytes."""

    version: str | None = None
    needs_solution = False
    takes_settings = True

    def __init__(self, path: Path, data: bytes) -> None:
        self.name = f"command:{path}"
        self.digest: str | None = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._file = path.name
        self.program: bytes | None = data
        self._data = data

    @classmethod
    def load(cls, path: Path) -> CommandAgent:
        """Read a program; blocks. Raises ConfigError."""
        return cls(path, _read_program(path))

    async def run(self, context: AgentContext) -> AgentOutcome:
        """Run the program in the workspace, and pass on what it reports while it does."""
        folders = context.folders
        began = context.clock.monotonic()
        try:
            argv = await to_thread.run_sync(self._put, context)
        except OSError as error:
            failed = AgentFailed(
                error=f"the agent's program could not be copied in: {error}",
                category="transfer_failed",
                duration=round(context.clock.monotonic() - began, 6),
            )
            return AgentOutcome(end=failed)
        env = program_environment(context) | {"TRIALOG_ACTIONS": f"{AGENT_FOLDER}/{ACTIONS_FILE}"}
        report = Following(context, since=context.clock.now())
        quiet_for = partial(report_age, folders.agent_logs)
        run = partial(run_program, context, self._file, argv, env, quiet_for=quiet_for)
        try:
            ran = await _beside(report.follow, run)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CATCH_UP_SEC, shield=True):
                await report.catch_up()
            raise
        if isinstance(ran, AgentOutcome):
            await report.catch_up()
            return ran
        await report.finish()
        last = replace(ran.exit_action, turn=report.turns + 1)
        return AgentOutcome(events=[last], end=ran.finished, killed=ran.exit.left)

    def _put(self, context: AgentContext) -> list[str]:
        """Copy the program in, and what it is run for; the command that runs it inside."""
        folders = context.folders
        folders.put_run(context.assignment.document())
        program = folders.put_program(self._file, self._data)
        inside = folders.inside(program)
        if self._data.startswith(_NATIVE):
            return [inside]
        return [*interpreter(program), inside]


async def _beside(
    other: Callable[[], Coroutine[Any, Any, None]], work: Callable[[], Awaitable[_T]]
) -> _T:
    """Do the work, and the other thing as long as that takes."""
    done: list[_T] = []
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            done.append(await work())
            tasks.cancel_scope.cancel()
    except ExceptionGroup as group:
        first, *others = group.exceptions
        if others:
            raise
        raise first from None  # as if it had been done alone
    return done[0]


def _read_program(path: Path) -> bytes:
    place = str(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ConfigError("this is a folder; give the program in it", file=place, key="command")
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError("this is no regular file", file=place, key="command")
        if status.st_size > PROGRAM_CAP:
            raise ConfigError(
                f"the program is over {PROGRAM_CAP // 2**20} MiB", file=place, key="command"
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            "there is no such program; give the path of a file of this machine",
            file=place,
            key="command",
        ) from None
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", file=place, key="command") from None
    except ValueError:
        raise ConfigError("this is no path", file=repr(place), key="command") from None
    if not data.strip():
        raise ConfigError("the program is empty", file=place, key="command")
    return data
