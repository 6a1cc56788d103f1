"""Processes that stay for the next phase: who they are, what they can't reach, how they are held.

What keeps them from the verifier is the kernel's own check of users: they are not root, can't
become root (the container has no new privileges), and closed mounts are open to root alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from ...errors import SandboxError
from ..left import number
from .api import Engine, EngineRefused

ROOT = "0:0"
"""Whom a phase runs as that comes beside kept processes."""

PROBE_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0

_PROBE = """
while read -r key real effective rest; do
  case $key in Uid:) echo "uid $real $effective" ;; esac
done </proc/self/status
for place; do
  if [ -r "$place" ] || [ -w "$place" ] || [ -x "$place" ]; then echo "open $place"; fi
done
echo asked
"""

_STOP = """
echo $$
for each in /proc/[0-9]*/status; do
  parent=
  while read -r key value rest; do
    case $key in Pid:) pid=$value ;; PPid:) parent=$value ;; esac
  done <"$each"
  if [ "$parent" = "$1" ]; then kill -KILL "$pid"; fi
done 2>/dev/null
"""


async def refuse_if_within_reach(
    engine: Engine, container: str, user: str | None, closed: Sequence[str]
) -> None:
    """Raise SandboxError when processes of a user could reach what is closed to them.

    Asked in the container itself, before anything of that user's has run in it.
    """
    told: list[str] = []
    with anyio.move_on_after(PROBE_TIMEOUT):
        told = (await _ask(engine, container, [_PROBE, *closed], user)).splitlines()
    uids = [line.split()[1:] for line in told if line.startswith("uid ")]
    if told[-1:] != ["asked"] or len(uids) != 1:
        raise SandboxError(f"whom {user or 'the image'} stands for can't be told: {told!r}")
    if "0" in uids[0]:
        raise SandboxError(
            "processes of root's can't be kept: they could write the reward; set agent.user to "
            "another user than root"
        )
    within = [line.removeprefix("open ") for line in told if line.startswith("open ")]
    if within:
        raise SandboxError(
            f"processes of user {uids[0][0]} can't be kept: {', '.join(within)} would be within "
            "their reach, since that is the user that trialog runs as; set agent.user to another"
        )


async def end_command(engine: Engine, container: str, first: int) -> int | None:
    """Kill a phase's command, the child of its first process, and nothing that it started.

    Gives the id of the process that did so, which the phase may have seen.
    """
    told = ""
    with anyio.move_on_after(STOP_TIMEOUT):
        told = await _ask(engine, container, [_STOP, str(first)], ROOT)
    return number(told.strip())


async def _ask(engine: Engine, container: str, words: list[str], user: str | None) -> str:
    script, *arguments = words
    ident = await engine.exec(container, ["/bin/sh", "-c", script, "sh", *arguments], user)
    output = engine.exec_output(ident)
    await output.open()
    try:
        chunks: list[bytes] = []
        while (data := await output.read()) is not None:
            chunks.append(data)
    finally:
        await output.close()
    return b"".join(chunks).decode("utf-8", "replace")


PAUSES = 5
"""How often freezing is tried."""


class Freezer:
    """Holds what runs in a container still while its files are read; may be nested."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        self._lock = anyio.Lock()
        self._readers = 0

    async def _pause(self) -> None:
        """Freeze; what makes processes without end may keep it from that once or twice."""
        for left in reversed(range(PAUSES)):
            try:
                await self._engine.pause(self._container)
            except EngineRefused:
                if not left:
                    raise
            else:
                return

    @asynccontextmanager
    async def still(self) -> AsyncGenerator[None]:
        """Nothing runs inside, until the last reader is done."""
        async with self._lock:
            if self._readers == 0:
                await self._pause()
            self._readers += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(STOP_TIMEOUT):
                async with self._lock:
                    self._readers -= 1
                    if self._readers == 0:
                        await self._engine.unpause(self._container)
