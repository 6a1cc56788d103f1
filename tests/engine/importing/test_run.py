"""An import from its records to its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anyio import to_thread

from helpers.imports import EVAL, HARBOR, SAMPLES, copied, files_of, place_in
from helpers.logs import check_chain, everything
from trialog.engine.importing import run
from trialog.engine.importing.fields import RecordsError
from trialog.engine.importing.run import Imported, Place, import_job
from trialog.events.checking import named_blobs
from trialog.events.codec import decode
from trialog.events.kinds import JobStarted, TrialStarted
from trialog.projections.rebuild import check, rebuild

FORMS = sorted([EVAL.relative_to(SAMPLES), EVAL.with_suffix(".json").relative_to(SAMPLES)])
FORMS += sorted(path.relative_to(SAMPLES) for path in SAMPLES.glob("[!i]*/*"))


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_the_files_are_as_the_log_has_them(tmp_path: Path, form: Path) -> None:
    """Written, checked, deleted and written again: the same bytes."""
    async with place_in(tmp_path) as place:
        done = await import_job(place, SAMPLES / form)
        assert await check(place.log, done.job, place.jobs_folder) == []
        before = files_of(done.folder)
        for path in list(done.folder.rglob("*.json*")):
            path.unlink()
        assert (await rebuild(place.log, done.job, place.jobs_folder)).problems == ()
        assert files_of(done.folder) == before
        check_chain(await everything(place.log))
        assert done.left_out == []


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_importing_twice_adds_nothing(tmp_path: Path, form: Path) -> None:
    """Not an event, not a file."""
    async with place_in(tmp_path) as place:
        first = await import_job(place, SAMPLES / form)
        events = await everything(place.log)
        files = files_of(first.folder)
        again = await import_job(place, SAMPLES / form)
        assert await everything(place.log) == events
        assert files_of(again.folder) == files
        assert (first.added, again.added) == (first.trials, 0)


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_every_byte_of_the_source_is_kept(tmp_path: Path, form: Path) -> None:
    """Each file is named in an event, once, with a blob of its bytes."""
    source = SAMPLES / form
    there = await to_thread.run_sync(files_of_source, source)
    async with place_in(tmp_path) as place:
        await import_job(place, source)
        named: dict[str, bytes] = {}
        for event in await everything(place.log):
            payload = decode(event)
            if isinstance(payload, JobStarted | TrialStarted) and payload.imported is not None:
                trial = payload.imported.path if isinstance(payload, TrialStarted) else ""
                for file in payload.imported.files:
                    below = f"{trial}/{file.path}"
                    path = below if below in there else file.path
                    assert path not in named
                    named[path] = await place.blobs.get(file.blob)
            for ref in named_blobs(event.data):
                await place.blobs.check(ref)
        assert named == there


def files_of_source(source: Path) -> dict[str, bytes]:
    """What an import of it reads."""
    if source.is_dir():
        return files_of(source)
    if source.suffix == ".eval":
        archive = run.open_source(source)
        return {name: archive.read(name) for name in archive.names}
    return {source.name: source.read_bytes()}


async def imported(folder: Path, source: Path) -> tuple[Imported, list[str]]:
    """An import into a log of its own, and all that it stored."""
    async with place_in(folder) as place:
        done = await import_job(place, source)
        return done, [event.id for event in await everything(place.log)][:-1]


async def test_ids_follow_from_the_bytes(tmp_path: Path) -> None:
    """The same records at another place give the same job, trials and events; but for the end of
    the import itself."""
    first, ids = await imported(tmp_path / "a", HARBOR)
    second, same = await imported(tmp_path / "b", copied(HARBOR, tmp_path))
    assert (first.job, ids) == (second.job, same)


async def test_a_source_that_changed_is_another_job(tmp_path: Path) -> None:
    """The earlier job stays, and is named."""
    source = copied(HARBOR, tmp_path)
    async with place_in(tmp_path) as place:
        first = await import_job(place, source)
        (source / "job.log").write_text("more")
        second = await import_job(place, source)
        assert second.job != first.job
        assert second.earlier == [first.job]
        assert await check(place.log, first.job, place.jobs_folder) == []


async def test_a_killed_import_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told stays, and only the rest is added."""
    whole, ids = await imported(tmp_path / "whole", HARBOR)
    tell, told = run._tell, 0

    class Killed(Exception):
        """The process died."""

    async def dies(*given: object) -> None:
        nonlocal told
        if told == 2:
            raise Killed
        told += 1
        await tell(*given)  # type: ignore[arg-type]

    async with place_in(tmp_path) as place:
        monkeypatch.setattr(run, "_tell", dies)
        with pytest.raises(Killed):
            await import_job(place, HARBOR)
        monkeypatch.undo()
        before = await everything(place.log)
        assert before
        again = await import_job(place, HARBOR)
        assert (again.job, again.added) == (whole.job, 1)
        events = await everything(place.log)
        assert events[: len(before)] == before
        assert [event.id for event in events][:-1] == ids
        assert await check(place.log, again.job, place.jobs_folder) == []


