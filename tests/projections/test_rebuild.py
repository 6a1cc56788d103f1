"""Files of a job: written, compared, rebuilt, and as they stood."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from helpers.given import (
    Item,
    action,
    agent_finished,
    fill,
    job_started,
    output,
    recorded,
    scheduled,
    scored,
    slot,
    started,
    step_rewarded,
    trial,
    trial_scored,
    unknown,
    verifier_started,
)
from trialog.events.codec import decode
from trialog.events.envelope import NewEvent, RecordedEvent
from trialog.events.errors import BlobMissing, LogCorrupt, UnknownEvent
from trialog.events.hashing import event_hash, first_previous
from trialog.events.kinds import (
    AgentMessage,
    ArtifactsSaved,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JobFinished,
    TrialAbandoned,
    TrialFinished,
    TrialStarted,
    VerifierApplied,
)
from trialog.events.kinds.parts import Continues
from trialog.events.kinds.trial import Artifact
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log
from trialog.events.values import BlobRef, blob_ref
from trialog.projections import source as source_module
from trialog.projections.disk import files_lock
from trialog.projections.errors import FilesUnwritable, FolderTaken, JobUnknown
from trialog.projections.rebuild import Difference, check, job_folder, rebuild, rebuild_at
from trialog.projections.source import JobSource, read_trial
from trialog.projections.writer import JobFiles, Report, write_summary, write_trial

ONE, TWO, THREE = "t__00000001", "t__00000002", "t__00000003"
PRINTED, KEPT, SAID = b"PASS\n", b"\x00\xffdata", b"long " * 5000


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """A log with job `j`: a rich trial, a plain one, and one in flight."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        for data in (PRINTED, KEPT, SAID):
            await log.blobs.put(data)
        await fill(
            log,
            {
                "job/j": [job_started(slots=3), *(
                    scheduled(name, slot=slot(attempt=n))
                    for n, name in enumerate((ONE, TWO, THREE), 1)
                )],
                f"trial/{ONE}": [
                    started(), AgentMessage(role="user", text=blob_ref(SAID)), ("s1", action()),
                    step_rewarded("s1", 0.5), agent_finished(),
                    ArtifactsSaved(duration=0.1, artifacts=[Artifact(
                        path="out/a.bin", blob=blob_ref(KEPT), sha256="x", size=len(KEPT))]),
                    verifier_started(), scored(1.0, output=output(PRINTED)), trial_scored(),
                    TrialFinished(outcome="scored"),
                ],
                f"trial/{TWO}": trial(0.0, trial=TWO, slot=slot(attempt=2)),
                f"trial/{THREE}": [started(trial=THREE, slot=slot(attempt=3)), action()],
            },
        )  # fmt: skip
        yield log


async def append(log: MemoryLog, stream: str, *items: Item) -> None:
    """Append to a stream that exists."""
    head = await log.head(stream)
    events = recorded(stream, [started()] * head.version + list(items))[head.version :]
    await log.append(
        stream, head.version, [NewEvent(id=e.id, at=e.at, payload=decode(e)) for e in events]
    )


def replace(log: MemoryLog, stream: str, version: int, event: RecordedEvent) -> None:
    """Put another event into its place, as no log allows, and chain all of the stream anew."""
    events = log._streams[stream]
    events[version - 1] = event
    previous = first_previous(stream)
    for place, one in enumerate(events):
        previous = event_hash(
            previous, stream=stream, version=one.version, kind=one.kind, schema=one.schema,
            id=one.id, at=one.at, causation=one.causation, ignorable=one.ignorable, data=one.data,
        )  # fmt: skip
        events[place] = msgspec.structs.replace(one, hash=previous)


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


