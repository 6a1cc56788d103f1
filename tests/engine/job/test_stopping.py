"""What ends a trial or a job early: faults, deadlines, signals and cancellations."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, kinds_of, payloads, services, tasks
from trialog.engine.errors import SandboxError
from trialog.engine.job.api import cancel_job, plan_resume, resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.interruption import Interruption
from trialog.engine.job.report import Notice, Report, TrialEnded
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.engine.trial.hardening import way
from trialog.events.open import memory_log

CONFIG = JobConfig(tasks=["tasks"], agents=["oracle"])
MANY = JobConfig(tasks=["tasks"], agents=["oracle"], attempts=60, concurrency=50, verifiers=50)


async def test_a_fault_ends_one_trial(tmp_path: Path) -> None:
    """A fault that nobody foresaw ends its trial, says so, and harms none of those beside it."""
    watched = Watched()
    all_work, failed = anyio.Event(), anyio.Event()

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "solve.sh" in command.argv[-1]:
            if backend.agents_run() == 50:
                all_work.set()
            await all_work.wait()
            if sandbox is backend.sandboxes[0]:
                failed.set()
                raise ZeroDivisionError("oops")
            await failed.wait()
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend = FakeBackend(phase)
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        with anyio.fail_after(30):
            await run_job(services(log, backend, tmp_path), MANY, given, watched)
    (fault,) = [e for e in watched.of(TrialEnded) if e.outcome != "scored"]  # type: ignore[attr-defined]
    assert fault.category == "engine_fault"  # type: ignore[attr-defined]
    assert "ZeroDivisionError: oops" in (fault.error or "")  # type: ignore[attr-defined]
    assert len(watched.of(TrialEnded)) == 60
    assert backend.alive == set()


@pytest.mark.parametrize(
    ("phase", "outcome", "category"),
    [
        ("prepare", "errored", "image_unavailable"),
        ("create", "errored", "start_timeout"),
        ("agent", "errored", "sandbox_lost"),
        ("save", "scored", None),
        ("harden", "unscored", "sandbox_lost"),
        ("much to harden", "unscored", "reward_tampered"),
        ("verifier", "unscored", "sandbox_lost"),
        ("remove", "scored", None),
        ("reclaim", "scored", None),
    ],
)
async def test_every_phase_has_a_deadline(
    tmp_path: Path,
    phase: str,
    outcome: str,
    category: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A phase that never returns ends at its deadline, named by phase, and the job goes on.

    A sandbox that answers while what the agent left is put back has too much to do, by the agent.
    """
    monkeypatch.setattr(way, "ANSWER", 0.1)
    backend, watched = FakeBackend(), Watched()
    reached: list[str] = []

    async def hang(*_: object) -> None:
        reached.append(phase)
        await anyio.sleep_forever()

    async def run(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if ("test.sh" in command.argv[-1]) == (phase == "verifier"):
            await hang()
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    match phase:
        case "prepare":
            backend.on_prepare = hang
        case "create":
            backend.on_create = hang
        case "save":
            backend.on_save = hang
        case "harden":
            backend.on_changed = backend.on_look = hang
        case "much to harden":
            backend.on_changed = hang
        case "remove":
            backend.on_remove = hang
        case "reclaim":
            backend.on_reclaim = hang
        case _:
            backend.phase = run  # type: ignore[assignment]
    settings = (
        "agent.timeout_sec = 0.1\nverifier.timeout_sec = 0.1\nenvironment.build_timeout_sec = 0.1"
    )
    config = JobConfig(
        tasks=["t"], agents=["oracle"], retries=0, start_timeout_sec=0.2, save_timeout_sec=0.2,
        stop_timeout_sec=0.2,
    )  # fmt: skip
    async with memory_log() as log:
        with anyio.fail_after(10):
            await run_job(
                services(log, backend, tmp_path),
                config,
                await tasks(tmp_path / "t", 1, settings=settings),
                watched,
            )
        removed = await payloads(log, "trial/", "SandboxRemoved")
    assert reached
    (end,) = watched.of(TrialEnded)
    assert (end.outcome, end.category) == (outcome, category)  # type: ignore[attr-defined]
    if phase == "save":
        assert any("saving the work took longer" in w for w in end.warnings)  # type: ignore[attr-defined]
    if phase == "remove":
        assert "not removed within" in (removed[0].error or "")  # type: ignore[attr-defined]
        assert any("trialog clean" in n.message for n in watched.of(Notice))  # type: ignore[attr-defined]


async def test_a_removal_that_is_stuck_holds_no_slot(tmp_path: Path) -> None:
    """With one place for agents and one for verifiers, all trials end while no sandbox can go."""
    backend = FakeBackend()
    left: list[int] = []
    all_ended = anyio.Event()

    async def hang(_: FakeSandbox) -> None:
        await all_ended.wait()

    def watch(report: Report) -> None:
        if isinstance(report, TrialEnded):
            left.append(len(backend.alive))
            if len(left) == 5:
                all_ended.set()

    backend.on_remove = hang
    config = JobConfig(tasks=["t"], agents=["oracle"], concurrency=1, verifiers=1)
    async with memory_log() as log:
        with anyio.fail_after(20):
            await run_job(
                services(log, backend, tmp_path), config, await tasks(tmp_path / "t", 5), watch
            )
        assert len(await payloads(log, "trial/", "SandboxRemoved")) == 5
    assert left[-1] == 5
    assert backend.alive == set()


async def test_first_signal_lets_running_trials_end(tmp_path: Path) -> None:
    """After one SIGINT no new trial begins, those that run end, and a resume runs the others."""
    go_on = anyio.Event()

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" not in command.argv[-1]:
            await go_on.wait()
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend = FakeBackend(phase)  # type: ignore[arg-type]
    watched = Watched()
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 12)

        async def interrupt() -> None:
            while backend.agents_run() < 4:
                await anyio.sleep(0.005)
            os.kill(os.getpid(), signal.SIGINT)
            while not watched.of(Notice):
                await anyio.sleep(0.005)
            go_on.set()

        async with anyio.create_task_group() as both:
            both.start_soon(interrupt)
            result = await run_job(services(log, backend, tmp_path), CONFIG, given, watched)
        assert result.interrupted
        assert len(watched.of(TrialEnded)) == 4
        assert backend.alive == set()
        assert (await kinds_of(log, "job/"))[-1] == "JobInterrupted"
        resumed = await resume_job(services(log, backend, tmp_path), result.job, Watched())
        assert resumed.summary["counts"]["passed"] == 12
        assert backend.agents_run() == 12


