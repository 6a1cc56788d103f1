"""Jobs from start to end, over a log in memory and sandboxes that do as they are told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, events_of, kinds_of, payloads, services, tasks
from trialog.engine.errors import (
    CommandRefused,
    ConfigError,
    ImageError,
    JobLocked,
    SandboxError,
    SandboxGone,
    TaskError,
)
from trialog.engine.job.api import plan_resume, resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.environment import seal, unseal
from trialog.engine.job.lock import own
from trialog.engine.job.report import Notice, TrialEnded
from trialog.engine.sandbox.protocol import (
    Command,
    Exit,
    ImageRequest,
    SandboxSpec,
    TreeTooLarge,
)
from trialog.events.checking import named_blobs
from trialog.events.kinds import WarningRaised, WorkspaceSaved
from trialog.events.open import memory_log
from trialog.events.values import unescape
from trialog.projections.rebuild import check

CONFIG = JobConfig(tasks=["tasks"], agents=["oracle"])


def failing_once(error: Exception) -> Callable[[SandboxSpec], object]:
    """A hook that raises on its first call."""
    calls: list[SandboxSpec] = []

    async def hook(spec: SandboxSpec) -> None:
        calls.append(spec)
        if len(calls) == 1:
            raise error

    return hook


async def test_job_scores_every_slot(tmp_path: Path) -> None:
    """Every slot of the matrix is run once and scored, and its files are there."""
    backend, watched = FakeBackend(), Watched()
    async with memory_log() as log:
        result = await run_job(
            services(log, backend, tmp_path / "jobs"),
            JobConfig(tasks=["t"], agents=["oracle", "command:/bin/true"], attempts=2),
            await tasks(tmp_path / "t", 2),
            watched,
        )
    ended = watched.of(TrialEnded)
    assert len(ended) == 8
    assert all(report.outcome == "scored" and report.passed for report in ended)
    assert result.summary["counts"]["scored"] == 8
    folders = [f for f in result.folder.iterdir() if f.is_dir()]
    assert len(folders) == 8
    for folder in folders:
        assert json.loads((folder / "result.json").read_bytes())["passed"] is True
        assert (folder / "verifier" / "test-stdout.txt").read_bytes() == b"PASS\n"
    assert backend.alive == set()


async def test_order_of_a_trial(tmp_path: Path) -> None:
    """A trial's events come in the format's order, and the sandbox's end comes last."""
    async with memory_log() as log:
        await run_job(
            services(log, FakeBackend(), tmp_path),
            CONFIG,
            await tasks(tmp_path / "t", 1),
            Watched(),
        )
        assert await kinds_of(log, "trial/") == [
            "TrialStarted", "SandboxStarted", "AgentStarted", "ActionTaken", "AgentFinished",
            "ProcessesKilled", "ArtifactsSaved", "WorkspaceSaved", "WorkspaceHardened",
            "VerifierStarted", "VerifierScored", "TrialScored", "TrialFinished", "SandboxRemoved",
        ]  # fmt: skip
        assert await kinds_of(log, "job/") == ["JobStarted", "TrialScheduled", "JobFinished"]


async def test_a_verifier_that_is_slow_holds_no_agent_up(tmp_path: Path) -> None:
    """While the only verifier works, the next agent works too."""
    verifying, second_agent = anyio.Event(), anyio.Event()

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" in command.argv[-1]:
            if not verifying.is_set():
                verifying.set()
                await second_agent.wait()
        elif backend.agents_run() == 2:
            await verifying.wait()
            second_agent.set()
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend = FakeBackend(phase)
    async with memory_log() as log:
        with anyio.fail_after(10):
            result = await run_job(
                services(log, backend, tmp_path),
                JobConfig(tasks=["t"], agents=["oracle"], concurrency=1, verifiers=1),
                await tasks(tmp_path / "t", 2),
                Watched(),
            )
    assert second_agent.is_set()
    assert result.summary["counts"]["passed"] == 2


