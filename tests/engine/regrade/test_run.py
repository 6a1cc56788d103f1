"""Regrades of trials that a test script grades."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from helpers.altering import change, change_event, cut
from helpers.dying import DyingLog, died
from helpers.fakes import FakeSandbox
from helpers.regrades import Bench, graded
from trialog.engine.errors import CommandRefused, ConfigError, ImageError, JobLocked, SandboxGone
from trialog.engine.job.lock import own
from trialog.engine.regrade.reverify import REASON, engine_given
from trialog.engine.regrade.run import Wish, regrade_job
from trialog.engine.sandbox.protocol import Command, Exit, ImageRequest
from trialog.engine.trial.hardening import way
from trialog.events.clock import RandomIds, SystemClock
from trialog.events.codec import decode
from trialog.events.envelope import NewEvent
from trialog.events.errors import LogCorrupt
from trialog.events.kinds import (
    ArtifactsSaved,
    BlobsPruned,
    RegradeScored,
    RegradeStarted,
    WorkspaceSaved,
)


def verdicts(summary: dict[str, Any]) -> dict[str, str]:
    """Each task's verdict."""
    return {row["task_name"]: row["verdict"] for row in summary["trials"]}


async def events_of(bench: Bench, task: str, kind: str) -> list[Any]:
    """The payloads of a kind in the stream of a task's trial."""
    events = await bench.log.read(f"trial/{bench.trial(task)}")
    return [decode(event) for event in events if event.kind == kind]


async def test_a_mended_test_grades_the_saved_work(bench: Bench) -> None:
    """No agent runs; the new grade is beside the original, whose bytes stay as they were."""
    await bench.run(2)
    before, agents = bench.originals(), bench.backend.agents_run()
    bench.mend("task-1", "echo 0")
    summary = await bench.regrade(reason="too lenient", author="ann")
    assert verdicts(summary) == {"task-1": "pass->fail", "task-2": "unchanged"}
    assert bench.backend.agents_run() == agents
    assert bench.originals() == before
    assert await bench.differences() == []
    (started,) = await events_of(bench, "task-1", "RegradeStarted")
    assert isinstance(started, RegradeStarted)
    assert (started.author, started.reason) == ("ann", "too lenient")
    assert started.verifiers["test.sh"] != summary["trials"][0]["verifier_digest_before"]
    assert started.verifiers["test.sh"] == summary["trials"][0]["verifier_digest_after"]
    scored = await bench.log.read(f"trial/{bench.trial('task-1')}")
    assert started.supersedes in {e.id for e in scored if e.kind == "TrialScored"}


async def test_the_workspace_is_what_was_saved(bench: Bench) -> None:
    """A fresh sandbox starts from the trial's archive, where the run's workspace was."""
    await bench.run(1)
    (saved,) = await events_of(bench, "task-1", "WorkspaceSaved")
    assert isinstance(saved, WorkspaceSaved)
    archives: list[bytes] = []

    async def look(spec: Any) -> None:
        archives.append(await anyio.Path(spec.workspace).read_bytes())

    bench.backend.on_create = look
    await bench.regrade()
    assert archives == [await bench.log.blobs.get(saved.archive)]
    assert bench.backend.specs[-1].workdir == bench.backend.specs[0].workdir
    assert bench.backend.alive == set()


async def test_any_number_of_regrades_leaves_the_originals(bench: Bench) -> None:
    """Regrades stack: the latest shows, the earlier are listed, and no original byte changes."""
    await bench.run(2, test="echo 0")
    before = bench.originals()
    ids: list[str] = []
    for number in range(4):
        bench.mend("task-1", f"echo {number % 2}")
        ids.append((await bench.regrade())["regrade_id"])
        assert bench.originals() == before
        assert await bench.differences() == []
    summary = await bench.regrade(as_of_run=True)
    assert [one["regrade_id"] for one in summary["history"]] == ids
    assert len({*ids, summary["regrade_id"]}) == 5


async def test_a_mixed_job_is_shown_by_digest(bench: Bench) -> None:
    """One of three attempts regraded: 0 of 2 by the old test, 1 of 1 by the new one."""
    await bench.run(1, test="echo 0", attempts=3)
    third = sorted(folder.name for folder in bench.folder.glob("task-1__*"))[2]
    bench.mend("task-1", "echo 1")
    summary = await bench.regrade(trial=third)
    assert summary["counts"]["trials"] == 1
    assert summary["mixed_verifiers"]
    assert [(r["passed"], r["trials"]) for r in summary["by_digest"]] in (
        [(0, 2), (1, 1)], [(1, 1), (0, 2)],
    )  # fmt: skip
    bench.mend("task-1", "echo 1.0")
    summary = await bench.regrade()
    assert not summary["mixed_verifiers"]
    assert summary["pass_rate"] == {"original": 0.0, "new": 1.0, "n": 3}