async def test_after_the_grace_what_still_runs_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one SIGINT running trials have 30 s; then they end as after a second one."""
    defaults = Interruption.__init__.__kwdefaults__
    assert defaults["grace"] == 30.0
    monkeypatch.setitem(defaults, "grace", 0.2)

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        await anyio.sleep_forever()
        raise AssertionError

    backend = FakeBackend(phase)  # type: ignore[arg-type]
    watched = Watched()
    async with memory_log() as log:

        async def interrupt() -> None:
            while backend.agents_run() < 2:
                await anyio.sleep(0.005)
            os.kill(os.getpid(), signal.SIGINT)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as both:
                both.start_soon(interrupt)
                given = await tasks(tmp_path / "t", 2)
                result = await run_job(services(log, backend, tmp_path), CONFIG, given, watched)
        kinds = await kinds_of(log, "trial/")
    assert result.interrupted
    assert [n.message for n in watched.of(Notice)] == [  # type: ignore[attr-defined]
        "SIGINT: no new trials; 2 running get 0.2 s to end. Once more stops them now"
    ]
    assert kinds.count("TrialInterrupted") == 2
    assert backend.alive == set()


async def test_signals_while_sandboxes_are_removed_orphan_none(tmp_path: Path) -> None:
    """Fifty that go slowly, ten of which fail at first: every trial says so, every sandbox goes."""
    backend, watched = FakeBackend(), Watched()
    alive_at: list[int] = []

    async def slow_and_flaky(sandbox: FakeSandbox) -> None:
        await anyio.sleep(0.02)
        if sandbox.removals == 1 and backend.sandboxes.index(sandbox) % 5 == 0:
            raise SandboxError("busy")

    async def hang(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        await anyio.sleep_forever()
        raise AssertionError

    async def send() -> None:
        while backend.agents_run() < 50:
            await anyio.sleep(0.005)
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            told = len(watched.of(Notice))
            alive_at.append(len(backend.alive))
            os.kill(os.getpid(), number)
            while len(watched.of(Notice)) == told:
                await anyio.sleep(0.005)
            while len(alive_at) == 2 and len(backend.alive) == 50:
                await anyio.sleep(0.005)  # the third one comes while they are being removed

    backend.phase = hang
    backend.on_remove = slow_and_flaky
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as both:
                both.start_soon(send)
                result = await run_job(services(log, backend, tmp_path), MANY, given, watched)
        assert result.interrupted
        assert alive_at[:2] == [50, 50]
        assert 0 < alive_at[2] < 50
        assert len(backend.specs) == 50
        assert sum(sandbox.removals == 2 for sandbox in backend.sandboxes) == 10
        assert backend.alive == set()
        assert len(await payloads(log, "trial/", "TrialInterrupted")) == 50
        assert len(await payloads(log, "trial/", "SandboxRemoved")) == 50
        backend.phase = passes
        resumed = await resume_job(services(log, backend, tmp_path), result.job, Watched())
        assert resumed.summary["counts"]["passed"] == 60
        assert len(await payloads(log, "job/", "TrialAbandoned")) == 50


async def test_a_caller_who_is_cancelled_leaves_no_sandbox(tmp_path: Path) -> None:
    """Where the job's own task is cancelled every trial says so, and what it had is removed."""

    async def slow(_: FakeSandbox) -> None:
        await anyio.sleep(0.02)

    async def hang(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if backend.agents_run() == 4:
            caller.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    backend = FakeBackend(hang)
    backend.on_remove = slow
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 12)
        with anyio.fail_after(20), anyio.CancelScope() as caller:
            await run_job(services(log, backend, tmp_path), CONFIG, given, Watched())
        assert caller.cancelled_caught
        assert len(backend.removed) == len(backend.specs) == 4
        assert backend.alive == set()
        assert len(await payloads(log, "trial/", "TrialInterrupted")) == 4
        assert len(await payloads(log, "trial/", "SandboxRemoved")) == 4


async def test_a_running_job_can_be_cancelled_through_the_log(tmp_path: Path) -> None:
    """`cancel` reaches the process that runs the job; what was not finished ends as cancelled."""

    async def hang(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        await anyio.sleep_forever()
        raise AssertionError

    backend = FakeBackend(hang)  # type: ignore[arg-type]
    watched = Watched()
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 6)

        async def cancel() -> None:
            while backend.agents_run() < 4:
                await anyio.sleep(0.005)
            job = (await log.streams("job/"))[0].removeprefix("job/")
            assert await cancel_job(services(log, backend, tmp_path), job, "no more") == 4

        async with anyio.create_task_group() as both:
            both.start_soon(cancel)
            result = await run_job(services(log, backend, tmp_path), CONFIG, given, watched)
        finished = await payloads(log, "trial/", "TrialFinished")
        assert [f.outcome for f in finished] == ["cancelled"] * 4  # type: ignore[attr-defined]
        planned = await plan_resume(services(log, backend, tmp_path), result.job, only=None)
        assert {p.action for p in planned} == {"leave"}
        assert result.summary["counts"]["cancelled"] == 6
    assert backend.alive == set()
