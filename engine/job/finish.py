"""The end of a job: JobFinished, with the tree hash over all its executions' heads."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...events.kinds import JobFinished
from ...events.kinds.job import Head
from ...events.log import EventLog
from ...events.merkle import tree_root
from ...events.values import INLINE_LIMIT, BlobRef
from ..trial.record import stream_of
from .record import JobRecord


async def finish_job(
    log: EventLog, record: JobRecord, trials: Iterable[str], wall_seconds: float | None
) -> None:
    """Append JobFinished over the trials' streams as they stand now."""
    names = sorted(trials)
    heads = [
        Head(trial=name, version=head.version, hash=head.hash.hex())
        for name, head in zip(names, await log.heads(list(map(stream_of, names))), strict=True)
    ]
    listed: list[Head] | BlobRef = heads
    encoded = msgspec.json.encode(heads)
    if len(encoded) > INLINE_LIMIT:
        listed = await log.blobs.put(encoded)
    await record.tell(
        JobFinished(
            root=tree_root([bytes.fromhex(head.hash) for head in heads]).hex(),
            heads=listed,
            trials=len(heads),
            wall_seconds=None if wall_seconds is None else round(wall_seconds, 6),
        )
    )
