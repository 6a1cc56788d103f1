"""oracle, nop and command, over processes of the host in place of a sandbox."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread

from trialog.engine.agents import AgentContext, AgentOutcome, Assignment, agent_by_name
from trialog.engine.errors import SandboxError, SandboxGone, SandboxStartTimeout
from trialog.engine.redact import Redactor
from trialog.engine.sandbox.protocol import Exit
from trialog.events.codec import encode
from trialog.events.kinds import ActionTaken, AgentFailed, AgentFinished, SandboxLost
from trialog.events.kinds.parts import Process

if TYPE_CHECKING:
    from conftest import Bench


def unexpected(what: object) -> None:
    """For what must not come."""
    raise AssertionError(what)


def context(bench: Bench, **fields: Any) -> AgentContext:
    """What an agent gets."""
    settings: dict[str, Any] = {
        "sandbox": bench.sandbox,
        "folders": bench.folders,
        "prompt": "",
        "timeout": 30.0,
        "blobs": bench.blobs,
        "clock": bench.clock,
        "assignment": Assignment(task="t", attempt=1),
        "emit": unexpected,
        "cut_off": unexpected,
    }
    return AgentContext(**settings | fields)


async def work(bench: Bench, spec: str, **fields: Any) -> AgentOutcome:
    """Let an agent work."""
    agent = await to_thread.run_sync(agent_by_name, spec)
    outcome = await agent.run(context(bench, **fields))
    for event in [*outcome.events, outcome.end]:
        encode(event)
    return outcome


def finished(outcome: AgentOutcome) -> AgentFinished:
    """The end of a phase that left work to grade."""
    assert isinstance(outcome.end, AgentFinished)
    return outcome.end


def make_solution(folder: Path, body: str) -> Path:
    """A solution's folder."""
    folder.mkdir()
    (folder / "solve.sh").write_text(body)
    (folder / "data.txt").write_text("42")
    return folder


def make_program(path: Path, body: str) -> str:
    """An agent's program, without a run bit; the agent's name."""
    path.write_text(body)
    path.chmod(0o600)
    return f"command:{path}"


# nop


async def test_nop(bench: Bench) -> None:
    """It is done at once and runs nothing."""
    await bench.prepare()
    outcome = await work(bench, "nop")
    assert outcome == AgentOutcome(end=AgentFinished(ended_by="done", duration=0.0))
    assert bench.sandbox.commands == []


# oracle


async def test_oracle(bench: Bench, tmp_path: Path) -> None:
    """The solution runs in the workspace, with its folder, by bash where it has no shebang."""
    solution = make_solution(
        tmp_path / "solution", 'cp "$TRIALOG_SOLUTION_DIR/data.txt" answer.txt; echo solved'
    )
    await bench.prepare(solution=solution)
    outcome = await work(bench, "oracle")
    end = finished(outcome)
    assert (end.ended_by, end.exit_code, end.error_category) == ("done", 0, None)
    assert (bench.workspace / "answer.txt").read_text() == "42"
    assert end.output is not None
    assert await bench.blobs.get(end.output.blob) == b"solved\n"
    assert bench.sandbox.commands[0].argv == ["bash", "/solution/solve.sh"]


async def test_oracle_uses_no_tools(bench: Bench, tmp_path: Path) -> None:
    """Its run is one step that the host saw, and no tool call."""
    solution = make_solution(tmp_path / "solution", "exit 3")
    await bench.prepare(solution=solution)
    outcome = await work(bench, "oracle")
    [step] = outcome.events
    assert isinstance(step, ActionTaken)
    assert (step.app, step.action, step.observed_by, step.tool_call) == (
        "shell", "exit", "host", None,
    )  # fmt: skip
    assert step.arguments == {"program": "solve.sh"}
    assert step.observation == {"exit_code": 3, "ended_by": "exit"}


async def test_oracle_environment(bench: Bench, tmp_path: Path) -> None:
    """solution.env arrives, --agent-env goes over it, and where things are goes over both."""
    await bench.prepare(solution=make_solution(tmp_path / "solution", "exit 0"))
    await work(
        bench,
        "oracle",
        solution_env={"A": "task", "B": "task", "TRIALOG_WORKSPACE": "x"},
        env={"B": "given"},
        user="worker",
    )
    [command] = bench.sandbox.commands
    assert command.user == "worker"
    assert command.env == {
        "A": "task",
        "B": "given",
        "TRIALOG_WORKSPACE": "/app",
        "TRIALOG_SOLUTION_DIR": "/solution",
    }


async def test_oracle_without_a_solution(bench: Bench) -> None:
    """A solution that is not there leaves nothing to grade, and the error names the file."""
    await bench.prepare()
    outcome = await work(bench, "oracle")
    assert isinstance(outcome.end, AgentFailed)
    assert "solve.sh" in str(outcome.end.error)


