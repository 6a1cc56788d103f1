"""Running a program as the agent's phase, and saying how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, assert_never

import anyio
import msgspec

from ...events.errors import said
from ...events.kinds import ActionTaken, AgentFailed, AgentFinished, SandboxLost, TrialEvent
from ...events.kinds.parts import Output, Process
from ..errors import SandboxError, SandboxGone
from ..output import OutputCapture, store_output
from ..sandbox.protocol import Command, Exit
from ..tasks.scripts import interpreter
from ..trial.folders import ARTIFACTS_FOLDER
from .protocol import AgentContext, AgentOutcome

_NATIVE = b"\x7fELF"


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that came to its end."""

    exit: Exit
    finished: AgentFinished
    exit_action: ActionTaken
    """The program's exit as a step that the host saw; its turn is the caller's to set."""


def program_environment(context: AgentContext) -> dict[str, str]:
    """What every program of an agent's finds in its environment inside."""
    folders = context.folders
    return {
        **context.env,
        **context.assignment.variables(),
        "TRIALOG_WORKSPACE": folders.workspace,
        "TRIALOG_PROMPT": folders.prompt,
        "TRIALOG_RUN": folders.run,
        "TRIALOG_ARTIFACTS_DIR": ARTIFACTS_FOLDER,
    }


def words_to_run(program: Path, inside: str) -> list[str]:
    """The command that runs a program, which needs no run bit; blocks. Raises OSError, TaskError.

    A native executable is run as it is, anything else by the program of its ``#!`` line, or bash.
    """
    with program.open("rb") as file:
        native = file.read(len(_NATIVE)) == _NATIVE
    return [inside] if native else [*interpreter(program), inside]


def not_copied(context: AgentContext, error: Exception, began: float) -> AgentOutcome:
    """The outcome when what is to be run could not be put where the sandbox sees it."""
    failed = AgentFailed(
        error=f"the agent's program could not be copied in: {said(error)}",
        category="transfer_failed",
        duration=round(context.clock.monotonic() - began, 6),
    )
    return AgentOutcome(end=failed)


async def run_program(
    context: AgentContext,
    name: str,
    argv: list[str],
    env: dict[str, str],
    *,
    quiet_for: Callable[[], Awaitable[float]] | None = None,
) -> Ran | AgentOutcome:
    """Run a program with the prompt on its standard input; an outcome where the sandbox failed."""
    clock = context.clock
    capture = OutputCapture(
        redactor=context.redactor, spool=context.spool, monotonic=clock.monotonic
    )
    command = Command(
        argv=argv,
        env=env,
        stdin=context.prompt.encode("utf-8", "surrogatepass"),
        user=context.user,
        timeout=context.timeout,
        idle_timeout=context.idle_timeout,
        quiet_for=quiet_for,
        start_timeout=context.start_timeout,
        keep=context.keep,
    )
    started_at = clock.now()
    began = clock.monotonic()
    try:
        exit = await context.sandbox.run(command, capture.feed)
    except anyio.get_cancelled_exc_class():
        context.cut_off(capture.finish())
        raise
    except SandboxError as error:
        captured = capture.finish()
        output = await store_output(context.blobs, captured) if captured.total else None
        return sandbox_failed(context, error, round(clock.monotonic() - began, 6), output)
    duration = round(clock.monotonic() - began, 6)
    output = await store_output(context.blobs, capture.finish())
    return Ran(
        exit=exit,
        finished=_finished(exit, context, duration, output),
        exit_action=ActionTaken(
            turn=1,
            app="shell",
            action="exit",
            arguments={"program": name},
            observation={"exit_code": exit.code, "ended_by": exit.ended_by},
            started_at=started_at,
            duration=duration,
            observed_by="host",
        ),
    )


def sandbox_failed(
    context: AgentContext, error: SandboxError, duration: float, output: Output | None = None
) -> AgentOutcome:
    """The outcome when the sandbox could not do its part: there is no work to grade."""
    events: list[TrialEvent] = []
    if isinstance(error, SandboxGone):
        events.append(SandboxLost(sandbox_id=context.sandbox.id, phase="agent", error=str(error)))
    failed = AgentFailed(
        error=str(error), category=error.category, duration=duration, output=output
    )
    return AgentOutcome(events=events, end=failed, killed=list[Process]())


def _finished(exit: Exit, context: AgentContext, duration: float, output: Output) -> AgentFinished:
    ended_by: Literal["agent_exit", "agent_timeout", "idle_timeout"]
    match exit.ended_by:
        case "timeout":
            ended_by = "agent_timeout"
            error = f"the agent was stopped after {context.timeout:.1f}s"
        case "idle":
            ended_by = "idle_timeout"
            error = f"the agent was stopped after {context.idle_timeout or 0:.1f}s of silence"
        case "exit":
            if exit.code == 0:
                return AgentFinished(ended_by="done", exit_code=0, duration=duration, output=output)
            ended_by = "agent_exit"
            memory = ", out of memory" if exit.out_of_memory else ""
            error = f"the agent exited with code {exit.code}{memory}"
        case _:
            assert_never(exit.ended_by)
    return AgentFinished(
        ended_by=ended_by,
        exit_code=exit.code,
        error=error,
        error_category=ended_by,
        duration=duration,
        output=output,
    )
