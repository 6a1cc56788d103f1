"""What a job makes of its agents: their names, programs, steps and output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog
from anyio import to_thread

from helpers.fakes import FakeBackend, FakeSandbox, passes
from helpers.jobs import Watched, services, tasks
from trialog.engine.agents import agent_by_name, agent_name
from trialog.engine.console.outputs import recorded_output
from trialog.engine.job.agents import unused_settings
from trialog.engine.job.api import cancel_job, resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import Notice
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.engine.settings import resolve
from trialog.events.codec import decode
from trialog.events.errors import LogPoisoned
from trialog.events.kinds import ActionTaken, JobStarted, TrialInterrupted
from trialog.events.log import EventLog
from trialog.events.open import memory_log

Output = Callable[[bytes], None]


async def events(log: EventLog, prefix: str, *kinds: str) -> list[Any]:
    """Payloads of some kinds, of all streams with a prefix."""
    return [
        decode(event)
        for stream in await log.streams(prefix)
        for event in await log.read(stream)
        if event.kind in kinds
    ]


async def kinds(log: EventLog) -> list[str]:
    """The kinds of the events of all trials."""
    return [e.kind for stream in await log.streams("trial/") for e in await log.read(stream)]


def of_agent(command: Command) -> bool:
    """Whether it is the agent's phase."""
    return "test.sh" not in command.argv[-1]


# What an agent is told


async def test_settings_reach_the_program(tmp_path: Path) -> None:
    """Each cell's model, parameters, seed, task and attempt are in its program's environment."""
    backend = FakeBackend()
    config = JobConfig(
        tasks=["t"],
        agents=["command:/bin/true"],
        models=["small", "large"],
        parameters=[{"temperature": 0.5}],
        attempts=2,
        seed=7,
    )
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        await run_job(services(log, backend, tmp_path), config, given, Watched())
        started = {s.trial: s for s in await events(log, "trial/", "TrialStarted")}
    told = [(started[trial], c.env) for trial, c in backend.commands if of_agent(c)]
    assert len(told) == 4
    for start, env in told:
        assert env["TRIALOG_MODEL"] == start.slot.model
        assert env["TRIALOG_PARAMETERS"] == '{"temperature":0.5}'
        assert env["TRIALOG_PARAM_TEMPERATURE"] == "0.5"
        assert env["TRIALOG_TASK"] == start.slot.task
        assert env["TRIALOG_ATTEMPT"] == str(start.slot.attempt)
        assert env["TRIALOG_SEED"] == str(start.seed)
    assert {(s.slot.model, s.slot.attempt) for s, _ in told} == {
        ("small", 1), ("large", 1), ("small", 2), ("large", 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("models", "parameters", "said"),
    [
        (["small", "large"], [], "uses no model: its trials with small and large are alike"),
        (["small"], [], "uses no model: small makes no difference to its trials"),
        (
            [],
            [{"t": 0}, {"t": 1}],
            "uses no parameters: its trials with t=0 and t=1 are alike",
        ),
        (
            ["a", "b", "c", "d"],
            [{"t": 0}],
            "uses no model and no parameters: its trials with a, b, c, … (4) are alike",
        ),
    ],
)
async def test_agents_that_use_no_settings(
    tmp_path: Path, models: list[str], parameters: list[dict[str, Any]], said: str
) -> None:
    """A matrix that makes no difference to oracle or nop is told once for each of them."""
    watched = Watched()
    config = JobConfig(
        tasks=["t"],
        agents=["oracle", "nop", "command:/bin/true"],
        models=models,
        parameters=parameters,
    )
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 2)
        await run_job(services(log, FakeBackend(), tmp_path), config, given, watched)
    notices = [(n.level, n.message) for n in watched.of(Notice)]  # type: ignore[attr-defined]
    assert notices == [("warning", f"oracle {said}"), ("warning", f"nop {said}")]
    plain = JobConfig(tasks=["t"], agents=["oracle"])
    oracle = await to_thread.run_sync(agent_by_name, "oracle")
    assert list(unused_settings(plain, {"oracle": oracle})) == []