async def test_the_verifiers_are_taken_once(bench: Bench) -> None:
    """What happens to the folder while a regrade runs changes nothing in it."""
    await bench.run(2)
    bench.mend("task-1", "echo 0")
    bench.mend("task-2", "echo 0")

    async def spoil(sandbox: FakeSandbox, command: Command, output: Any) -> Exit:
        for task in ("task-1", "task-2"):
            await anyio.to_thread.run_sync(bench.mend, task, "echo 1")
        return await graded(sandbox, command, output)

    bench.backend.phase = spoil
    summary = await bench.regrade()
    assert verdicts(summary) == {"task-1": "pass->fail", "task-2": "pass->fail"}


async def test_as_of_run_uses_the_snapshot(bench: Bench) -> None:
    """The verifier exactly as it was, whatever became of its folder; a difference is flaky."""
    await bench.run(2)
    await anyio.to_thread.run_sync(shutil.rmtree, bench.root / "t")
    summary = await bench.regrade(as_of_run=True)
    assert verdicts(summary) == {"task-1": "unchanged", "task-2": "unchanged"}
    assert summary["flaky"] == []
    bench.backend.phase = _always(b"0")
    summary = await bench.regrade(as_of_run=True)
    assert summary["flaky"] == sorted([bench.trial("task-1"), bench.trial("task-2")])
    before = {row["verifier_digest_before"] for row in summary["trials"]}
    assert before == {row["verifier_digest_after"] for row in summary["trials"]}


def _always(reward: bytes) -> Any:
    async def phase(sandbox: FakeSandbox, command: Command, output: Any) -> Exit:
        await sandbox.write("/logs/verifier/reward.txt", reward)
        return Exit(ended_by="exit", code=0, duration=0.0)

    return phase


async def test_why_trials_are_not_regradable(bench: Bench) -> None:
    """A workspace that was not saved, pruned, missing or altered, and a task that is gone."""
    await bench.run(6, test="echo 0")
    archives: dict[str, str] = {}
    for number in range(1, 7):
        (saved,) = await events_of(bench, f"task-{number}", "WorkspaceSaved")
        archives[f"task-{number}"] = saved.archive.blob
    assert len(set(archives.values())) == 1  # the fake's archives are alike
    await anyio.to_thread.run_sync(shutil.rmtree, bench.root / "t" / "task-1")
    summary = await bench.regrade(include=["task-1", "task-2"])
    assert verdicts(summary) == {"task-1": "not_regradable", "task-2": "unchanged"}
    (gone, _) = summary["trials"]
    assert "task-1 any more" in gone["error"]
    assert summary["counts"]["not_regradable"] == 1
    head = await bench.log.head(f"job/{bench.job}")
    pruned = BlobsPruned(what="workspace", blobs=[archives["task-2"]])
    new = NewEvent(id=RandomIds().event_id(), at=SystemClock().now(), payload=pruned)
    await bench.log.append(f"job/{bench.job}", head.version, [new])
    summary = await bench.regrade(include=["task-2"])
    assert verdicts(summary) == {"task-2": "not_regradable"}
    assert "given up" in summary["trials"][0]["error"]


@pytest.mark.parametrize("how", ["missing", "altered"])
async def test_a_workspace_whose_bytes_are_not_there(bench: Bench, how: str) -> None:
    """Bytes that are missing or altered are said by name, in the plan and in the regrade."""
    big = b"x" * 200_000  # so that it is a file

    async def save(sandbox: FakeSandbox) -> None:
        await anyio.lowlevel.checkpoint()

    bench.backend.on_save = save
    bench.backend.archive = big
    await bench.run(1)
    (saved,) = await events_of(bench, "task-1", "WorkspaceSaved")
    digest = saved.archive.blob.removeprefix("sha256:")
    file = bench.jobs / "blobs" / "sha256" / digest[:2] / digest
    assert file.stat().st_size == len(big)
    if how == "missing":
        file.unlink()
    else:
        file.chmod(0o600)
        file.write_bytes(b"y" * len(big))
    (planned,) = await bench.plan()
    assert planned.category == f"blob_{how}"
    summary = await bench.regrade()
    assert verdicts(summary) == {"task-1": "not_regradable"}
    assert digest in summary["trials"][0]["error"]
    assert bench.backend.alive == set()