ALL = {
    "summary.json",
    *(f"{ONE}/{name}" for name in (
        "artifacts/out/a.bin", "result.json", "rewards.jsonl", "steps.jsonl", "trajectory.json",
        "verifier/test-stdout.txt",
    )),
    *(f"{TWO}/{name}" for name in (
        "result.json", "rewards.jsonl", "steps.jsonl", "trajectory.json",
    )),
    *(f"{THREE}/{name}" for name in ("rewards.jsonl", "steps.jsonl", "trajectory.json")),
}  # fmt: skip


async def test_every_file_is_rebuilt(log: MemoryLog, tmp_path: Path) -> None:
    """From nothing, every file of the job is written; an unfinished trial has no result."""
    report = await rebuild(log, "j", tmp_path)

    assert bytes_of(tmp_path / "j").keys() == ALL
    assert Report(written=len(ALL)) == report
    assert PRINTED == (tmp_path / "j" / ONE / "verifier/test-stdout.txt").read_bytes()
    assert KEPT == (tmp_path / "j" / ONE / "artifacts/out/a.bin").read_bytes()
    assert SAID in (tmp_path / "j" / ONE / "trajectory.json").read_bytes()


async def test_a_second_rebuild_touches_nothing(log: MemoryLog, tmp_path: Path) -> None:
    """Files that are right keep their times and places on the disk."""
    await rebuild(log, "j", tmp_path)
    before = {path: (tmp_path / "j" / path).stat().st_ino for path in ALL}

    report = await rebuild(log, "j", tmp_path)

    assert Report(unchanged=len(ALL)) == report
    assert before == {path: (tmp_path / "j" / path).stat().st_ino for path in ALL}


async def test_a_deleted_folder_comes_back(log: MemoryLog, tmp_path: Path) -> None:
    """Delete the job's folder, rebuild, and every byte is back."""
    await rebuild(log, "j", tmp_path)
    before = bytes_of(tmp_path / "j")
    shutil.rmtree(tmp_path / "j")
    assert not (tmp_path / "j").exists()

    await rebuild(log, "j", tmp_path)

    assert before == bytes_of(tmp_path / "j")


async def test_the_engines_bytes_are_the_rebuilt_ones(log: MemoryLog, tmp_path: Path) -> None:
    """What a running job writes, trial by trial, is what a rebuild writes."""
    files = JobFiles(log, "j", tmp_path / "live" / "j")
    for name in (TWO, ONE, THREE):
        await files.write_trial(name)
        await files.write_summary()

    await rebuild(log, "j", tmp_path / "again")

    assert bytes_of(tmp_path / "live/j") == bytes_of(tmp_path / "again/j")


async def test_single_writers_write_the_same(log: MemoryLog, tmp_path: Path) -> None:
    """One trial's files or one summary, written alone, are the same bytes."""
    for name in (ONE, TWO, THREE):
        await write_trial(log, name, tmp_path / "live" / "j")
    await write_summary(log, "j", tmp_path / "live" / "j")

    await rebuild(log, "j", tmp_path / "again")

    assert bytes_of(tmp_path / "live/j") == bytes_of(tmp_path / "again/j")


async def test_a_summary_that_is_kept_equals_one_from_nothing(
    log: MemoryLog, tmp_path: Path
) -> None:
    """After every event, the summary that a running job keeps has the bytes of a fresh one."""
    kept = JobFiles(log, "j", tmp_path / "kept")
    steps: list[tuple[str, Item]] = [
        (f"trial/{THREE}", agent_finished()),
        (f"trial/{THREE}", HumanReviewRequested(
            verifier="p", digest="d", weight=1.0, instructions="", criteria=[])),
        ("job/j", scheduled("t__4", slot=slot(attempt=4))),
        ("job/j", JobFinished(root="", heads=[], trials=4, wall_seconds=1.0)),
        ("trial/t__4", started(trial="t__4")),
        (f"trial/{THREE}", HumanReviewSubmitted(verifier="p", score=1.0, criteria=[])),
        (f"trial/{THREE}", trial_scored()),
        (f"trial/{THREE}", TrialFinished(outcome="scored")),
        (f"trial/{THREE}", VerifierApplied(
            verifier="x", verifier_kind="deterministic", version="1.0.0", digest="d")),
    ]  # fmt: skip
    seen: set[bytes] = set()
    for stream, item in steps:
        await append(log, stream, item)

        await kept.write_summary()
        await write_summary(log, "j", tmp_path / "fresh")

        assert bytes_of(tmp_path / "kept") == bytes_of(tmp_path / "fresh")
        seen.add((tmp_path / "kept/summary.json").read_bytes())
    assert 4 <= len(seen)