async def test_what_cant_be_read_is_left_out_and_said(tmp_path: Path) -> None:
    """The other trials come in, and its files are kept with the job."""
    source = copied(HARBOR, tmp_path)
    (source / "says-less__StaXLgC" / "result.json").unlink()
    (source / "link").symlink_to("/etc/passwd")
    async with place_in(tmp_path) as place:
        done = await import_job(place, source)
        assert done.trials == 2
        assert {one.path for one in done.left_out} == {"says-less__StaXLgC", "link"}
        started = await first_event(place, done.job)
        assert started.imported is not None
        assert started.imported.skipped == done.left_out
        kept = {file.path for file in started.imported.files}
        assert "says-less__StaXLgC/config.json" in kept
        assert "says-hello__Q7mCFYs/config.json" not in kept
        summary = json.loads((done.folder / "summary.json").read_text())
        assert summary["imported"]["left_out"] == 2
        assert summary["counts"]["slots"] == 2


async def first_event(place: Place, job: str) -> JobStarted:
    """How the log has the job's start."""
    found = decode((await place.log.read(f"job/{job}", limit=1))[0])
    assert isinstance(found, JobStarted)
    return found


async def test_files_say_who_ran_it(tmp_path: Path) -> None:
    """Neither a result nor a summary can be taken for one of trialog's own."""
    async with place_in(tmp_path) as place:
        done = await import_job(place, EVAL)
        summary = json.loads((done.folder / "summary.json").read_text())
        assert summary["imported"]["system"] == "inspect"
        assert summary["counts"]["scored"] == 4
        for result in done.folder.glob("*/result.json"):
            found = json.loads(result.read_text())
            assert found["imported"]["system"] == "inspect"
            assert found["task_digest"] is None
            assert found["sandbox"] is None


async def test_trials_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    """Two folders with the same trial in them are two trials of different attempts."""
    source = copied(HARBOR, tmp_path)
    copied(source / "says-hello__Q7mCFYs", tmp_path).rename(source / "says-hello__again")
    async with place_in(tmp_path) as place:
        done = await import_job(place, source)
        assert done.trials == 4
        results = [json.loads(one.read_text()) for one in done.folder.glob("*hello*/result.json")]
        assert sorted(one["attempt"] for one in results) == [1, 2]


async def test_large_values_become_blobs(tmp_path: Path) -> None:
    """An observation over 16 KiB is a blob in the event, and whole in the trajectory."""
    source = copied(HARBOR, tmp_path)
    place_of = source / "says-hello__Q7mCFYs" / "agent" / "trajectory.json"
    trajectory = json.loads(place_of.read_text())
    trajectory["steps"][1]["observation"]["results"][0]["content"] = "long " * 10_000
    trajectory["steps"][1]["tool_calls"][0]["arguments"] = {"$blob": "no blob", "size": 1}
    place_of.write_text(json.dumps(trajectory))
    async with place_in(tmp_path) as place:
        done = await import_job(place, source)
        [folder] = done.folder.glob("says-hello*")
        [step] = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
        assert step["observation"]["size"] == 50_002
        assert step["arguments"] == {"$$blob": "no blob", "size": 1}
        written = json.loads((folder / "trajectory.json").read_text())
        [result] = written["steps"][1]["observation"]["results"]
        assert result["content"] == "long " * 10_000


async def test_a_folder_of_no_system_is_refused(tmp_path: Path) -> None:
    """The message says which are known, and what to give."""
    (tmp_path / "other").mkdir()
    async with place_in(tmp_path) as place:
        with pytest.raises(RecordsError, match=r"other: no job folder of harbor.*give the job's"):
            await import_job(place, tmp_path / "other")
        (tmp_path / "notes.txt").write_text("")
        with pytest.raises(RecordsError, match=r"notes\.txt: expected a folder, or a log"):
            await import_job(place, tmp_path / "notes.txt")


async def test_a_job_of_nothing_but_bad_trials_is_refused(tmp_path: Path) -> None:
    """Nothing is stored, and the reason of one is in the message."""
    source = copied(HARBOR, tmp_path)
    for result in source.glob("*/result.json"):
        result.write_text("{")
    async with place_in(tmp_path) as place:
        with pytest.raises(RecordsError, match=r"none of its 3 trials can be read;.*no JSON"):
            await import_job(place, source)
        assert await everything(place.log) == []
