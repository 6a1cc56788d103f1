"""A regrade's files made as its trials go by: they are those that the log would give."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from helpers.given import Item, fill, job_started, scheduled, slot, started, trial, unknown
from helpers.logs import chained
from trialog.events.clock import RandomIds, SystemClock
from trialog.events.codec import decode_or_none
from trialog.events.envelope import RecordedEvent, new_event
from trialog.events.errors import LogCorrupt
from trialog.events.kinds import RegradePlanned, RegradeSkipped, VerifierApplied
from trialog.events.kinds.parts import Continues
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log, open_log
from trialog.projections.names import Names
from trialog.projections.rebuild import check
from trialog.projections.regrade_files import SUMMARY, RegradeFiles
from trialog.projections.regrades import Regrade
from trialog.projections.source import JobSource
from trialog.projections.trial import TrialFold
from trialog.projections.writer import JobFiles, Report

from .test_regrades import ONE, THREE, TWO, begun, done, given, planned


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """Two trials that a regrade answered, and one that it could not take."""
    async with memory_log() as made:
        await fill(
            made,
            {
                f"trial/{ONE}": [*trial(1.0, trial=ONE), begun("r"), given("r", 0.0)],
                f"trial/{TWO}": [*trial(0.0, trial=TWO), begun("r"), given("r", 0.0)],
                f"trial/{THREE}": trial(1.0, trial=THREE),
                "job/j": job_events(planned("r", ONE, TWO, THREE)),
            },
        )
        yield made


def job_events(plan: RegradePlanned) -> list[Item]:
    """A job of three trials whose regrade is finished."""
    skipped = RegradeSkipped(regrade_id="r", trial=THREE, reason="no work", category="c")
    names = (ONE, TWO, THREE)
    return [
        job_started(slots=3),
        *(scheduled(name, slot=slot(attempt=n)) for n, name in enumerate(names, 1)),
        plan, skipped, done("r"),
    ]  # fmt: skip


def files_in(log: MemoryLog, folder: Path) -> RegradeFiles:
    """The job's files while it is regraded."""
    plan = planned("r", ONE, TWO, THREE)
    this = Regrade(planned=plan, trials=Names(plan.trials), at="")
    return RegradeFiles(log, "j", folder / "j", [this])


async def make(files: RegradeFiles, *trials: str) -> None:
    """Make the files of these trials, as a regrade does that has them at hand."""
    for name, events in zip(trials, await files.events(trials), strict=True):
        assert isinstance(events, list)
        files.add(name, folded(events), events)
    await files.settle()


def folded(events: list[RecordedEvent]) -> TrialFold:
    """A fold that was fed decoded events."""
    fold = TrialFold(keep=False)
    for event in events:
        payload = decode_or_none(event)
        if payload is not None:
            fold.take(event, payload)
    return fold


@pytest.fixture
def made_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose files were made of what was read once more."""
    found: list[str] = []
    write = JobFiles.write_regrades

    async def noted(self: JobFiles, trials: Sequence[str]) -> Report:
        found.extend(trials)
        return await write(self, trials)

    monkeypatch.setattr(JobFiles, "write_regrades", noted)
    return found


async def test_what_was_made_is_what_the_log_gives(
    log: MemoryLog, tmp_path: Path, made_again: list[str]
) -> None:
    """Nothing is written before the end; then only what could not be made is read again."""
    with closing(files_in(log, tmp_path)) as files:
        await make(files, ONE)
        await make(files, TWO)
        await files.settle()
        assert not list(tmp_path.rglob("regrade.json"))
        report = await files.write_regrades([ONE, TWO, THREE])
        assert (report.written, report.problems) == (3, ())
        assert made_again == [THREE]
        await files.write_summary()
    different = await check(log, "j", tmp_path)
    assert {Path(one.path).name for one in different} == {
        "result.json", "rewards.jsonl", "steps.jsonl", "trajectory.json",
    }  # fmt: skip


async def test_what_came_later_is_read(
    log: MemoryLog, tmp_path: Path, made_again: list[str]
) -> None:
    """A trial to which somebody appended since is read again; no older file is written."""
    with closing(files_in(log, tmp_path)) as files:
        await make(files, ONE, TWO)
        head = await log.head(f"trial/{TWO}")
        label = VerifierApplied(
            verifier="v", verifier_kind="deterministic", version="1", digest="d"
        )
        await log.append(
            f"trial/{TWO}", head.version, [new_event(label, SystemClock(), RandomIds())]
        )
        assert (await files.write_regrades([ONE, TWO])).written == 2
        assert made_again == [TWO]


async def test_no_room_to_put_it_away(
    log: MemoryLog, tmp_path: Path, made_again: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could be put away in part, or not at all, is made again at the end."""

    def full(*given: Any) -> int:
        raise OSError(28, "no space left on device")

    with closing(files_in(log, tmp_path)) as files:
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", lambda fd, data, at: len(data) - 1)
            await make(files, ONE)
            patched.setattr(os, "pwrite", full)
            await make(files, TWO)
        assert (await files.write_regrades([ONE, TWO])).written == 2
    assert made_again == [ONE, TWO]


async def test_what_can_not_be_made(log: MemoryLog, tmp_path: Path) -> None:
    """A trial that has not begun, or whose name is no folder's, is left to the end."""
    with closing(files_in(log, tmp_path)) as files:
        files.add(ONE, TrialFold(keep=False), [])
        events = await log.read(f"trial/{ONE}")
        files.add("../out", folded(events), events)
        await files.settle()
        assert (await files.write_regrades([ONE])).written == 1


