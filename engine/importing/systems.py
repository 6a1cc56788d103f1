"""Which system's records a path has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .benchflow import BenchflowReader, looks_like_benchflow
from .fields import RecordsError
from .harbor import HarborReader, looks_like_harbor
from .inspect_ai import HEADER, START, InspectReader
from .plural import PluralReader, looks_like_plural
from .records import Reader, Records
from .sources import Archive, Folder, OneFile, Source

LOGS = (".eval", ".json")


class System(NamedTuple):
    """A system whose folders are read."""

    name: str
    reader: Callable[[Records], Reader]
    recognises: Callable[[Sequence[str], Callable[[str], bytes]], bool]
    """By the names of the files, and what is in them."""


FOLDERS = (
    System("harbor", HarborReader, looks_like_harbor),
    System("benchflow", BenchflowReader, looks_like_benchflow),
    System("plural", PluralReader, looks_like_plural),
)


def sources_in(path: Path) -> list[Path]:
    """What is to be imported: the path itself, or each log in a folder of Inspect AI's. Blocks."""
    if not path.exists():
        raise RecordsError("there is no such file or folder", file=path)
    if path.is_symlink() or not path.is_dir():
        return [path]
    logs = sorted(one for one in path.glob("*.eval") if one.is_file() and not one.is_symlink())
    return logs or [path]


def open_source(path: Path) -> Source:
    """The files of one log or folder. Raises RecordsError. Blocks."""
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise RecordsError("neither a file nor a folder", file=path)
    if path.suffix == ".eval":
        return Archive(path)
    if path.suffix == ".json":
        return OneFile(path)
    raise RecordsError(
        f"expected a folder, or a log that ends in {' or '.join(LOGS)}; found {path.name}",
        file=path,
    )


def reader_for(path: Path, source: Source, records: Records) -> Reader:
    """The reader of these records. Raises RecordsError where nobody knows them. Blocks."""
    names = records.names
    if isinstance(source, Archive):
        if HEADER not in names and START not in names:
            raise RecordsError(
                f"the archive has neither {HEADER} nor {START}, so it is no log of Inspect AI's",
                file=path,
            )
        return InspectReader(records)
    if isinstance(source, OneFile):
        return InspectReader(records)
    for system in FOLDERS:
        if system.recognises(names, records.read):
            return system.reader(records)
    known = ", ".join(system.name for system in FOLDERS)
    raise RecordsError(
        f"no job folder of {known}, and no folder with .eval logs; give the job's own folder",
        file=path,
    )
