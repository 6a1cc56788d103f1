"""``command:PATH``: any program or script of the host as an agent."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from anyio import to_thread

from ..errors import ConfigError
from .program import not_copied, program_environment, words_to_run
from .protocol import AgentContext, AgentOutcome
from .reporting import run_reporting

PROGRAM_CAP = 256 * 1024 * 1024
"""Bytes of a program."""


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
        began = context.clock.monotonic()
        try:
            argv = await to_thread.run_sync(self._put, context)
        except OSError as error:
            return not_copied(context, error, began)
        return await run_reporting(context, self._file, argv, program_environment(context))

    def _put(self, context: AgentContext) -> list[str]:
        """Copy the program in, and what it is run for; the command that runs it inside."""
        folders = context.folders
        folders.put_run(context.assignment.document())
        program = folders.put_program(self._file, self._data)
        return words_to_run(program, folders.inside(program))


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