async def test_a_regrade_that_finished_since(tmp_path: Path) -> None:
    """What is read at the end is as the finished regrade left it, also if the job was read."""
    async with memory_log() as log:
        *before, _, end = job_events(planned("r", ONE))
        await fill(log, {f"trial/{ONE}": [*trial(1.0, trial=ONE), begun("r"), given("r", 0.0)]})
        await fill(log, {"job/j": before})
        with closing(files_in(log, tmp_path)) as files:
            await files.events([ONE])
            head = await log.head("job/j")
            assert not isinstance(end, RegradeSkipped)
            await log.append("job/j", head.version, [new_event(end, SystemClock(), RandomIds())])
            assert (await files.write_regrades([ONE])).written == 1


async def test_a_trial_without_answers(log: MemoryLog, tmp_path: Path) -> None:
    """Of a trial that no regrade answered nothing is made."""
    with closing(files_in(log, tmp_path)) as files:
        events = await log.read(f"trial/{ONE}")
        files.add(ONE, folded(events[:9]), events[:9])
        await files.settle()
        assert (await files.write_regrades([ONE])).written == 1


async def test_a_fold_that_was_stopped_takes_no_more(log: MemoryLog) -> None:
    """What comes decoded after an event that can't be read past is not taken either."""
    fold = TrialFold(keep=False)
    first, second, *_, last = await log.read(f"trial/{ONE}")
    fold.feed([first, unknown(second, ignorable=False)])
    assert fold.blocked is not None
    fold.take(last, given("r", 1.0))
    record = fold.record()
    assert record is not None
    assert record.regrades == ()


async def test_whoever_reads_at_once_takes_in_each_event_once(tmp_path: Path) -> None:
    """Several readers of one job's source, as a regrade's groups are: its summary is the log's."""
    names = [f"t-{n}" for n in range(3)]
    async with open_log(tmp_path / "trialog.db") as log:
        await fill(
            log,
            {
                **{f"trial/{name}": trial(1.0, trial=name) for name in names},
                "job/j": [
                    job_started(slots=3),
                    *(scheduled(name, slot=slot(attempt=n)) for n, name in enumerate(names, 1)),
                    planned("r", *names), done("r"),
                ],
            },
        )  # fmt: skip
        source = JobSource(log, "j")
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(source.events_each, [name])
        assert [one.id for one in source.regrades] == ["r"]
        assert await source.summary() == await JobSource(log, "j").summary()


async def unreadable(log: MemoryLog, name: str) -> None:
    """Have a trial's stream be one that goes on from what the log does not have."""
    place = Continues(stream="trial/x", version=3, hash="00")
    await fill(log, {f"trial/{name}": [started(trial=name, continues=place)]})


@pytest.mark.parametrize("written", [True, False])
async def test_a_trial_that_can_not_be_read(tmp_path: Path, written: bool) -> None:
    """It costs summary.json, not the regrade's own summary, which names it as not regradable."""
    async with memory_log() as log:
        for name in (ONE, TWO):
            await fill(log, {f"trial/{name}": [*trial(1.0, trial=name), begun("r"), given("r", 0)]})
        await fill(log, {"job/j": job_events(planned("r", ONE, TWO, THREE))})
        await unreadable(log, THREE)
        with closing(files_in(log, tmp_path)) as files:
            if written:
                report = await files.write_summary()
                assert ["summary.json"] == [one.path for one in report.problems]
                assert (tmp_path / "j" / SUMMARY).read_bytes() == await files.regrade_summary()
            summary = msgspec.json.decode(await files.regrade_summary())
    assert {ONE: "pass->fail", TWO: "pass->fail", THREE: "not_regradable"} == {
        row["trial_name"]: row["verdict"] for row in summary["trials"]
    }
    assert "t" == summary["trials"][2]["task_name"]
    assert {"reward": None, "passed": None} == summary["trials"][2]["original"]
    assert 1 == summary["counts"]["not_regradable"]


async def test_an_answer_that_can_not_be_read(tmp_path: Path) -> None:
    """A trial that the regrade answered, and that can't be read since, leaves no file, and what the
    others came to for a person."""
    async with memory_log() as log:
        await fill(log, {f"trial/{TWO}": [*trial(1.0, trial=TWO), begun("r"), given("r", 0)]})
        await fill(log, {"job/j": job_events(planned("r", ONE, TWO, THREE))})
        await unreadable(log, ONE)
        await unreadable(log, THREE)
        with closing(files_in(log, tmp_path)) as files:
            report = await files.write_summary()
            summary = msgspec.json.decode(await files.regrade_summary())
    assert ["summary.json", SUMMARY] == [one.path for one in report.problems]
    assert [TWO, THREE] == [row["trial_name"] for row in summary["trials"]]


async def test_a_job_that_can_not_be_read(tmp_path: Path) -> None:
    """Of such a one there is no summary at all."""
    async with memory_log() as log:
        await fill(log, {"job/j": job_events(planned("r", ONE))})
        stream = log._streams["job/j"]
        later = log._streams["job/j"][-1]
        stream.append(unknown(replace(later, version=later.version + 1), ignorable=False))
        stream[:] = chained(stream)
        with closing(files_in(log, tmp_path)) as files:
            with pytest.raises(LogCorrupt, match="job/j"):
                await files.regrade_summary()


async def test_one_trial_alone(log: MemoryLog, tmp_path: Path) -> None:
    """Its events are those of the log."""
    with closing(files_in(log, tmp_path)) as files:
        assert await log.read(f"trial/{ONE}") == await files.events_of(ONE)
