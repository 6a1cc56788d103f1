"""What a sandbox sees where, and which folder of the host is behind a path inside."""

from __future__ import annotations

import functools
import os
import posixpath
import re
import stat
from pathlib import Path

from ...errors import SandboxError, SandboxGone
from ..protocol import Command, Mount, SandboxSpec
from .etc import RESOLVER, user_name

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

TEMPORARY = "/tmp"  # noqa: S108 - the sandbox's own

_LIBRARIES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM = ("usr", "etc", "proc", "dev", "sys", "run", "boot", "var", "nix", *_LIBRARIES)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = frozenset(
    "BASHOPTS BASH_VERSINFO EUID IFS LINENO OPTIND PPID PS1 PS2 PS4 SHELLOPTS SHLVL UID _".split()
)


def home_folder() -> str:
    """HOME inside."""
    return "/root" if os.geteuid() == 0 else f"/home/{user_name()}"


class Layout:
    """The folders of one sandbox; `own` is the folder of the host that they lie in."""

    def __init__(self, spec: SandboxSpec, own: Path, etc: Path) -> None:
        self._spec = spec
        self._etc = etc
        self.home = home_folder()
        self.workdir = _checked(spec.workdir, "the workspace")
        self.folders: dict[str, Path] = {
            TEMPORARY: own / "tmp",
            self.home: own / "home",
            "/logs": own / "logs",
            self.workdir: own / "workspace",
        }
        self.mounts: list[Mount] = sorted(
            (mount for mount in spec.mounts), key=lambda mount: mount.target.count("/")
        )
        for mount in self.mounts:
            target = _checked(mount.target, "a mount")
            self.folders.pop(target, None)
            if target == self.workdir or self.workdir.startswith(target + "/"):
                raise SandboxError(
                    f"the workspace {self.workdir} would lie in the folder mounted at {target}; "
                    "set another workdir in the task"
                )
        places = {**self.folders, **{mount.target: mount.source for mount in self.mounts}}
        self._places = sorted(places.items(), key=lambda pair: len(pair[0]), reverse=True)

    @property
    def shares_network(self) -> bool:
        """It has the host's network, so that no phase has one of its own."""
        return self._spec.limits.network

    @property
    def lends_network(self) -> bool:
        """A phase may have the host's network, though the sandbox does not."""
        return self._spec.lends_network or self.shares_network

    def make(self) -> None:
        """Make the folders."""
        for target, folder in self.folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o1777 if target == TEMPORARY else 0o755)

    def unlock(self) -> None:
        """Let the owner into the folders again, whatever an earlier phase did to their modes."""
        for folder in self.folders.values():
            try:
                mode = stat.S_IMODE(os.lstat(folder).st_mode)
            except FileNotFoundError:
                continue  # bubblewrap says which one is gone
            if mode & 0o700 != 0o700:
                folder.chmod(mode | 0o700)

    def host_place(self, path: str) -> tuple[Path, str] | None:
        """The host's folder that a path inside lies in, and the rest of the path.

        None for what is the host's own system. The rest may hold links: don't follow it.
        """
        full = posixpath.normpath(posixpath.join(self.workdir, path))
        for target, place in self._places:
            if full == target or full.startswith(target + "/"):
                return place, full[len(target) :].lstrip("/")
        return None

    def environment(self, command: Command) -> tuple[dict[str, str], dict[str, str]]:
        """The variables of a phase, and those that a shell would change or not hand on.

        Nothing of the engine's own environment is among them.
        """
        all_of_them = {"PATH": PATH, "HOME": self.home, **self._spec.env, **command.env}
        usual = {
            name: value
            for name, value in all_of_them.items()
            if _NAME.fullmatch(name) and name not in _SHELLS_OWN
        }
        return usual, {n: value for n, value in all_of_them.items() if n not in usual}

    def arguments(
        self,
        environment: dict[str, str],
        *,
        keep: bool = False,
        beside: bool = False,
        network: bool = False,
    ) -> list[str]:
        """bwrap's options for a phase, less those with descriptors.

        One to `keep` does not have the closed mounts. One `beside` that has a HOME of its own, and
        the network that it is started in. One with a `network` has the host's.
        """
        words = [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            *("--hostname", "sandbox"),
            "--die-with-parent",
            "--as-pid-1",
            *("--cap-drop", "ALL"),
            *_system(),
        ]
        words += ["--ro-bind", str(self._etc), "/etc", "--proc", "/proc", "--dev", "/dev"]
        for name in _writable_in_proc():
            words += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
        words += ["--tmpfs", "/run", "--dir", "/var", "--symlink", "../tmp", f"/var{TEMPORARY}"]
        if self._spec.limits.network or network:
            words += ["--ro-bind-try", os.path.realpath("/etc/resolv.conf"), f"/etc/{RESOLVER}"]
        elif not beside:
            words += ["--unshare-net"]
        for target, folder in self._ordered():
            self._check_way(target)
            own_home = beside and target == self.home
            words += ["--tmpfs", target] if own_home else ["--bind", str(folder), target]
        for mount in self.mounts:
            if not mount.source.is_dir():
                raise SandboxError(f"{mount.source}, to be mounted at {mount.target}, is no folder")
            self._check_way(mount.target)
            if mount.closed and keep:
                words += ["--tmpfs", mount.target, "--remount-ro", mount.target]
                continue
            words += ["--ro-bind" if mount.readonly else "--bind", str(mount.source), mount.target]
        words += ["--remount-ro", "/", "--chdir", self.workdir]
        for name, value in environment.items():
            words += ["--setenv", name, value]
        return words

    def _ordered(self) -> list[tuple[str, Path]]:
        return sorted(self.folders.items(), key=lambda pair: pair[0].count("/"))

    def _check_way(self, target: str) -> None:
        """No link may stand where a folder is mounted: what an agent left could lead elsewhere."""
        parent = self.host_place(posixpath.dirname(target))
        if parent is None:
            return
        place, rest = parent
        for name in [*filter(None, rest.split("/")), posixpath.basename(target)]:
            place = place / name
            try:
                mode = os.lstat(place).st_mode
            except FileNotFoundError:
                return
            if not stat.S_ISDIR(mode):
                raise SandboxGone(
                    f"{target} can't be mounted: something that is no folder was left in its way"
                )


