"""A check looks behind the files: at the hash chains, and at every blob that an event names."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.altering import change, change_event, cut
from helpers.given import (
    Item,
    agent_finished,
    fill,
    job_started,
    output,
    scheduled,
    scored,
    slot,
    started,
    trial,
    trial_scored,
    verifier_started,
)
from trialog.events import pages as pages_module
from trialog.events.blobs import FILE_LIMIT, BlobFolder
from trialog.events.clock import RandomIds, SystemClock
from trialog.events.envelope import new_event
from trialog.events.errors import LogCorrupt
from trialog.events.kinds import (
    BlobsPruned,
    JobFinished,
    JobStarted,
    TrialFinished,
    WarningRaised,
    WorkspaceSaved,
)
from trialog.events.kinds.job import Head, TaskSnapshot
from trialog.events.kinds.parts import Continues
from trialog.events.log import EventLog
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log, open_log
from trialog.events.payload import Payload
from trialog.events.values import BlobRef, blob_ref
from trialog.projections.audit import Difference
from trialog.projections.rebuild import check, rebuild, rebuild_at

ONE, TWO = "t__00000001", "t__00000002"
PRINTED = b"PASS\n"
WORKSPACE = random.Random(2).randbytes(FILE_LIMIT + 7)
TASK = random.Random(3).randbytes(FILE_LIMIT + 9)


def first_trial() -> list[Item]:
    """A trial with console output and a workspace."""
    return [
        started(), agent_finished(),
        WorkspaceSaved(archive=blob_ref(WORKSPACE), size=1, files=1, duration=0.1),
        verifier_started(), scored(1.0, output=output(PRINTED)), trial_scored(),
        TrialFinished(outcome="scored"),
    ]  # fmt: skip


def job(**changes: object) -> JobStarted:
    """A job with a task's snapshot."""
    task = TaskSnapshot(
        task="t", digest="d", path="/t", layout="a", snapshot=blob_ref(TASK),
        files={"$blob": "0" * 64, "size": "1"},
    )  # fmt: skip
    return msgspec.structs.replace(job_started(slots=2), tasks=[task], **changes)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    """A log on disk with a job of two trials, and its files."""
    async with open_log(tmp_path / "trialog.db") as log:
        for data in (PRINTED, WORKSPACE, TASK):
            await log.blobs.put(data)
        await fill(
            log,
            {
                "job/j": [job(), scheduled(ONE), scheduled(TWO, slot=slot(attempt=2))],
                f"trial/{ONE}": first_trial(),
                f"trial/{TWO}": trial(0.0, trial=TWO, slot=slot(attempt=2)),
            },
        )
        await rebuild(log, "j", tmp_path)
        assert [] == await check(log, "j", tmp_path)
        yield log


@pytest.mark.parametrize("assignment", [
    "data = replace(data, '}', ', \"more\": 1}')", "at = '2030-01-01T00:00:00.000000Z'",
    "causation = 'x'", "ignorable = 1 - ignorable", "id = 'x'", "hash = zeroblob(32)",
])  # fmt: skip
async def test_a_changed_event_is_named(log: EventLog, tmp_path: Path, assignment: str) -> None:
    """Whatever was changed, the first event that does not fit the chain is named."""
    change_event(tmp_path, f"trial/{TWO}", 3, assignment)

    found = await check(log, "j", tmp_path)

    assert ("altered", f"stream 'trial/{TWO}' version 3") == (found[0].what, found[0].path)
    assert "the log was changed here" in (found[0].detail or "")
    assert 1 == sum(one.what == "altered" for one in found)
    assert found[0].behind
    assert not found[0].harmless


async def test_a_removed_event_is_named(log: EventLog, tmp_path: Path) -> None:
    """A hole in a stream is named by the version that is missing."""
    change(
        tmp_path,
        "DELETE FROM events WHERE version = 4 AND stream = (SELECT id FROM streams WHERE name = ?)",
        f"trial/{ONE}",
    )

    found = await check(log, "j", tmp_path)

    assert f"altered: stream 'trial/{ONE}' version 4 (this event is missing; the next is 5)" == str(
        found[0]
    )


async def finished(log: EventLog, *, blob: bool = False) -> None:
    """The job ends, its trials' heads in the event or in a blob."""
    heads: list[Head] | BlobRef = []
    for name in (ONE, TWO):
        head = await log.head(f"trial/{name}")
        heads.append(Head(trial=name, version=head.version, hash=head.hash.hex()))
    heads.append(Head(trial="t__00000003", version=0, hash="0" * 64))
    if blob:
        heads = await log.blobs.put(msgspec.json.encode(heads))
    await append(log, "job/j", JobFinished(root="", heads=heads, trials=3))