async def test_a_trial_without_saved_work(bench: Bench) -> None:
    """With --no-save-outputs there is nothing to regrade."""
    await bench.run(1, save_outputs=False)
    summary = await bench.regrade()
    assert summary["trials"][0]["error"] == "its workspace was not saved"


async def test_an_image_that_is_gone(bench: Bench) -> None:
    """Work that was made in a container is regraded in that image, or not at all."""
    bench.backend.name = "docker"
    await bench.run(1)

    async def refuse(request: ImageRequest) -> None:
        assert request.digest == bench.backend.digest
        raise ImageError(f"no image {request.digest}")

    bench.backend.on_prepare = refuse
    (planned,) = await bench.plan()
    assert planned.category == "image_gone"
    summary = await bench.regrade()
    assert verdicts(summary) == {"task-1": "not_regradable"}
    assert bench.backend.digest in summary["trials"][0]["error"]


async def test_another_kind_of_sandbox_is_noted(bench: Bench) -> None:
    """It is allowed, by what the task asks for now, and said in the log."""
    bench.backend.name = "docker"
    await bench.run(1)
    bench.backend.name = "bubblewrap"
    summary = await bench.regrade()
    assert verdicts(summary) == {"task-1": "unchanged"}
    assert bench.backend.requests[-1].digest is None
    (started,) = await events_of(bench, "task-1", "RegradeStarted")
    assert started.notes == ["the run's sandbox was docker, this one is bubblewrap"]


async def test_a_sandbox_that_is_lost_fails_one_trial(bench: Bench) -> None:
    """The others are regraded; the run's verdict stands, and nothing is made up."""
    await bench.run(2)

    async def lose(sandbox: FakeSandbox, command: Command, output: Any) -> Exit:
        if sandbox.spec.trial.startswith("task-1"):
            raise SandboxGone("lost")
        return await graded(sandbox, command, output)

    bench.backend.phase = lose
    summary = await bench.regrade()
    assert verdicts(summary) == {"task-1": "failed", "task-2": "unchanged"}
    assert summary["counts"]["failed"] == 1
    assert not summary["mixed_verifiers"]
    (failed,) = await events_of(bench, "task-1", "RegradeFailed")
    assert (failed.category, failed.infrastructure) == ("sandbox_lost", True)


