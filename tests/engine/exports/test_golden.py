"""A log that was written once exports to the same bytes for ever.

`python tests/golden/exports/regenerate.py` writes the expected files anew, after a change of a
form that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.exports import FORMS, exported
from helpers.golden import JOB, golden_log

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.mark.parametrize("name", FORMS)
async def test_the_log_exports_to_the_same_bytes(name: str) -> None:
    """Every form of the golden job is what it was, twice in a row."""
    async with golden_log(GOLDEN / "files") as log:
        first, left_out = await exported(log, JOB, name)
        second, _ = await exported(log, JOB, name)

    assert (GOLDEN / "exports" / FORMS[name]).read_bytes() == first
    assert first == second
    assert [] == left_out


async def test_events_are_as_they_are() -> None:
    """Each event of the job is there once, with its payload's text and its hash."""
    async with golden_log(GOLDEN / "files") as log:
        data, _ = await exported(log, JOB, "events")
    rows = [json.loads(line) for line in (GOLDEN / "files" / "log.jsonl").read_bytes().splitlines()]
    lines = data.splitlines()

    assert len(rows) == len(lines)
    texts = {row["position"]: (row["data"], row["hash"]) for row in rows}
    for line in lines:
        event = json.loads(line)
        text, hash = texts.pop(event["position"])
        assert f'"data":{text},"hash":"{hash}"}}'.encode() in line
    assert {} == texts


@pytest.mark.parametrize("name", sorted(FORMS))
async def test_a_blob_that_is_missing_is_told(name: str) -> None:
    """A trial that needs a blob that is gone is left out and named; the others are there. Forms
    that name blobs don't need them."""
    async with golden_log(GOLDEN / "files") as log:
        whole, _ = await exported(log, JOB, name)
        log.blobs._blobs.clear()
        data, left_out = await exported(log, JOB, name)

    if name in ("jsonl", "atif"):
        assert ["blob"] == sorted({why.split()[0] for _, why in left_out})
        assert data != whole
        assert data
    else:
        assert ([], whole) == (left_out, data)