async def test_sandbox_faults_are_retried(tmp_path: Path) -> None:
    """A trial whose sandbox failed gets a new execution, which names the one before it."""
    backend, watched = FakeBackend(), Watched()
    backend.on_create = failing_once(SandboxError("no luck"))  # type: ignore[assignment]
    async with memory_log() as log:
        result = await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 1), watched
        )
        scheduled = await payloads(log, "job/", "TrialScheduled")
    assert [s.execution for s in scheduled] == [1, 2]  # type: ignore[attr-defined]
    assert scheduled[1].continues == scheduled[0].trial  # type: ignore[attr-defined]
    first, second = watched.of(TrialEnded)
    assert (first.outcome, first.will_retry, second.outcome) == ("errored", True, "scored")  # type: ignore[attr-defined]
    assert result.summary["counts"]["superseded"] == 1
    assert result.summary["counts"]["errored"] == 0


async def test_retries_end(tmp_path: Path) -> None:
    """After --retries further executions the slot stays as it is."""
    backend, watched = FakeBackend(), Watched()

    async def never(spec: SandboxSpec) -> None:
        raise SandboxError("no luck")

    backend.on_create = never
    async with memory_log() as log:
        await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 1), watched
        )
    assert [e.will_retry for e in watched.of(TrialEnded)] == [True, True, False]  # type: ignore[attr-defined]


@pytest.mark.parametrize("retry_on", [None, ["agent_timeout"]])
async def test_what_was_scored_is_retried_only_when_asked(
    tmp_path: Path, retry_on: list[str] | None
) -> None:
    """A stopped agent's graded work stays as it is, unless --retry-on names how it was stopped."""
    backend, watched = FakeBackend(), Watched()

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" in command.argv[-1]:
            await sandbox.write("/logs/verifier/reward.txt", b"0\n")
            return Exit(ended_by="exit", code=0, duration=0.0)
        return Exit(ended_by="timeout", code=None, duration=0.0)

    backend.phase = phase  # type: ignore[assignment]
    config = JobConfig(tasks=["tasks"], agents=["oracle"], retries=1, retry_on=retry_on)
    async with memory_log() as log:
        await run_job(
            services(log, backend, tmp_path), config, await tasks(tmp_path / "t", 1), watched
        )
        scheduled = await payloads(log, "job/", "TrialScheduled")
    ends = [(e.outcome, e.category, e.will_retry) for e in watched.of(TrialEnded)]  # type: ignore[attr-defined]
    if retry_on is None:
        assert ends == [("scored", "agent_timeout", False)]
    else:
        assert ends == [("scored", "agent_timeout", True), ("scored", "agent_timeout", False)]
        assert scheduled[1].reason == "scored, but to be tried again after agent_timeout"  # type: ignore[attr-defined]


async def test_lost_verifier_sandbox_is_graded_from_saved_work(tmp_path: Path) -> None:
    """A sandbox lost while grading is retried without the agent, from the saved workspace."""
    lost: list[int] = []

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" in command.argv[-1] and not lost:
            lost.append(1)
            raise SandboxGone("the engine went away")
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend, watched = FakeBackend(phase), Watched()
    async with memory_log() as log:
        result = await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 1), watched
        )
        starts = await payloads(log, "trial/", "TrialStarted")
        sandboxes = await payloads(log, "trial/", "SandboxStarted")
    assert (backend.agents_run(), backend.verifiers_run()) == (1, 2)
    assert starts[1].continues.stream == f"trial/{starts[0].trial}"  # type: ignore[attr-defined]
    assert [s.purpose for s in sandboxes] == ["agent", "verifier"]  # type: ignore[attr-defined]
    assert backend.specs[1].workspace is not None
    first, second = watched.of(TrialEnded)
    assert (first.outcome, second.outcome, second.passed) == ("unscored", "scored", True)  # type: ignore[attr-defined]
    regraded = json.loads((result.folder / second.trial / "result.json").read_bytes())  # type: ignore[attr-defined]
    assert regraded["continues"]["stream"] == f"trial/{first.trial}"  # type: ignore[attr-defined]
    assert regraded["workspace"] is not None


async def test_work_outside_the_workspace_means_the_agent_runs_again(tmp_path: Path) -> None:
    """When the agent changed other places, a lost grading can't go on from the workspace."""
    lost: list[int] = []

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        if "test.sh" in command.argv[-1] and not lost:
            lost.append(1)
            raise SandboxGone("the engine went away")
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend = FakeBackend(phase)
    backend.outside = ["/etc/motd"]
    async with memory_log() as log:
        await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 1), Watched()
        )
    assert (backend.agents_run(), backend.verifiers_run()) == (2, 2)


