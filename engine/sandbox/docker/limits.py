"""A sandbox's limits in the engine's terms, and what of them can't be had."""

from __future__ import annotations

from typing import Any

from ....events.kinds.parts import Limits

DEFAULT_PROCESSES = 4096
SMALLEST_MEMORY_MB = 6
"""The engine's own lower bound."""

Warned = list[tuple[str, str]]


def host_config(limits: Limits, info: dict[str, Any]) -> tuple[dict[str, Any], Warned]:
    """The limits as a part of a container's HostConfig, with warnings of what differs."""
    config: dict[str, Any] = {"PidsLimit": limits.processes or DEFAULT_PROCESSES}
    warned: Warned = []
    if limits.cpus is not None:
        there = int(info.get("NCPU") or 0)
        cpus = limits.cpus
        if there and cpus > there:
            warned.append(
                ("limit_lowered", f"cpus: {cpus:g} asked, but the engine's machine has {there}")
            )
            cpus = there
        config["NanoCpus"] = round(cpus * 1e9)
        if info.get("CpuCfsQuota") is False:
            warned.append(("limit_not_kept", "cpus: this engine's kernel can't limit them"))
    if limits.memory_mb is not None:
        size = max(limits.memory_mb, SMALLEST_MEMORY_MB) * 1024 * 1024
        config["Memory"] = size
        if info.get("SwapLimit") is not False:
            config["MemorySwap"] = size  # none on top
        if info.get("MemoryLimit") is False:
            warned.append(("limit_not_kept", "memory_mb: this engine's kernel can't limit it"))
    if info.get("PidsLimit") is False:
        warned.append(("limit_not_kept", "processes: this engine's kernel can't limit them"))
    return config, warned


def may_limit_storage(info: dict[str, Any]) -> bool:
    """Whether it is worth asking the engine for a limit on storage; it may still refuse."""
    driver = str(info.get("Driver") or "")
    if driver == "overlay2":
        status: list[list[str]] = info.get("DriverStatus") or []
        return ["Backing Filesystem", "xfs"] in [list(row) for row in status]
    return driver in ("btrfs", "zfs", "devicemapper")


def storage_warning(reason: str) -> tuple[str, str]:
    """What to say when storage can't be limited."""
    return ("limit_not_kept", f"storage_mb: {reason}")
