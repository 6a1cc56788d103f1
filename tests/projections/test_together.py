"""Files of trials that end at the same time: one lock, one thread, and each its own outcome."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from helpers.given import action, fill, job_started, output, scheduled, scored, slot, started, trial
from trialog.events.errors import LogCorrupt
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log
from trialog.projections import writer
from trialog.projections.disk import files_lock
from trialog.projections.errors import FilesUnwritable
from trialog.projections.rebuild import check
from trialog.projections.writer import TOGETHER, JobFiles

MANY = [f"t__{'0' * number}" for number in range(1, TOGETHER + 9)]  # ids are made of sums of names
PRINTED = "t__printed0"
PLAIN = MANY[0]


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """A log with more trials than are written together, and one whose output is a blob."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        await log.blobs.put(b"PASS\n")
        names = [*MANY, PRINTED]
        slots = [slot(attempt=number) for number in range(1, len(names) + 1)]
        told = trial(trial=PRINTED, slot=slots[-1])
        told[5] = scored(output=output())
        await fill(
            log,
            {
                "job/j": [
                    job_started(slots=len(names)),
                    *(scheduled(name, slot=s) for name, s in zip(names, slots, strict=True)),
                ],
                **{
                    f"trial/{name}": trial(trial=name, slot=s)
                    for name, s in zip(MANY, slots, strict=False)
                },
                f"trial/{PRINTED}": told,
                "trial/../out": [started(trial="../out"), action()],
            },
        )
        yield log


async def test_trials_that_end_together_share_a_lock(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files are written, some trials under one lock, and they are those of a rebuild."""
    locked: list[Path] = []

    def counted(folder: Path) -> Any:
        locked.append(folder)
        return files_lock(folder)

    monkeypatch.setattr(writer, "files_lock", counted)
    files = JobFiles(log, "j", tmp_path / "j")
    async with anyio.create_task_group() as tasks:
        for name in (*MANY, PRINTED):
            tasks.start_soon(files.write_trial, name)
    assert len(locked) <= 3
    await files.write_summary()
    assert [] == await check(log, "j", tmp_path)


async def test_one_who_gives_up_leaves_the_others_theirs(log: MemoryLog, tmp_path: Path) -> None:
    """A writer that is cancelled at its work leaves it to those who still wait."""
    files = JobFiles(log, "j", tmp_path / "j")
    begun = anyio.Event()

    async def first(scope: anyio.CancelScope) -> None:
        with scope:
            begun.set()
            await files.write_trial(MANY[0])

    scope = anyio.CancelScope()
    async with files_lock(tmp_path / "j"), anyio.create_task_group() as tasks:
        tasks.start_soon(first, scope)
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as later:
            later.start_soon(files.write_trial, MANY[1])
            later.start_soon(files.write_trial, MANY[2])
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            later.cancel_scope.cancel()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(files.write_trial, MANY[3])
    assert (tmp_path / "j" / MANY[3] / "result.json").exists()


@pytest.mark.parametrize("name", [PLAIN, PRINTED])
async def test_a_full_disk_is_the_error_of_each(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where nothing can be written, everyone who waited is told, and it mends later."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    files = JobFiles(log, "j", tmp_path / "j")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(FilesUnwritable, match="No space left"):
            await files.write_trial(name)
    assert (await files.write_trial(name)).written >= 4


async def test_an_error_of_the_log_is_everyones(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that fails ends the writing of those who began it; the next one begins anew."""
    files = JobFiles(log, "j", tmp_path / "j")
    told: list[str] = []

    original = log.read

    async def refuse(stream: str, **more: Any) -> Any:
        if stream.startswith("trial/"):
            raise OSError("no descriptors left")
        return await original(stream, **more)

    async def want(name: str) -> None:
        try:
            await files.write_trial(name)
        except OSError as error:
            told.append(str(error))

    with monkeypatch.context() as patch:
        patch.setattr(log, "read", refuse)
        async with anyio.create_task_group() as tasks:
            for name in MANY[:3]:
                tasks.start_soon(want, name)
    assert told == ["no descriptors left"] * 3
    assert (await files.write_trial(MANY[0])).written == 4


async def test_a_trial_that_is_damaged_spoils_no_other(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be read is that trial's problem."""
    original = log.read

    async def damaged(stream: str, **more: Any) -> Any:
        if stream == f"trial/{MANY[1]}":
            raise LogCorrupt(f"stream {stream!r}", "version 3 is torn")
        return await original(stream, **more)

    monkeypatch.setattr(log, "read", damaged)
    files = JobFiles(log, "j", tmp_path / "j")
    reports: dict[str, Any] = {}

    async def want(name: str) -> None:
        reports[name] = await files.write_trial(name)

    async with anyio.create_task_group() as tasks:
        for name in MANY[:3]:
            tasks.start_soon(want, name)
    assert [reports[name].written for name in MANY[:3]] == [4, 0, 4]
    assert "version 3 is torn" in str(reports[MANY[1]].problems[0])
    assert any("version 3 is torn" in str(found) for found in await check(log, "j", tmp_path))


async def test_a_name_that_is_no_folders(log: MemoryLog, tmp_path: Path) -> None:
    """A trial whose name leads out of the job's folder is a problem, and nothing is written."""
    report = await JobFiles(log, "j", tmp_path / "j").write_trial("../out")
    assert report.written == 0
    assert "no folder's" in str(report.problems[0])
    assert not (tmp_path / "out").exists()


async def test_trials_under_way_cost_a_summary_nothing(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the caller still works on is not read for a summary; when it has ended it counts."""
    files = JobFiles(log, "j", tmp_path / "j")
    read: list[str] = []
    original = log.read

    async def spy(stream: str, **more: Any) -> Any:
        read.append(stream)
        return await original(stream, **more)

    monkeypatch.setattr(log, "read", spy)
    await files.write_summary({*MANY[1:], PRINTED})
    assert read == ["job/j", f"trial/{MANY[0]}"]
    first = msgspec.json.decode((tmp_path / "j/summary.json").read_bytes())
    await files.write_summary()
    last = msgspec.json.decode((tmp_path / "j/summary.json").read_bytes())
    assert (first["counts"]["scored"], last["counts"]["scored"]) == (1, len(MANY) + 1)