async def append(log: EventLog, stream: str, payload: Payload) -> None:
    """One more event at a stream's end."""
    head = await log.head(stream)
    await log.append(stream, head.version, [new_event(payload, SystemClock(), RandomIds())])


@pytest.mark.parametrize("blob", [False, True])
@pytest.mark.parametrize("first_gone", [1, 7])
async def test_a_stream_that_was_cut_short(
    log: EventLog, tmp_path: Path, first_gone: int, blob: bool
) -> None:
    """Without its last event, or without any, a trial is not what JobFinished recorded."""
    await finished(log, blob=blob)
    head = await log.head(f"trial/{ONE}")
    assert 7 == head.version
    await rebuild(log, "j", tmp_path)
    assert [] == await check(log, "j", tmp_path)
    cut(tmp_path, f"trial/{ONE}", first_gone)

    found = await check(log, "j", tmp_path)

    assert [
        f"altered: stream 'trial/{ONE}' (it ends before what JobFinished recorded: version 7, "
        f"hash {head.hash.hex()})"
    ] == [str(one) for one in found if one.behind]


@pytest.mark.parametrize("first_gone", [1, 7])
async def test_nothing_is_written_from_a_stream_cut_short(
    log: EventLog, tmp_path: Path, first_gone: int
) -> None:
    """A rebuild leaves that trial's files and the summary as they are, and says why."""
    await finished(log)
    await rebuild(log, "j", tmp_path)
    kept = {path: path.read_bytes() for path in (tmp_path / "j" / ONE).glob("*.json*")}
    kept[tmp_path / "j" / "summary.json"] = (tmp_path / "j" / "summary.json").read_bytes()
    assert tmp_path / "j" / ONE / "result.json" in kept
    (tmp_path / "j" / TWO / "result.json").unlink()
    before = await log.last_position() - 1
    cut(tmp_path, f"trial/{ONE}", first_gone)

    report = await rebuild(log, "j", tmp_path)

    assert {ONE, "summary.json"} == {problem.path.split("/")[0] for problem in report.problems}
    for problem in report.problems:
        assert "it ends before what JobFinished recorded: version 7" in str(problem)
    assert kept == {path: path.read_bytes() for path in kept}
    assert (tmp_path / "j" / TWO / "result.json").exists()
    then = await rebuild_at(log, "j", await log.last_position(), tmp_path / "then")
    assert report.problems[0].path == then.problems[0].path
    assert () == (await rebuild_at(log, "j", before, tmp_path / "before")).problems


async def test_ends_that_a_broken_job_recorded(log: EventLog, tmp_path: Path) -> None:
    """What JobFinished says behind a broken place is not believed."""
    head = Head(trial=ONE, version=7, hash="ab" * 32)
    await append(log, "job/j", JobFinished(root="", heads=[head], trials=1))
    change_event(tmp_path, "job/j", 2, "at = '2030-01-01T00:00:00.000000Z'")

    found = await check(log, "j", tmp_path)

    assert ["stream 'job/j' version 2"] == [one.path for one in found if one.what == "altered"]


async def test_another_end_of_a_stream(log: EventLog, tmp_path: Path) -> None:
    """An event in the place of the recorded one is named, though the chain is whole."""
    head = Head(trial=ONE, version=7, hash="ab" * 32)
    await append(log, "job/j", JobFinished(root="", heads=[head], trials=1))

    found = await check(log, "j", tmp_path)

    [other] = [one for one in found if one.behind]
    assert "it has another event than what JobFinished recorded: version 7" in str(other)


async def test_a_stream_that_went_on_after_the_end(log: EventLog, tmp_path: Path) -> None:
    """What is appended after JobFinished is no fault, and each JobFinished holds."""
    await finished(log)
    await append(log, f"trial/{ONE}", WarningRaised(code="reward_missing", message="late"))
    await rebuild(log, "j", tmp_path)
    assert [] == await check(log, "j", tmp_path)
    await finished(log)
    await rebuild(log, "j", tmp_path)
    assert [] == await check(log, "j", tmp_path)
    cut(tmp_path, f"trial/{ONE}", 8)

    found = await check(log, "j", tmp_path)

    assert ["version 8"] == [
        (one.detail or "").split(": ")[1].split(",")[0] for one in found if one.behind
    ]


async def test_recorded_ends_that_are_lost(log: EventLog, tmp_path: Path) -> None:
    """Where the list of ends is gone, that is the one fault."""
    await finished(log, blob=True)
    await rebuild(log, "j", tmp_path)
    with sqlite3.connect(tmp_path / "trialog.db") as db:
        db.execute("DROP TRIGGER IF EXISTS blobs_are_never_deleted")
        assert (
            1
            == db.execute("DELETE FROM blobs WHERE rowid = (SELECT max(rowid) FROM blobs)").rowcount
        )
    db.close()

    assert ["blob"] == [one.what for one in await check(log, "j", tmp_path)]


