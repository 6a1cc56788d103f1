"""Write this folder's log and expected files anew, after a change of the format that is meant.

    python tests/golden/files/regenerate.py

`log.jsonl` has the rows of a small log, one a line, and `blobs/` the blobs that they name;
`expected/` has every file of its job. Look at the difference before it is committed: files of logs
that were written by earlier releases must not change.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import anyio
import msgspec

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from helpers.golden import golden_log, row_of, streams  # noqa: E402 - the path comes first
from trialog.projections.rebuild import rebuild  # noqa: E402


async def main() -> None:
    """Write everything."""
    shutil.rmtree(HERE / "expected", ignore_errors=True)
    shutil.rmtree(HERE / "blobs", ignore_errors=True)
    (HERE / "blobs").mkdir()
    events, blobs = streams()
    with (HERE / "log.jsonl").open("wb") as file:
        for event in events:
            file.write(msgspec.json.encode(row_of(event)) + b"\n")
    for ref, data in blobs.items():
        (HERE / "blobs" / ref.removeprefix("sha256:")).write_bytes(data)
    async with golden_log(HERE) as log:
        report = await rebuild(log, "2026-09-21__14-13-20", HERE / "expected")
    shutil.rmtree(HERE / "expected" / ".locks")
    assert not report.problems, report.problems


if __name__ == "__main__":
    anyio.run(main)