@pytest.mark.parametrize("phase", ["harden", "verifier"])
async def test_a_sandbox_that_does_not_answer_fails_one_trial(
    bench: Bench, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that never returns ends at its deadline, and the other trial is regraded."""
    await bench.run(2, start_timeout_sec=0.5, stop_timeout_sec=0.5, save_timeout_sec=1.0)
    for task in ("task-1", "task-2"):
        settings = bench.root / "t" / task / "task.toml"
        await anyio.Path(settings).write_text("verifier.timeout_sec = 0.1\n")
    reached: list[str] = []

    async def hang(sandbox: FakeSandbox) -> None:
        if sandbox.spec.trial.startswith("task-1"):
            reached.append(phase)
            await anyio.sleep_forever()

    async def run(sandbox: FakeSandbox, command: Command, output: Any) -> Exit:
        await hang(sandbox)
        return await graded(sandbox, command, output)

    monkeypatch.setattr(way, "ANSWER", 0.1)
    if phase == "harden":
        bench.backend.on_changed = bench.backend.on_look = hang
    else:
        bench.backend.phase = run
    with anyio.fail_after(20):
        summary = await bench.regrade()
    assert reached
    assert verdicts(summary) == {"task-1": "failed", "task-2": "unchanged"}
    (failed,) = await events_of(bench, "task-1", "RegradeFailed")
    assert (failed.category, failed.infrastructure) == ("sandbox_lost", True)
    assert bench.backend.alive == set()


async def test_a_fault_of_the_engines_fails_one_trial(bench: Bench) -> None:
    """What nobody foresaw ends one trial's regrade, with its words."""
    await bench.run(2)

    async def fall(spec: Any) -> None:
        if spec.trial.startswith("task-2"):
            raise ZeroDivisionError("unforeseen")

    bench.backend.on_create = fall
    summary = await bench.regrade()
    assert verdicts(summary) == {"task-1": "unchanged", "task-2": "failed"}
    assert "ZeroDivisionError: unforeseen" in summary["trials"][1]["error"]


async def test_no_sandbox_can_be_had(bench: Bench) -> None:
    """That fails the regrade of the trial, with the sandbox's own category."""
    await bench.run(1)

    async def refuse(spec: Any) -> None:
        raise SandboxGone("no more room")

    bench.backend.on_create = refuse
    summary = await bench.regrade()
    assert verdicts(summary) == {"task-1": "failed"}
    assert summary["trials"][0]["error"] == "no more room"


async def test_dead_at_every_append(bench: Bench) -> None:
    """Killed after any append, a regrade goes on to the same summary, with nothing done twice.

    Until it is finished, no file of it is there: all of it is current, or none.
    """
    await bench.run(3)
    bench.mend("task-2", "echo 0")
    before = bench.originals()
    wanted: list[Any] | None = None
    for appends in range(1, 40):
        for file in bench.folder.rglob("regrade*.json"):
            file.unlink()
        ran = bench.backend.verifiers_run()
        lived = await _until_death(bench, appends)
        assert lived or not list(bench.folder.rglob("regrade*.json"))
        done = await _answers(bench)
        verified = bench.backend.verifiers_run()
        if not lived:
            await bench.resume()
        # What has its answer is not graded again; what was cut off under way is.
        assert bench.backend.verifiers_run() - verified == (0 if lived else 3 - done)
        assert await _answers(bench) == 3
        assert bench.backend.verifiers_run() - ran <= 4
        summary = await _summary(bench)
        found = [(row["trial_name"], row["verdict"]) for row in summary["trials"]]
        wanted = wanted or found
        assert found == wanted
        assert summary["counts"]["pass_to_fail"] == 1
        assert bench.originals() == before
        if lived:
            break
    else:
        pytest.fail("the regrade never lived to its end")
    assert appends > 7


async def _until_death(bench: Bench, appends: int) -> bool:
    dying = DyingLog(bench.log, appends)
    try:
        await regrade_job(
            bench.services(dying), bench.job, Wish(), bench.told.append, concurrency=1
        )
    except BaseException as error:
        if not died(error):
            raise
        return False
    return True


async def _summary(bench: Bench) -> dict[str, Any]:
    import json

    return json.loads(await anyio.Path(bench.folder, "regrade-summary.json").read_bytes())


async def _answers(bench: Bench) -> int:
    """Trials with an answer of the last regrade that was planned; one each, or it fails."""
    job = [decode(event) for event in await bench.log.read(f"job/{bench.job}")]
    id = [event.regrade_id for event in job if type(event).__name__ == "RegradePlanned"][-1]
    count = 0
    for task in ("task-1", "task-2", "task-3"):
        given = [
            one for one in await events_of(bench, task, "RegradeScored")
            if isinstance(one, RegradeScored) and one.regrade_id == id
        ]  # fmt: skip
        assert len(given) <= 1
        count += len(given)
    return count


async def test_a_new_regrade_gives_an_old_one_up(bench: Bench) -> None:
    """A regrade that was cut off is told of, and is never current."""
    await bench.run(3)
    await _until_death(bench, 3)
    summary = await bench.regrade()
    assert summary["history"] == []
    assert any("was cut off and is given up" in str(told) for told in bench.told)
    with pytest.raises(CommandRefused, match="none to resume"):
        await bench.resume()


async def test_a_plan_does_nothing(bench: Bench) -> None:
    """A dry run appends nothing, makes nothing, and says what would be done."""
    await bench.run(2)
    bench.mend("task-1", "echo 0")
    await anyio.to_thread.run_sync(shutil.rmtree, bench.root / "t" / "task-2")
    last, files = await bench.log.last_position(), bench.originals()
    made = len(bench.backend.specs)
    first, second = sorted(await bench.plan(), key=lambda one: one.task)
    assert (first.task, first.verdict) == ("task-1", None)
    assert (second.task, second.verdict, second.category) == (
        "task-2", "not_regradable", "task_gone",
    )  # fmt: skip
    assert await bench.log.last_position() == last
    assert bench.originals() == files
    assert len(bench.backend.specs) == made


async def test_tasks_elsewhere(bench: Bench, tmp_path: Path) -> None:
    """--tasks-root names a folder of tasks, or the task itself; one that is not there is gone."""
    await bench.run(2)
    there = tmp_path / "elsewhere"
    await anyio.to_thread.run_sync(shutil.copytree, bench.root / "t" / "task-1", there / "task-1")
    (there / "task-1" / "tests" / "test.sh").write_text("#!/bin/bash\necho 0\n")
    summary = await bench.regrade(tasks_root=there)
    assert verdicts(summary) == {"task-1": "pass->fail", "task-2": "not_regradable"}
    summary = await bench.regrade(tasks_root=there / "task-1")
    assert verdicts(summary) == {"task-1": "pass->fail", "task-2": "not_regradable"}


async def test_a_broken_task_is_refused_at_once(bench: Bench) -> None:
    """A task that is there but can't be used is a mistake to mend: nothing is appended."""
    await bench.run(1)
    (bench.root / "t" / "task-1" / "task.toml").write_text("verifier = 3\n")
    last = await bench.log.last_position()
    with pytest.raises(ConfigError, match=r"task\.toml"):
        await bench.regrade()
    assert await bench.log.last_position() == last


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"include": ["x*"]}, "no trial is left"),
        ({"verifier_only": "judge"}, "no task has a verifier 'judge'"),
        ({"trial": "nobody"}, "has no trial 'nobody'"),
    ],
)
async def test_wishes_that_make_no_sense(bench: Bench, wish: dict[str, Any], message: str) -> None:
    """They are refused before anything is appended."""
    await bench.run(1)
    last = await bench.log.last_position()
    with pytest.raises((ConfigError, CommandRefused), match=message):
        await bench.regrade(**wish)
    assert await bench.log.last_position() == last


