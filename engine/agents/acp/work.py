"""One agent's phase and its conversation, side by side, and what came of them."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from ....events.kinds import AgentFailed, AgentFinished, AgentMessage
from ....events.kinds.parts import Output
from ...errors import SandboxError
from ...output import OutputCapture, store_output
from ...sandbox.protocol import Command, Exit
from ...stored import store_text
from ..beside import in_group
from ..program import sandbox_failed
from ..protocol import AgentContext, AgentOutcome
from .forms import Connection
from .inside import Inside
from .services import Services
from .session import Broken, Gone, Said, Session
from .transport import Transport
from .updates import Chronicle

CLOSING_SEC = 5.0
"""For the agent to end by itself, once it has answered; then it is ended."""

CATCH_UP_SEC = 5.0
"""For what it was saying when it was cut off."""

_Ended = Literal["agent_exit", "agent_timeout", "idle_timeout", "max_turns", "truncated"]


class Work:
    """One trial's work."""

    def __init__(
        self, context: AgentContext, inside: Inside, words: list[str], env: dict[str, str]
    ) -> None:
        self._context = context
        self._inside = inside
        self._words, self._env = words, env
        self._begun = context.clock.monotonic()
        self._capture = OutputCapture(
            redactor=context.redactor, spool=context.spool, monotonic=context.clock.monotonic
        )
        self._over = anyio.Event()
        self._phase_scope = anyio.CancelScope()
        self._exit: Exit | None = None
        self._error: SandboxError | None = None

    async def run(self) -> AgentOutcome:
        """Let the agent work until it has answered, or a deadline or its end comes first."""
        chronicle = Chronicle(self._context)
        try:
            said, version = await in_group(partial(self._work, chronicle))
        except anyio.get_cancelled_exc_class():
            self._context.cut_off(self._capture.finish())
            with anyio.move_on_after(CATCH_UP_SEC, shield=True):
                await chronicle.finish()
            raise
        await chronicle.finish()
        if self._error is not None:
            captured = self._capture.finish()
            output = await store_output(self._context.blobs, captured) if captured.total else None
            return sandbox_failed(self._context, self._error, self._duration(), output)
        return await self._outcome(said, version)

    async def _work(
        self, chronicle: Chronicle, group: TaskGroup
    ) -> tuple[Said | Broken, str | None]:
        """Run the phase and the conversation: the agent's last word, and the version it says."""
        context, inside = self._context, self._inside
        await self._told_prompt()
        transport = Transport(
            inside.agent_out, inside.agent_in, heard=chronicle.heard,
            notified=chronicle.notified, malformed=chronicle.malformed,
        )  # fmt: skip
        services = Services(
            inside, chronicle, group,
            workspace=context.folders.workspace, printed=self._capture.feed,
        )  # fmt: skip
        group.start_soon(inside.follow)
        group.start_soon(self._phase, chronicle)
        connection = Connection(services.handle, transport)
        session = Session(connection, transport, services, chronicle)
        said: Said | Broken
        try:
            said = await session.run(
                context.prompt,
                cwd=context.folders.workspace,
                model=context.assignment.model,
                variables=self._env.keys(),
            )
        except Broken as broken:
            said = broken
        finally:
            with anyio.CancelScope(shield=True):
                await self._close()
                await connection.close()
                await services.settled()
        if (crash := transport.crash or services.crash) is not None:
            raise crash
        return said, session.version

    async def _told_prompt(self) -> None:
        text = await store_text(self._context.prompt, self._context.blobs)
        self._context.emit(AgentMessage(role="user", text=text))

    async def _phase(self, chronicle: Chronicle) -> None:
        """The phase, from its start to its end."""
        context = self._context
        command = Command(
            argv=self._inside.argv(self._words),
            env=self._env,
            user=context.user,
            timeout=context.timeout,
            idle_timeout=context.idle_timeout,
            quiet_for=chronicle.quiet_for,
            start_timeout=context.start_timeout,
            keep=context.keep,
        )
        try:
            with self._phase_scope:
                self._exit = await context.sandbox.run(command, self._capture.feed)
        except SandboxError as error:
            self._error = error
        finally:
            self._inside.end()
            self._over.set()

    async def _close(self) -> None:
        """End the phase: in good order where the agent hears that nothing more is said."""
        await self._inside.agent_in.end()
        for stop in (self._inside.stop_agent, self._phase_scope.cancel):
            with anyio.move_on_after(CLOSING_SEC):
                await self._over.wait()
            if self._over.is_set():
                return
            stop()
        await self._over.wait()

    async def _outcome(self, said: Said | Broken, version: str | None) -> AgentOutcome:
        output = await self._output()
        exit = self._exit
        killed = [] if exit is None else exit.left
        error, category, ended_by = self._ending(said)
        if isinstance(said, Broken) and said.before_the_task:
            failed = AgentFailed(
                error=error, category="agent_setup_failed", duration=self._duration(),
                exit_code=exit.code if exit else None, output=output, version=version,
            )  # fmt: skip
            return AgentOutcome(end=failed, killed=killed)
        end = AgentFinished(
            ended_by=ended_by or "done",
            exit_code=exit.code if exit is not None and category == "agent_exit" else None,
            error=error or None,
            error_category=category,
            duration=self._duration(),
            output=output,
            version=version,
            reported_usage=None if isinstance(said, Broken) else said.usage,
        )
        return AgentOutcome(end=end, killed=killed)

    def _ending(self, said: Said | Broken) -> tuple[str, str | None, _Ended | None]:
        """What went wrong, its category, and how the phase ended; empty and null: well."""
        if isinstance(said, Gone):
            return self._gone(said)
        if isinstance(said, Broken):
            return str(said), "agent_failed", "agent_exit"
        match said.stop:
            case "end_turn":
                return "", None, None
            case "max_tokens":
                error = "the model's reply was cut off at its output limit"
                return error, "reply_cut", "truncated"
            case "max_turn_requests":
                return "the agent came to its own limit on turns", "agent_limit", "max_turns"
            case "refusal":
                return "the agent refused the task", "agent_refused", "agent_exit"
            case _:
                error = "the agent says that its turn was cancelled, which nobody had asked for"
                return error, "agent_failed", "agent_exit"

    def _gone(self, said: Broken) -> tuple[str, str, _Ended]:
        context, exit = self._context, self._exit
        match exit:
            case Exit(ended_by="timeout"):
                error = f"the agent was stopped after {context.timeout:.1f}s"
                category: _Ended = "agent_timeout"
            case Exit(ended_by="idle"):
                seconds = context.idle_timeout or 0
                error = f"the agent was stopped after {seconds:.1f}s of silence"
                category = "idle_timeout"
            case _:
                memory = ", out of memory," if exit and exit.out_of_memory else ""
                code = "?" if exit is None else exit.code
                return (
                    f"the agent exited with code {code}{memory} {said}",
                    "agent_exit",
                    "agent_exit",
                )
        return f"{error}, {said}" if said.before_the_task else error, category, category

    async def _output(self) -> Output | None:
        captured: Any = self._capture.finish()
        return await store_output(self._context.blobs, captured) if captured.total else None

    def _duration(self) -> float:
        return round(self._context.clock.monotonic() - self._begun, 6)