# Names


async def test_one_agent_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`./agents/x` and `agents/x` are one agent; config, slot and AgentStarted spell it alike."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "x").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    config = JobConfig(tasks=["t"], agents=["command:./agents/x", "command:agents//x"])
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        await run_job(services(log, FakeBackend(), tmp_path), config, given, Watched())
        (job,) = await events(log, "job/", "JobStarted")
        (trial,) = await events(log, "trial/", "TrialStarted")
        (agent,) = await events(log, "trial/", "AgentStarted")
    name = "command:agents/x"
    assert job.config["agents"] == [name]
    assert [(a.agent, a.name) for a in job.agents] == [(name, name)]
    assert (trial.slot.agent, agent.name) == (name, name)


def test_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what means the same is made the same; a user's home is written out."""
    monkeypatch.setenv("HOME", "/home/me")
    assert agent_name("command:~/x") == "command:/home/me/x"
    assert agent_name("command:a/../x") == "command:a/../x"  # a link may lead elsewhere
    assert agent_name("command:~nobody-at-all/x") == "command:~nobody-at-all/x"
    for name in ("oracle", "command:", "other:./x"):
        assert agent_name(name) == name


def test_two_spellings_are_given_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the command line two spellings of one program are refused as one given twice."""
    (tmp_path / "x").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="'command:x' is given twice"):
        resolve({"tasks": ["t"], "agents": ["command:x", "command:./x"]})


# Programs


class Dying:
    """A log whose process dies once an agent works."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, stream: str, version: int, appended: Any) -> Any:
        """Append while alive."""
        if self.dead:
            raise LogPoisoned("test", "the process is dead")
        return self._log.append(stream, version, appended)


@pytest.mark.parametrize("change", ["changed", "deleted", "elsewhere"])
async def test_a_resume_runs_the_recorded_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The program is the one that the job took, whatever became of its file since."""
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    program = home / "agent.sh"
    program.write_text("#!/bin/sh\necho first\n")
    monkeypatch.chdir(home)
    ran: list[bytes] = []

    async def phase(sandbox: FakeSandbox, command: Command, output: Output) -> Exit:
        if of_agent(command):
            ran.append(await anyio.Path(sandbox.folder("/task"), "agent/agent.sh").read_bytes())
            dying.dead = len(ran) == 1
        return await passes(sandbox, command, output)

    backend = FakeBackend(phase)
    config = JobConfig(tasks=["t"], agents=["command:./agent.sh"], retries=0)
    async with memory_log() as log:
        dying = Dying(log)
        given = await tasks(tmp_path / "t", 1)
        with pytest.raises(Exception, match="dead"):
            await run_job(services(dying, backend, tmp_path), config, given, Watched())  # type: ignore[arg-type]
        (started,) = await events(log, "job/", "JobStarted")
        assert isinstance(started, JobStarted)
        [taken] = started.agents
        assert taken.program is not None
        assert taken.digest == taken.program.blob
        assert await log.blobs.get(taken.program) == b"#!/bin/sh\necho first\n"
        match change:
            case "changed":
                program.write_text("#!/bin/sh\necho second\n")
            case "deleted":
                program.unlink()
            case _:
                monkeypatch.chdir(other)
        result = await resume_job(services(log, backend, tmp_path), started.job, Watched())
        digests = {a.digest for a in await events(log, "trial/", "AgentStarted")}
    assert result.summary["counts"]["passed"] == 1
    assert ran == [b"#!/bin/sh\necho first\n"] * 2
    assert digests == {taken.digest}


async def test_a_secret_in_a_program_is_told(tmp_path: Path) -> None:
    """The log keeps a program's bytes, so there is a warning if they hold a known secret."""
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\ncurl -H abcdefgh12345\n")
    config = JobConfig(tasks=["t"], agents=[f"command:{program}", "oracle"])
    told: list[list[str]] = []
    for secrets in ({"A_KEY": "abcdefgh12345"}, {"A_KEY": "another-value"}):
        watched = Watched()
        async with memory_log() as log:
            given = await tasks(tmp_path / secrets["A_KEY"], 1)
            made = services(log, FakeBackend(), tmp_path, secrets=secrets)
            await run_job(made, config, given, watched)
        told.append([n.message for n in watched.of(Notice)])  # type: ignore[attr-defined]
    [message], nothing = told
    assert message.startswith(f"command:{program}: its program holds the value of a secret")
    assert "abcdefgh12345" not in message
    assert nothing == []


