"""Going on with jobs whose engine died, at every event it could have died after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio
import pytest

from helpers.dying import DyingLog, died
from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, job_of, services, tasks
from trialog.engine.errors import JobStopped, SandboxGone
from trialog.engine.job.api import plan_resume, resume_job, run_job
from trialog.engine.job.config import JobConfig, SandboxMode
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.events.codec import decode
from trialog.events.errors import LogPoisoned
from trialog.events.log import EventLog
from trialog.events.open import memory_log
from trialog.projections.rebuild import check, rebuild

CONFIG = JobConfig(tasks=["t"], agents=["oracle"], concurrency=1, verifiers=1)


async def run_until_death(
    log: EventLog, backend: FakeBackend, folder: Path, given: object, appends: int
) -> bool:
    """Start the job and die after so many appends; False when it lived to its end."""
    try:
        dying: EventLog = DyingLog(log, appends)  # type: ignore[assignment]
        await run_job(services(dying, backend, folder), CONFIG, given, Watched())  # type: ignore[arg-type]
    except BaseException as error:
        if not died(error):
            raise
        return True
    return False


async def verdicts(log: EventLog) -> list[str]:
    """The trials with a verdict, one entry a verdict."""
    return [
        stream
        for stream in await log.streams("trial/")
        for event in await log.read(stream)
        if event.kind == "VerifierScored"
    ]


async def test_dead_at_every_append(tmp_path: Path) -> None:
    """Wherever the engine dies, a resume ends with every slot scored once, nothing done twice."""
    seen = 0
    for appends in range(1, 100):
        folder = tmp_path / str(appends)
        backend = FakeBackend()
        given = await tasks(folder / "t", 2)
        async with memory_log() as log:
            lived = not await run_until_death(log, backend, folder, given, appends)
            before = await verdicts(log)
            agents = backend.agents_run()
            result = await resume_job(services(log, backend, folder), await job_of(log), Watched())
            after = await verdicts(log)
            assert result.summary["counts"]["passed"] == 2
            assert len(set(after)) == len(after)
            assert set(before) <= set(after)
            # An agent runs again only where no work of its slot was saved.
            assert backend.agents_run() - agents <= 2 - len(before)
            folders = [f for f in result.folder.iterdir() if (f / "result.json").exists()]
            assert len(folders) == 2
            # Also of an execution that was cut off and given up, the files are those of a rebuild.
            assert [] == await check(log, result.job, folder)
            assert 0 == (await rebuild(log, result.job, folder)).written
            given_up = [f for f in result.folder.iterdir() if f.is_dir() and f not in folders]
            for lost in given_up:
                shutil.rmtree(lost)
                assert await check(log, result.job, folder)
            await resume_job(services(log, backend, folder), result.job, Watched())
            assert [] == await check(log, result.job, folder)
            seen |= len(given_up)
        if lived:
            break
    else:
        pytest.fail("the job never lived to its end")
    assert appends > 15
    assert seen


async def test_a_young_resume_hides_nothing(tmp_path: Path) -> None:
    """7 of 10 done, killed; a resume killed after its first event; the next one runs exactly 3."""
    backend, folder = FakeBackend(), tmp_path
    given = await tasks(folder / "t", 10)
    seven = anyio.Event()

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" not in command.argv[-1] and backend.agents_run() > 7:
            await anyio.sleep_forever()
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend.phase = phase  # type: ignore[assignment]
    watched = Watched()

    def watch(report: object) -> None:
        watched(report)  # type: ignore[arg-type]
        if len(watched.of(TrialEnded)) == 7:
            seven.set()

    async with memory_log() as log:
        async with anyio.create_task_group() as group:

            async def start() -> None:
                dying = DyingLog(log, 10_000)
                try:
                    await run_job(services(dying, backend, folder), CONFIG, given, watch)  # type: ignore[arg-type]
                except LogPoisoned:
                    pass

            async def kill() -> None:
                await seven.wait()
                while backend.agents_run() < 8:
                    await anyio.sleep(0.005)
                group.cancel_scope.cancel()

            group.start_soon(start)
            group.start_soon(kill)
        assert len(await verdicts(log)) == 7
        backend.phase = passes
        job = await job_of(log)
        agents = backend.agents_run()
        first = DyingLog(log, 1)
        with pytest.raises(JobStopped, match=f"trialog resume \\S*/{job}`"):
            await resume_job(services(first, backend, folder), job, Watched())  # type: ignore[arg-type]
        assert (await log.read(f"job/{job}"))[-1].kind == "JobResumed"
        assert backend.agents_run() == agents
        plan = await plan_resume(services(log, backend, folder), job, only=None)
        assert sorted(p.action for p in plan) == ["keep"] * 7 + ["run"] * 3
        third = Watched()
        result = await resume_job(services(log, backend, folder), job, third)
        assert backend.agents_run() - agents == 3
        assert len(third.of(TrialEnded)) == 3
        assert result.summary["counts"]["passed"] == 10


async def test_what_is_kept_and_what_runs_again(tmp_path: Path) -> None:
    """Real zeros and timeouts with a reward stay; lost grading is graded; a lost agent runs again.

    The plan names an action and a reason for each, and the resume does what the plan says.
    """
    backend = FakeBackend()
    broken = True

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        task = sandbox.spec.trial.partition("__")[0]
        verifying = "test.sh" in command.argv[-1]
        match task, verifying:
            case "task-1", True:
                await sandbox.write("/logs/verifier/reward.txt", b"0\n")
                return Exit(ended_by="exit", code=0, duration=0.0)
            case "task-2", True if broken:
                raise SandboxGone("lost while grading")
            case "task-3", False:
                return Exit(ended_by="timeout", code=None, duration=0.0)
            case "task-3", True:
                await sandbox.write("/logs/verifier/reward.txt", b"0.8\n")
                return Exit(ended_by="exit", code=0, duration=0.0)
            case "task-4", False if broken:
                raise SandboxGone("lost while working")
            case _:
                return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend.phase = phase  # type: ignore[assignment]
    config = JobConfig(tasks=["t"], agents=["oracle"], retries=0)
    async with memory_log() as log:
        result = await run_job(
            services(log, backend, tmp_path), config, await tasks(tmp_path / "t", 5), Watched()
        )
        (fifth,) = result.folder.glob("task-5__*")
        written = (fifth / "result.json").read_bytes()
        (fifth / "result.json").unlink()
        plan = await plan_resume(services(log, backend, tmp_path), result.job, only=None)
        assert {p.slot.task: p.action for p in plan} == {
            "task-1": "keep", "task-2": "grade", "task-3": "keep", "task-4": "run",
            "task-5": "keep",
        }  # fmt: skip
        reasons = {p.slot.task: p.reason for p in plan}
        assert reasons["task-1"] == "scored: failed with 0"
        assert reasons["task-3"] == "scored: failed with 0.8"
        assert "its saved work is graded again" in reasons["task-2"]
        assert "sandbox_lost" in reasons["task-4"]
        broken = False
        agents, verifiers = backend.agents_run(), backend.verifiers_run()
        watched = Watched()
        resumed = await resume_job(services(log, backend, tmp_path), result.job, watched)
        assert (backend.agents_run() - agents, backend.verifiers_run() - verifiers) == (1, 2)
        assert sorted(e.task for e in watched.of(TrialEnded)) == ["task-2", "task-4"]  # type: ignore[attr-defined]
        assert resumed.summary["counts"]["scored"] == 5
        assert (fifth / "result.json").read_bytes() == written


async def test_snapshot_rules_whatever_happens_to_the_folder(tmp_path: Path) -> None:
    """Every trial of a job, resumes included, is graded by the verifier as the job took it."""
    backend = FakeBackend()
    given = await tasks(tmp_path / "t", 2)
    seen: list[bytes] = []

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" in command.argv[-1]:
            script = sandbox.folder("/tests") / "test.sh"
            seen.append(await anyio.Path(script).read_bytes())
            for task in given:
                original = anyio.Path(task.path) / "tests" / "test.sh"
                await original.write_bytes(b"#!/bin/bash\nexit 0\n")
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend.phase = phase  # type: ignore[assignment]
    async with memory_log() as log:
        await run_job(services(log, backend, tmp_path), CONFIG, given, Watched())
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert b"reward.txt" in seen[0]


@pytest.mark.parametrize("mode", ["shared", "separate"])
async def test_changed_snapshot_fails_closed(tmp_path: Path, mode: SandboxMode) -> None:
    """A verifier that differs from its recorded digest grades nothing, and both are shown."""
    backend = FakeBackend()

    def change() -> None:
        (script,) = tmp_path.glob(".scratch/*/*/tasks/0/tests/test.sh")
        script.chmod(0o644)
        script.write_bytes(b"#!/bin/bash\nexit 0\n")

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" not in command.argv[-1]:
            # As through a bad mount: the engine's own copy of the verifier is changed.
            await anyio.to_thread.run_sync(change)
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend.phase = phase  # type: ignore[assignment]
    watched = Watched()
    async with memory_log() as log:
        config = JobConfig(tasks=["t"], agents=["oracle"], retries=0, verifier_sandbox=mode)
        result = await run_job(
            services(log, backend, tmp_path), config, await tasks(tmp_path / "t", 1), watched
        )
        (end,) = watched.of(TrialEnded)
        assert (end.outcome, end.category) == ("unscored", "verifier_digest_mismatch")  # type: ignore[attr-defined]
        started = decode((await log.read(f"job/{result.job}"))[0])
        recorded = started.tasks[0].files["test.sh"]  # type: ignore[union-attr]
        assert recorded.removeprefix("sha256:") in (end.error or "")  # type: ignore[attr-defined]
        assert backend.verifiers_run() == 0
        backend.phase = passes
        again = await resume_job(services(log, backend, tmp_path), result.job, Watched())
        assert again.summary["counts"]["passed"] == 1
        assert backend.agents_run() == 1


async def test_image_is_used_by_its_recorded_digest(tmp_path: Path) -> None:
    """A resume asks for exactly the image that the task's first trials had."""
    backend = FakeBackend()
    given = await tasks(tmp_path / "t", 1)
    async with memory_log() as log:
        lost = [True]

        async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
            if lost[0]:
                raise SandboxGone("lost")
            return await passes(sandbox, command, output)  # type: ignore[arg-type]

        backend.phase = phase  # type: ignore[assignment]
        config = JobConfig(tasks=["t"], agents=["oracle"], retries=0)
        result = await run_job(services(log, backend, tmp_path), config, given, Watched())
        assert backend.requests[-1].digest is None
        lost[0] = False
        recorded = [
            json.loads(event.data).get("image_digest")
            for stream in await log.streams("trial/")
            for event in await log.read(stream)
            if event.kind == "SandboxStarted"
        ]
        await resume_job(services(log, backend, tmp_path), result.job, Watched())
        assert backend.requests[-1].digest == recorded[0] == backend.digest
