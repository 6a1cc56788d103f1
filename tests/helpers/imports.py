"""Samples of other systems' records, made by those systems, and imports of them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from helpers.fakes import CountingIds, TickingClock
from trialog.engine.importing.records import Reader, Records, TrialRead
from trialog.engine.importing.run import Place
from trialog.engine.importing.sources import InMemory, hashed
from trialog.events.kinds import Event
from trialog.events.open import open_log

SAMPLES = Path(__file__).resolve().parents[1] / "golden" / "imported"
EVAL = SAMPLES / "inspect" / "arithmetic.eval"
EVAL_JSON = SAMPLES / "inspect" / "arithmetic.json"
HARBOR = SAMPLES / "harbor" / "by-hand"


def files_of(folder: Path) -> dict[str, bytes]:
    """A sample's files, to be changed."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def records_of(files: Mapping[str, bytes]) -> Records:
    """Records that are in memory."""
    source = InMemory(files)
    return Records(source, hashed(source).refs)


def read_all(make: Callable[[Records], Reader], files: Mapping[str, bytes]) -> dict[str, TrialRead]:
    """Every trial of these files by its key."""
    reader = make(records_of(files))
    return {key: reader.trial(key, "seed") for key in reader.trials()}


def payloads(trial: TrialRead) -> list[Event]:
    """What its events say, in order."""
    return [event.payload for event in trial.events]


@asynccontextmanager
async def place_in(folder: Path) -> AsyncGenerator[Place]:
    """A log below a folder, to import into."""
    jobs = folder / "jobs"
    async with open_log(jobs / "trialog.db") as log:
        yield Place(log, log.blobs, jobs, TickingClock(), CountingIds())


def copied(sample: Path, folder: Path) -> Path:
    """A sample that may be changed."""
    target = folder / sample.name
    if sample.is_dir():
        return Path(shutil.copytree(sample, target))
    return Path(shutil.copy(sample, target))
