"""Blobs: bytes under their SHA-256. Files in a folder, and the store in memory.

Under FILE_LIMIT a blob lies in the database, where it shares the commit of others; from there on a
file with a sync of its own is cheaper.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO

import anyio.to_thread

from .errors import DISK_FULL, BlobAltered, BlobMissing, LogCorrupt, LogUnavailable, said
from .filesystem import make_folder, sync_folder
from .values import BlobRef, blob_ref

FILE_LIMIT = 64 * 1024
"""Bytes from which on a blob is a file."""

CHUNK = 1024 * 1024
"""Bytes that are read, hashed or written at a time."""

_NAME = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


def digest_of(ref: BlobRef) -> str:
    """The 64 hex digits of a reference; raises LogCorrupt for what is no reference."""
    if _NAME.fullmatch(ref.blob) is None:
        raise LogCorrupt(f"blob reference {ref.blob!r}", "it is not 'sha256:' and 64 hex digits")
    return ref.blob.removeprefix("sha256:")


def checked(ref: BlobRef, data: bytes, place: str) -> bytes:
    """The bytes, if they are what the reference names."""
    found = blob_ref(data).blob
    if found != ref.blob:
        raise BlobAltered(ref.blob, found, place)
    return data


class Spool:
    """A blob that is being written to a temporary file. It blocks."""

    def __init__(self, folder: BlobFolder, file: IO[bytes], path: Path) -> None:
        self._folder = folder
        self._file = file
        self._path = path
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, chunk: bytes | bytearray) -> None:
        """Add bytes."""
        rest = memoryview(chunk)
        with self._folder.storing():
            while rest:  # a system call may write less than it was given
                rest = rest[self._file.write(rest) :]
        self._hash.update(chunk)
        self._size += len(chunk)

    def keep(self) -> BlobRef:
        """Make the file durable under its hash; where that is taken, this one goes away."""
        digest = self._hash.hexdigest()
        ref = BlobRef(blob=f"sha256:{digest}", size=self._size)
        with self._folder.storing():
            if not self._folder.holds(ref):
                target = self._folder.path(digest)
                os.fsync(self._file.fileno())
                make_folder(target.parent)
                self._path.replace(target)
            self._folder.sync(digest)
        return ref

    def discard(self) -> None:
        """Remove what was not kept."""
        self._path.unlink(missing_ok=True)
        self._file.close()


class BlobFolder:
    """Blobs as files ``sha256/ab/ab…`` in a folder. It blocks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._swept = False

    def path(self, digest: str) -> Path:
        """Where the blob with these hex digits lies, or would."""
        return self.root / "sha256" / digest[:2] / digest

    def holds(self, ref: BlobRef) -> bool:
        """Whether there is a file of this name and size; its bytes are not read."""
        try:
            found = self.path(digest_of(ref)).lstat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == ref.size

    def has(self, ref: BlobRef) -> bool:
        """Whether there is a file of this name, whatever its size."""
        return stat.S_ISREG(_mode(self.path(digest_of(ref))))

    def sync(self, digest: str) -> None:
        """Make a file's name durable.

        Also for one that was there: whoever renamed it may not have got this far yet.
        """
        parent = self.path(digest).parent
        sync_folder(parent)
        sync_folder(parent.parent)

    @contextmanager
    def storing(self) -> Generator[None]:
        """What the disk refuses is the log's failure, not the caller's."""
        try:
            yield
        except OSError as error:
            full = error.errno in DISK_FULL
            advice = "make room" if full else "check the disk, and what is there"
            reason = f"a blob can't be stored: {said(error)}; {advice}"
            raise LogUnavailable(self.root, reason, full=full) from error

    def spool(self) -> Spool:
        """Begin a blob."""
        temporary = self.root / "tmp"
        with self.storing():
            make_folder(temporary)
            if not self._swept:
                self._swept = True
                self._sweep(temporary)
            while True:
                path = temporary / secrets.token_hex(8)
                file = path.open("xb", buffering=0)
                fcntl.flock(file, fcntl.LOCK_EX)
                if path.exists():  # else a sweep came between the two lines above
                    return Spool(self, file, path)
                file.close()

    def put(self, data: bytes) -> BlobRef:
        """Store bytes."""
        ref = blob_ref(data)
        if self.holds(ref):
            with self.storing():
                self.sync(digest_of(ref))
            return ref
        spool = self.spool()
        try:
            spool.write(data)
            return spool.keep()
        finally:
            spool.discard()

    def read(self, ref: BlobRef) -> bytes | None:
        """The bytes, or None where nothing has this name.

        Raises BlobAltered, and BlobMissing where something that is no file has the name.
        """
        source = self._open(ref)
        if source is None:
            return None
        with source:
            data = source.read()
        return checked(ref, data, str(self.root))

    def copy(self, ref: BlobRef, target: IO[bytes] | None) -> bool:
        """Copy the bytes, or only check them; False where nothing has this name.

        Raises BlobAltered at the end, and BlobMissing where something that is no file has the name.
        """
        source = self._open(ref)
        if source is None:
            return False
        with source:
            hashed = hashlib.sha256()
            while chunk := source.read(CHUNK):
                hashed.update(chunk)
                if target is not None:
                    target.write(chunk)
        if hashed.hexdigest() != digest_of(ref):
            raise BlobAltered(ref.blob, f"sha256:{hashed.hexdigest()}", str(self.root))
        return True

    def _open(self, ref: BlobRef) -> IO[bytes] | None:
        path = self.path(digest_of(ref))
        try:
            return open_regular(path)
        except FileNotFoundError:
            return None
        except NotRegular as error:
            place = f"{self.root}: its name there is {error}'s"
            raise BlobMissing(ref.blob, place) from None

    def _sweep(self, temporary: Path) -> None:
        """Remove what killed processes left: files that nobody holds a lock on."""
        for path in temporary.iterdir():
            with suppress(OSError, NotRegular), open_regular(path) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


