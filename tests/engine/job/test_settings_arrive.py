"""What a task and a job ask for reaches the sandbox and both of its phases."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, services, tasks
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import Notice, TrialEnded
from trialog.engine.sandbox.protocol import Command, Exit, Image, SandboxSpec
from trialog.events.codec import decode
from trialog.events.kinds import (
    AgentStarted,
    SandboxStarted,
    TamperFound,
    VerifierScored,
    VerifierStarted,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import Limits
from trialog.events.open import memory_log

CONFIG = JobConfig(tasks=["tasks"], agents=["oracle"])

SETTINGS = """
[agent]
timeout_sec = 10
idle_timeout_sec = 5
user = "dev"
[verifier]
timeout_sec = 20
user = 0
[verifier.env]
CHECKED = "${GIVEN}"
SHARED = "verifier"
[environment]
cpus = 2
memory_mb = 64
storage_mb = 100
allow_internet = true
workdir = "/work"
[environment.env]
BOTH = "x${GIVEN}"
[solution.env]
SOLVED = "${NOT_GIVEN:-y}"
SHARED = "solution"
"""


OFFLINE = "[environment]\nallow_internet = false\n"


async def ran(
    tmp_path: Path, config: JobConfig, settings: str = SETTINGS
) -> tuple[SandboxSpec, Command, Command, list[type]]:
    """One trial: its sandbox, the agent's and the verifier's command, the types of its events."""
    backend = FakeBackend()
    backend.name = "docker"  # bubblewrap has no users
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1, settings=settings)
        there = services(log, backend, tmp_path / "jobs", environ={"GIVEN": "1"})
        result = await run_job(there, config, given, Watched())
        assert result.summary["counts"]["passed"] == 1
        [stream] = await log.streams("trial/")
        types = [type(decode(event)) for event in await log.read(stream)]
    (_, agent), (_, verifier) = backend.commands
    return backend.specs[0], agent, verifier, types


async def test_what_a_task_asks_for(tmp_path: Path) -> None:
    """Time limits, users, variables with their references filled in, limits and the workspace."""
    spec, agent, verifier, _ = await ran(tmp_path, CONFIG)
    assert spec.limits == Limits(cpus=2.0, memory_mb=64, storage_mb=100, network=True)
    assert (spec.workdir, spec.env, spec.separate_users) == ("/work", {"BOTH": "x1"}, True)
    assert (agent.timeout, agent.idle_timeout, agent.user) == (10.0, 5.0, "dev")
    assert (verifier.timeout, verifier.idle_timeout, verifier.user) == (20.0, None, "0")
    assert agent.env.items() >= {"SOLVED": "y", "SHARED": "solution"}.items()
    assert verifier.env.items() >= {"CHECKED": "1", "SHARED": "verifier"}.items()
    assert not {"CHECKED", "SOLVED"} & (agent.env.keys() & verifier.env.keys())


async def test_what_a_job_asks_for_goes_over_it(tmp_path: Path) -> None:
    """Overrides of limits, the multiplier of both time limits, and variables for either phase."""
    config = replace(
        CONFIG,
        timeout_multiplier=2.5,
        cpus=1.0,
        memory_mb=32,
        agent_env={"SHARED": "job's agent"},
        verifier_env={"SHARED": "job's verifier"},
    )
    spec, agent, verifier, _ = await ran(tmp_path, config)
    assert spec.limits == Limits(cpus=1.0, memory_mb=32, storage_mb=100, network=True)
    assert (agent.timeout, verifier.timeout) == (25.0, 50.0)
    assert (agent.env["SHARED"], verifier.env["SHARED"]) == ("job's agent", "job's verifier")


async def test_without_a_word_there_is_no_network_and_no_limit(tmp_path: Path) -> None:
    """The defaults: ten minutes for either phase, the image's user, /app."""
    spec, agent, verifier, _ = await ran(tmp_path, CONFIG, settings="")
    assert spec.limits == Limits(network=False)
    assert (spec.workdir, spec.separate_users) == ("/app", False)
    assert (agent.timeout, agent.idle_timeout, agent.user) == (600.0, None, None)
    assert (verifier.timeout, verifier.user) == (600.0, None)


@pytest.mark.parametrize(("settings", "network"), [("", True), (OFFLINE, False)])
async def test_the_jobs_default_network_is_for_tasks_that_say_nothing(
    tmp_path: Path, settings: str, network: bool
) -> None:
    """A task that wants none has none all the same."""
    config = replace(CONFIG, default_network=True)
    spec, *_ = await ran(tmp_path, config, settings=settings)
    assert spec.limits == Limits(network=network)


