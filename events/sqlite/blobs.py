"""The blob store of a log: small blobs in its database, large ones as files beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from ..blobs import CHUNK, FILE_LIMIT, BlobFolder, Spool, checked, digest_of, write_new
from ..errors import BlobMissing, LogCorrupt
from ..values import BlobRef, blob_ref
from .reader import Readers
from .sql import QUERY
from .tickets import Blob, BlobPut

T = TypeVar("T")


class SqliteBlobs:
    """A BlobStore; `put_small` gives a blob to the log's writer, `check` says whether it may."""

    def __init__(
        self,
        path: Path,
        readers: Readers,
        put_small: Callable[[Blob], BlobPut],
        check: Callable[[], None],
    ) -> None:
        self._path = path
        self._folder = BlobFolder(path.parent / "blobs")
        self._readers = readers
        self._put_small = put_small
        self._check = check

    async def put(self, data: bytes) -> BlobRef:
        """Store bytes; they are durable when this returns."""
        if len(data) >= FILE_LIMIT:
            self._check()
            return await self._in_thread(partial(self._folder.put, data))
        ref = blob_ref(data)
        await self._put_small(Blob(digest_of(ref), bytes(data)))
        return ref

    async def put_file(self, path: Path) -> BlobRef:
        """Store a file's bytes without reading them into memory at once."""
        self._check()
        result = await self._in_thread(partial(self._put_file, path))
        return result if isinstance(result, BlobRef) else await self.put(result)

    @asynccontextmanager
    async def writer(self) -> AsyncGenerator[SqliteBlobWriter]:
        """A blob of unknown length; leaving without a commit leaves nothing behind."""
        self._check()
        writer = SqliteBlobWriter(self, self._folder)
        try:
            yield writer
        finally:
            with anyio.CancelScope(shield=True):
                await writer.discard()

    async def get(self, ref: BlobRef) -> bytes:
        """The bytes, checked against their name."""
        return await self._readers.run(self._get, ref)

    async def copy_to(self, ref: BlobRef, path: Path) -> None:
        """Write the bytes to a file that does not exist yet; checked."""
        await self._readers.run(self._copy_to, ref, path)

    async def check(self, ref: BlobRef) -> None:
        """Compare the bytes with their name; a large blob is not read into memory at once."""
        await self._readers.run(self._check_bytes, ref)

    async def has(self, ref: BlobRef) -> bool:
        """Whether the bytes are there."""
        return await self._readers.run(self._has, ref)

    def _put_file(self, path: Path) -> BlobRef | bytes:
        """The reference of a large file, or the bytes of a small one."""
        with path.open("rb") as source:
            start = source.read(FILE_LIMIT)
            if len(start) < FILE_LIMIT:
                return start
            spool = self._folder.spool()
            try:
                spool.write(start)
                while chunk := source.read(CHUNK):
                    spool.write(chunk)
                return spool.keep()
            finally:
                spool.discard()

    def _small(self, db: sqlite3.Connection, ref: BlobRef) -> bytes | None:
        found = db.execute(QUERY["blob"], (digest_of(ref),)).fetchone()
        return None if found is None else checked(ref, found[0], str(self._path))

    def _get(self, db: sqlite3.Connection, ref: BlobRef) -> bytes:
        data = self._small(db, ref)
        if data is None:
            data = self._folder.read(ref)
        if data is None:
            raise self._missing(ref)
        return data

    def _copy_to(self, db: sqlite3.Connection, ref: BlobRef, path: Path) -> None:
        data = self._small(db, ref)
        if data is not None:
            write_new(path, data)
            return
        with path.open("xb") as target:
            found = False
            try:
                found = self._folder.copy(ref, target)
            finally:
                if not found:
                    path.unlink()
        if not found:
            raise self._missing(ref)

    def _check_bytes(self, db: sqlite3.Connection, ref: BlobRef) -> None:
        if self._small(db, ref) is None:
            if not self._folder.copy(ref, None):
                raise self._missing(ref)
            return
        stored, found = db.execute(QUERY["blob_size"], (digest_of(ref),)).fetchone()
        if stored != found:
            raise LogCorrupt(
                f"blob {ref.blob} in {self._path}",
                f"its size was changed: it says {stored} bytes, and there are {found}",
            )

    def _has(self, db: sqlite3.Connection, ref: BlobRef) -> bool:
        found = db.execute(QUERY["has_blob"], (digest_of(ref),)).fetchone()
        return found is not None or self._folder.has(ref)

    def _missing(self, ref: BlobRef) -> BlobMissing:
        place = self._path if ref.size < FILE_LIMIT else self._folder.root
        return BlobMissing(ref.blob, str(place))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await self._readers.in_thread(function)


class SqliteBlobWriter:
    """Gathers a blob; from FILE_LIMIT on in a temporary file."""

    def __init__(self, store: SqliteBlobs, folder: BlobFolder) -> None:
        self._store = store
        self._folder = folder
        self._pending = bytearray()
        self._spool: Spool | None = None

    async def write(self, chunk: bytes) -> None:
        """Add bytes."""
        self._pending += chunk
        if len(self._pending) >= FILE_LIMIT:
            await anyio.to_thread.run_sync(self._spill)

    async def commit(self) -> BlobRef:
        """Make the blob durable, and give its name."""
        if self._spool is None:
            return await self._store.put(bytes(self._pending))
        return await anyio.to_thread.run_sync(self._keep, self._spool)

    async def discard(self) -> None:
        """Remove what is left of it."""
        if self._spool is not None:
            await anyio.to_thread.run_sync(self._spool.discard)

    def _spill(self) -> None:
        if self._spool is None:
            self._spool = self._folder.spool()
        self._spool.write(self._pending)
        self._pending = bytearray()

    def _keep(self, spool: Spool) -> BlobRef:
        spool.write(self._pending)
        return spool.keep()
