"""A log that was written once projects to the same bytes for ever."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest

from helpers.golden import JOB, Row, event_of, golden_log, row_of, streams
from trialog.events.hashing import event_hash, first_previous
from trialog.projections.rebuild import check, rebuild

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "files"
EXPECTED = sorted(
    path.relative_to(GOLDEN / "expected").as_posix()
    for path in (GOLDEN / "expected").rglob("*")
    if path.is_file()
)


def test_there_is_something_to_compare() -> None:
    """The expected files are there, of every kind."""
    names = {path.split("/", 2)[-1] for path in EXPECTED}
    assert {
        "result.json", "rewards.jsonl", "steps.jsonl", "trajectory.json",
        "verifier/test-stdout.txt", "artifacts/out/answer.bin",
    } <= names  # fmt: skip
    assert f"{JOB}/summary.json" in EXPECTED


async def test_the_log_projects_to_the_same_bytes(tmp_path: Path) -> None:
    """Every expected file is made to the byte, and no other."""
    async with golden_log(GOLDEN) as log:
        await rebuild(log, JOB, tmp_path)
        assert [] == await check(log, JOB, tmp_path)

    found = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and ".locks" not in path.parts
    }
    assert EXPECTED == sorted(found)
    for path, data in found.items():
        assert (GOLDEN / "expected" / path).read_bytes() == data, path


async def test_every_trial_is_readable_by_itself(tmp_path: Path) -> None:
    """A check against the expected files themselves finds nothing."""
    async with golden_log(GOLDEN) as log:
        assert [] == await check(log, JOB, GOLDEN / "expected")
    assert [] == [path async for path in anyio.Path(tmp_path).iterdir()]


def test_the_rows_have_true_hashes() -> None:
    """The rows are those of a log: chained, with text that was not touched since."""
    previous: dict[str, bytes] = {}
    for line in (GOLDEN / "log.jsonl").read_bytes().splitlines():
        row = msgspec.json.decode(line, type=Row)
        fields = {
            name: getattr(row, name)
            for name in Row.__struct_fields__
            if name not in ("position", "hash")
        }
        before = previous.get(row.stream, first_previous(row.stream))
        previous[row.stream] = event_hash(before, **fields)
        assert row.hash == previous[row.stream].hex()


@pytest.mark.parametrize("number", [0, -1])
def test_the_script_would_write_the_same_rows(number: int) -> None:
    """The rows are still what the present code would store."""
    lines = (GOLDEN / "log.jsonl").read_bytes().split(b"\n")[:-1]
    events, _ = streams()

    assert len(lines) == len(events)
    row = msgspec.json.decode(lines[number], type=Row)
    assert events[number] == event_of(row)
    assert lines[number] == msgspec.json.encode(row_of(events[number]))
