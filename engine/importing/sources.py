"""What is imported, as files by name: a folder, one log file, or an archive of such files.

Links are never followed and nothing in a file is executed. All functions block.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

import zstandard

from ...events.kinds.parts import SkippedPath
from ...events.values import BlobRef
from ..redact import Redactor
from .fields import RecordsError

LARGEST_READ = 512 * 1024 * 1024
"""Bytes of one file that is read as a record; larger ones are kept, but not read."""
LARGEST_KEPT = 8 * 1024 * 1024 * 1024
MOST_FILES = 200_000
MOST_UNPACKED = 32 * 1024 * 1024 * 1024
"""Bytes that all members of one archive may have together."""
DEEPEST = 64
LARGEST_WINDOW = 128 * 1024 * 1024
"""Bytes of memory that unpacking may take."""
CHUNK = 1024 * 1024

_ZSTD = 93
"""The number that zip files have for this compression."""
_LOCAL_HEADER = 30


class Folder:
    """The plain files below a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: list[SkippedPath] = []
        self._files = dict(sorted(self._walk()))

    @property
    def names(self) -> Sequence[str]:
        """Every plain file, by its path."""
        return list(self._files)

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        size = self._files[name]
        if size > LARGEST_READ:
            raise RecordsError(
                f"{size} bytes; a record of over {LARGEST_READ} is not read", file=name
            )
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """A file's bytes, piece by piece."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with open(os.open(self.path / name, flags), "rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        except OSError as error:
            raise RecordsError(f"can't be read: {error.strerror}", file=name) from None

    def _walk(self) -> Iterator[tuple[str, int]]:
        waiting = [(self.path, 0)]
        count = 0
        while waiting:
            folder, depth = waiting.pop()
            try:
                with os.scandir(folder) as found:
                    entries = list(found)
            except OSError as error:
                self._leave(folder, f"can't be read: {error.strerror}")
                continue
            for entry in entries:
                path = Path(entry.path)
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._leave(path, f"can't be read: {error.strerror}")
                    continue
                if stat.S_ISDIR(status.st_mode):
                    if depth == DEEPEST:
                        self._leave(path, f"nested more than {DEEPEST} folders deep")
                    else:
                        waiting.append((path, depth + 1))
                elif stat.S_ISLNK(status.st_mode):
                    self._leave(path, "a link; it was not followed", os.readlink(path))
                elif not stat.S_ISREG(status.st_mode):
                    self._leave(path, "no plain file")
                elif status.st_size > LARGEST_KEPT:
                    self._leave(path, f"{status.st_size} bytes, over {LARGEST_KEPT}")
                else:
                    count += 1
                    if count > MOST_FILES:
                        raise RecordsError(
                            f"more than {MOST_FILES} files; import its jobs one by one",
                            file=self.path,
                        )
                    yield self._name(path), status.st_size

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _leave(self, path: Path, reason: str, target: str | None = None) -> None:
        self.skipped.append(SkippedPath(path=self._name(path), reason=reason, target=target))


class OneFile:
    """A single log file, under its own name."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._name = path.name
        self._size = path.stat().st_size
        self.skipped: list[SkippedPath] = []

    @property
    def names(self) -> Sequence[str]:
        """Its name."""
        return [self._name]

    def read(self, name: str) -> bytes:
        """Its bytes."""
        if self._size > LARGEST_READ:
            raise RecordsError(
                f"{self._size} bytes; a log of over {LARGEST_READ} is not read: convert it with "
                "`inspect log convert --to eval`",
                file=name,
            )
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """Its bytes, piece by piece."""
        with open(self._folder / name, "rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk


class Archive:
    """The members of a zip file, which is never unpacked to disk.

    Of members with the same name the last holds; earlier ones are named with their number. Sizes
    are those that are found while unpacking, whatever the archive claims.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: list[SkippedPath] = []
        try:
            with zipfile.ZipFile(path) as archive:
                found = [i for i in archive.infolist() if not i.is_dir()]
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise RecordsError(
                f"no whole archive: {error}; it may have been cut off while it was copied or "
                "written",
                file=path,
            ) from None
        if len(found) > MOST_FILES:
            raise RecordsError(f"more than {MOST_FILES} members", file=path)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for number, member in enumerate(found):
            if (earlier := self._members.get(member.filename)) is not None:
                self._members[f"{member.filename}#{number}"] = earlier
            self._members[member.filename] = member
        self._unpacked: dict[str, int] = {}

    @property
    def names(self) -> Sequence[str]:
        """Every member."""
        return sorted(self._members)

    def read(self, name: str) -> bytes:
        """A member's bytes."""
        parts: list[bytes] = []
        total = 0
        for chunk in self.chunks(name):
            total += len(chunk)
            if total > LARGEST_READ:
                raise self._error(name, f"over {LARGEST_READ} bytes unpacked; it is not read")
            parts.append(chunk)
        return b"".join(parts)

    def chunks(self, name: str) -> Iterator[bytes]:
        """A member's bytes, piece by piece. Raises RecordsError for one that is damaged."""
        member = self._members[name]
        size = checksum = 0
        before = sum(self._unpacked.values()) - self._unpacked.get(name, 0)
        try:
            with open(self.path, "rb") as file:
                for chunk in self._unpack(file, member):
                    size += len(chunk)
                    checksum = zlib.crc32(chunk, checksum)
                    if size > member.file_size or before + size > MOST_UNPACKED:
                        raise self._error(name, "it unpacks to more than the archive says")
                    yield chunk
        except (
            zipfile.BadZipFile, zlib.error, zstandard.ZstdError, OSError, EOFError,
            NotImplementedError, RuntimeError,
        ) as error:  # fmt: skip
            raise self._error(name, f"damaged: {error}") from None
        self._unpacked[name] = size
        if size != member.file_size or checksum != member.CRC:
            raise self._error(name, "damaged: its checksum is another one")

    def _unpack(self, file: IO[bytes], member: zipfile.ZipInfo) -> Iterator[bytes]:
        """With zstd, which the standard library of older Pythons can't unpack, as well."""
        if member.compress_type != _ZSTD:
            with zipfile.ZipFile(file) as archive, archive.open(member) as opened:
                while chunk := opened.read(CHUNK):
                    yield chunk
            return
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04" or member.flag_bits & 1:
            raise zipfile.BadZipFile("its local header is wrong, or it is encrypted")
        name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        file.seek(name + extra, os.SEEK_CUR)
        packed = cast("IO[bytes]", _Limited(file, member.compress_size))
        unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        with unpacker.stream_reader(packed, read_across_frames=True) as reader:
            while chunk := reader.read(CHUNK):
                yield chunk

    def _error(self, name: str, message: str) -> RecordsError:
        return RecordsError(message, file=f"{self.path.name}: {name}")


class _Limited:
    """The next bytes of a file, and no more."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


class InMemory:
    """Files that are there already, for tests and small things."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(sorted(files.items()))
        self.skipped: list[SkippedPath] = []

    @property
    def names(self) -> Sequence[str]:
        """Every file."""
        return list(self._files)

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        return self._files[name]

    def chunks(self, name: str) -> Iterator[bytes]:
        """The same."""
        yield self._files[name]


Source = Folder | OneFile | Archive | InMemory


class Hashed(NamedTuple):
    """All files of a source, as they were read once."""

    digest: str
    """SHA-256 over names and bytes."""
    refs: dict[str, BlobRef]
    """The blob that each of them is, or will be."""
    secrets: list[str]
    """Files that hold a secret."""


def hashed(source: Source, redactor: Redactor | None = None) -> Hashed:
    """Read every file; what can't be read is left out, and named in the source's `skipped`."""
    redactor = redactor or Redactor({})
    whole = hashlib.sha256()
    refs: dict[str, BlobRef] = {}
    secrets: list[str] = []
    for name in source.names:
        one, size, hit, before = hashlib.sha256(), 0, False, b""
        try:
            for chunk in source.chunks(name):
                one.update(chunk)
                size += len(chunk)
                if not redactor.empty and not hit:
                    hit = redactor.finds(before + chunk)
                    before = (before + chunk)[-redactor.longest :]
        except RecordsError as error:
            source.skipped.append(SkippedPath(path=name, reason=str(error), failed=True))
            continue
        refs[name] = BlobRef(blob=f"sha256:{one.hexdigest()}", size=size)
        raw = os.fsencode(name)
        whole.update(len(raw).to_bytes(8, "big") + raw + one.digest())
        secrets += [name] if hit else []
    return Hashed(whole.hexdigest(), refs, secrets)
