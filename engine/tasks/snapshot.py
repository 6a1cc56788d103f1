"""The part of a task that a job keeps: prompt, settings, verifier and solution, as one archive.

The archive is a zstd-compressed tar that is the same for the same files: entries sorted by path,
links replaced by what they lead to, permission bits kept, no times, no owners. The environment is
not in it; an image is known by its digest.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from ...events.errors import said
from ..errors import TaskError
from .digest import digest, file_digests
from .files import Bounds, Entry, chunks, regular_file, walk
from .load import read_parts, task_entries
from .model import Task, TaskWarning

_LEVEL = 6


def pack(task: Task) -> bytes:
    """The snapshot of a task. Raises TaskError when its folder is not what was loaded any more."""
    packed = pack_entries(_kept(task))
    if digest(task_entries(task)) != task.digest:
        raise TaskError("the folder changed while it was being read; try again", file=task.path)
    return packed


def pack_entries(entries: Iterable[Entry]) -> bytes:
    """An archive of files and folders, in the order in which they are given."""
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            _add(tar, entry)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(tar_bytes.getvalue())


def verifier_files(task: Task) -> dict[str, str]:
    """The SHA-256 (hex) of each file of the verifier's folder by its path in it."""
    bounds = _bounds(task)
    return file_digests(walk(bounds.follow(task.verifier), bounds, lambda _: True))


def unpack(
    data: bytes,
    folder: Path,
    *,
    name: str,
    path: Path,
    digest: str,
    environment_digest: str | None = None,
) -> Task:
    """Extract a snapshot into a new or empty folder and read the task from there.

    `name`, `path`, `digest` and `environment_digest` are what was recorded; the task's `path` is
    where it came from, its parts are in `folder`. Raises TaskError for what is no snapshot, and for
    one with a path or link that would lead out of the folder.
    """
    extract(data, folder, name=name)
    place = folder.resolve()
    warnings: list[TaskWarning] = []
    parts = read_parts(place, name=name, bounds=Bounds(place, place), warnings=warnings)
    return Task(
        name=name,
        path=path,
        layout=parts.layout,
        digest=digest,
        prompt=parts.prompt,
        settings=parts.settings,
        settings_file=parts.settings_file,
        verifier=parts.verifier,
        solution=parts.solution,
        dockerfile=None,
        context=None,
        environment_digest=environment_digest,
        warnings=warnings,
    )


def extract(data: bytes, folder: Path, *, name: str) -> None:
    """Extract an archive into a new or empty folder.

    `name` is the task's. Raises TaskError for what is no such archive, and for one with a path or
    link that would lead out of the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (
            zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            for member in tar:
                if not (member.isreg() or member.isdir()):
                    raise TaskError(f"the snapshot of {name} has a link or device: {member.name!r}")
                if tarfile.data_filter(member, str(folder)).name != member.name:
                    raise TaskError(f"the snapshot of {name} has a path {member.name!r}")
                tar.extract(member, folder, filter="data")
                # The filter takes bits away that were recorded.
                bits = (member.mode & 0o777) | (0o700 if member.isdir() else 0o400)
                (folder / member.name).chmod(bits)
    except (zstandard.ZstdError, tarfile.TarError, OSError, EOFError) as error:
        raise TaskError(
            f"the snapshot of {name} can't be extracted: {said(error)}", file=folder
        ) from error


def _bounds(task: Task) -> Bounds:
    return Bounds(task.path.resolve(), task.dataset)


def _kept(task: Task) -> Iterator[Entry]:
    """What is in the snapshot, by path."""
    bounds = _bounds(task)
    entries: list[Entry] = []
    files = [task.settings_file]
    if task.layout == "b":
        files.append(task.settings_file.with_name("instruction.md"))
    for file in files:
        place = regular_file(file, bounds, what=file.name)
        entries.append(Entry(file.name, "file", place, place.stat().st_mode & 0o777))
    for part in (task.verifier, task.solution):
        if part is None:
            continue
        place = bounds.follow(part)
        entries.append(Entry(part.name, "folder", place, place.stat().st_mode & 0o777))
        entries.extend(
            entry._replace(path=f"{part.name}/{entry.path}")
            for entry in walk(place, bounds, lambda _: True)
        )
    yield from sorted(entries, key=lambda entry: entry.key)


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.path)
    info.mode = entry.mode
    if entry.kind == "folder":
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        return
    data = b"".join(chunks(entry.place))
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
