"""What an app host in a sandbox has inside: this package, msgspec, and the apps' own code.

Nothing of verifiers, tasks or agents is among it, no log and no hidden file, whatever else lies in
the project's folder.
"""

from __future__ import annotations

import os
import shutil
import stat
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import anyio
import msgspec
from anyio import to_thread

from ..errors import ConfigError
from ..sandbox.protocol import Mount
from .process import PACKAGE_ROOT
from .source import WorldSource

LIB = "/trialog/lib"
VENDOR = "/trialog/vendor"
PROJECT = "/trialog/project"

LEFT_OUT = frozenset({"verifiers", "tasks", "agents", "jobs", "__pycache__"})
"""Folders of a project that apps have no business with."""

_CODE = (".py", ".pyc", ".so")
_PARTS = ("engine", "events", "projections")
_LARGEST_FILE = 16 * 1024 * 1024


class Inside:
    """The folders of one kind of worlds, made in `scratch`.

    `another_user`: whoever is inside is not this user, so that files which only he may read are
    copied.
    """

    def __init__(self, scratch: Path, *, another_user: bool = False) -> None:
        self._scratch = scratch
        self._another_user = another_user
        self._lock = anyio.Lock()
        self._runtime: list[Mount] | None = None
        self._projects: dict[Path, list[Mount]] = {}

    async def mounts(self, source: WorldSource) -> list[Mount]:
        """What to mount for an environment, made when it is first asked for.

        Raises ConfigError, OSError.
        """
        async with self._lock:
            return await to_thread.run_sync(self._mounts, source)

    def _mounts(self, source: WorldSource) -> list[Mount]:
        scratch = self._scratch.absolute()
        if self._runtime is None:
            self._runtime = _make_runtime(scratch)
        root = source.root.resolve()
        if root not in self._projects:
            place = scratch / f"project-{len(self._projects)}"
            self._projects[root] = _make_project(root, place, self._another_user)
        return [*self._runtime, *self._projects[root]]


def seen_inside(source: WorldSource) -> WorldSource:
    """An environment with its folders as they are inside; blocks. Raises ConfigError."""
    root = source.root.resolve()
    try:
        below = source.folder.resolve().relative_to(root)
    except ValueError:
        raise ConfigError(
            f"the environment's folder must be in the project {root}", file=source.folder
        ) from None
    place = PurePosixPath(PROJECT)
    return msgspec.structs.replace(source, folder=Path(place / below), root=Path(place))


def _make_runtime(scratch: Path) -> list[Mount]:
    """Copies of what the host program needs, for whoever reads them inside."""
    lib, vendor = scratch / "lib", scratch / "vendor"
    package = PACKAGE_ROOT / "trialog"
    _copy_file(package / "__init__.py", lib / "trialog" / "__init__.py")
    for part in _PARTS:
        _copy_tree(package / part, lib / "trialog" / part, _CODE)
    try:
        found = distribution("trialog")
    except PackageNotFoundError:
        pass
    else:
        told = lib / f"trialog-{found.version}.dist-info" / "METADATA"
        told.parent.mkdir()
        told.write_text(found.read_text("METADATA") or "", encoding="utf-8")
        told.chmod(0o644)
    _copy_tree(Path(msgspec.__file__).parent, vendor / "msgspec", _CODE)
    for folder in (lib, vendor):
        for place, _, _ in os.walk(folder):
            Path(place).chmod(0o755)
    return [
        Mount(source=lib, target=LIB, readonly=True),
        Mount(source=vendor, target=VENDOR, readonly=True),
    ]


def _copy_tree(source: Path, target: Path, endings: tuple[str, ...]) -> None:
    """Copy the files below a folder whose names end so, readable for all; no links."""
    for place, _, files in os.walk(source):
        inside = target / Path(place).relative_to(source)
        inside.mkdir(parents=True, exist_ok=True)
        inside.chmod(0o755)
        for name in files:
            original = Path(place, name)
            if name.endswith(endings) and original.is_file() and not original.is_symlink():
                _copy_file(original, inside / name)


def _readable_for_all(folder: Path) -> bool:
    for place, _, files in os.walk(folder):
        if os.stat(place).st_mode & 0o005 != 0o005:
            return False
        for name in files:
            mode = os.lstat(os.path.join(place, name)).st_mode
            if stat.S_ISREG(mode) and not mode & 0o004:
                return False
    return True


def _copy_file(source: Path, target: Path) -> None:
    """Copy, times included: compiled modules are known by the times of their sources."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    target.chmod(0o644)


def _make_project(root: Path, place: Path, another_user: bool) -> list[Mount]:
    """The project: copies of the files at its top, and its folders as they are."""
    place.mkdir(parents=True)
    place.chmod(0o755)
    mounts = [Mount(source=place, target=PROJECT, readonly=True)]
    for entry in sorted(root.iterdir()):
        if entry.name.startswith(".") or entry.name in LEFT_OUT or entry.is_symlink():
            continue
        if entry.is_dir():
            if (entry / "trialog.db").exists():
                continue
            if another_user and not _readable_for_all(entry):
                _copy_tree(entry, place / entry.name, ("",))
                continue
            (place / entry.name).mkdir(mode=0o755)
            target = f"{PROJECT}/{entry.name}"
            mounts.append(Mount(source=entry, target=target, readonly=True))
        elif entry.is_file() and entry.stat().st_size <= _LARGEST_FILE:
            _copy_file(entry, place / entry.name)
    return mounts
