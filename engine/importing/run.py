"""An import: the records are read once to learn which trials there are, and once to tell them.

All names and ids follow from the bytes that are read, so that what is in the log already is found
there: the same records again add nothing, and an import that was cut off is gone on with.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from anyio import to_thread

from ...events.clock import Clock, Ids
from ...events.codec import decode, decode_known
from ...events.envelope import NewEvent
from ...events.kinds import JobEvent, JobFinished, JobStarted, TrialScheduled, TrialStarted
from ...events.kinds.job import ImportedJob
from ...events.kinds.parts import SkippedPath, Slot
from ...events.kinds.trial import ImportedTrial
from ...events.log import BlobStore, EventLog
from ...events.values import BlobRef, escape
from ...projections.writer import JobFiles
from ..job.finish import finish_job
from ..job.lock import own
from ..job.record import JobRecord
from ..job.record import stream_of as job_stream
from ..job.state import slot_key
from ..job.versions import versions
from ..redact import Redactor
from ..stored import store_json
from ..tasks.names import safe_name
from ..trial.record import stream_of as trial_stream
from .fields import RecordsError, seconds_between
from .records import JobRead, Reader, Records, TrialRead, derived_id
from .sources import CHUNK, Source, hashed
from .storing import stored
from .systems import open_source, reader_for

MARK = 12
"""Digits of the digest in a job's name."""


class Place(NamedTuple):
    """Where an import goes."""

    log: EventLog
    """What events go through."""
    blobs: BlobStore
    """For files, which are kept as they are."""
    jobs_folder: Path
    clock: Clock
    ids: Ids
    redactor: Redactor = Redactor({})


class Imported(NamedTuple):
    """What came of an import."""

    job: str
    folder: Path
    system: str
    trials: int
    added: int
    """Trials that were not in the log before."""
    left_out: list[SkippedPath]
    earlier: list[str]
    """Jobs that came from the same place before, when it was otherwise."""
    secrets: list[str]
    """Files that hold a secret, and were kept as they are."""


class _Planned(NamedTuple):
    trial: str
    key: str
    slot: Slot
    read: TrialRead
    """Without its events."""


class _Read(NamedTuple):
    """Records that were read once."""

    path: Path
    source: Source
    records: Records
    digest: str
    reader: Reader
    about: JobRead
    trials: list[_Planned]
    left_out: list[SkippedPath]
    secrets: list[str]

    @property
    def job(self) -> str:
        return f"{safe_name(self.about.name)}__{self.digest[:MARK]}"

    def seed(self, key: str) -> str:
        return f"{self.digest}/{key}"


async def import_job(place: Place, path: Path) -> Imported:
    """Import one log or job folder. Raises RecordsError where it can't be used at all."""
    read = await to_thread.run_sync(_read, path, place.redactor)
    folder = place.jobs_folder / read.job
    earlier = await _earlier(place.log, read)
    added = 0
    async with own(place.jobs_folder, read.job):
        started_at, finished = await _begin(place, read)
        files = JobFiles(place.log, read.job, folder)
        for planned in read.trials:
            if (await place.log.head(trial_stream(planned.trial))).version == 0:
                await _tell(place, read, planned, started_at)
                added += 1
            await files.write_trial(planned.trial)
        if not finished:
            await _end(place, read, started_at)
        await files.write_summary()
    return Imported(
        read.job,
        folder,
        read.reader.system,
        len(read.trials),
        added,
        read.left_out,
        earlier,
        read.secrets,
    )


def _read(path: Path, redactor: Redactor) -> _Read:
    source = open_source(path)
    digest, refs, secrets = hashed(source, redactor)
    records = Records(source, refs)
    reader = reader_for(path, source, records)
    about = reader.job()
    left_out = list(source.skipped)
    trials: list[_Planned] = []
    taken: set[str] = set()
    keys = reader.trials()
    for key in keys:
        seed = f"{digest}/{key}"
        try:
            read = reader.trial(key, seed)
        except RecordsError as error:
            left_out.append(SkippedPath(path=key, reason=str(error), failed=True))
            continue
        slot = _slot(read, taken)
        taken.add(slot_key(slot))
        name = f"{safe_name(read.name)}__{derived_id(seed, 0)[:8]}"
        trials.append(
            _Planned(name, key, slot, msgspec.structs.replace(read, events=[], data=None))
        )
    if not trials:
        why = f"; {left_out[-1].reason}" if keys and left_out else ""
        raise RecordsError(f"none of its {len(keys)} trials can be read{why}", file=path)
    return _Read(path, source, records, digest, reader, about, trials, left_out, secrets)


def _slot(read: TrialRead, taken: set[str]) -> Slot:
    """The trial's slot: its attempt as the records count, else the next that is free."""
    attempt = max(read.attempt or 1, 1)
    while True:
        slot = Slot(
            task=read.task, agent=read.agent, model=read.model,
            parameters=escape(read.parameters), attempt=attempt,
        )  # fmt: skip
        if slot_key(slot) not in taken:
            return slot
        attempt += 1


