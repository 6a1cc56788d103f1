"""The files of a task folder: what is read, which links are followed, what is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from ...events.errors import said
from ..errors import TaskError

LEFT_OUT = frozenset({"__pycache__", ".git", ".pytest_cache"})
"""Names that are neither hashed nor copied, at any depth."""

SETTINGS_NAMES = ("task.md", "task.toml")
VERIFIER_NAMES = ("verifier", "tests")
SOLUTION_NAMES = ("oracle", "solution")
"""Names of parts: layout A's, layout B's."""

TEXT_CAP = 4 * 1024 * 1024
"""Bytes of a settings file, prompt or Dockerfile."""


class Bounds(NamedTuple):
    """How far links of a task may lead: into its own folder and its dataset's."""

    task: Path
    """The task's folder, without links."""
    dataset: Path | None
    """The dataset's folder, without links. Null: the task's parent, if it holds other tasks."""

    def allow(self, target: Path) -> bool:
        """Whether a link may lead to this path, which has no links in it."""
        if target.is_relative_to(self.task):
            return True
        if self.dataset is not None:
            return target.is_relative_to(self.dataset)
        parent = self.task.parent
        if not target.is_relative_to(parent) or target == parent:
            return False
        # Nobody named the parent: it may be a home folder, with keys in hidden ones.
        if target.relative_to(parent).parts[0].startswith("."):
            return False
        return any(
            (place / name).is_file()
            for place in _folders(parent)
            if place != self.task
            for name in SETTINGS_NAMES
        )

    def follow(self, path: Path) -> Path:
        """Where a path really is. Raises TaskError for a broken link and for one that leads out."""
        try:
            target = path.resolve(strict=True)
        except FileNotFoundError:
            raise TaskError(
                f"a symbolic link to {_link_text(path)!r}, which does not exist", file=path
            ) from None
        except (OSError, RuntimeError) as error:
            raise TaskError(f"a link that can't be followed: {said(error)}", file=path) from None
        if not self.allow(target):
            raise TaskError(
                f"a symbolic link leads to {target}, out of the dataset's folder "
                f"{self.dataset or self.task.parent}; copy the file into the task",
                file=path,
            )
        return target


class Entry(NamedTuple):
    """One thing below a folder."""

    path: str
    """Relative to the folder, with ``/``; bytes that are no UTF-8 as surrogate escapes."""
    kind: Literal["file", "folder", "link"]
    place: Path
    """Where it really is."""
    mode: int
    """Permission bits."""

    @property
    def key(self) -> bytes:
        """What entries are sorted by."""
        return os.fsencode(self.path)


def walk(folder: Path, bounds: Bounds, follow: Callable[[str], bool]) -> list[Entry]:
    """Everything below a folder, sorted by path; names in LEFT_OUT and what is below are not.

    Links for which `follow` says so are followed, all others stay links. Raises TaskError for what
    is neither file, folder nor link, and for what can't be read.
    """
    entries: list[Entry] = []
    waiting: list[tuple[Path, str, frozenset[Path]]] = [(folder, "", frozenset({folder}))]
    while waiting:
        here, prefix, ancestors = waiting.pop()
        for item in list_folder(here):
            if item.name in LEFT_OUT:
                continue
            path = prefix + item.name
            place = Path(item.path)
            if item.is_symlink():
                if not follow(path):
                    entries.append(Entry(path, "link", place, 0o777))
                    continue
                place = bounds.follow(place)
            mode = _stat(place).st_mode
            bits = stat.S_IMODE(mode) & 0o777
            if stat.S_ISDIR(mode):
                if place in ancestors:
                    raise TaskError(
                        "a link that leads back to its own folder", file=Path(item.path)
                    )
                entries.append(Entry(path, "folder", place, bits))
                waiting.append((place, f"{path}/", ancestors | {place}))
            elif stat.S_ISREG(mode):
                entries.append(Entry(path, "file", place, bits))
            else:
                raise TaskError(
                    f"a {_kind(mode)}; only files, folders and links can be kept",
                    file=place,
                )
    return sorted(entries, key=lambda entry: entry.key)


def read_text(path: Path, bounds: Bounds, *, what: str) -> str:
    """A text file of the task: UTF-8, without byte-order mark, lines ended by ``\\n``."""
    try:
        text = read_bytes(path, bounds, what=what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(
            f"{what} is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start}; "
            "save it as UTF-8",
            file=path,
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def read_bytes(path: Path, bounds: Bounds, *, what: str) -> bytes:
    """The bytes of a file of the task, of at most TEXT_CAP."""
    place = regular_file(path, bounds, what=what)
    with open_file(place) as file:
        data = file.read(TEXT_CAP + 1)
    if len(data) > TEXT_CAP:
        raise TaskError(f"{what} is over {TEXT_CAP} bytes", file=path)
    return data


def regular_file(path: Path, bounds: Bounds, *, what: str) -> Path:
    """Where a file really is. Raises TaskError when it is no regular file or leads out."""
    place = bounds.follow(path)
    mode = _stat(place).st_mode
    if not stat.S_ISREG(mode):
        raise TaskError(f"{what} must be a file, but this is a {_kind(mode)}", file=path)
    return place


def real_folder(path: Path, bounds: Bounds, *, what: str) -> None:
    """Raises TaskError for what is no folder, can't be listed, or is a link that leads out."""
    place = bounds.follow(path)
    if not place.is_dir():
        raise TaskError(f"{what} must be a folder, but this is none", file=path)
    list_folder(place)


def open_file(place: Path) -> BinaryIO:
    """A file opened for reading, or a TaskError that says why not."""
    try:
        return place.open("rb")
    except OSError as error:
        raise TaskError(f"can't be read: {error.strerror}", file=place) from None


def chunks(place: Path) -> Iterator[bytes]:
    """The bytes of a file, in pieces."""
    with open_file(place) as file:
        while chunk := file.read(1024 * 1024):
            yield chunk


def present(path: Path) -> bool:
    """Whether there is anything of this name, a broken link included."""
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, in no order, or a TaskError that says why it can't be listed."""
    try:
        with os.scandir(folder) as items:
            return list(items)
    except OSError as error:
        raise TaskError(f"can't be listed: {error.strerror}", file=folder) from None


def _folders(parent: Path) -> list[Path]:
    try:
        return [Path(item.path) for item in list_folder(parent) if item.is_dir()]
    except (OSError, TaskError):
        return []


def _stat(place: Path) -> os.stat_result:
    try:
        return place.stat()
    except OSError as error:
        raise TaskError(f"can't be read: {error.strerror}", file=place) from None


def _link_text(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return str(path)


def _kind(mode: int) -> str:
    names = {
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "device",
        stat.S_IFBLK: "device",
        stat.S_IFDIR: "folder",
    }
    return names.get(stat.S_IFMT(mode), "file of an unknown kind")
