"""A command in a sandbox that was kept, on the terminal of whoever asks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from anyio import to_thread

from ...archive import remove_tree
from ...errors import SandboxGone, SandboxUnavailable
from ..protocol import Command, SandboxSpec
from .descriptors import options_file
from .etc import copy_etc
from .layout import Layout, home_folder

OWN = "bubblewrap"
"""The folder below a sandbox's scratch folder that is this backend's."""

_ENV = "/usr/bin/env"
"""Its exit code tells a program that is not there (127) from one that failed; bwrap's is 1."""

_SPEC = ".spec.json"
_ETC = ".etc"


def keep_spec(spec: SandboxSpec, own: Path) -> None:
    """Write down how the sandbox was made, for `exec_in`."""
    data = msgspec.json.encode(spec, enc_hook=str)
    fd = os.open(own / _SPEC, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)


async def exec_in(
    scratch: Path, argv: Sequence[str], *, env: Mapping[str, str] | None = None
) -> int:
    """Run a command in the sandbox that was kept in `scratch`, on this process's own terminal.

    Gives the exit code, 128 + n for signal n. Raises SandboxGone when no sandbox is there.
    """
    return await to_thread.run_sync(_exec_in, scratch, list(argv), dict(env or {}))


def _exec_in(scratch: Path, argv: list[str], env: dict[str, str]) -> int:
    own = scratch / OWN
    try:
        data = (own / _SPEC).read_bytes()
    except OSError as error:
        raise SandboxGone(f"there is no bubblewrap sandbox in {scratch} any more") from error
    spec = msgspec.json.decode(data, type=SandboxSpec, dec_hook=lambda kind, value: kind(value))
    etc = own / _ETC
    remove_tree(etc)
    copy_etc(etc, home_folder())
    layout = Layout(spec, own, etc)
    usual, unusual = layout.environment(Command(argv=argv, env=env))
    options = layout.arguments({**usual, **unusual})
    options.remove("--as-pid-1")  # a shell that is the first process can't be stopped by signals
    if not _terminal_is_safe():
        options.append("--new-session")
    fd = options_file(options)
    try:
        ended = subprocess.run(
            ["bwrap", "--args", str(fd), "--", *_started(argv)],
            pass_fds=[fd],
            check=False,
            env=_bare_environment(),
        )
    except FileNotFoundError:
        raise SandboxUnavailable("there is no bwrap on PATH; install bubblewrap") from None
    finally:
        os.close(fd)
    return ended.returncode if ended.returncode >= 0 else 128 - ended.returncode


def _started(argv: list[str]) -> list[str]:
    taken_amiss = argv[0].startswith("-") or "=" in argv[0]
    return argv if taken_amiss else [_ENV, *argv]


def _bare_environment() -> dict[str, str]:
    """What a terminal needs; nothing of the engine's."""
    return {name: os.environ[name] for name in ("TERM",) if name in os.environ}


def _terminal_is_safe() -> bool:
    """Whether the kernel keeps programs from typing on a terminal in its user's name."""
    try:
        return Path("/proc/sys/dev/tty/legacy_tiocsti").read_text("ascii").strip() == "0"
    except OSError:
        return False
