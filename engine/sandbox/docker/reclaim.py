"""Emptying a folder of this machine whose files belong to a container's users."""

from __future__ import annotations

import secrets
from pathlib import Path

import anyio

from ...errors import SandboxError
from .api import Engine
from .labels import own_labels

_PLACE = "/reclaim"
_SCRIPT = f"rm -rf -- {_PLACE}/* {_PLACE}/.[!.]* {_PLACE}/..?*"


async def empty_folder(engine: Engine, folder: Path, image: str) -> None:
    """Remove all in a folder (an absolute path), as root in a container. Raises SandboxError."""
    config = {
        "Image": image,
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [_SCRIPT],
        "User": "0:0",
        "WorkingDir": "/",
        "Labels": own_labels(),
        "NetworkDisabled": True,
        "HostConfig": {
            "LogConfig": {"Type": "none"},
            "NetworkMode": "none",
            "Mounts": [{"Type": "bind", "Source": str(folder), "Target": _PLACE}],
        },
    }
    container, _ = await engine.create(f"trialog-reclaim-{secrets.token_hex(6)}", config)
    try:
        async with engine.next_exit(container) as exit_code:
            await engine.start(container)
            code = await exit_code()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(10):
            await engine.remove(container)
    if code != 0:
        raise SandboxError(f"{folder}: its files could not be removed (exit code {code})")