async def test_missing_image_fails_its_task_alone(tmp_path: Path) -> None:
    """A task whose image can't be had is errored by name; the others are scored."""
    backend, watched = FakeBackend(), Watched()

    async def prepare(request: ImageRequest) -> None:
        if request.task == "task-1":
            raise ImageError("task-1: there is no image x; build it")

    backend.on_prepare = prepare
    async with memory_log() as log:
        await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 2), watched
        )
    outcomes = {e.task: (e.outcome, e.error) for e in watched.of(TrialEnded)}  # type: ignore[attr-defined]
    assert outcomes["task-1"] == ("errored", "task-1: there is no image x; build it")
    assert outcomes["task-2"][0] == "scored"


async def test_one_process_owns_a_job(tmp_path: Path) -> None:
    """A second owner is refused with the first one's pid and host."""
    async with memory_log() as log:
        backend = FakeBackend()
        result = await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 1), Watched()
        )
        async with own(tmp_path, result.job):
            with pytest.raises(JobLocked, match=str(os.getpid())):
                await resume_job(services(log, backend, tmp_path), result.job, Watched())


async def test_nothing_is_left_to_resume(tmp_path: Path) -> None:
    """Resuming a finished job runs nothing and appends nothing, and the files stay the same."""
    async with memory_log() as log:
        backend = FakeBackend()
        result = await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 2), Watched()
        )
        before = await log.last_position()
        summary = (result.folder / "summary.json").read_bytes()
        await resume_job(services(log, backend, tmp_path), result.job, Watched())
        assert await log.last_position() == before
        assert (result.folder / "summary.json").read_bytes() == summary
        assert backend.agents_run() == 2


async def test_resume_writes_files_that_are_missing(tmp_path: Path) -> None:
    """A finished trial whose files were never written gets them, and nothing is run for it."""
    async with memory_log() as log:
        backend = FakeBackend()
        result = await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 1), Watched()
        )
        (folder,) = [f for f in result.folder.iterdir() if f.is_dir()]
        before = (folder / "result.json").read_bytes()
        (folder / "result.json").unlink()
        await resume_job(services(log, backend, tmp_path), result.job, Watched())
        assert (folder / "result.json").read_bytes() == before
        assert backend.agents_run() == 1


async def test_unknown_job(tmp_path: Path) -> None:
    """A job that the log does not have is refused by name."""
    async with memory_log() as log:
        with pytest.raises(CommandRefused, match="2026"):
            await resume_job(services(log, FakeBackend(), tmp_path), "2026", Watched())


async def test_a_workspace_over_the_limit(tmp_path: Path) -> None:
    """It is graded but not saved, with a warning that says the limit and how to change it."""
    backend = FakeBackend()

    async def too_large(_: FakeSandbox) -> None:
        raise TreeTooLarge(3 * 1024 * 1024)

    backend.on_save = too_large
    config = replace(CONFIG, workspace_cap_mb=3)
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        await run_job(services(log, backend, tmp_path), config, given, Watched())
        assert await payloads(log, "trial/", "WorkspaceSaved") == []
        warnings = await payloads(log, "trial/", "WarningRaised")
        assert [(w.code, w.message) for w in warnings if isinstance(w, WarningRaised)] == [
            (
                "workspace_not_saved",
                "the workspace was not saved: it holds more than 3 MiB (--workspace-cap-mb); "
                "the trial can't be graded again from it",
            )
        ]
        (scored,) = await payloads(log, "trial/", "TrialScored")
        assert scored.passed  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ('verifiers = ["judge"]', "verifiers"),
    ],
)
async def test_unsupported_tasks_are_refused(tmp_path: Path, settings: str, key: str) -> None:
    """A task that would be graded differently than it asks is refused before anything starts."""
    async with memory_log() as log:
        with pytest.raises(TaskError, match=key):
            await run_job(
                services(log, FakeBackend(), tmp_path),
                CONFIG,
                await tasks(tmp_path / "t", 1, settings=settings),
                Watched(),
            )
        assert await log.last_position() == 0


async def test_no_tasks_is_refused(tmp_path: Path) -> None:
    """A job without a task is a usage error."""
    async with memory_log() as log:
        with pytest.raises(ConfigError):
            await run_job(services(log, FakeBackend(), tmp_path), CONFIG, [], Watched())


