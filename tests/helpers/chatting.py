"""For tests of the chat agent: a model that works over processes of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.models import FakeModel
from trialog.engine.agents import AgentContext, AgentOutcome, Assignment, agent_by_name
from trialog.engine.models.models import Models
from trialog.events.codec import encode
from trialog.events.kinds import ActionTaken, AgentFinished

if TYPE_CHECKING:
    from conftest import Bench


class Worked:
    """What came of the agent."""

    def __init__(self, outcome: AgentOutcome, events: list[Any], model: FakeModel) -> None:
        self.outcome = outcome
        self.actions = [event for event in events if isinstance(event, ActionTaken)]
        self.model = model

    @property
    def finished(self) -> AgentFinished:
        """The end, which left work to grade."""
        assert isinstance(self.outcome.end, AgentFinished)
        return self.outcome.end

    @property
    def heard(self) -> str:
        """What the model was told of its last call."""
        return self.model.heard("c1")


async def work(bench: Bench, *replies: Any, **fields: Any) -> Worked:
    """Let a model work that gives these replies."""
    model = FakeModel(*replies)
    events: list[Any] = []

    def emit(event: Any) -> str:
        encode(event)
        events.append(event)
        return f"e{len(events)}"

    settings: dict[str, Any] = {
        "sandbox": bench.sandbox,
        "folders": bench.folders,
        "prompt": "Work.",
        "timeout": 30.0,
        "blobs": bench.blobs,
        "clock": bench.clock,
        "assignment": Assignment(task="t", attempt=1, model="m"),
        "models": Models(model, limits=fields.pop("limits", None)),
        "emit": emit,
        "cut_off": [].append,
    }
    if not bench.workspace.exists():
        await bench.prepare()
    outcome = await agent_by_name("chat").run(AgentContext(**settings | fields))
    for event in [*outcome.events, outcome.end]:
        encode(event)
    return Worked(outcome, events, model)