async def test_only_the_named_verifier(bench: Bench) -> None:
    """A script is a verifier by the name test.sh."""
    await bench.run(1)
    bench.mend("task-1", "echo 0")
    assert verdicts(await bench.regrade(verifier_only="test.sh")) == {"task-1": "pass->fail"}


async def test_a_running_job_is_not_regraded(bench: Bench) -> None:
    """One process owns a job; a second is refused with the owner's pid."""
    await bench.run(1)
    async with own(bench.jobs, bench.job):
        with pytest.raises(JobLocked, match="process"):
            await bench.regrade()


async def test_reverify_takes_the_engines_zeros_alone(bench: Bench) -> None:
    """Zeros that the verifier wrote are left; those that the engine gave are graded again, once."""
    await bench.run(2, test="echo 0")
    bench.mend("task-2", "nothing")
    given = bench.root / "second"
    given.mkdir()
    other = Bench(given, bench.log)
    other.jobs = bench.jobs
    await other.run(2, test="nothing")
    assert await engine_given(bench.log, bench.job) == []
    left = await engine_given(bench.log, other.job)
    assert sorted(left) == sorted([other.trial("task-1"), other.trial("task-2")])
    other.backend.phase = _always(b"1")
    summary = await other.regrade(trials=left[:1], as_of_run=True, reason=REASON)
    assert [row["verdict"] for row in summary["trials"]] == ["fail->pass"]
    assert (summary["reason"], summary["flaky"]) == (REASON, [])
    assert await engine_given(bench.log, other.job) == left[1:]


async def test_a_secret_is_not_written(bench: Bench) -> None:
    """A secret's value in the reason is redacted before it reaches the log."""
    await bench.run(1)
    bench.secrets = {"API_KEY": "very-secret-value"}
    summary = await bench.regrade(reason="with very-secret-value")
    assert summary["reason"] == "with [redacted:API_KEY]"
    events = await bench.log.read(f"job/{bench.job}")
    assert not any("very-secret-value" in event.data for event in events)


async def test_a_secret_that_is_gone_is_told_first(bench: Bench) -> None:
    """A secret variable of the verifier's that is not there any more: nothing is appended."""
    await bench.run(1, verifier_env={"API_KEY": "${API_KEY}"})
    last = await bench.log.last_position()
    with pytest.raises(ConfigError, match="API_KEY"):
        await bench.regrade()
    assert await bench.log.last_position() == last


FORGED = {
    "changed data": """data = replace(data, '"files":', '"files":1')""",
    "another time": "at = 'yesterday'",
    "no JSON": "data = '{bad'",
    "another type": """data = '{"archive":3}'""",
    "an unknown kind": "kind = 'NeverHeardOf'",
    "a later schema": "schema = 99",
    "too deep": f"data = '{'[' * 20_000}{']' * 20_000}'",
    "a null byte": "data = data || char(0)",
}
"""What may become of a WorkspaceSaved."""