async def test_nothing_is_written_from_a_broken_stream(log: EventLog, tmp_path: Path) -> None:
    """A rebuild leaves that trial's files and the summary as they are; the others are written."""
    change_event(tmp_path, f"trial/{ONE}", 6, "data = replace(data, '1.0', '0.5')")
    kept = (tmp_path / "j" / ONE / "result.json").read_bytes()
    for path in (f"{ONE}/steps.jsonl", f"{TWO}/result.json", "summary.json"):
        (tmp_path / "j" / path).unlink()

    report = await rebuild(log, "j", tmp_path)

    assert {ONE, "summary.json"} == {problem.path.split("/")[0] for problem in report.problems}
    for problem in report.problems:
        assert isinstance(problem.error, LogCorrupt)
        assert f"stream 'trial/{ONE}' version 6" in str(problem)
    assert kept == (tmp_path / "j" / ONE / "result.json").read_bytes()
    assert not (tmp_path / "j" / ONE / "steps.jsonl").exists()
    assert (tmp_path / "j" / TWO / "result.json").exists()
    then = await rebuild_at(log, "j", await log.last_position(), tmp_path / "then")
    assert report.problems[0].path == then.problems[0].path
    assert (tmp_path / "then" / TWO / "result.json").exists()


async def test_no_file_is_extra_beside_a_broken_stream(log: EventLog, tmp_path: Path) -> None:
    """Where a trial can't be read nothing says which files it has; elsewhere it does."""
    for name in (ONE, TWO):
        (tmp_path / "j" / name / "regrade.json").write_bytes(b"")
    assert [f"{ONE}/regrade.json", f"{TWO}/regrade.json"] == [
        one.path for one in await check(log, "j", tmp_path) if one.harmless
    ]
    change_event(tmp_path, f"trial/{ONE}", 6, "data = replace(data, '1.0', '0.5')")

    found = await check(log, "j", tmp_path)

    assert [f"{TWO}/regrade.json"] == [one.path for one in found if one.harmless]


async def test_a_broken_stream_of_the_job(log: EventLog, tmp_path: Path) -> None:
    """The summary is not made of it; the trials, whose own streams are sound, are written."""
    change_event(tmp_path, "job/j", 2, "at = '2030-01-01T00:00:00.000000Z'")
    for path in (f"{TWO}/result.json", "summary.json"):
        (tmp_path / "j" / path).unlink()

    report = await rebuild(log, "j", tmp_path)

    assert ["summary.json"] == [problem.path for problem in report.problems]
    assert "stream 'job/j' version 2" in str(report.problems[0])
    assert (tmp_path / "j" / TWO / "result.json").exists()
    found = await check(log, "j", tmp_path)
    assert ["altered: stream 'job/j' version 2", "blocked: summary.json"] == [
        f"{one.what}: {one.path}" for one in found
    ]


async def test_a_job_whose_start_was_changed(log: EventLog, tmp_path: Path) -> None:
    """The start names the folder; where it can't be believed nothing is written anywhere."""
    change_event(tmp_path, "job/j", 1, """data = replace(data, '"folder":"j"', '"folder":"k"')""")

    with pytest.raises(LogCorrupt, match="stream 'job/j' version 1"):
        await rebuild(log, "j", tmp_path)

    assert not (tmp_path / "k").exists()
    assert ["stream 'job/j' version 1"] == [one.path for one in await check(log, "j", tmp_path)]


def blob_file(tmp_path: Path, data: bytes) -> Path:
    """Where a large blob lies."""
    return BlobFolder(tmp_path / "blobs").path(blob_ref(data).blob.removeprefix("sha256:"))


def alter_small(tmp_path: Path) -> None:
    """Change the small blob in the database."""
    change(tmp_path, "UPDATE blobs SET data = x'00'")


@pytest.mark.parametrize(("data", "harm", "named"), [
    (WORKSPACE, lambda tmp: blob_file(tmp, WORKSPACE).unlink(), f"trial/{ONE}' version 3"),
    (WORKSPACE, lambda tmp: blob_file(tmp, WORKSPACE).write_bytes(b"x"), f"trial/{ONE}' version 3"),
    (TASK, lambda tmp: blob_file(tmp, TASK).write_bytes(TASK[:-1] + b"?"), "job/j' version 1"),
    (PRINTED, alter_small, f"trial/{ONE}' version 5"),
])  # fmt: skip
async def test_a_blob_that_is_lost_or_altered(
    log: EventLog, tmp_path: Path, data: bytes, harm: Callable[[Path], None], named: str
) -> None:
    """Every blob that an event names is read, also one that no file is made of."""
    harm(tmp_path)

    [found] = await check(log, "j", tmp_path)

    assert ("blob", blob_ref(data).blob) == (found.what, found.path)
    assert f"stream '{named}" in (found.detail or "")
    assert found.behind


