"""A workspace that the image lacks, where the phase's own user could not make it."""

from __future__ import annotations

import io
import tarfile

from ..protocol import SandboxSpec
from .api import Engine
from .config import same_user


async def make_workdir(engine: Engine, container: str, spec: SandboxSpec) -> None:
    """Make the workspace, writable for all, when a plain user is to work in it.

    For root the phase itself makes it; the image's own WORKDIR is there already.
    """
    plain_user = spec.separate_users or not same_user(spec.image.user, None)
    if not plain_user or spec.workdir == spec.image.workdir:
        return
    if await engine.stat(container, spec.workdir) is None:
        await engine.write_tree(container, "/", _folders(spec.workdir))


def _folders(path: str) -> bytes:
    """A tar with a folder; the ones above it are made by the engine as they are missing."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(info)
    return packed.getvalue()