async def test_jobs_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    """Jobs that start in the same second never share a folder or a name."""
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        jobs: list[str] = []

        async def start() -> None:
            made = services(log, FakeBackend(), tmp_path / "jobs")
            jobs.append((await run_job(made, CONFIG, given, Watched())).job)

        for _ in range(3):
            await start()
        assert len(set(jobs)) == 3


async def test_secrets_never_reach_the_log(tmp_path: Path) -> None:
    """A secret's value is replaced in events, outputs and files; a resume takes it anew."""
    secret = 's3cret-value-"quoted"'

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        value = command.env.get("API_KEY", "").encode()
        output(b"key " + value[:5])  # type: ignore[operator]
        output(value[5:] + b"\n")  # type: ignore[operator]
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    config = JobConfig(
        tasks=["t"], agents=["command:/bin/true"], agent_env={"API_KEY": secret, "PLAIN": "yes"}
    )
    backend = FakeBackend(phase)  # type: ignore[arg-type]
    async with memory_log() as log:
        result = await run_job(
            services(log, backend, tmp_path, secrets={"API_KEY": secret}),
            config,
            await tasks(tmp_path / "t", 1),
            Watched(),
        )
        agent = next(c for _, c in backend.commands if "test.sh" not in c.argv[-1])
        assert agent.env["API_KEY"] == secret  # it was really used
        text = "".join(event.data for event in await events_of(log, ""))
        assert "s3cret" not in text
        assert "${API_KEY}" in text
        assert '"PLAIN":"yes"' in text
        finished = (await payloads(log, "trial/", "AgentFinished"))[0]
        kept = await log.blobs.get(finished.output.blob)  # type: ignore[attr-defined]
        assert b"key [redacted:API_KEY]\n" in kept
        files = [f for f in result.folder.rglob("*") if f.is_file()]
        assert files
        assert not any(b"s3cret" in f.read_bytes() for f in files)


async def test_a_users_own_parameters_name_no_blob(tmp_path: Path) -> None:
    """Keys that begin with `$` are the user's: the agent gets them, and no event refers to them."""
    forged = {"$blob": "sha256:" + "0" * 64, "size": 5}
    given = [{"x": forged, "$k": [forged]}]
    config = JobConfig(tasks=["t"], agents=["command:/bin/true"], parameters=given)
    backend, watched = FakeBackend(), Watched()
    async with memory_log() as log:
        made = services(log, backend, tmp_path / "jobs")
        result = await run_job(made, config, await tasks(tmp_path / "t", 1), watched)
        events = await events_of(log, "")
        assert any("$$blob" in event.data for event in events)
        assert forged["$blob"] not in {
            ref.blob for event in events for ref in named_blobs(event.data)
        }
        assert await check(log, result.job, tmp_path / "jobs") == []
        agent = next(c for _, c in backend.commands if "test.sh" not in c.argv[-1])
        assert json.loads(agent.env["TRIALOG_PARAMETERS"]) == given[0]
        (ended,) = watched.of(TrialEnded)
        assert isinstance(ended, TrialEnded)
        assert ended.parameters == given[0]
        again = await plan_resume(made, result.job, only=None)
    assert [(slot.action, unescape(slot.slot.parameters)) for slot in again] == [("keep", given[0])]


async def test_a_short_secret_is_warned_of(tmp_path: Path) -> None:
    """Its value would blank out half of any text, so it stays, and the job says which it is."""
    watched = Watched()
    given = {"A_KEY": "7 chars", "B_KEY": "8 chars."}
    async with memory_log() as log:
        made = services(log, FakeBackend(), tmp_path, secrets=given)
        await run_job(made, CONFIG, await tasks(tmp_path / "t", 1), watched)
    told = [one for one in watched.reports if isinstance(one, Notice) and one.level == "warning"]
    assert ["the value of A_KEY is under 8 characters and is not redacted"] == [
        one.message for one in told
    ]


def test_a_secret_that_is_not_recorded_must_be_given_again() -> None:
    """Secret values of variables are recorded by name; without the value a resume is refused."""
    recorded = seal({"API_KEY": "v", "X": "known-secret", "PLAIN": "p"}, {"S": "known-secret"})
    assert recorded == {"API_KEY": "${API_KEY}", "X": "${X}", "PLAIN": "p"}
    values = unseal(recorded, {"X": "given"}, {"API_KEY": "from the environment"}, "--agent-env")
    assert values == {"API_KEY": "from the environment", "X": "given", "PLAIN": "p"}
    with pytest.raises(ConfigError, match="API_KEY"):
        unseal(recorded, {}, {}, "--agent-env")


