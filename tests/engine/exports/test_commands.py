"""`trialog export` over a project that was run for real."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from junitparser import JUnitXml
from pyarrow import parquet

import trialog
from helpers.altering import change
from helpers.at_desk import Desk, Said
from trialog.engine.console.exporting import export_thing
from trialog.engine.errors import ConfigError
from trialog.engine.location import NotFound
from trialog.engine.reading import parquet as files
from trialog.engine.reading.tables import TABLES

FORMS = ["jsonl", "trl", "atif", "events", "otel", "junit"]


async def exported(desk: Desk, form: str, thing: str | None = None, **changes: Any) -> Said:
    """`trialog export`."""
    known = {"out": None, "as_of": None, "gamma": 1.0}
    return await desk.say(export_thing, thing or desk.job, form=form, **(known | changes))


@pytest.mark.parametrize("form", FORMS)
async def test_a_file_has_what_would_be_printed(desk: Desk, tmp_path: Path, form: str) -> None:
    """The same bytes go to standard output and to a file, each time; nothing else is left."""
    said = await exported(desk, form)
    await exported(desk, form, out=tmp_path / "export")

    assert 0 == said.code
    assert said.out
    assert said.out.encode() == (tmp_path / "export").read_bytes()
    assert said.out == (await exported(desk, form)).out
    assert [] == list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("form", FORMS)
async def test_one_trial(desk: Desk, form: str) -> None:
    """A trial alone is exported as it is in its job's export."""
    (_, second) = await desk.trials()

    whole, one = await exported(desk, form), await exported(desk, form, second)

    assert ("events" if form == "events" else "1 trial") in one.err
    if form != "junit":
        assert whole.out.endswith(one.out)
        assert whole.out != one.out
    with pytest.raises(NotFound, match="no job 'nothing'"):
        await exported(desk, form, "nothing")


async def test_a_trajectory_is_a_document(desk: Desk) -> None:
    """Of one trial the output is its trajectory.json but for the line breaks."""
    (trial, _) = await desk.trials()

    said = await exported(desk, "atif", trial)

    assert json.loads(desk.file(trial, "trajectory.json")) == json.loads(said.out)


async def test_all_events_of_a_job(desk: Desk) -> None:
    """The job's own events come first, then all of each trial's."""
    said = await exported(desk, "events")

    streams = list(dict.fromkeys(event["stream"] for event in said.objects))
    assert [f"job/{desk.job}", *(f"trial/{name}" for name in await desk.trials())] == streams
    for name in await desk.trials():
        written = [e["id"] for e in said.objects if e["stream"] == f"trial/{name}"]
        assert written == [event.id for event in await desk.events(name)]
    assert f"{len(said.objects)} events exported" in said.err


async def test_a_report_of_a_job(desk: Desk) -> None:
    """A suite for the task, a case for each attempt."""
    found = JUnitXml.fromstring((await exported(desk, "junit")).out.encode())

    (suite,) = found
    assert [("count", "steady attempt 1"), ("count", "steady attempt 2")] == [
        (case.classname, case.name) for case in suite
    ]


async def test_options_that_mean_nothing_are_refused(desk: Desk) -> None:
    """Discounts and versions of labels have to do with training data alone."""
    with pytest.raises(ConfigError, match="--gamma: --format otel has no use for it; jsonl"):
        await exported(desk, "otel", gamma=0.5)
    with pytest.raises(ConfigError, match="--as-of"):
        await exported(desk, "events", as_of="exact@0.1.0")


@pytest.mark.parametrize(("form", "lines"), [("jsonl", 5), ("atif", 1), ("otel", 1), ("junit", 0)])
async def test_a_trial_that_can_not_be_read_is_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, form: str, lines: int
) -> None:
    """It is named and left out, the others are written, and the exit code is 1; a report has it as
    an error."""
    from trialog.engine.exports import reading
    from trialog.events.errors import BlobMissing

    real, (lost, _) = reading.read_trial, await desk.trials()

    async def fails(log: Any, trial: str, **how: Any) -> Any:
        if trial == lost:
            raise BlobMissing("sha256:0", "the store")
        return await real(log, trial, **how)

    monkeypatch.setattr(reading, "read_trial", fails)
    said = await exported(desk, form)

    assert 1 == said.code
    assert f"error: {lost} is left out: blob sha256:0 is missing from the store\n" in said.err
    assert "1 trial exported" in said.err
    assert "1 left out" in said.err
    if form == "junit":
        assert 1 == JUnitXml.fromstring(said.out.encode()).errors
    else:
        assert lines == len(said.objects)


async def test_a_trial_that_was_altered_is_told(desk: Desk) -> None:
    """Nobody trains on forged rewards: a trial whose hash chain is broken is left out and named."""
    lost, _ = await desk.trials()
    change(
        desk.jobs,
        "UPDATE events SET data = replace(data, '1.0', '0.5') WHERE kind = 'TrialScored' AND "
        "stream = (SELECT id FROM streams WHERE name = ?)",
        f"trial/{lost}",
    )

    said = await exported(desk, "jsonl")

    assert 1 == said.code
    assert f"error: {lost} is left out: stream 'trial/{lost}' version" in said.err
    assert "1 trial exported" in said.err
    assert lost not in said.out


