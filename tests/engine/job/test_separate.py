"""A sandbox of the verifier's own: what it is given, and every way in which that can end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, services, tasks
from trialog.engine.errors import SandboxError, SandboxGone, TransferFailed
from trialog.engine.job.api import plan_resume, resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import Command, Exit, SandboxSpec, TreeTooLarge
from trialog.events.codec import decode
from trialog.events.kinds import (
    ArtifactsSaved,
    SandboxRemoved,
    SandboxStarted,
    TrialStarted,
    VerifierScored,
    VerifierStarted,
)
from trialog.events.log import EventLog
from trialog.events.open import memory_log

CONFIG = JobConfig(tasks=["tasks"], agents=["oracle"], retries=0)
SEPARATE = 'verifier.sandbox_mode = "separate"'


async def payloads(log: EventLog) -> list[Any]:
    """What happened in all trials, in order."""
    streams = await log.streams("trial/")
    return [decode(event) for stream in streams for event in await log.read(stream)]


def names(found: list[Any]) -> list[str]:
    """The kinds of these."""
    return [type(payload).__name__ for payload in found]


async def run(
    log: EventLog, backend: FakeBackend, folder: Path, settings: str = "", **config: Any
) -> tuple[Any, TrialEnded]:
    """Run one task's trial; the job's result, and how the trial ended."""
    watched = Watched()
    given = await tasks(folder / "t", 1, settings=settings)
    result = await run_job(
        services(log, backend, folder / "jobs"), replace(CONFIG, **config), given, watched
    )
    (ended,) = watched.of(TrialEnded)
    assert isinstance(ended, TrialEnded)
    return result, ended


async def test_verifier_has_a_fresh_sandbox(tmp_path: Path) -> None:
    """The test runs in a second sandbox, from the saved workspace; the agent's runs no test."""
    backend = FakeBackend()
    async with memory_log() as log:
        result, ended = await run(log, backend, tmp_path, SEPARATE)
        found = await payloads(log)
    assert (ended.outcome, ended.reward) == ("scored", 1.0)
    agents, verifiers = backend.sandboxes
    assert (agents.phases, verifiers.phases) == (1, 1)
    assert (agents.spec.workspace, verifiers.spec.workspace is None) == (None, False)
    for given in ("image", "env", "limits", "workdir", "log_id", "trial"):
        assert getattr(agents.spec, given) == getattr(verifiers.spec, given)
    assert not {m.source for m in agents.spec.mounts} & {m.source for m in verifiers.spec.mounts}
    started = [p for p in found if isinstance(p, SandboxStarted)]
    assert [p.purpose for p in started] == ["agent", "verifier"]
    assert [p.sandbox_mode for p in found if isinstance(p, TrialStarted)] == ["separate"]
    modes = [p.sandbox_mode for p in found if isinstance(p, VerifierStarted | VerifierScored)]
    assert modes == ["separate", "separate"]
    assert result.summary["separate_verifiers"] == {"count": 1, "tasks": []}
    assert sorted(backend.removed) == sorted(sandbox.id for sandbox in backend.sandboxes)
    assert {p.sandbox_id for p in found if isinstance(p, SandboxRemoved)} == set(backend.removed)


async def test_agents_sandbox_goes_before_the_test(tmp_path: Path) -> None:
    """The agent's sandbox is given up before the verifier's is used: no two wait for each other."""
    seen: list[int] = []

    async def phase(
        sandbox: FakeSandbox, command: Command, output: Callable[[bytes], None]
    ) -> Exit:
        if "test.sh" in command.argv[-1]:
            with anyio.fail_after(10):
                while len(backend.alive) > 1:
                    await anyio.sleep(0.01)
            seen.append(len(backend.alive))
        return await passes(sandbox, command, output)

    backend = FakeBackend(phase)
    async with memory_log() as log:
        await run(log, backend, tmp_path, SEPARATE)
    assert seen == [1]