async def test_a_log_without_programs_is_resumed(tmp_path: Path) -> None:
    """A job of an older log names its programs by paths alone; they are read again."""
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\n")
    backend = FakeBackend()
    async with memory_log() as log:
        old = Dying(log)
        append = old.append

        def without_agents(stream: str, version: int, appended: Any) -> Any:
            first = appended[0].payload
            if isinstance(first, JobStarted):
                bare = type(first)(
                    **{f: getattr(first, f) for f in first.__struct_fields__ if f != "agents"}
                )
                appended = [type(appended[0])(id="x", at=appended[0].at, payload=bare)]
                ticket = append(stream, version, appended)
                old.dead = True
                return ticket
            return append(stream, version, appended)

        old.append = without_agents  # type: ignore[method-assign]
        given = await tasks(tmp_path / "t", 1)
        config = JobConfig(tasks=["t"], agents=[f"command:{program}"])
        with pytest.raises(Exception, match="dead"):
            await run_job(services(old, backend, tmp_path), config, given, Watched())  # type: ignore[arg-type]
        (started,) = await events(log, "job/", "JobStarted")
        assert started.agents == []
        result = await resume_job(services(log, backend, tmp_path), started.job, Watched())
    assert result.summary["counts"]["passed"] == 1


# Steps


async def test_steps_are_events_while_the_agent_works(tmp_path: Path) -> None:
    """A reported step is in the log before the agent ends; the rest comes before its end."""
    seen: list[str] = []

    async def phase(sandbox: FakeSandbox, command: Command, output: Output) -> Exit:
        if of_agent(command):
            await sandbox.write("/logs/agent/actions.jsonl", b'{"command": "one abcdefgh12345"}\n')
            with anyio.fail_after(20):
                while not await events(log, "trial/", "ActionTaken"):
                    await anyio.sleep(0.01)
            seen.extend(await kinds(log))
            path = anyio.Path(sandbox.folder("/logs/agent"), "actions.jsonl")
            async with await path.open("ab") as report:
                await report.write(b'{"command": "two"}\n')
        return await passes(sandbox, command, output)

    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        config = JobConfig(tasks=["t"], agents=["command:/bin/true"])
        secrets = {"A_KEY": "abcdefgh12345"}
        await run_job(
            services(log, FakeBackend(phase), tmp_path, secrets=secrets), config, given, Watched()
        )
        assert seen == ["TrialStarted", "SandboxStarted", "AgentStarted", "ActionTaken"]
        whole = await kinds(log)
        assert whole[3:7] == ["ActionTaken", "ActionTaken", "ActionTaken", "AgentFinished"]
        steps = await events(log, "trial/", "ActionTaken")
    assert [(s.turn, s.action, s.arguments) for s in steps] == [
        (1, "run", {"command": "one [redacted:A_KEY]"}),
        (2, "run", {"command": "two"}),
        (3, "exit", {"program": "true"}),
    ]


# What is cut off