async def test_a_trial_that_another_process_finished(log: MemoryLog, tmp_path: Path) -> None:
    """A running job's summary sees what others append to its trials."""
    files = JobFiles(log, "j", tmp_path / "j")
    await files.write_summary()
    await append(log, f"trial/{THREE}", TrialFinished(outcome="cancelled"))

    await files.write_summary()

    found = msgspec.json.decode((tmp_path / "j/summary.json").read_bytes())
    assert 1 == found["counts"]["cancelled"]


async def test_a_finished_trial_is_read_once(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A summary costs what is new, not what is finished."""
    files = JobFiles(log, "j", tmp_path / "j")
    await files.write_trial(ONE)
    await files.write_summary()
    read: list[str] = []
    original = log.read

    async def spy(stream: str, **kwargs: Any) -> list[RecordedEvent]:
        read.append(stream)
        return await original(stream, **kwargs)

    monkeypatch.setattr(log, "read", spy)
    await files.write_summary()
    assert ["job/j"] == read

    await append(log, f"trial/{THREE}", TrialFinished(outcome="cancelled"))
    await files.write_summary()
    assert ["job/j", "job/j", f"trial/{THREE}"] == read


async def test_a_job_of_many_pages(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's stream is read in pages, whatever their size."""
    await rebuild(log, "j", tmp_path / "a")
    for page in (1, 2, 3):
        monkeypatch.setattr(source_module, "PAGE", page)
        await rebuild(log, "j", tmp_path / str(page))
        assert bytes_of(tmp_path / "a/j") == bytes_of(tmp_path / str(page) / "j")


async def test_nothing_is_different_after_a_rebuild(log: MemoryLog, tmp_path: Path) -> None:
    """A job's files as rebuilt are as the log has them."""
    await rebuild(log, "j", tmp_path)

    assert [] == await check(log, "j", tmp_path)


async def test_a_check_writes_nothing(log: MemoryLog, tmp_path: Path) -> None:
    """A check of a job whose folder is gone names every due file and makes none."""
    found = await check(log, "j", tmp_path)

    due = {path for path in ALL if not path.startswith(THREE)}
    assert due == {difference.path for difference in found}
    assert {"missing"} == {difference.what for difference in found}
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("path", sorted(path for path in ALL if not path.startswith(THREE)))
async def test_every_change_is_found(log: MemoryLog, tmp_path: Path, path: str) -> None:
    """A file that is missing, or differs in one byte, is named; a rebuild mends it."""
    await rebuild(log, "j", tmp_path)
    target = tmp_path / "j" / path
    data = target.read_bytes()

    target.unlink()
    assert [Difference(path, "missing")] == await check(log, "j", tmp_path)
    target.write_bytes(data[:-1] + b"?")
    assert [Difference(path, "differs")] == await check(log, "j", tmp_path)
    target.write_bytes(data + b"\n")
    assert [Difference(path, "differs")] == await check(log, "j", tmp_path)

    assert 1 == (await rebuild(log, "j", tmp_path)).written
    assert [] == await check(log, "j", tmp_path)


async def test_extra_files_are_named(log: MemoryLog, tmp_path: Path) -> None:
    """What the log knows nothing of is named as such, and is no fault of the job's files."""
    await rebuild(log, "j", tmp_path)
    for path in ("notes.txt", f"{ONE}/more.txt", f"{ONE}/artifacts/out/b", f"{THREE}/result.json"):
        (tmp_path / "j" / path).write_bytes(b"")
    (tmp_path / "j/reviews").mkdir()
    (tmp_path / "j/reviews/r1").write_bytes(b"")

    found = await check(log, "j", tmp_path)

    assert [
        f"extra: {ONE}/more.txt", f"extra: {ONE}/artifacts/out/b", f"extra: {THREE}/result.json",
        "extra: notes.txt",
    ] == [str(difference) for difference in found]  # fmt: skip
    assert all(difference.harmless for difference in found)
    assert not Difference("a", "missing").harmless
    await rebuild(log, "j", tmp_path)
    assert (tmp_path / "j/notes.txt").exists()


async def test_a_trial_in_flight_is_not_judged(log: MemoryLog, tmp_path: Path) -> None:
    """The files of a trial that has not ended may be older than its events."""
    await rebuild(log, "j", tmp_path)
    await append(log, f"trial/{THREE}", action(), action())
    assert [] == await check(log, "j", tmp_path)

    await append(log, f"trial/{THREE}", TrialFinished(outcome="cancelled"))

    assert {"summary.json", *(f"{THREE}/{name}" for name in (
        "steps.jsonl", "trajectory.json", "result.json",
    ))} == {difference.path for difference in await check(log, "j", tmp_path)}  # fmt: skip


async def test_a_trial_that_was_given_up_is_judged(log: MemoryLog, tmp_path: Path) -> None:
    """Nothing more comes of an execution that a resume gave up: what lacks of it is named."""
    await rebuild(log, "j", tmp_path)
    shutil.rmtree(tmp_path / "j" / THREE)
    assert [] == await check(log, "j", tmp_path)

    await append(log, "job/j", TrialAbandoned(trial=THREE, reason="cut off"))

    found = await check(log, "j", tmp_path)
    names = ("steps.jsonl", "rewards.jsonl", "trajectory.json")
    assert [f"missing: {THREE}/{name}" for name in names] == list(map(str, found))
    assert 3 == (await rebuild(log, "j", tmp_path)).written
    assert [] == await check(log, "j", tmp_path)


async def test_a_link_in_the_way_differs(log: MemoryLog, tmp_path: Path) -> None:
    """Files behind a link are not the job's; a rebuild refuses to write through it."""
    await rebuild(log, "j", tmp_path)
    (tmp_path / "j" / TWO).rename(tmp_path / "elsewhere")
    (tmp_path / "j" / TWO).symlink_to(tmp_path / "elsewhere")

    found = await check(log, "j", tmp_path)

    assert {"differs"} == {d.what for d in found if not d.harmless}
    assert 4 == len([d for d in found if "link" in (d.detail or "")])
    report = await rebuild(log, "j", tmp_path)
    assert 4 == len(report.problems)
    assert "link" in str(report.problems[0])


async def test_as_they_stood(log: MemoryLog, tmp_path: Path) -> None:
    """The files at a position are those of the events up to it."""
    whole = tmp_path / "whole"
    await rebuild(log, "j", whole)
    end_of_one = 14

    report = await rebuild_at(log, "j", end_of_one, tmp_path / "then")

    then = bytes_of(tmp_path / "then")
    assert {"summary.json", *(path for path in ALL if path.startswith(ONE))} == then.keys()
    assert len(then) == report.written
    for path in then.keys() - {"summary.json"}:
        assert (whole / "j" / path).read_bytes() == then[path]
    assert 1 == msgspec.json.decode(then["summary.json"])["counts"]["scored"]


async def test_before_its_end_a_trial_has_no_result(log: MemoryLog, tmp_path: Path) -> None:
    """One event before a trial's end there is everything but its result."""
    await rebuild_at(log, "j", 13, tmp_path / "out")

    found = bytes_of(tmp_path / "out")
    assert f"{ONE}/steps.jsonl" in found
    assert f"{ONE}/result.json" not in found
    assert 0 == msgspec.json.decode(found["summary.json"])["counts"]["scored"]


async def test_every_position_can_be_asked_for(log: MemoryLog, tmp_path: Path) -> None:
    """At the last position the files are those of now; at each before it they can be made."""
    last = await log.last_position()
    for position in range(1, last + 1):
        await rebuild_at(log, "j", position, tmp_path / str(position))

    await rebuild(log, "j", tmp_path / "now")
    assert bytes_of(tmp_path / str(last)) == bytes_of(tmp_path / "now/j")


async def test_before_the_job_there_is_nothing(log: MemoryLog, tmp_path: Path) -> None:
    """A position before the job's start knows no such job."""
    with pytest.raises(JobUnknown, match="up to position 0"):
        await rebuild_at(log, "j", 0, tmp_path / "out")


async def test_a_folder_with_files_is_not_mixed(log: MemoryLog, tmp_path: Path) -> None:
    """Files as they stood go into an empty folder only."""
    (tmp_path / "x").write_bytes(b"")

    with pytest.raises(FolderTaken, match="not empty"):
        await rebuild_at(log, "j", 5, tmp_path)


@pytest.mark.parametrize("command", [rebuild, check])
async def test_an_unknown_job(log: MemoryLog, tmp_path: Path, command: Any) -> None:
    """A job that the log doesn't have is named, with where to look; nothing is made."""
    with pytest.raises(JobUnknown, match=r"'other'.*--log"):
        await command(log, "other", tmp_path)

    assert [] == os.listdir(tmp_path)


async def test_a_job_elsewhere(log: MemoryLog, tmp_path: Path) -> None:
    """A job's folder is where its start says, seen from the log's folder."""
    async with memory_log() as log:
        await fill(log, {"job/j": [job_started(folder="../far/j")]})

        await rebuild(log, "j", tmp_path / "near")

        assert tmp_path / "near/../far/j" == await job_folder(log, "j", tmp_path / "near")
        assert (tmp_path / "far/j/summary.json").exists()
        assert [] == await check(log, "j", tmp_path / "near")


async def test_a_missing_blob_is_reported_by_name(log: MemoryLog, tmp_path: Path) -> None:
    """A lost blob's file is a problem that names it; everything else is written."""
    lost = {blob_ref(PRINTED).blob, blob_ref(SAID).blob}

    class Lossy:
        """The blobs without two of them."""

        async def get(self, ref: BlobRef) -> bytes:
            """The bytes, or the loss."""
            if ref.blob in lost:
                raise BlobMissing(ref.blob, "memory")
            return await inner.get(ref)

        async def copy_to(self, ref: BlobRef, path: Path) -> None:
            """The bytes into a file, or the loss."""
            await anyio.Path(path).write_bytes(await self.get(ref))

        async def check(self, ref: BlobRef) -> None:
            """The loss."""
            await self.get(ref)

    inner = log.blobs
    log._blobs = Lossy()  # type: ignore[assignment]

    report = await rebuild(log, "j", tmp_path)

    broken = [f"{ONE}/trajectory.json", f"{ONE}/verifier/test-stdout.txt"]
    assert broken == sorted(problem.path for problem in report.problems)
    assert all(any(name in str(p) for name in lost) for p in report.problems)
    assert ALL - set(broken) == bytes_of(tmp_path / "j").keys()
    found = await check(log, "j", tmp_path)
    assert [
        *(f"blob {name}" for name in (blob_ref(SAID).blob, blob_ref(PRINTED).blob)),
        f"blocked {broken[0]}", f"missing {broken[1]}",
    ] == [f"{d.what} {d.path}" for d in found]  # fmt: skip


async def test_an_unknown_kind_stops_its_documents_only(log: MemoryLog, tmp_path: Path) -> None:
    """A trial that can't be read past some event keeps its files; the other trials' are written."""
    await rebuild(log, "j", tmp_path)
    before = bytes_of(tmp_path / "j")
    shutil.rmtree(tmp_path / "j" / TWO)
    stream = f"trial/{ONE}"
    event = (await log.read(stream))[1]
    replace(log, stream, 2, unknown(event, ignorable=False))

    report = await rebuild(log, "j", tmp_path)

    stopped = {f"{ONE}/{name}" for name in (
        "result.json", "rewards.jsonl", "steps.jsonl", "trajectory.json",
    )} | {"summary.json"}  # fmt: skip
    assert stopped == {problem.path for problem in report.problems}
    for problem in report.problems:
        assert isinstance(problem.error, UnknownEvent)
        assert f"position {event.position}" in str(problem)
    assert before == bytes_of(tmp_path / "j")


async def test_a_trial_that_can_not_be_read_at_all(log: MemoryLog, tmp_path: Path) -> None:
    """A trial whose first event is unknown is a problem of its own, and of the summary."""
    stream = f"trial/{TWO}"
    replace(log, stream, 1, unknown((await log.read(stream))[0], ignorable=False))

    report = await rebuild(log, "j", tmp_path)

    assert {TWO, "summary.json"} == {problem.path.split("/")[0] for problem in report.problems}
    found = await write_trial(log, TWO, tmp_path / "alone")
    assert 4 == len(found.problems)
    assert {} == bytes_of(tmp_path / "alone")


async def test_a_trial_whose_start_is_broken(log: MemoryLog, tmp_path: Path) -> None:
    """A start that is no start is a problem of the trial, told with what is wrong."""
    event = (await log.read(f"trial/{TWO}"))[0]
    broken = msgspec.structs.replace(event, data='{"kind":"TrialStarted"}')
    replace(log, f"trial/{TWO}", 1, broken)

    report = await write_trial(log, TWO, tmp_path)

    assert "data is no TrialStarted" in str(report.problems[0])


async def test_no_summary_of_an_unknown_job(log: MemoryLog, tmp_path: Path) -> None:
    """A job without a start has no summary."""
    assert Report() == await write_summary(log, "other", tmp_path / "other")


async def test_a_job_that_can_not_be_read(log: MemoryLog, tmp_path: Path) -> None:
    """A job whose own start is unknown says so."""
    replace(log, "job/j", 1, unknown((await log.read("job/j"))[0], ignorable=False))

    with pytest.raises(UnknownEvent, match="position 1"):
        await rebuild(log, "j", tmp_path)


async def test_a_trial_is_read_before_anything_else_of_its_job(
    log: MemoryLog, tmp_path: Path
) -> None:
    """Whoever asks for a trial first gets the files that a rebuild writes."""
    await rebuild(log, "j", tmp_path)
    files = await JobSource(log, "j").trial(ONE)
    assert files is not None
    assert files.documents["result.json"] == (tmp_path / "j" / ONE / "result.json").read_bytes()


async def test_a_trial_that_was_only_scheduled(log: MemoryLog, tmp_path: Path) -> None:
    """A trial without an event has no folder, and its absence is no fault."""
    await append(log, "job/j", scheduled("t__4", slot=slot(attempt=4)))

    await rebuild(log, "j", tmp_path)

    assert not (tmp_path / "j/t__4").exists()
    assert [] == await check(log, "j", tmp_path)
    assert Report() == await write_trial(log, "t__4", tmp_path / "j")


async def test_a_trial_that_the_job_does_not_know(log: MemoryLog, tmp_path: Path) -> None:
    """A trial that was never scheduled has files, and is in no summary."""
    await fill(log, {"trial/other": trial(trial="other")})
    files = JobFiles(log, "j", tmp_path / "j")

    assert 4 == (await files.write_trial("other")).written

    await files.write_summary()
    found = msgspec.json.decode((tmp_path / "j/summary.json").read_bytes())
    assert 2 == found["counts"]["scored"]


@pytest.mark.parametrize("name", ["a/b", "..", "."])
async def test_a_trials_name_stays_in_the_folder(log: MemoryLog, tmp_path: Path, name: str) -> None:
    """A name that is no folder's writes nothing anywhere."""
    await fill(log, {f"trial/{name}": trial(trial=name)})

    report = await write_trial(log, name, tmp_path / "jobs" / "j")

    assert 0 == report.written
    assert "no folder's" in str(report.problems[0])
    assert {} == bytes_of(tmp_path / "jobs/j")


async def test_a_file_in_a_folders_place(log: MemoryLog, tmp_path: Path) -> None:
    """What can't be written is named; everything else is."""
    (tmp_path / "j" / ONE).mkdir(parents=True)
    (tmp_path / "j" / ONE / "artifacts").write_bytes(b"")
    (tmp_path / "j" / ONE / "steps.jsonl").mkdir()

    report = await rebuild(log, "j", tmp_path)

    assert [f"{ONE}/artifacts/out/a.bin", f"{ONE}/steps.jsonl"] == [
        problem.path for problem in report.problems
    ]
    assert len(ALL) - 2 == report.written


async def test_a_full_disk_stops_the_writing(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be written, the writing ends with one error, and mends later."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(FilesUnwritable, match="No space left"):
            await rebuild(log, "j", tmp_path)

    assert {} == bytes_of(tmp_path / "j")
    await rebuild(log, "j", tmp_path)
    assert [] == await check(log, "j", tmp_path)


async def test_a_fold_is_made_under_the_lock(log: MemoryLog, tmp_path: Path) -> None:
    """A writer that waited writes what is there when it gets its turn, not what was."""
    files = JobFiles(log, "j", tmp_path / "j")
    async with anyio.create_task_group() as tasks:
        async with files_lock(tmp_path / "j"):
            tasks.start_soon(files.write_trial, THREE)
            await anyio.wait_all_tasks_blocked()
            await append(log, f"trial/{THREE}", TrialFinished(outcome="cancelled"))

    assert (tmp_path / "j" / THREE / "result.json").exists()


async def test_a_summary_is_made_under_the_lock(log: MemoryLog, tmp_path: Path) -> None:
    """So an older one never replaces a newer, whoever writes it."""
    files = JobFiles(log, "j", tmp_path / "j")
    await files.write_summary()
    assert b'"cancelled": 0' in (tmp_path / "j" / "summary.json").read_bytes()

    async with anyio.create_task_group() as tasks:
        async with files_lock(tmp_path / "j"):
            tasks.start_soon(files.write_summary)
            await anyio.wait_all_tasks_blocked()
            await append(log, f"trial/{THREE}", TrialFinished(outcome="cancelled"))

    assert b'"cancelled": 1' in (tmp_path / "j" / "summary.json").read_bytes()
    assert [] == [one for one in await check(log, "j", tmp_path) if one.path == "summary.json"]


async def test_two_rebuilds_at_once(log: MemoryLog, tmp_path: Path) -> None:
    """Two processes may rebuild one job: each file is one of theirs, whole."""
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(rebuild, log, "j", tmp_path)

    assert [] == await check(log, "j", tmp_path)


def hash_of(version: int) -> str:
    """The hash of an event of the first execution."""
    return recorded(f"trial/{ONE}", trial()[:5])[version - 1].hash.hex()


async def test_an_execution_has_what_it_goes_on_from(tmp_path: Path) -> None:
    """An execution that goes on from another one has that one's steps, up to the place named."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await fill_continued(log, 5, hash_of(5))

        await rebuild(log, "j", tmp_path)

        first, second = tmp_path / "j" / ONE, tmp_path / "j" / TWO
        assert (first / "steps.jsonl").read_bytes() == (second / "steps.jsonl").read_bytes()
        found = msgspec.json.decode((second / "result.json").read_bytes())
        assert ("scored", 1, 5) == (
            found["outcome"], found["n_steps"], found["continues"]["version"],
        )  # fmt: skip
        await write_trial(log, TWO, tmp_path / "alone")
        assert bytes_of(second) == bytes_of(tmp_path / "alone" / TWO)


async def fill_continued(log: MemoryLog, version: int, hash: str) -> None:
    """Two executions of a slot; the second goes on from a place in the first."""
    place = Continues(stream=f"trial/{ONE}", version=version, hash=hash)
    await fill(
        log,
        {
            "job/j": [job_started(), scheduled(ONE), scheduled(TWO, execution=2)],
            f"trial/{ONE}": [*trial()[:5], TrialFinished(outcome="unscored")],
            f"trial/{TWO}": [
                started(trial=TWO, execution=2, continues=place), verifier_started(), scored(),
                trial_scored(), TrialFinished(outcome="scored"),
            ],
        },
    )  # fmt: skip


@pytest.mark.parametrize(("version", "hash"), [(5, "ab" * 32), (50, "ab" * 32)])
async def test_a_place_that_is_not_in_the_log(tmp_path: Path, version: int, hash: str) -> None:
    """An execution whose beginning is not in the log can't be told, and says why."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await fill_continued(log, version, hash)

        report = await rebuild(log, "j", tmp_path)

        assert {TWO, "summary.json"} == {problem.path.split("/")[0] for problem in report.problems}
        assert all("goes on from" in str(problem) for problem in report.problems)
        found = await write_summary(log, "j", tmp_path / "alone")
        assert isinstance(found.problems[0].error, LogCorrupt)


async def test_executions_that_go_on_in_a_circle() -> None:
    """A log that leads in a circle is refused, not followed for ever."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await fill_continued(log, 5, hash_of(5))
        event = (await log.read(f"trial/{ONE}"))[0]
        place = Continues(stream=f"trial/{ONE}", version=1, hash=event.hash.hex())
        payload = decode(event)
        assert isinstance(payload, TrialStarted)
        data = msgspec.json.encode(msgspec.structs.replace(payload, continues=place)).decode()
        # The old hash stays: no chain can hold a circle.
        log._streams[f"trial/{ONE}"][0] = msgspec.structs.replace(event, data=data)

        with pytest.raises(LogCorrupt, match="more than 100 executions"):
            await read_trial(log, ONE, verify=False)
        with pytest.raises(LogCorrupt, match="the log was changed here"):
            await read_trial(log, ONE)


@pytest.mark.parametrize("few", [2, 1000])
async def test_a_long_stream_is_checked_in_a_thread(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few events are checked at once, more of them in a thread; both notice an altered one."""
    monkeypatch.setattr(source_module, "FEW", few)
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await fill_continued(log, 5, hash_of(5))
        assert len(await read_trial(log, ONE)) > 2
        events = log._streams[f"trial/{ONE}"]
        events[2] = msgspec.structs.replace(events[2], at="2031-01-01T00:00:00.000000Z")
        with pytest.raises(LogCorrupt, match=f"{ONE}' version 3"):
            await read_trial(log, ONE)


async def test_a_beginning_that_says_where_it_goes_on_from_and_can_not_be_read() -> None:
    """The event is named, as it is where it goes on from none."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await fill_continued(log, 5, hash_of(5))
        event = (await log.read(f"trial/{TWO}"))[0]
        assert '"continues"' in event.data
        cut = msgspec.structs.replace(event, data=event.data[:-1])
        log._streams[f"trial/{TWO}"][0] = cut

        files = await JobSource(log, "j").trial(TWO)

        assert files is not None
        assert "version 1: data is no TrialStarted" in str(files.problems[0])


async def test_blobs_are_fetched_once_where_a_file_is_there(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copied file that is right is known by its hash, without reading the blob."""
    await rebuild(log, "j", tmp_path)

    async def fail(*_: object) -> None:
        raise AssertionError("not needed")

    monkeypatch.setattr(log.blobs, "copy_to", fail)
    assert 0 == (await rebuild(log, "j", tmp_path)).written