@pytest.mark.parametrize(
    ("settings", "switch", "mode", "named"),
    [
        ("", "separate", "separate", ["task-1"]),
        ("", "shared", "shared", []),
        ("", None, "shared", []),
        ('artifacts = ["/data/x"]', "separate", "separate", []),
        (SEPARATE, None, "separate", []),
        (SEPARATE, "separate", "separate", []),
        (SEPARATE, "shared", "shared", []),
    ],
)
async def test_the_switch_and_the_setting(
    tmp_path: Path, settings: str, switch: str | None, mode: str, named: list[str]
) -> None:
    """The switch holds over the task; moved tasks that declare nothing are named."""
    async with memory_log() as log:
        result, ended = await run(log, FakeBackend(), tmp_path, settings, verifier_sandbox=switch)
        (started,) = [p for p in await payloads(log) if isinstance(p, VerifierStarted)]
    assert started.sandbox_mode == mode
    count = 1 if mode == "separate" else 0
    assert result.summary["separate_verifiers"] == {"count": count, "tasks": named}
    assert any("declares no artifacts" in text for text in ended.warnings) is bool(named)


async def test_artifacts_are_put_where_they_were(tmp_path: Path) -> None:
    """Declared files go to their own places; what comes with the workspace is not given twice."""
    backend = FakeBackend()
    backend.files = {"/data/out.csv": b"1,2\n", "/app/in.txt": b"x", "/var/db": b"db"}
    declared = (
        'artifacts = ["/data/out.csv", "in.txt", "/missing", '
        '{source = "/var/db", destination = "kept/db"}, "/logs/verifier/reward.txt"]\n'
    )
    backend.files["/logs/verifier/reward.txt"] = b"1"
    logged: list[list[str]] = []

    async def phase(
        sandbox: FakeSandbox, command: Command, output: Callable[[bytes], None]
    ) -> Exit:
        folder = sandbox.folder("/logs/artifacts")
        if "test.sh" in command.argv[-1]:
            files = await anyio.to_thread.run_sync(lambda: sorted(folder.rglob("*")))
            logged.append([str(path.relative_to(folder)) for path in files])
        else:
            await anyio.Path(folder / "data").mkdir()
            for name in ("own.txt", "data/out.csv", "data/more"):
                await anyio.Path(folder / name).write_text("the agent's")
        return await passes(sandbox, command, output)

    backend.phase = phase
    async with memory_log() as log:
        _, ended = await run(log, backend, tmp_path, declared + SEPARATE)
        (saved,) = [p for p in await payloads(log) if isinstance(p, ArtifactsSaved)]
    assert (ended.outcome, ended.reward) == ("scored", 1.0)
    assert backend.sandboxes[1].given == {"/data/out.csv": b"1,2\n", "/var/db": b"db"}
    assert logged == [["data", "data/more", "own.txt"]]
    assert {(a.path, a.source) for a in saved.artifacts} == {
        ("data/out.csv", "/data/out.csv"),
        ("in.txt", "/app/in.txt"),
        ("kept/db", "/var/db"),
        ("logs/verifier/reward.txt", "/logs/verifier/reward.txt"),
        ("data/more", None),
        ("own.txt", None),
    }


async def never_put(_: FakeSandbox) -> None:
    """A path where no file can be."""
    raise SandboxError("the folder is a file")


async def never_ends(_: FakeSandbox) -> None:
    """A sandbox that does not answer any more."""
    await anyio.sleep_forever()


FAULTS: list[tuple[str, Callable[[FakeBackend], None], str, bool]] = [
    (
        "an artifact that the sandbox can't give",
        lambda backend: backend.files.update({"/data/x": SandboxError("the answer breaks off")}),
        "artifact /data/x: the answer breaks off",
        False,
    ),
    (
        "an artifact that can't be put in",
        lambda backend: (
            backend.files.update({"/data/x": b"x"}),
            setattr(backend, "on_put", never_put),
        ),
        "artifact /data/x: the folder is a file",
        True,
    ),
    (
        "an artifact that goes in for ever",
        lambda backend: (
            backend.files.update({"/data/x": b"x"}),
            setattr(backend, "on_put", never_ends),
        ),
        "artifact /data/x: it took longer than 1 s",
        True,
    ),
]