class NotRegular(Exception):
    """Something else than a file; the message says what, as in ``a FIFO``."""


def open_regular(path: Path) -> IO[bytes]:
    """Open a file to read. A FIFO or device is not waited for, and no link is followed.

    Raises NotRegular for what is no file, and OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if (mode := _mode(path)) and not stat.S_ISREG(mode):  # a link, a socket
            raise NotRegular(_what(mode)) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegular(_what(mode))
    return os.fdopen(descriptor, "rb")


def _mode(path: Path) -> int:
    """What something is; 0 for nothing."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _what(mode: int) -> str:
    names = {
        stat.S_IFIFO: "FIFO",
        stat.S_IFDIR: "folder",
        stat.S_IFLNK: "symbolic link",
        stat.S_IFSOCK: "socket",
    }
    return f"a {names.get(stat.S_IFMT(mode), 'device')}"


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet. It blocks."""
    with path.open("xb") as file:
        file.write(data)


class MemoryBlobs:
    """A BlobStore that is gone when the process ends."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def put(self, data: bytes) -> BlobRef:
        """Store bytes."""
        ref = blob_ref(data)
        self._blobs[digest_of(ref)] = bytes(data)
        return ref

    async def put_file(self, path: Path) -> BlobRef:
        """Store a file's bytes."""
        return await self.put(await anyio.to_thread.run_sync(path.read_bytes))

    @asynccontextmanager
    async def writer(self) -> AsyncGenerator[MemoryBlobWriter]:
        """A blob of unknown length."""
        yield MemoryBlobWriter(self)

    async def get(self, ref: BlobRef) -> bytes:
        """The bytes."""
        data = self._blobs.get(digest_of(ref))
        if data is None:
            raise BlobMissing(ref.blob, "memory")
        return checked(ref, data, "memory")

    async def copy_to(self, ref: BlobRef, path: Path) -> None:
        """Write the bytes to a file that does not exist yet."""
        await anyio.to_thread.run_sync(write_new, path, await self.get(ref))

    async def check(self, ref: BlobRef) -> None:
        """Compare the bytes with their name."""
        await self.get(ref)

    async def has(self, ref: BlobRef) -> bool:
        """Whether the bytes are there."""
        return digest_of(ref) in self._blobs


class MemoryBlobWriter:
    """A blob that is being written to memory."""

    def __init__(self, store: MemoryBlobs) -> None:
        self._store = store
        self._data = bytearray()

    async def write(self, chunk: bytes) -> None:
        """Add bytes."""
        self._data += chunk

    async def commit(self) -> BlobRef:
        """Store the blob."""
        return await self._store.put(bytes(self._data))
