"""Control groups, where this user may make them: of version 2, or of 1."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids", "cpu")
PERIOD = 100_000
"""Microseconds over which CPU time is counted."""


class Base(NamedTuple):
    """Where a controller's groups can be made."""

    folder: Path
    version: int


def find_bases(own: str | None = None, root: Path = ROOT) -> dict[str, Base]:
    """For each controller that can be had, where. `own` is the text of /proc/self/cgroup."""
    if own is None:
        try:
            own = Path("/proc/self/cgroup").read_text("utf-8")
        except OSError:
            return {}
    bases: dict[str, Base] = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        if not names:
            for folder in (root, root / "unified"):
                for controller, place in _delegated(folder, path.lstrip("/")):
                    bases.setdefault(controller, Base(place, 2))
            continue
        for name in names.split(","):
            if name not in CONTROLLERS:
                continue
            for folder in (root / name / path.lstrip("/"), root / name):
                if (folder / "cgroup.procs").exists() and os.access(folder, os.W_OK):
                    bases[name] = Base(folder, 1)
                    break
    return bases


def _delegated(root: Path, path: str) -> list[tuple[str, Path]]:
    """Controllers of version 2 with the nearest group upward that hands them to its children."""
    found: list[tuple[str, Path]] = []
    folder = root / path
    while folder.is_relative_to(root):
        try:
            handed = (folder / "cgroup.subtree_control").read_text("ascii").split()
        except OSError:
            handed = []
        # A process may only be moved by who may write to the group above both places.
        if os.access(folder / "cgroup.procs", os.W_OK) and os.access(folder, os.W_OK):
            found += [(name, folder) for name in handed if name in CONTROLLERS]
        if folder == root:
            break
        folder = folder.parent
    return found


class Group:
    """The control groups of one sandbox."""

    def __init__(self, name: str, settings: dict[str, float], bases: dict[str, Base]) -> None:
        """Make them. `settings` are memory (bytes), pids and cpu (cores). Raises OSError."""
        self._settings = settings
        self._bases = bases
        self.folders = list(dict.fromkeys(bases[key].folder / name for key in settings))
        self._memory: tuple[Path, int] | None = None
        try:
            for folder in self.folders:
                folder.mkdir(exist_ok=True)
            for key, value in settings.items():
                self._set(key, bases[key].folder / name, bases[key].version, value)
        except OSError:
            self.remove()
            raise

    def _set(self, key: str, folder: Path, version: int, value: float) -> None:
        match key, version:
            case "memory", 1:
                _write(folder / "memory.limit_in_bytes", int(value))
                _write(folder / "memory.memsw.limit_in_bytes", int(value), needed=False)
                self._memory = (folder / "memory.oom_control", 1)
            case "memory", _:
                _write(folder / "memory.max", int(value))
                _write(folder / "memory.swap.max", 0, needed=False)
                self._memory = (folder / "memory.events", 2)
            case "pids", _:
                _write(folder / "pids.max", int(value))
            case _, 1:
                _write(folder / "cpu.cfs_period_us", PERIOD)
                _write(folder / "cpu.cfs_quota_us", max(1000, round(value * PERIOD)))
            case _:
                _write(folder / "cpu.max", f"{max(1000, round(value * PERIOD))} {PERIOD}")

    @property
    def limits_memory(self) -> bool:
        """Whether memory is among what is limited."""
        return self._memory is not None

    def add(self, pid: int) -> None:
        """Move a process into the groups."""
        for folder in self.folders:
            _write(folder / "cgroup.procs", pid)

    def killed_for_memory(self) -> int:
        """How many processes the kernel has killed here for want of memory."""
        if self._memory is None:
            return 0
        try:
            text = self._memory[0].read_text("ascii")
        except OSError:
            return 0
        counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        return int(counts.get("oom_kill", 0))

    def remove(self) -> None:
        """Remove the groups; nothing runs in them any more."""
        for folder in self.folders:
            remove_group(folder)


def remove_group(folder: Path) -> None:
    """Remove a group. The kernel may need a moment after its last process is gone."""
    for _ in range(50):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
            time.sleep(0.01)  # in a worker thread
        else:
            return


def _write(file: Path, value: int | str, *, needed: bool = True) -> None:
    try:
        with open(file, "wb", buffering=0) as opened:
            opened.write(str(value).encode())
    except OSError:
        if needed:
            raise