async def test_oracle_in_a_sandbox_that_fails(bench: Bench, tmp_path: Path) -> None:
    """Without its sandbox the oracle has left nothing to grade."""
    await bench.prepare(solution=make_solution(tmp_path / "solution", "exit 0"))
    bench.sandbox.fails_before = SandboxGone("gone")
    outcome = await work(bench, "oracle")
    assert isinstance(outcome.end, AgentFailed)
    assert (outcome.end.category, outcome.end.output) == ("sandbox_lost", None)


# command: what it is told


def test_what_no_variable_can_hold() -> None:
    """Names that only differ in case, NULs and huge values are left to the file.

    So a program is started whatever the matrix holds.
    """
    told = Assignment(
        task="t",
        attempt=1,
        parameters={"a": 1, "A": 2, "nul": "x\0y", "long": "x" * 70_000, "b": 3, "": 4, "ü": 5},
    )
    assert sorted(told.variables()) == [
        "TRIALOG_ATTEMPT", "TRIALOG_PARAM_B", "TRIALOG_TASK",
    ]  # fmt: skip
    assert json.loads(told.document())["parameters"] == told.parameters


# command: how it runs


async def test_command_gets_the_prompt(bench: Bench, tmp_path: Path) -> None:
    """The prompt is on standard input and in a file, and the program runs in the workspace."""
    await bench.prepare(prompt="do it: ünï")
    spec = make_program(
        tmp_path / "agent.sh", 'cat > stdin.txt; cp "$TRIALOG_PROMPT" file.txt; echo "$GIVEN"'
    )
    outcome = await work(bench, spec, prompt="do it: ünï", env={"GIVEN": "env"})
    assert (bench.workspace / "stdin.txt").read_text() == "do it: ünï"
    assert (bench.workspace / "file.txt").read_text() == "do it: ünï"
    end = finished(outcome)
    assert end.output is not None
    assert await bench.blobs.get(end.output.blob) == b"env\n"
    assert bench.sandbox.commands[0].env == {
        "GIVEN": "env",
        "TRIALOG_TASK": "t",
        "TRIALOG_ATTEMPT": "1",
        "TRIALOG_PARAMETERS": "{}",
        "TRIALOG_WORKSPACE": "/app",
        "TRIALOG_PROMPT": "/task/prompt.md",
        "TRIALOG_RUN": "/task/run.json",
        "TRIALOG_ACTIONS": "/logs/agent/actions.jsonl",
        "TRIALOG_ARTIFACTS_DIR": "/logs/artifacts",
    }


async def test_command_is_told_what_it_runs_for(bench: Bench, tmp_path: Path) -> None:
    """Model, parameters, seed, task and attempt are in its environment and in a file."""
    await bench.prepare()
    spec = make_program(tmp_path / "agent.sh", 'env > env.txt; cp "$TRIALOG_RUN" run.json')
    told = Assignment(
        task="t",
        attempt=2,
        model="m-1",
        parameters={"temperature": 0.5, "effort": "high", "deep": {"a": [1]}, "top-p": 1},
        seed=7,
    )
    await work(bench, spec, assignment=told, env={"TRIALOG_MODEL": "of mine"})
    lines = (bench.workspace / "env.txt").read_text().splitlines()
    assert {
        "TRIALOG_MODEL=m-1",
        'TRIALOG_PARAMETERS={"temperature":0.5,"effort":"high","deep":{"a":[1]},"top-p":1}',
        "TRIALOG_PARAM_TEMPERATURE=0.5",
        "TRIALOG_PARAM_EFFORT=high",
        'TRIALOG_PARAM_DEEP={"a":[1]}',
        "TRIALOG_SEED=7",
        "TRIALOG_TASK=t",
        "TRIALOG_ATTEMPT=2",
    } <= set(lines)
    assert not [line for line in lines if line.startswith("TRIALOG_PARAM_TOP")]
    assert json.loads((bench.workspace / "run.json").read_bytes()) == {
        "task": "t",
        "attempt": 2,
        "model": "m-1",
        "parameters": {"temperature": 0.5, "effort": "high", "deep": {"a": [1]}, "top-p": 1},
        "seed": 7,
    }


async def test_command_by_its_shebang(bench: Bench, tmp_path: Path) -> None:
    """The shebang's program runs it, under its own name."""
    await bench.prepare()
    body = "#!/usr/bin/env python3\nimport sys; open('out.txt', 'w').write(sys.argv[0])"
    await work(bench, make_program(tmp_path / "agent.py", body))
    assert (bench.workspace / "out.txt").read_text().endswith("/task/agent/agent.py")
    assert bench.sandbox.commands[0].argv == ["/usr/bin/env", "python3", "/task/agent/agent.py"]


async def test_native_program(bench: Bench, tmp_path: Path) -> None:
    """A native executable runs as it is."""
    await bench.prepare(prompt="x")
    true = shutil.which("true")
    assert true
    shutil.copyfile(true, tmp_path / "agent")
    outcome = await work(bench, f"command:{tmp_path / 'agent'}")
    assert finished(outcome).ended_by == "done"
    assert bench.sandbox.commands[0].argv == ["/task/agent/agent"]


