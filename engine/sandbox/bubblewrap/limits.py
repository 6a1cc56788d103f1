"""A sandbox's limits as control groups, else as limits of processes, else as warnings."""

from __future__ import annotations

import math
import os
import random
import resource
from typing import NamedTuple

from ....events.errors import said
from ....events.kinds.parts import Limits
from ...errors import LimitsRefused
from .cgroups import Base, Group

DEFAULT_PROCESSES = 4096
"""Processes and threads of a sandbox whose task doesn't say."""

MEBIBYTE = 1024 * 1024


class Held(NamedTuple):
    """How a sandbox is limited."""

    group: Group | None
    rlimits: list[tuple[int, int]]
    cores: frozenset[int] | None
    warnings: list[tuple[str, str]]

    @property
    def anything(self) -> bool:
        """Whether there is something to do when a phase starts."""
        return self.group is not None or bool(self.rlimits) or self.cores is not None

    @property
    def counts_memory(self) -> bool:
        """Whether it is told how many processes were killed for want of memory."""
        return self.group is not None and self.group.limits_memory

    def apply(self, pid: int) -> None:
        """Limit a phase's first process, before it runs anything. Raises OSError."""
        if self.group is not None:
            self.group.add(pid)
        for which, value in self.rlimits:
            hard = resource.prlimit(pid, which)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, which, (value, value))
        if self.cores is not None:
            os.sched_setaffinity(pid, self.cores)


def hold(limits: Limits, bases: dict[str, Base], name: str, *, strict: bool) -> Held:
    """Find a way to hold each limit. With `strict`, one that can't be held raises LimitsRefused."""
    settings: dict[str, float] = {}
    rlimits: list[tuple[int, int]] = []
    cores: frozenset[int] | None = None
    warnings: list[tuple[str, str]] = []
    if limits.cpus is not None:
        there = os.sched_getaffinity(0)
        if limits.cpus > len(there):
            warnings.append(
                ("limit_lowered", f"cpus: {limits.cpus:g} asked, but there are {len(there)} here")
            )
        elif "cpu" in bases:
            settings["cpu"] = limits.cpus
        elif limits.cpus < len(there):
            whole = max(1, math.ceil(limits.cpus))
            cores = frozenset(random.sample(sorted(there), whole))
            if whole != limits.cpus:
                warnings.append(_not_kept(f"cpus: held to {whole} whole core{'s' * (whole > 1)}"))
    if limits.memory_mb is not None:
        size = limits.memory_mb * MEBIBYTE
        if "memory" in bases:
            settings["memory"] = size
        else:
            rlimits.append((resource.RLIMIT_DATA, size))
            warnings.append(_not_kept("memory_mb: held for each process, not for all together"))
    processes = limits.processes or DEFAULT_PROCESSES
    if "pids" in bases:
        settings["pids"] = processes
    elif os.geteuid() != 0:
        # Counted inside the phase's own user namespace.
        rlimits.append((resource.RLIMIT_NPROC, processes))
    elif limits.processes is not None:
        warnings.append(_not_kept("processes: root's can't be limited without control groups"))
    if limits.storage_mb is not None:
        rlimits.append((resource.RLIMIT_FSIZE, limits.storage_mb * MEBIBYTE))
        warnings.append(_not_kept("storage_mb: held for each file, not for all together"))
    unkept = [message for code, message in warnings if code == "limit_not_kept"]
    if strict and unkept:
        raise LimitsRefused(
            f"--strict-limits: {'; '.join(unkept)}; run where control groups are delegated, "
            "use --sandbox docker, or leave the limit out"
        )
    try:
        group = Group(name, settings, bases) if settings else None
    except OSError as error:
        if strict:
            raise LimitsRefused(
                f"--strict-limits: no control group can be made: {said(error)}"
            ) from error
        warnings.append(_not_kept(f"{', '.join(settings)}: no control group: {error.strerror}"))
        group = None
    return Held(group, rlimits, cores, warnings)


def _not_kept(message: str) -> tuple[str, str]:
    return ("limit_not_kept", message)