async def test_a_warning_that_the_default_network_makes_needless_is_not_given(
    tmp_path: Path,
) -> None:
    """Neither at the start nor with the trials; without that network it is in both places."""
    for default, told in ((False, True), (True, False)):
        async with memory_log() as log:
            given = await tasks(tmp_path / f"t{default}", 1, test="pip install x\necho 1\n")
            watch = Watched()
            there = services(log, FakeBackend(), tmp_path / "jobs")
            await run_job(there, replace(CONFIG, default_network=default), given, watch)
        for kind in (Notice, TrialEnded):
            said = "--default-network" in str(watch.of(kind))
            assert said is told


@pytest.mark.parametrize(
    ("asked", "images", "workspace"),
    [
        ("/asked", "/own", "/asked"),
        (None, "/own", "/own"),
        (None, "/", "/app"),
        (None, None, "/app"),
    ],
)
async def test_where_the_workspace_is(
    tmp_path: Path, asked: str | None, images: str | None, workspace: str
) -> None:
    """What the task asks for, else the image's WORKDIR, else /app."""
    backend = FakeBackend()
    backend.image = Image(name=None, workdir=images)
    settings = f'[environment]\nworkdir = "{asked}"\n' if asked else ""
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1, settings=settings)
        await run_job(services(log, backend, tmp_path / "jobs"), CONFIG, given, Watched())
    assert backend.specs[0].workdir == workspace


async def test_what_an_image_brings_is_recorded(tmp_path: Path) -> None:
    """Its digests, and a reward that is baked into it, which is named and never believed."""
    backend = FakeBackend()
    backend.image = Image(
        name="i:1",
        repository_digest="i@sha256:2",
        planted_rewards={"/logs/verifier/reward.txt": "ab" * 32},
    )

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        return Exit(ended_by="exit", code=0, duration=0.0)  # the verifier writes nothing

    backend.phase = phase  # type: ignore[assignment]
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        await run_job(services(log, backend, tmp_path / "jobs"), CONFIG, given, Watched())
        [stream] = await log.streams("trial/")
        events = [decode(event) for event in await log.read(stream)]
    [sandbox] = [event for event in events if isinstance(event, SandboxStarted)]
    assert (sandbox.image, sandbox.image_digest) == ("i:1", backend.digest)
    assert sandbox.repository_digest == "i@sha256:2"
    [found] = [event for event in events if isinstance(event, TamperFound)]
    assert (found.path, found.sha256) == ("/logs/verifier/reward.txt", "ab" * 32)
    [verdict] = [event for event in events if isinstance(event, VerifierScored)]
    assert (verdict.score, verdict.source) == (0.0, "engine")


@pytest.mark.parametrize("save", [True, False])
async def test_the_workspace_is_saved_unless_it_is_not_wanted(tmp_path: Path, save: bool) -> None:
    """--no-save-outputs leaves it out; the trial is graded all the same. Its cap is 512 MiB."""
    assert (CONFIG.save_outputs, CONFIG.workspace_cap_mb) == (True, 512)
    *_, types = await ran(tmp_path, replace(CONFIG, save_outputs=save))
    assert AgentStarted in types
    assert VerifierStarted in types
    assert (WorkspaceSaved in types) == save


@pytest.mark.parametrize(("verifiers", "most"), [(None, 4), (2, 2), (1, 1)])
async def test_verifiers_have_a_limit_of_their_own(
    tmp_path: Path, verifiers: int | None, most: int
) -> None:
    """As many work at once as --verifiers says, by default as many as there are trials at once."""
    working = seen = 0

    async def phase(sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        nonlocal working, seen
        if "test.sh" in command.argv[-1]:
            working += 1
            seen = max(seen, working)
            with anyio.fail_after(30):  # until as many are here, and agents that could follow too
                while seen < most or backend.agents_run() < min(8, most + 3):
                    await anyio.sleep(0.005)
            await anyio.wait_all_tasks_blocked()
            working -= 1
        return await passes(sandbox, command, output)  # type: ignore[arg-type]

    backend = FakeBackend(phase)  # type: ignore[arg-type]
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 8)
        config = replace(CONFIG, concurrency=4, verifiers=verifiers)
        await run_job(services(log, backend, tmp_path), config, given, Watched())
    assert (backend.verifiers_run(), seen) == (8, most)
