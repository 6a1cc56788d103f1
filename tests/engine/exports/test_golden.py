"""A log that was written once exports to the same bytes for ever.

`python tests/golden/exports/regenerate.py` writes the expected files anew, after a change of a
form that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.exports import FORMS, exported
from helpers.given import unknown
from helpers.golden import JOB, golden_log
from helpers.logs import chained
from trialog.engine.exports import writing

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


@pytest.mark.parametrize("name", sorted(FORMS))
async def test_a_later_releases_event_is_told(name: str) -> None:
    """A trial with an event that may not be passed over is left out and named, with the kind; as
    an event it is written as it is."""
    async with golden_log(GOLDEN / "files") as log:
        stream = log._streams["trial/t__00000001"]
        stream[3] = unknown(stream[3], ignorable=False)
        stream[:] = chained(stream)
        data, left_out = await exported(log, JOB, name)

    if name == "events":
        assert [] == left_out
        assert b'"kind":"FutureThing","schema":1' in data
        assert b'"data":{"kind":"FutureThing","x":1}' in data
    else:
        ((trial, why),) = left_out
        assert "t__00000001 is left out" == trial
        assert "doesn't know kind 'FutureThing'" in why
        assert b"t__00000003" in data


@pytest.mark.parametrize("name", ["atif", "jsonl", "otel"])
async def test_one_trial_at_a_time(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A trial is written before the next one is read."""
    order: list[str] = []
    real, made = writing.read_one, writing._made

    async def read(log: Any, trial: str, **named: Any) -> Any:
        order.append(f"read {trial}")
        return await real(log, trial, **named)

    def render(form: Any, scheduled: Any, found: Any) -> bytes:
        order.append(f"made {scheduled.trial}")
        return made(form, scheduled, found)

    monkeypatch.setattr(writing, "read_one", read)
    monkeypatch.setattr(writing, "_made", render)
    async with golden_log(GOLDEN / "files") as log:
        await exported(log, JOB, name)

    trials = ["t__00000001", "t__00000003", "t__00000005", "t__00000006"]
    assert [f"{what} {trial}" for trial in trials for what in ("read", "made")] == order