async def _earlier(log: EventLog, read: _Read) -> list[str]:
    """Jobs that were imported from the same path before, and have other content."""
    found: list[str] = []
    for stream in await log.streams("job/"):
        first = decode_known((await log.read(stream, limit=1))[0])
        of = first.imported if isinstance(first, JobStarted) else None
        if of is not None and of.path == str(read.path) and of.digest != read.digest:
            found.append(stream.removeprefix("job/"))
    return found


async def _begin(place: Place, read: _Read) -> tuple[str, bool]:
    """Start the job, unless it is there already: when it began, and whether it has ended."""
    recorded = await place.log.read(job_stream(read.job))
    if recorded:
        first = decode(recorded[0])
        if not isinstance(first, JobStarted) or first.imported is None:
            raise RecordsError(f"the log has a job {read.job} of another origin", file=read.path)
        return recorded[0].at, any(event.kind == JobFinished.__name__ for event in recorded)
    owned = {name for one in read.trials for name in read.reader.files(one.key)}
    rest = [name for name in read.records.names if name not in owned]
    for name in rest:
        await _keep(place.blobs, read, name)
    now = place.clock.now()
    begins = [one.read.started_at for one in read.trials if one.read.started_at]
    at = min(begins, default=read.about.started_at or now)
    seed = f"{read.digest}/job"
    payloads: list[JobEvent] = [await _started(place, read, rest, now)]
    payloads += [TrialScheduled(trial=o.trial, slot=o.slot, execution=1) for o in read.trials]
    events = [
        NewEvent(id=derived_id(seed, number), at=at, payload=payload)
        for number, payload in enumerate(payloads, 1)
    ]
    await place.log.append(job_stream(read.job), 0, events)
    return at, False


async def _started(place: Place, read: _Read, rest: Sequence[str], now: str) -> JobStarted:
    slots = [one.slot for one in read.trials]
    return JobStarted(
        job=read.job,
        folder=read.job,
        config=escape(
            {
                "tasks": [],
                "agents": sorted({slot.agent for slot in slots}),
                "models": sorted({slot.model for slot in slots if slot.model}),
                "attempts": max(slot.attempt for slot in slots),
            }
        ),
        versions=await to_thread.run_sync(versions),
        tasks=[],
        slots=len(slots),
        pid=os.getpid(),
        host=socket.gethostname(),
        imported=ImportedJob(
            system=read.reader.system,
            version=read.about.version,
            name=read.about.name,
            path=str(read.path),
            digest=read.digest,
            at=now,
            files=[read.records.saved(name) for name in rest],
            skipped=read.left_out,
            data=None
            if read.about.data is None
            else await store_json(read.about.data, place.log.blobs),
        ),
    )


async def _tell(place: Place, read: _Read, planned: _Planned, started_at: str) -> None:
    """Store a trial's files, then all of its events at once."""
    names = read.reader.files(planned.key)
    for name in names:
        await _keep(place.blobs, read, name)
    told = await to_thread.run_sync(read.reader.trial, planned.key, read.seed(planned.key))
    blobs = place.log.blobs
    seed = read.seed(planned.key)
    at = told.started_at or told.events[0].at or started_at
    first = NewEvent(
        id=derived_id(seed, 0),
        at=at,
        payload=TrialStarted(
            job=read.job,
            trial=planned.trial,
            slot=planned.slot,
            execution=1,
            seed=told.seed,
            task_digest="",
            imported=ImportedTrial(
                system=read.reader.system,
                name=told.name,
                path=told.path,
                files=[read.records.saved(name, planned.key) for name in names],
                data=None if told.data is None else await store_json(told.data, blobs),
            ),
        ),
    )
    events = [first]
    events += [
        msgspec.structs.replace(
            event,
            at=event.at or at,
            causation=event.causation or first.id,
            payload=await stored(event.payload, blobs),
        )
        for event in told.events
    ]
    await place.log.append(trial_stream(planned.trial), 0, events)


async def _end(place: Place, read: _Read, started_at: str) -> None:
    head = await place.log.head(job_stream(read.job))
    record = JobRecord(place.log, read.job, clock=place.clock, ids=place.ids, version=head.version)
    about = read.about
    took = seconds_between(about.started_at, about.finished_at)
    if took is None:
        last = max([(await place.log.read(trial_stream(one.trial)))[-1].at for one in read.trials])
        took = seconds_between(started_at, last)
    await finish_job(place.log, record, [one.trial for one in read.trials], took)


async def _keep(blobs: BlobStore, read: _Read, name: str) -> None:
    """A file's bytes as a blob, unless they are there. Raises RecordsError where it changed."""
    ref = read.records.refs[name]
    if await blobs.has(ref):
        return
    chunks = read.source.chunks(name)
    if ref.size <= CHUNK:
        kept = await blobs.put(await to_thread.run_sync(b"".join, chunks))
    else:
        kept = await _written(blobs, chunks)
    if kept != ref:
        raise RecordsError("it was changed while it was imported; import it again", file=name)


async def _written(blobs: BlobStore, chunks: Iterator[bytes]) -> BlobRef:
    async with blobs.writer() as writer:
        while chunk := await to_thread.run_sync(partial(next, chunks, b"")):
            await writer.write(chunk)
        return await writer.commit()