async def altered(bench: Bench, task: str, assignment: str | None) -> None:
    """Change the event with the task's saved workspace, or delete it."""
    stream = f"trial/{bench.trial(task)}"
    (saved,) = [e for e in await bench.log.read(stream) if e.kind == "WorkspaceSaved"]
    if assignment is None:
        change(bench.jobs, "DELETE FROM events WHERE position = ?", saved.position)
    else:
        change_event(bench.jobs, stream, saved.version, assignment)


@pytest.mark.parametrize("how", [*FORGED, "deleted"])
async def test_a_trial_whose_stream_was_altered(bench: Bench, how: str) -> None:
    """It is named as not regradable, in the plan too; the others are regraded, and the summary is
    of this regrade, not of the one before."""
    await bench.run(2, test="echo 0")
    earlier = await bench.regrade()
    before = (bench.folder / "summary.json").read_bytes()
    bench.mend("task-1", "echo 1")
    bench.mend("task-2", "echo 1")
    await altered(bench, "task-1", FORGED.get(how))

    planned = {one.task: one.category for one in await bench.plan()}
    told: list[Any] = []
    done = await regrade_job(bench.services(), bench.job, Wish(), told.append)

    assert planned == {"task-1": "trial_unreadable", "task-2": None}
    summary = msgspec.json.decode(done.summary)
    assert summary["regrade_id"] == done.regrade_id != earlier["regrade_id"]
    assert verdicts(summary) == {"task-1": "not_regradable", "task-2": "fail->pass"}
    assert f"trial/{bench.trial('task-1')}" in summary["trials"][0]["error"]
    assert (bench.folder / "regrade-summary.json").read_bytes() == done.summary
    assert (bench.folder / "summary.json").read_bytes() == before
    assert {one.split(":")[0] for one in done.problems} <= {
        "summary.json", f"{bench.trial('task-1')}/regrade.json",
    }  # fmt: skip
    assert "regrade-summary.json" not in "".join(await bench.differences())


async def test_a_trial_that_was_cut_short(bench: Bench) -> None:
    """No chain tells that a stream's end is gone; where it stood when the job finished does."""
    await bench.run(2, test="echo 0")
    stream = f"trial/{bench.trial('task-1')}"
    (scored,) = [e for e in await bench.log.read(stream) if e.kind == "TrialScored"]
    cut(bench.jobs, stream, scored.version)

    (planned, _) = await bench.plan()

    assert planned.category == "trial_unreadable"
    assert "it ends before what JobFinished recorded" in (planned.reason or "")


async def test_a_job_whose_own_stream_was_altered(bench: Bench) -> None:
    """What it says of tasks and trials can't be believed: nothing is planned."""
    await bench.run(1)
    change_event(bench.jobs, f"job/{bench.job}", 2, "at = '2030-01-01T00:00:00.000000Z'")
    before = await bench.log.last_position()
    with pytest.raises(LogCorrupt, match="version 2"):
        await bench.plan()
    with pytest.raises(LogCorrupt, match="version 2"):
        await bench.regrade()
    assert await bench.log.last_position() == before


@pytest.mark.parametrize("how", ["missing", "altered"])
async def test_a_plan_looks_at_saved_artifacts(bench: Bench, how: str) -> None:
    """A plan reads every blob that the regrade will need: the two say the same."""
    big = b"x" * 200_000  # so that it is a file

    async def work(sandbox: FakeSandbox, command: Command, output: Any) -> Exit:
        if "test.sh" not in command.argv[-1]:
            await sandbox.write("/logs/artifacts/report.txt", big)
        return await graded(sandbox, command, output)

    bench.backend.phase = work
    await bench.run(1)
    (saved,) = await events_of(bench, "task-1", "ArtifactsSaved")
    assert isinstance(saved, ArtifactsSaved)
    digest = saved.artifacts[0].blob.blob.removeprefix("sha256:")
    file = bench.jobs / "blobs" / "sha256" / digest[:2] / digest
    assert [one.category for one in await bench.plan()] == [None]
    if how == "missing":
        file.unlink()
    else:
        file.chmod(0o600)
        file.write_bytes(b"y" * len(big))

    (planned,) = await bench.plan()
    summary = await bench.regrade()

    assert planned.category == f"blob_{how}"
    assert planned.reason == summary["trials"][0]["error"]
