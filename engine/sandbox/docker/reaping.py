"""Removing what engines that are dead left behind."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from ...errors import SandboxError
from ..owner import is_dead
from .api import Engine
from .labels import KEPT, LOG, OWNER, owner_of


async def reap(engine: Engine, log_id: str | None) -> list[str]:
    """Remove containers, then networks and volumes, of dead engines of this host: their names.

    With a log: only what belongs to it (a network belongs to a process and no log), and nothing
    that was kept on purpose. What can't be removed is left for the next time.
    """
    gone: list[str] = []
    for kind in ("containers", "networks", "volumes"):
        for found in await engine.labelled(kind, OWNER):
            labels: dict[str, str] = found.get("Labels") or {}
            if log_id is not None and (labels.get(LOG, log_id) != log_id or KEPT in labels):
                continue
            owner = owner_of(labels)
            if owner is None or not await to_thread.run_sync(is_dead, owner):
                continue
            try:
                gone.append(await _remove(engine, kind, found))
            except SandboxError:
                continue
    return gone


async def _remove(engine: Engine, kind: str, found: dict[str, Any]) -> str:
    if kind == "containers":
        await engine.remove(found["Id"])
        return str(found["Names"][0]).lstrip("/")
    if kind == "networks":
        await engine.remove_network(found["Id"])
    else:
        await engine.remove_volume(found["Name"])
    return str(found["Name"])
