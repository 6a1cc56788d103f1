"""A build context as a tar: without what .dockerignore names, and the same for the same files."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

IGNORE_FILE = ".dockerignore"
_OUTSIDE = ".trialog.Dockerfile"


class Context(NamedTuple):
    """A packed build context."""

    tar: Path
    digest: str
    """SHA-256 (hex) over the tar and the Dockerfile's name."""
    name: str
    """The Dockerfile's name in the tar."""
    dockerfile: str
    """Its text."""


class Ignored:
    """The patterns of a .dockerignore; the last one that matches decides."""

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        for line in text.splitlines():
            pattern = line.strip()
            if line.startswith("#") or not pattern:
                continue
            keep = pattern.startswith("!")
            pattern = os.path.normpath(pattern.removeprefix("!").strip().lstrip("/"))
            if pattern != ".":
                self._rules.append((keep, re.compile(_regex(pattern))))
        self.has_exceptions = any(keep for keep, _ in self._rules)

    def __call__(self, path: str) -> bool:
        """Whether a path (relative, with slashes) is left out. A folder's rule holds below it."""
        left_out = False
        for keep, pattern in self._rules:
            if keep == left_out and pattern.match(path):
                left_out = not keep
        return left_out


def _regex(pattern: str) -> str:
    """Go's file patterns: ``*`` and ``?`` stay within a name, ``**`` crosses folders."""
    found: list[str] = []
    place = 0
    while place < len(pattern):
        if pattern.startswith("**/", place):
            found.append("(?:.*/)?")
            place += 3
        elif pattern.startswith("**", place):
            found.append(".*")
            place += 2
        elif pattern[place] == "*":
            found.append("[^/]*")
            place += 1
        elif pattern[place] == "?":
            found.append("[^/]")
            place += 1
        elif pattern[place] == "[" and (end := pattern.find("]", place + 2)) > 0:
            inner = pattern[place + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            found.append(f"[{inner}]")
            place = end + 1
        elif pattern[place] == "\\" and place + 1 < len(pattern):
            found.append(re.escape(pattern[place + 1]))
            place += 2
        else:
            found.append(re.escape(pattern[place]))
            place += 1
    return "".join(found) + r"(?:/.*)?\Z"


def pack_context(folder: Path, dockerfile: Path, destination: Path) -> Context:
    """Pack a build context. The Dockerfile is in it whatever is ignored. Blocks.

    Owners, times and what else differs between two copies of the same files are left out.
    """
    text = dockerfile.read_text("utf-8", "replace")
    try:
        ignored = Ignored((folder / IGNORE_FILE).read_text("utf-8", "replace"))
    except FileNotFoundError:
        ignored = Ignored("")
    name = _name_in(folder, dockerfile)
    with open(destination, "wb") as raw:
        hashing = _Hashing(raw)
        stream = cast("IO[bytes]", hashing)  # more than write and tell is not used
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in _walk(folder, ignored, {name, IGNORE_FILE}):
                _add(tar, folder / path, path)
            if name == _OUTSIDE:
                _add(tar, dockerfile, name)
    digest = hashlib.sha256(
        f"{name}\0{hashing.digest.hexdigest()}".encode("utf-8", "surrogatepass")
    )
    return Context(destination, digest.hexdigest(), name, text)


def _name_in(folder: Path, dockerfile: Path) -> str:
    try:
        return dockerfile.absolute().relative_to(folder.absolute()).as_posix()
    except ValueError:
        return _OUTSIDE


def _walk(folder: Path, ignored: Ignored, always: set[str]) -> Iterator[str]:
    """Paths below a folder that are not ignored, sorted; links are not followed."""

    def below(prefix: str) -> Iterator[str]:
        with os.scandir(folder / prefix) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            path = f"{prefix}{entry.name}"
            left_out = ignored(path) and path not in always
            is_folder = entry.is_dir(follow_symlinks=False)
            if not left_out:
                yield path
            if is_folder and (not left_out or ignored.has_exceptions or _holds(path, always)):
                yield from below(path + "/")

    return below("")


def _holds(folder: str, paths: set[str]) -> bool:
    return any(path.startswith(folder + "/") for path in paths)


def _add(tar: tarfile.TarFile, source: Path, name: str) -> None:
    status = os.lstat(source)
    info = tarfile.TarInfo(name)
    if stat.S_ISDIR(status.st_mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.mode = tarfile.SYMTYPE, 0o777
        info.linkname = os.readlink(source)
        tar.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        info.mode = 0o755 if status.st_mode & 0o111 else 0o644
        with open(source, "rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            tar.addfile(info, file)


class _Hashing:
    """A file for writing that hashes what passes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._place = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write and hash."""
        self.digest.update(data)
        self._place += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        """How much was written."""
        return self._place