async def test_events_that_were_altered_are_told(desk: Desk) -> None:
    """They are written as they lie, all of them; what is broken is named, and the exit code
    tells."""
    lost, _ = await desk.trials()
    whole = await exported(desk, "events")
    assert 0 == whole.code
    change(
        desk.jobs,
        "UPDATE events SET at = '2030-01-01T00:00:00.000000Z' WHERE kind = 'TrialScored' AND "
        "stream = (SELECT id FROM streams WHERE name = ?)",
        f"trial/{lost}",
    )

    said = await exported(desk, "events")

    assert 1 == said.code
    assert len(said.objects) == len(whole.objects)
    assert f"error: trial/{lost} is written as it lies: stream 'trial/{lost}' version" in said.err
    assert f"{len(said.objects)} events exported; 1 stream altered" in said.err


# Tables


async def test_tables_are_files_of_a_folder(desk: Desk, tmp_path: Path) -> None:
    """A Parquet file each for trials, steps, rewards and verdicts has what reading from Python
    gives; the same each time, and what else is in the folder stays."""
    said = await exported(desk, "parquet", out=tmp_path / "tables")
    first = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}
    (tmp_path / "tables" / "notes.txt").write_text("mine")
    await exported(desk, "parquet", out=tmp_path / "tables")

    assert (0, "") == (said.code, said.out)
    assert "2 trials exported, 0 of them masked" in said.err
    again = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}
    assert {*first, "notes.txt"} == again.keys()
    assert {f"{name}.parquet" for name in TABLES} == first.keys()
    assert first == {name: data for name, data in again.items() if name in first}
    log = await to_thread.run_sync(trialog.open, desk.jobs)
    for name in TABLES:
        found = parquet.read_table(tmp_path / "tables" / f"{name}.parquet")
        assert found.equals(await to_thread.run_sync(log.trials().table, name))
    assert ["tables"] == [path.name for path in tmp_path.iterdir() if "tables" in path.name]


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("failing", range(1, 9))
@pytest.mark.parametrize("killed", [True, False])
async def test_tables_are_never_mixed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, killed: bool
) -> None:
    """A kill between two moves leaves no old table beside a new one; a failure leaves the old."""
    out = tmp_path / "tables"
    out.mkdir()
    for name in TABLES:
        (out / f"{name}.parquet").write_text("old")
    moves, replace = 0, os.replace

    def move(source: Path, place: Path) -> None:
        nonlocal moves
        moves += 1
        if moves == failing or (killed and moves > failing):
            raise Killed if killed else PermissionError(1, "not now", str(place))
        replace(source, place)

    monkeypatch.setattr(os, "replace", move)
    with pytest.raises(Killed if killed else PermissionError):
        await exported(desk, "parquet", out=out)

    old = [path.name for path in out.iterdir() if path.read_bytes() == b"old"]
    new = [path.name for path in out.iterdir() if path.name not in old]
    assert not (old and new)
    assert killed or len(old) == len(TABLES)
    assert ["tables"] == [path.name for path in tmp_path.iterdir() if "tables" in path.name]


async def test_a_folder_in_a_tables_place(desk: Desk, tmp_path: Path) -> None:
    """It is named, and nothing is moved."""
    (tmp_path / "tables" / "steps.parquet").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match=r"steps\.parquet"):
        await exported(desk, "parquet", out=tmp_path / "tables")
    assert ["steps.parquet"] == [path.name for path in (tmp_path / "tables").iterdir()]


async def test_large_tables_are_written_in_groups(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are gathered are written when there are many of them, or much in them."""
    for name, limit in (("ROWS", 4), ("CHARACTERS", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(files, name, limit)
            await exported(desk, "parquet", out=tmp_path / name)
        found = parquet.ParquetFile(tmp_path / name / "steps.parquet")
        assert (2, 8) == (found.num_row_groups, found.metadata.num_rows)


async def test_tables_that_can_not_be_written(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a folder, or without pyarrow, it is said what is missing, and nothing is left."""
    with pytest.raises(ConfigError, match="--out: --format parquet writes several files"):
        await exported(desk, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="pip install 'pyarrow>="):
        await exported(desk, "parquet", out=tmp_path / "tables")
    assert [] == [path for path in tmp_path.iterdir() if "tables" in path.name]


async def test_tables_as_of_a_version(desk: Desk, tmp_path: Path) -> None:
    """The ledger of a version of a verifier, and a discount, go into the tables as well."""
    await exported(desk, "parquet", out=tmp_path / "tables", as_of="exact@0.1.0", gamma=0.5)

    steps = parquet.read_table(tmp_path / "tables" / "steps.parquet").to_pylist()
    rows = (await exported(desk, "jsonl", gamma=0.5)).objects
    assert [row["to_go"] for row in rows if row["kind"] == "step"] == [
        row["to_go"] for row in steps
    ]
