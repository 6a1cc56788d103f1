"""Letting an agent work, with a gateway to its model where it works in the sandbox."""

from __future__ import annotations

from importlib import import_module

from anyio import to_thread

from ...events.kinds import AgentFailed
from ..models.endpoint import ModelUnavailable
from .chat import ChatAgent
from .protocol import Agent, AgentContext, AgentOutcome


def calls_from_inside(agent: Agent) -> bool:
    """Whether an agent's program, in the sandbox, is what calls its model."""
    return agent.takes_settings and not isinstance(agent, ChatAgent)


async def run_agent(agent: Agent, context: AgentContext) -> AgentOutcome:
    """As `Agent.run`. What its program asks of its model is in the log, if there is a gateway."""
    model, models = context.assignment.model, context.models
    if model is None or models is None or not calls_from_inside(agent):
        return await agent.run(context)
    try:
        upstream = models.upstream()
    except ModelUnavailable as error:
        return AgentOutcome(
            end=AgentFailed(error=str(error), category=error.category, duration=0.0)
        )
    if upstream is None:
        return await agent.run(context)
    # Most jobs have no gateway, and it is slow to import.
    await to_thread.run_sync(import_module, f"{__package__}.behind_gateway")
    from .behind_gateway import run_behind_gateway

    return await run_behind_gateway(agent, context, model, models, upstream)
