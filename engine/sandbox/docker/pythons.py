"""Which python3 of its own an image has: asked of the image itself, before any agent was in it."""

from __future__ import annotations

import secrets

import anyio
import msgspec

from ...errors import SandboxError
from ..protocol import OLDEST_PYTHON, PYTHON_PLACES, Python
from .api import Engine
from .labels import own_labels

_ASK = (
    "import json, os, sys; own = sys.argv[1]; places = [own, os.path.realpath(own)];"
    "places += [os.path.dirname(place) for place in places];"
    "places += [os.path.dirname(os.__file__)];"
    "root = all(os.lstat(place).st_uid == 0 for place in places);"
    "print(json.dumps([own, list(sys.version_info[:2]), root]))"
)
_SCRIPT = "\n".join(
    ['for each in "$@"; do', f'  [ -x "$each" ] && "$each" -ISc \'{_ASK}\' "$each"', "done"]
)
_SECONDS = 60.0


class Pythons:
    """The python3 of one engine's images, each looked for once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._locks: dict[str, anyio.Lock] = {}
        self._found: dict[str, Python | None] = {}

    async def find(self, digest: str) -> Python | None:
        """The first that belongs to root and is new enough. Raises SandboxError."""
        async with self._locks.setdefault(digest, anyio.Lock()):
            if digest not in self._found:
                self._found[digest] = _first(await self._ask(digest))
        return self._found[digest]

    async def _ask(self, digest: str) -> bytes:
        config = {
            "Image": digest,
            "Entrypoint": ["/bin/sh", "-c", _SCRIPT, "sh"],
            "Cmd": list(PYTHON_PLACES),
            "User": "0:0",
            "WorkingDir": "/",
            "Labels": own_labels(),
            "NetworkDisabled": True,
            "AttachStdout": True,
            "HostConfig": {"LogConfig": {"Type": "none"}, "NetworkMode": "none"},
        }
        container, _ = await self._engine.create(f"trialog-look-{secrets.token_hex(6)}", config)
        output = self._engine.attach(container)
        said = bytearray()
        try:
            with anyio.fail_after(_SECONDS):
                await output.open()
                await self._engine.start(container)
                while (data := await output.read()) is not None:
                    said += data
        except TimeoutError:
            raise SandboxError(
                f"looking for python3 in the image took longer than {_SECONDS:g} s"
            ) from None
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await output.close()
                await self._engine.remove(container)
        return bytes(said)


def _first(said: bytes) -> Python | None:
    for line in said.splitlines():
        try:
            path, version, root = msgspec.json.decode(line, type=tuple[str, tuple[int, int], bool])
        except msgspec.DecodeError:
            continue  # what an interpreter complains of
        if root and version >= OLDEST_PYTHON:
            return Python(path=path, version=version)
    return None