@pytest.mark.parametrize(
    ("fault", "text", "saved"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS]
)
async def test_a_transfer_that_fails(
    tmp_path: Path, fault: Callable[[FakeBackend], None], text: str, saved: bool
) -> None:
    """The trial is unscored and names the artifact; a resume scores it, by the agent if need be."""
    backend = FakeBackend()
    fault(backend)
    async with memory_log() as log:
        declared = 'artifacts = ["/data/x"]\n'
        result, ended = await run(log, backend, tmp_path, declared + SEPARATE, save_timeout_sec=1.0)
        assert (ended.outcome, ended.category) == ("unscored", "transfer_failed")
        assert ended.infrastructure
        assert ended.error == f"separate verifier transfer failed: {text}"
        assert backend.verifiers_run() == 0
        assert backend.alive == set()
        made = services(log, backend, tmp_path / "jobs")
        (planned,) = await plan_resume(made, result.job, only=None)
        assert planned.action == ("grade" if saved else "run")
        backend.files["/data/x"] = b"x"
        backend.on_put = FakeBackend().on_put
        watched = Watched()
        await resume_job(made, result.job, watched)
    (again,) = watched.of(TrialEnded)
    assert isinstance(again, TrialEnded)
    assert (again.outcome, again.reward) == ("scored", 1.0)
    assert backend.agents_run() == (1 if saved else 2)
    assert backend.sandboxes[-1].given == {"/data/x": b"x"}
    assert backend.alive == set()


async def test_an_artifact_over_the_limit(tmp_path: Path) -> None:
    """It is the agent's own doing: it is not tried again within the job, nor by a resume that is
    not told to, so that nothing is won by it."""
    backend = FakeBackend()
    backend.files["/data/x"] = TreeTooLarge(7)
    async with memory_log() as log:
        declared = 'artifacts = ["/data/x"]\n'
        result, ended = await run(log, backend, tmp_path, declared + SEPARATE, retries=2)
        assert (ended.outcome, ended.category) == ("unscored", "work_too_large")
        assert not ended.infrastructure
        assert ended.error == (
            "separate verifier transfer failed: artifact /data/x: more than 7 bytes"
        )
        assert (backend.agents_run(), backend.verifiers_run()) == (1, 0)
        made = services(log, backend, tmp_path / "jobs")
        (planned,) = await plan_resume(made, result.job, only=None)
        assert planned.action == "leave"
        assert "--only work_too_large" in planned.reason
        (chosen,) = await plan_resume(made, result.job, only="work_too_large")
        assert chosen.action == "run"
        backend.files["/data/x"] = b"x"
        watched = Watched()
        await resume_job(made, result.job, watched, only="work_too_large")
    (again,) = watched.of(TrialEnded)
    assert isinstance(again, TrialEnded)
    assert (again.outcome, again.reward) == ("scored", 1.0)


async def test_workspace_over_the_limit(tmp_path: Path) -> None:
    """A workspace that is too large to be taken out is named with the limit, and not graded."""
    backend = FakeBackend()

    async def too_large(_: FakeSandbox) -> None:
        raise TreeTooLarge(1)

    backend.on_save = too_large
    async with memory_log() as log:
        _, ended = await run(log, backend, tmp_path, SEPARATE, workspace_cap_mb=2)
    assert (ended.outcome, ended.category) == ("unscored", "work_too_large")
    assert ended.error == (
        "separate verifier transfer failed: workspace /app: it holds more than 2 MiB "
        "(--workspace-cap-mb)"
    )
    assert backend.verifiers_run() == 0


async def test_workspace_that_can_not_be_restored(tmp_path: Path) -> None:
    """A fresh sandbox that could not be given the workspace says so; the saved work stays."""
    backend = FakeBackend()

    async def fail(spec: SandboxSpec) -> None:
        if spec.workspace is not None:
            raise TransferFailed("workspace /app", "no space left on device")

    backend.on_create = fail
    async with memory_log() as log:
        result, ended = await run(log, backend, tmp_path, SEPARATE)
        assert ended.error == (
            "separate verifier transfer failed: workspace /app: no space left on device"
        )
        assert (ended.outcome, ended.category) == ("unscored", "transfer_failed")
        made = services(log, backend, tmp_path / "jobs")
        (planned,) = await plan_resume(made, result.job, only=None)
        assert planned.action == "grade"
    assert backend.alive == set()