async def cut_off(
    tmp_path: Path, log: EventLog, backend: FakeBackend, *, agent: str = "command:/bin/true"
) -> str:
    """Run a job that hangs, and cancel it once it does; the job."""
    given = await tasks(tmp_path / "t", 1)
    config = JobConfig(tasks=["t"], agents=[agent])
    secrets = {"A_KEY": "abcdefgh12345"}
    made = services(log, backend, tmp_path, secrets=secrets)

    async def cancel() -> None:
        while not backend.hanging:  # type: ignore[attr-defined]
            await anyio.sleep(0.005)
        job = (await log.streams("job/"))[0].removeprefix("job/")
        await cancel_job(made, job, None)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as both:
            both.start_soon(cancel)
            result = await run_job(made, config, given, Watched())
    return result.job


@pytest.mark.parametrize("phase_of", ["agent", "verifier"])
async def test_cancelled_output_is_kept(tmp_path: Path, phase_of: str) -> None:
    """What a phase had printed before a cancellation, and had reported, is in the log, redacted."""

    async def phase(sandbox: FakeSandbox, command: Command, output: Output) -> Exit:
        if of_agent(command) != (phase_of == "agent"):
            return await passes(sandbox, command, output)
        output(b"half done, abcdefgh12345\n")
        if phase_of == "agent":
            await sandbox.write("/logs/agent/actions.jsonl", b'{"command": "one"}\n{"comm')
        backend.hanging = True  # type: ignore[attr-defined]
        await anyio.sleep_forever()
        raise AssertionError

    backend = FakeBackend(phase)
    backend.hanging = False  # type: ignore[attr-defined]
    async with memory_log() as log:
        await cut_off(tmp_path, log, backend)
        [cut] = await events(log, "trial/", "TrialInterrupted")
        assert isinstance(cut, TrialInterrupted)
        assert cut.stage == {"agent": "agent", "verifier": "verifying"}[phase_of]
        assert cut.reason == "the job was cancelled"
        assert cut.output is not None
        assert await log.blobs.get(cut.output.blob) == b"half done, [redacted:A_KEY]\n"
        (stream,) = await log.streams("trial/")
        trial = stream.removeprefix("trial/")
        for verifier in (False, True):
            shown = await recorded_output(log, trial, verifier=verifier)
            assert (shown == cut.output) == (verifier == (phase_of == "verifier"))
        order = [k for k in await kinds(log) if k not in ("SandboxRemoved", "WarningRaised")]
        assert order[-2:] == ["TrialInterrupted", "TrialFinished"]
        steps = await events(log, "trial/", "ActionTaken")
    if phase_of == "agent":
        assert [s.arguments for s in steps if isinstance(s, ActionTaken)] == [{"command": "one"}]
        assert order[-3] == "ActionTaken"


# The engine's own lines


async def test_lines_about_the_stages(tmp_path: Path) -> None:
    """Each stage of a trial is a line for -v, smaller ones are for -vv, and none tells a secret."""
    with structlog.testing.capture_logs() as lines:
        async with memory_log() as log:
            given = await tasks(tmp_path / "t", 1)
            config = JobConfig(tasks=["t"], agents=["command:/bin/true"])
            await run_job(services(log, FakeBackend(), tmp_path), config, given, Watched())
    info = [line["event"] for line in lines if line["log_level"] == "info"]
    assert info == [
        "sandbox made", "agent started", "agent ended", "work saved", "verifier started",
        "verifier ended", "files written",
    ]  # fmt: skip
    assert all(line["trial"].startswith("task-1__") for line in lines)
    assert "sandbox wanted" in [line["event"] for line in lines if line["log_level"] == "debug"]


async def test_no_lines_for_who_uses_the_engine_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the command line nothing is printed."""
    async with memory_log() as log:
        given = await tasks(tmp_path / "t", 1)
        config = JobConfig(tasks=["t"], agents=["oracle"])
        result = await run_job(services(log, FakeBackend(), tmp_path), config, given, Watched())
    assert json.loads((result.folder / "summary.json").read_bytes())["counts"]["passed"] == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")
