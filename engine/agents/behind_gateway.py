"""An agent whose program calls its model through a gateway in its sandbox."""

from __future__ import annotations

import anyio
from msgspec.structs import replace

from ...events.kinds import AgentFailed
from ..models.gateway.endpoints import Endpoints
from ..models.gateway.gateway import Gateway
from ..models.gateway.sandbox import SandboxWithGateway
from ..models.gateway.trial import TrialCalls
from ..models.meter import Reached
from ..models.models import Models
from ..models.replaying import Recording
from ..output import Captured, store_output
from .protocol import Agent, AgentContext, AgentOutcome


async def run_behind_gateway(
    agent: Agent, context: AgentContext, model: str, models: Models, upstream: Endpoints
) -> AgentOutcome:
    """As `Agent.run`; what its program asks of its model goes through here, and into the log."""
    trial = TrialCalls(
        model, models, upstream, emit=context.emit, blobs=context.blobs, clock=context.clock,
        network=context.network,
    )  # fmt: skip
    gateway = Gateway(trial)
    inside = replace(context, sandbox=SandboxWithGateway(context.sandbox, gateway))
    try:
        if models.recording is None:
            outcome = await agent.run(inside)
        else:
            outcome = await _replayed(agent, inside, trial, models.recording)
    finally:
        gateway.close()
    if trial.reached is not None:
        return _limited(outcome, trial.reached)
    return _without_model(outcome, trial) if trial.had_none else outcome


async def _replayed(
    agent: Agent, context: AgentContext, trial: TrialCalls, recording: Recording
) -> AgentOutcome:
    """The outcome of an agent whose calls a record answers; it ends with the first that differs."""
    printed: list[Captured] = []

    def cut_off(captured: Captured) -> None:
        printed.append(captured)
        context.cut_off(captured)

    begun = context.clock.monotonic()
    outcome: AgentOutcome | None = None
    with anyio.CancelScope() as scope:
        trial.stop = scope.cancel
        outcome = await agent.run(replace(context, cut_off=cut_off))
    if recording.differs is None:
        assert outcome is not None  # nothing else cancels that scope
        return outcome
    output = await store_output(context.blobs, printed[0]) if printed else None
    duration = round(context.clock.monotonic() - begun, 6)
    return AgentOutcome(
        end=AgentFailed(
            error=str(recording.differs), category="replay_differs", duration=duration,
            output=output if outcome is None else outcome.end.output,
        )
    )  # fmt: skip


def _without_model(outcome: AgentOutcome, trial: TrialCalls) -> AgentOutcome:
    """The outcome of an agent none of whose calls its endpoint answered: as for `chat`, it had no
    model, and what it left says nothing of it."""
    end = outcome.end
    if isinstance(end, AgentFailed):
        return outcome
    calls = "its only call" if trial.asked == 1 else f"all of its {trial.asked} calls"
    failed = AgentFailed(
        error=f"the model's endpoint failed {calls}: {trial.why}", category=trial.category,
        exit_code=end.exit_code, duration=end.duration, output=end.output, version=end.version,
    )  # fmt: skip
    return replace(outcome, end=failed)


def _limited(outcome: AgentOutcome, reached: Reached) -> AgentOutcome:
    """The outcome of an agent that was refused a call; what stopped it from outside stands."""
    end = outcome.end
    if isinstance(end, AgentFailed) or end.ended_by not in ("done", "agent_exit"):
        return outcome
    limited = replace(
        end, ended_by=reached.ended_by, error=reached.why, error_category=reached.category
    )
    return replace(outcome, end=limited)