async def test_a_fault_outside_trials_is_an_event(tmp_path: Path) -> None:
    """A fault of the engine outside of any trial is in the log, and a resume goes on after it."""
    backend = FakeBackend()

    def watch(report: object) -> None:
        if isinstance(report, TrialEnded):
            raise RuntimeError("the watcher fell over")  # noqa: TRY004 - no type is wrong

    async with memory_log() as log:
        with pytest.raises(BaseExceptionGroup):
            await run_job(
                services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 2), watch
            )
        (fault,) = await payloads(log, "job/", "EngineFault")
        assert fault.error == "RuntimeError: the watcher fell over"  # type: ignore[attr-defined]
        job = (await log.streams("job/"))[0].removeprefix("job/")
        result = await resume_job(services(log, backend, tmp_path), job, Watched())
        assert result.summary["counts"]["passed"] == 2
    assert backend.alive == set()


async def test_task_warnings_are_in_the_result(tmp_path: Path) -> None:
    """What a task's author should know is told when the job starts and listed in the result."""
    watched = Watched()
    async with memory_log() as log:
        result = await run_job(
            services(log, FakeBackend(), tmp_path),
            CONFIG,
            await tasks(tmp_path / "t", 1, settings='[verifier.env]\nX = "${NOT_SET_ANYWHERE}"\n'),
            watched,
        )
    (folder,) = [f for f in result.folder.iterdir() if f.is_dir()]
    warnings = json.loads((folder / "result.json").read_bytes())["warnings"]
    assert [w["code"] for w in warnings] == ["env_variable_unset"]
    assert "NOT_SET_ANYWHERE" in warnings[0]["message"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ('environment.docker_image = "debian"', "image"),
        ('agent.user = "agent"', "agent.user"),
        ('verifier.user = "grader"', "verifier.user"),
        ('environment.workdir = "/"', "workdir"),
        ('environment.workdir = "/usr/bin"', "workdir.*this machine's own system"),
    ],
)
async def test_what_bubblewrap_can_not_give_is_refused(
    tmp_path: Path, settings: str, key: str
) -> None:
    """What would make every trial fail is refused before the first, and counts as nobody's 0."""
    async with memory_log() as log:
        with pytest.raises(TaskError, match=key):
            await run_job(
                services(log, FakeBackend(), tmp_path),
                CONFIG,
                await tasks(tmp_path / "t", 1, settings=settings),
                Watched(),
            )
        assert await log.last_position() == 0


async def test_changed_programs_are_a_warning(tmp_path: Path) -> None:
    """A result says which of the system's programs the agent changed before it was graded."""
    backend = FakeBackend()
    backend.outside = ["/home/x", "/usr/bin/bash", "/etc/ld.so.preload"]
    async with memory_log() as log:
        result = await run_job(
            services(log, backend, tmp_path), CONFIG, await tasks(tmp_path / "t", 1), Watched()
        )
    (folder,) = [f for f in result.folder.iterdir() if f.is_dir()]
    (warning,) = json.loads((folder / "result.json").read_bytes())["warnings"]
    assert warning["code"] == "system_changed"
    assert "/usr/bin/bash, /etc/ld.so.preload" in warning["message"]
    assert "/home/x" not in warning["message"]


async def test_pythons_own_caches_are_no_changed_programs(tmp_path: Path) -> None:
    """Honest work leaves them in most images; what they are made from is told, as before."""
    cache = "/usr/local/lib/python3.11/json/__pycache__"
    for more, told in (([], []), (["/usr/lib/python3/new.pyc"], ["system_changed"])):
        backend = FakeBackend()
        backend.outside = [cache, f"{cache}/decoder.cpython-311.pyc", *more]
        async with memory_log() as log:
            given = await tasks(tmp_path / f"t{len(more)}", 1)
            await run_job(services(log, backend, tmp_path), CONFIG, given, Watched())
            [saved] = await payloads(log, "trial/", "WorkspaceSaved")
            warnings = await payloads(log, "trial/", "WarningRaised")
        assert isinstance(saved, WorkspaceSaved)
        assert saved.outside == backend.outside
        assert [w.code for w in warnings if isinstance(w, WarningRaised)] == told
