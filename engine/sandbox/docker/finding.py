"""Where the container engine is: as the Docker command line finds it."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from ...errors import SandboxUnavailable


class _Endpoint(msgspec.Struct):
    Host: str


class _Context(msgspec.Struct):
    Endpoints: dict[str, _Endpoint]


def find_engine() -> str:
    """The engine's address: DOCKER_HOST, else the current context's, else a usual socket.

    Raises SandboxUnavailable when there is none. Blocks.
    """
    named = os.environ.get("DOCKER_HOST")
    if named:
        return named
    place = _from_context()
    if place is not None:
        return place
    for socket in _usual_sockets():
        try:
            if stat.S_ISSOCK(socket.stat().st_mode):
                return f"unix://{socket}"
        except OSError:
            continue
    raise SandboxUnavailable(
        "no container engine was found: there is no socket in the usual places, and DOCKER_HOST "
        "is not set"
    )


def _from_context() -> str | None:
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    name = os.environ.get("DOCKER_CONTEXT") or _read(folder / "config.json").get("currentContext")
    if not isinstance(name, str) or name == "default":
        return None
    digest = hashlib.sha256(name.encode()).hexdigest()
    try:
        data = (folder / "contexts/meta" / digest / "meta.json").read_bytes()
        return msgspec.json.decode(data, type=_Context).Endpoints["docker"].Host
    except (OSError, KeyError, msgspec.DecodeError) as error:
        raise SandboxUnavailable(
            f"the Docker context {name!r} is not in {folder}; choose one with `docker context use`"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}


def _usual_sockets() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    own = [Path(runtime) / "docker.sock", Path(runtime) / "podman/podman.sock"] if runtime else []
    return [
        Path("/run/docker.sock"),
        Path("/var/run/docker.sock"),
        *own,
        Path.home() / ".docker/run/docker.sock",
        Path("/run/podman/podman.sock"),
    ]