async def test_program_is_read_once(bench: Bench, tmp_path: Path) -> None:
    """Every trial runs the bytes that the digest is of, whatever happens to the file."""
    await bench.prepare()
    spec = make_program(tmp_path / "agent.sh", "echo first > out.txt")
    agent = await to_thread.run_sync(agent_by_name, spec)
    (tmp_path / "agent.sh").write_text("echo second > out.txt")
    await agent.run(context(bench))
    assert (bench.workspace / "out.txt").read_text() == "first\n"


async def test_non_zero_exit_is_graded(bench: Bench, tmp_path: Path) -> None:
    """A program that fails has left work to grade; the category says how it ended."""
    await bench.prepare()
    outcome = await work(bench, make_program(tmp_path / "agent.sh", "exit 5"))
    end = finished(outcome)
    assert (end.ended_by, end.exit_code, end.error_category) == ("agent_exit", 5, "agent_exit")
    assert end.error == "the agent exited with code 5"
    [step] = outcome.events
    assert isinstance(step, ActionTaken)
    assert (step.turn, step.action, step.tool_call) == (1, "exit", None)
    assert step.observation == {"exit_code": 5, "ended_by": "exit"}


async def test_timeout(bench: Bench, tmp_path: Path) -> None:
    """A program past its deadline is stopped, and what it did is graded."""
    await bench.prepare()
    spec = make_program(tmp_path / "agent.sh", "echo begun; touch begun.txt; sleep 60")
    end = finished(await work(bench, spec, timeout=1.0))
    assert (end.ended_by, end.exit_code) == ("agent_timeout", None)
    assert (end.error, end.error_category) == (
        "the agent was stopped after 1.0s",
        "agent_timeout",
    )
    assert (bench.workspace / "begun.txt").exists()
    assert end.output is not None
    assert await bench.blobs.get(end.output.blob) == b"begun\n"


async def test_idle_timeout(bench: Bench, tmp_path: Path) -> None:
    """A program stopped for its silence is graded; what it left running is told."""
    await bench.prepare()
    left = [Process(pid=9, name="sleep")]
    bench.sandbox.exit = Exit(ended_by="idle", code=None, duration=2.0, left=left)
    outcome = await work(bench, make_program(tmp_path / "agent.sh", "exit 0"), idle_timeout=2.0)
    end = finished(outcome)
    assert (end.ended_by, end.error_category) == ("idle_timeout", "idle_timeout")
    assert end.error == "the agent was stopped after 2.0s of silence"
    assert outcome.killed == left
    assert bench.sandbox.commands[0].idle_timeout == 2.0


async def test_out_of_memory(bench: Bench, tmp_path: Path) -> None:
    """An end for lack of memory says so."""
    await bench.prepare()
    bench.sandbox.exit = Exit(ended_by="exit", code=137, duration=2.0, out_of_memory=True)
    end = finished(await work(bench, make_program(tmp_path / "agent.sh", "exit 0")))
    assert end.error == "the agent exited with code 137, out of memory"


async def test_secrets_in_the_output(bench: Bench, tmp_path: Path) -> None:
    """A secret is redacted from the output."""
    await bench.prepare()
    spec = make_program(tmp_path / "agent.sh", "echo $API_KEY")
    redactor = Redactor({"API_KEY": "abcdefgh12345"})
    outcome = await work(bench, spec, env={"API_KEY": "abcdefgh12345"}, redactor=redactor)
    output = finished(outcome).output
    assert output is not None
    assert await bench.blobs.get(output.blob) == b"[redacted:API_KEY]\n"


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (SandboxGone("gone"), "sandbox_lost"),
        (SandboxStartTimeout("no first process"), "start_timeout"),
        (SandboxError("exec failed"), "sandbox_failed"),
    ],
)
async def test_sandbox_faults(
    bench: Bench, tmp_path: Path, error: SandboxError, category: str
) -> None:
    """A sandbox that fails leaves nothing to grade; one that went away is said to be lost."""
    await bench.prepare()
    bench.sandbox.fails_after = error
    outcome = await work(bench, make_program(tmp_path / "agent.sh", "echo begun"))
    assert isinstance(outcome.end, AgentFailed)
    assert (outcome.end.category, outcome.end.error) == (category, str(error))
    assert outcome.end.output is not None
    assert await bench.blobs.get(outcome.end.output.blob) == b"begun\n"
    lost = [event for event in outcome.events if isinstance(event, SandboxLost)]
    assert [event.phase for event in lost] == ["agent"] * (category == "sandbox_lost")


async def test_program_can_not_be_copied_in(bench: Bench, tmp_path: Path) -> None:
    """A scratch folder that is gone is a failed transfer."""
    await bench.prepare()
    spec = make_program(tmp_path / "agent.sh", "exit 0")
    shutil.rmtree(bench.folders.task)
    outcome = await work(bench, spec)
    assert isinstance(outcome.end, AgentFailed)
    assert outcome.end.category == "transfer_failed"
