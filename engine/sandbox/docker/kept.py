"""A sandbox that was kept after its trial: programs of whoever looks into it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread

from ....events.kinds.parts import Limits
from ...errors import SandboxError, SandboxGone
from ..protocol import Command, Image, SandboxSpec
from .api import Engine, EngineRefused
from .changes import Changes
from .labels import JOB, LOG, TRIAL, WAY
from .phase import CONTROL
from .pythons import Pythons
from .sandbox import DockerSandbox
from .terminal import run_on_terminal


async def exec_in(sandbox_id: str, argv: Sequence[str], *, workdir: str) -> int:
    """Run a program in a kept sandbox, on this process's own terminal or standard streams.

    Gives its exit code. Nothing it leaves running stays. Raises SandboxGone, SandboxError.
    """
    engine = await Engine.connect()
    try:
        sandbox = await kept_sandbox(engine, sandbox_id, workdir)
        if sys.stdin.isatty() and sys.stdout.isatty():
            return await run_on_terminal(engine, sandbox, list(argv), workdir)
        given = b"" if sys.stdin.isatty() else await to_thread.run_sync(sys.stdin.buffer.read)
        ended = await sandbox.run(Command(argv=list(argv), stdin=given), _print)
        return 1 if ended.code is None else ended.code
    finally:
        await engine.aclose()


async def kept_sandbox(engine: Engine, container: str, workdir: str) -> DockerSandbox:
    """A sandbox by its container's id. Raises SandboxGone when it is no longer there."""
    try:
        found = await engine.inspect(container)
    except EngineRefused as error:
        if error.status == 404:
            raise SandboxGone(f"container {container[:12]} is no longer there") from error
        raise
    labels: dict[str, str] = found["Config"].get("Labels") or {}
    mounts: list[dict[str, Any]] = found.get("Mounts") or []
    control = next((one["Source"] for one in mounts if one["Destination"] == CONTROL), None)
    if control is None or TRIAL not in labels:
        raise SandboxError(f"container {container[:12]} is not a sandbox of this program")
    if found["State"]["Running"]:
        raise SandboxError(f"container {container[:12]} runs a phase; wait for its end")
    scratch = Path(control).parent
    if not await to_thread.run_sync(scratch.is_dir):
        raise SandboxGone(f"its own folder {scratch} is gone, without which it can't be started")
    spec = SandboxSpec(
        job=labels.get(JOB, ""),
        trial=labels[TRIAL],
        log_id=labels.get(LOG, ""),
        image=Image(
            name=found["Config"].get("Image"),
            digest=found["Image"],
            user=found["Config"].get("User") or None,
        ),
        workdir=workdir,
        limits=Limits(),
        scratch=scratch,
        separate_users=labels.get(WAY) == "exec",
    )
    return DockerSandbox(
        engine, found["Id"], spec, warnings=[], changes=Changes(), pythons=Pythons(engine)
    )


def _print(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]
