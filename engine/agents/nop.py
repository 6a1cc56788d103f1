"""The agent that does nothing: what a task gives for no work at all."""

from __future__ import annotations

from ...events.kinds import AgentFinished
from .protocol import AgentContext, AgentOutcome


class Nop:
    """Does nothing."""

    name = "nop"
    version: str | None = None
    digest: str | None = None
    program: bytes | None = None
    needs_solution = False
    takes_settings = False

    async def run(self, context: AgentContext) -> AgentOutcome:
        """Be done at once."""
        return AgentOutcome(end=AgentFinished(ended_by="done", duration=0.0))
