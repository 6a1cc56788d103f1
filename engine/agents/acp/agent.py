"""``acp:COMMAND``, and agents by manifest with ``protocol: acp``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from anyio import to_thread

from ....events.kinds import AgentFailed
from ...errors import ConfigError
from ..program import not_copied, program_environment
from ..protocol import AgentContext, AgentOutcome
from .inside import Inside

if TYPE_CHECKING:
    from .work import Work

PACKAGE = "agent-client-protocol"


def require_package() -> None:
    """Raise ConfigError where the protocol's package is not installed; blocks."""
    if find_spec("acp") is None:
        raise ConfigError(
            f"agents of the Agent Client Protocol need the package {PACKAGE}; run: "
            "pip install 'agent-client-protocol>=0.12,<0.13'",
            key="--agent",
        )


class AcpAgent:
    """A command of the sandbox that speaks the protocol."""

    version: str | None = None
    digest: str | None = None
    program: bytes | None = None
    needs_solution = False
    takes_settings = True

    def __init__(self, command: str) -> None:
        self.name = f"acp:{command}"
        self._command = command

    async def run(self, context: AgentContext) -> AgentOutcome:
        """Let it work in the workspace."""
        await to_thread.run_sync(context.folders.put_run, context.assignment.document())
        words = ["/bin/sh", "-c", self._command]
        return await run_acp(context, words, program_environment(context))


async def run_acp(context: AgentContext, words: list[str], env: dict[str, str]) -> AgentOutcome:
    """Run a program that speaks the protocol, and have it work on the prompt."""
    began = context.clock.monotonic()

    def ready() -> tuple[type[Work], Inside]:
        require_package()
        from .work import Work  # imports the package, which takes a while

        folders = context.folders
        return Work, Inside(folders.task / "acp", f"{folders.task_target}/acp")

    try:
        work, inside = await to_thread.run_sync(ready)
    except ConfigError as error:  # the job was started elsewhere
        failed = AgentFailed(error=str(error), category="agent_setup_failed", duration=0.0)
        return AgentOutcome(end=failed)
    except OSError as error:
        return not_copied(context, error, began)
    try:
        return await work(context, inside, words, env).run()
    finally:
        inside.end()
        inside.close()
