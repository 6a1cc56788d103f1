"""How the log in `v1/` was made, once. It stays as it is: later releases must go on reading it.

PYTHONPATH=tests python tests/golden/make_v1.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

import anyio

from helpers.fakes import CountingIds, TickingClock
from helpers.samples import BLOB, sample
from trialog.events.envelope import NewEvent
from trialog.events.kinds import JobEvent, ReviewEvent, TrialEvent, WarningRaised
from trialog.events.open import open_log

LARGE = bytes(range(256)) * 256
"""64 KiB, so that it is a file."""

TEXT = "\u2028 \u2029 \u0085 \v \f \x1c \x1d \x1e \r \r\n \t \x00 \ufffd \U0001f600"


async def make(folder: Path) -> None:
    """Write the log, its blobs and the heads of its streams."""
    clock, ids = TickingClock(), CountingIds()
    cause: list[str | None] = [None]

    def new(payload: Any, at: str | None = None) -> NewEvent:
        made = NewEvent(
            id=ids.event_id(), at=at or clock.now(), payload=payload, causation=cause[0]
        )
        cause[0] = made.id
        return made

    def two_of_each(union: Any) -> list[NewEvent]:
        kinds = get_args(union)
        return [new(sample(kind, full=full)) for full in (False, True) for kind in kinds]

    async with open_log(folder / "trialog.db", log_id="golden-1") as log:
        await log.blobs.put(BLOB)
        await log.blobs.put(LARGE)
        await log.append("job/golden", 0, two_of_each(JobEvent))
        await log.append("trial/golden-1", 0, two_of_each(TrialEvent))
        await log.append("review/golden", 0, two_of_each(ReviewEvent))
        warned = WarningRaised(code="reward_missing", message=TEXT)
        back = "2020-01-01T00:00:00.000000Z"  # the wall clock steps back
        await log.append("trial/gölden-2", 0, [new(warned), new(warned, back)])
        heads = {}
        for stream in await log.streams():
            head = await log.head(stream)
            heads[stream] = {"version": head.version, "hash": head.hash.hex()}
    text = json.dumps(heads, indent=2, ensure_ascii=False)
    (folder / "heads.json").write_text(text + "\n")


if __name__ == "__main__":
    anyio.run(make, Path(sys.argv[1]))