@functools.cache
def _system() -> list[str]:
    """The options that show the host's programs and libraries."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _LIBRARIES:
        system = f"/{name}"
        if os.path.islink(system):
            words += ["--symlink", os.readlink(system), system]
        elif os.path.isdir(system):
            words += ["--ro-bind", system, system]
    if os.path.isdir("/nix/store"):
        words += ["--ro-bind", "/nix/store", "/nix/store"]
    return words


_NEVER_WRITABLE = frozenset({"sysvipc", "tty"})
"""Folders of /proc that the kernel has no writable file in; each mount costs a start its time."""


@functools.cache
def _writable_in_proc() -> tuple[str, ...]:
    """What root's files in /proc must be shielded: root inside is root outside to a file's owner.

    Without it a root inside could set the host's kernel parameters, privileges or not.
    """
    if os.geteuid() != 0:
        return ()
    found: list[str] = []
    for name in sorted(os.listdir("/proc")):
        try:
            mode = os.lstat(f"/proc/{name}").st_mode
        except OSError:
            continue
        if name.isdigit() or name in _NEVER_WRITABLE:
            continue
        if stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and mode & 0o222):
            found.append(name)
    return tuple(found)


def is_system(path: str) -> bool:
    """Whether a path inside is one of the host's system folders or in one."""
    return posixpath.normpath(f"/{path}").lstrip("/").split("/")[0] in _SYSTEM


def real_place(folder: Path, rest: str) -> Path:
    """A path below a folder, no component of which is a link; nothing runs inside meanwhile."""
    place = folder
    for name in filter(None, rest.split("/")):
        place = place / name
        if stat.S_ISLNK(os.lstat(place).st_mode):
            raise SandboxError(f"{place} is a link, which is not followed")
    return place


def _checked(path: str, what: str) -> str:
    """A path that can be had inside, normalized."""
    plain = posixpath.normpath(path)
    if not plain.startswith("/") or plain.startswith("//"):
        raise SandboxError(f"{what} must have an absolute path, found {path!r}")
    top = plain.split("/")[1]
    if plain == "/" or top in _SYSTEM:
        raise SandboxError(
            f"{what} can't be at {path!r}: bubblewrap runs tasks on the host's system, whose "
            "folders it would hide; use /app, or --sandbox docker"
        )
    return plain