async def test_a_missing_artifact_is_the_agents_own_doing(tmp_path: Path) -> None:
    """What was never made is no failed transfer: the test runs, and finds that it is not there."""
    backend = FakeBackend()
    async with memory_log() as log:
        _, ended = await run(log, backend, tmp_path, 'artifacts = ["/data/x"]\n' + SEPARATE)
    assert ended.outcome == "scored"
    assert backend.verifiers_run() == 1


async def test_without_saved_outputs(tmp_path: Path) -> None:
    """--no-save-outputs keeps no workspace in the log, and the verifier gets it all the same."""
    backend = FakeBackend()
    async with memory_log() as log:
        _, ended = await run(log, backend, tmp_path, SEPARATE, save_outputs=False)
        assert "WorkspaceSaved" not in names(await payloads(log))
    assert (ended.outcome, ended.reward) == ("scored", 1.0)
    assert backend.sandboxes[1].spec.workspace is not None


async def test_resume_grades_apart(tmp_path: Path) -> None:
    """After a fault in grading, a resume grades saved work apart, whatever changed outside it."""
    backend = FakeBackend()
    backend.outside = ["/etc/motd"]
    backend.files = {"/data/x": b"x"}
    lost: list[SandboxGone] = [SandboxGone("gone")]

    async def phase(
        sandbox: FakeSandbox, command: Command, output: Callable[[bytes], None]
    ) -> Exit:
        if lost and "test.sh" in command.argv[-1]:
            raise lost.pop()
        return await passes(sandbox, command, output)

    backend.phase = phase
    async with memory_log() as log:
        result, ended = await run(log, backend, tmp_path, 'artifacts = ["/data/x"]\n' + SEPARATE)
        assert (ended.outcome, ended.category) == ("unscored", "sandbox_lost")
        watched = Watched()
        await resume_job(services(log, backend, tmp_path / "jobs"), result.job, watched)
        found = await payloads(log)
    (again,) = watched.of(TrialEnded)
    assert isinstance(again, TrialEnded)
    assert (again.outcome, again.reward) == ("scored", 1.0)
    assert backend.agents_run() == 1
    assert backend.sandboxes[-1].given == {"/data/x": b"x"}
    assert [p.sandbox_mode for p in found if isinstance(p, VerifierStarted)] == ["separate"] * 2
    assert "system_changed" not in {p.code for p in found if hasattr(p, "code")}


async def at_agent(_: FakeSandbox, command: Command) -> bool:
    """While the agent works."""
    return "test.sh" not in command.argv[-1]


async def at_verifier(_: FakeSandbox, command: Command) -> bool:
    """While the test runs."""
    return "test.sh" in command.argv[-1]


@pytest.mark.parametrize("here", [at_agent, at_verifier])
async def test_cancelled(
    tmp_path: Path, here: Callable[[FakeSandbox, Command], Awaitable[bool]]
) -> None:
    """Whenever a job is cut off, both sandboxes are removed."""
    reached = anyio.Event()

    async def phase(
        sandbox: FakeSandbox, command: Command, output: Callable[[bytes], None]
    ) -> Exit:
        if await here(sandbox, command):
            reached.set()
            await anyio.sleep_forever()
        return await passes(sandbox, command, output)

    backend = FakeBackend(phase)
    async with memory_log() as log:
        async with anyio.create_task_group() as group:
            group.start_soon(run, log, backend, tmp_path, SEPARATE)
            await reached.wait()
            group.cancel_scope.cancel()
    assert len(backend.sandboxes) == (1 if here is at_agent else 2)
    assert backend.alive == set()
    assert sorted(backend.removed) == sorted(sandbox.id for sandbox in backend.sandboxes)


async def test_cancelled_while_the_sandbox_is_made(tmp_path: Path) -> None:
    """Cut off between the two, the agent's is removed and the other one never comes to be."""
    reached = anyio.Event()

    async def stuck(spec: SandboxSpec) -> None:
        if spec.workspace is not None:
            reached.set()
            await anyio.sleep_forever()

    backend = FakeBackend()
    backend.on_create = stuck
    async with memory_log() as log:
        async with anyio.create_task_group() as group:
            group.start_soon(run, log, backend, tmp_path, SEPARATE)
            await reached.wait()
            group.cancel_scope.cancel()
    assert len(backend.sandboxes) == 1
    assert backend.alive == set()