async def test_a_blob_with_another_size(log: EventLog, tmp_path: Path) -> None:
    """Its bytes are right, and what the store says of their number is not."""
    with sqlite3.connect(tmp_path / "trialog.db") as db:
        db.execute("DROP TRIGGER blobs_are_never_changed")
        digest = blob_ref(PRINTED).blob.removeprefix("sha256:")
        done = db.execute("UPDATE blobs SET size = -5 WHERE digest = ?", (digest,))
        assert done.rowcount == 1
    db.close()
    [found] = [one for one in await check(log, "j", tmp_path) if one.behind]
    assert found.path == blob_ref(PRINTED).blob
    assert "its size was changed: it says -5 bytes, and there are 5; named by Ver" in str(found)


async def test_a_blob_that_can_not_be_read(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails to read a blob is told with the blob's name, and the check goes on."""

    async def fail(ref: BlobRef) -> None:
        raise OSError(5, "Input/output error", tmp_path / "f")

    monkeypatch.setattr(log.blobs, "check", fail)

    found = await check(log, "j", tmp_path)

    assert 3 == len(found)
    assert f"{tmp_path}/f: Input/output error; named by JobStarted" in str(found[0])


async def test_blobs_of_a_broken_stream_are_checked(log: EventLog, tmp_path: Path) -> None:
    """A changed event hides no lost blob."""
    change_event(tmp_path, f"trial/{ONE}", 2, "at = '2030-01-01T00:00:00.000000Z'")
    blob_file(tmp_path, WORKSPACE).unlink()

    found = await check(log, "j", tmp_path)

    assert {"altered", "blob"} <= {one.what for one in found}


async def test_a_workspace_that_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was pruned may be missing; an entry about it that can't be read excuses nothing."""
    monkeypatch.setattr(pages_module, "PAGE", 1)
    name = blob_ref(WORKSPACE).blob
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        for data in (PRINTED, TASK):
            await log.blobs.put(data)
        await fill(
            log,
            {
                "job/j": [job(), scheduled(ONE), BlobsPruned(what="workspace", blobs=[name])],
                f"trial/{ONE}": first_trial(),
            },
        )
        await rebuild(log, "j", tmp_path)
        assert [] == await check(log, "j", tmp_path)

        stored = log._streams["job/j"]
        stored[2] = msgspec.structs.replace(stored[2], data='{"$blob"')

        found = await check(log, "j", tmp_path)
        assert ["stream 'job/j' version 3", name] == sorted(
            (one.path for one in found if one.behind), reverse=True
        )


async def test_a_place_is_named_once(log: EventLog, tmp_path: Path) -> None:
    """A broken execution that another one goes on from is one place, not two."""
    place = (await log.read(f"trial/{ONE}"))[4]
    continues = Continues(stream=f"trial/{ONE}", version=5, hash=place.hash.hex())
    third = "t__00000003"
    head = await log.head("job/j")
    clock, ids = SystemClock(), RandomIds()
    await log.append("job/j", head.version, [new_event(scheduled(third, execution=2), clock, ids)])
    await log.append(f"trial/{third}", 0, [
        new_event(started(trial=third, execution=2, continues=continues), clock, ids),
        new_event(TrialFinished(outcome="cancelled"), clock, ids),
    ])  # fmt: skip
    change_event(tmp_path, f"trial/{ONE}", 2, "causation = 'x'")

    found = await check(log, "j", tmp_path)

    assert [f"stream 'trial/{ONE}' version 2"] == [one.path for one in found if one.behind]
    blocked = {one.path.split("/")[0] for one in found if one.what == "blocked"}
    assert {ONE, third, "summary.json"} == blocked


async def test_a_stream_that_can_not_be_read(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the database itself finds damaged is one place of that stream's."""
    original, each = log.read, log.read_each

    async def damaged(stream: str, **more: Any) -> Any:
        if stream == f"trial/{ONE}":
            raise LogCorrupt(f"stream {stream!r}", "torn")
        return await original(stream, **more)

    async def one_damaged(streams: list[str]) -> Any:
        if f"trial/{ONE}" in streams:
            raise LogCorrupt(f"stream 'trial/{ONE}'", "torn")
        return await each(streams)

    monkeypatch.setattr(log, "read", damaged)
    monkeypatch.setattr(log, "read_each", one_damaged)

    found = await check(log, "j", tmp_path)

    assert [f"altered: stream 'trial/{ONE}' (torn)"] == [str(one) for one in found if one.behind]


def test_which_differences_are_whose() -> None:
    """A file that is missing is no fault of the log's."""
    assert not Difference("a", "missing").behind
    assert "missing: a" == str(Difference("a", "missing"))
