"""Files on disk: written beside the target and renamed, so that a reader never sees half of one.

They are not synced: the log is, and it has everything that is in them. All of this blocks, and
belongs in a worker thread; only the lock waits on the event loop.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import AsyncGenerator, Container, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from ..events.errors import DISK_FULL, said
from ..events.values import BlobRef
from .errors import FilesUnwritable

PART = ".trialog.part"
"""The name that a file has while it is written; one a folder, under the job's lock."""
PARTS = ".trialog.parts"
"""The name that a trial's folder has while it is filled, in the job's folder and under its lock."""
_FATAL = (*DISK_FULL, errno.EROFS)
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.05


def lock_path(job_folder: Path) -> Path:
    """The lock of a job's files: beside the job's folder, which may be deleted at any time."""
    return job_folder.parent / ".locks" / f"{job_folder.name}.files.lock"


@asynccontextmanager
async def files_lock(job_folder: Path) -> AsyncGenerator[None]:
    """Write a job's files alone. What is folded while it is held is newer than what is there."""
    path = lock_path(job_folder)
    descriptor = await to_thread.run_sync(_open_lock, path)
    try:
        wait = _FIRST_WAIT
        while not _try_lock(descriptor):
            await anyio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Raises FilesUnwritable where nothing can be written, not this file alone."""
    try:
        yield
    except OSError as error:
        if error.errno in _FATAL:
            raise FilesUnwritable(path, said(OSError(error.errno, error.strerror))) from error
        raise


def put(folder: Path, path: str, data: bytes) -> bool:
    """Make the file have these bytes. False when it had them already, and was not touched."""
    target = place(folder, path)
    if holds(target, data):
        return False
    with writing(target):
        part = f"{os.path.dirname(target)}/{PART}"  # paths of pathlib cost as much as the disk
        try:
            descriptor = _create(part)
        except (FileExistsError, FileNotFoundError):
            descriptor = _create(fresh_part(target))
        try:
            _fill(descriptor, data)
            os.replace(part, target)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
    return True


def put_folder(folder: Path, name: str, files: Mapping[str, bytes]) -> bool:
    """Make a folder with these files, all at once. False when something has its name already."""
    target = folder / name
    if exists(target):
        return False
    part = folder / PARTS
    with writing(target):
        try:
            _fresh_folder(part)
            for path, data in files.items():
                _fill(_create(f"{part}/{path}"), data)
            os.replace(part, target)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return True


def _create(part: Path | str) -> int:
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)


def _fill(descriptor: int, data: bytes) -> None:
    """Write all of it, and close."""
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _fresh_folder(part: Path) -> None:
    """Make the folder that is filled before it gets its name; leftovers go."""
    try:
        part.mkdir()
    except FileNotFoundError:
        part.mkdir(parents=True)
    except FileExistsError:
        if part.is_symlink() or not part.is_dir():
            part.unlink()
        else:
            shutil.rmtree(part)
        part.mkdir()


def fresh_part(target: Path) -> Path:
    """The name to write to before the target is replaced; its folder is made, leftovers go."""
    part = target.parent / PART
    try:
        part.unlink()
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
    return part


def place(folder: Path, path: str) -> Path:
    """Where a file below `folder` goes. Raises where a link leads out of it on the way."""
    step = os.fspath(folder)
    for name in path.split("/")[:-1]:
        step = f"{step}/{name}"
        if os.path.islink(step):
            raise OSError(
                errno.ELOOP,
                "a link is in the way; remove it, nothing is written through",
                step,
            )
    return folder / path


def holds(target: Path, data: bytes) -> bool:
    """Whether it is a plain file with exactly these bytes."""
    return _size(target) == len(data) and target.read_bytes() == data


def holds_blob(target: Path, ref: BlobRef) -> bool:
    """Whether it is a plain file with the bytes that the reference names."""
    if _size(target) != ref.size:
        return False
    with target.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" == ref.blob


def exists(target: Path) -> bool:
    """Whether anything is there, a dangling link too."""
    return os.path.lexists(target)


def walk(folder: Path) -> Iterator[str]:
    """Every file and link below a folder, by relative path; links are not followed."""
    for at, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(at) / name).is_symlink()]
        for name in sorted(files + links):
            yield (Path(at) / name).relative_to(folder).as_posix()


def entries(folder: Path, but: Container[str] = ()) -> list[str]:
    """Names in a folder, without some; none when it does not exist."""
    try:
        with os.scandir(folder) as found:
            return sorted(entry.name for entry in found if entry.name not in but)
    except FileNotFoundError:
        return []


def _size(target: Path) -> int | None:
    try:
        found = os.lstat(target)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
