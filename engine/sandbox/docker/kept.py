"""A sandbox that was kept after its trial, to look into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyio import to_thread

from ....events.kinds.parts import Limits
from ...errors import SandboxError, SandboxGone
from ..protocol import Image, SandboxSpec
from .api import Engine, EngineRefused
from .changes import Changes
from .labels import JOB, LOG, TRIAL, WAY
from .phase import CONTROL
from .sandbox import DockerSandbox


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
    scratch = Path(control).parent
    if not await to_thread.run_sync(scratch.is_dir):
        raise SandboxError(f"the sandbox's own folder {scratch} is gone; it can't be started")
    by_exec = labels.get(WAY) == "exec"
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
        separate_users=by_exec,
    )
    return DockerSandbox(engine, found["Id"], spec, warnings=[], changes=Changes())
