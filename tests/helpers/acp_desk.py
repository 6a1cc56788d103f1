"""Agents of the Agent Client Protocol that work in the fake sandbox."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread

import helpers.acp_agent
from trialog.engine.agents import AgentContext, AgentOutcome, Assignment
from trialog.engine.agents.acp.agent import run_acp
from trialog.engine.agents.program import program_environment
from trialog.engine.output import Captured
from trialog.events.codec import encode
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    WarningRaised,
)

if TYPE_CHECKING:
    from conftest import Bench


AGENT = helpers.acp_agent.__file__


class Worked:
    """What came of an agent."""

    def __init__(self, outcome: AgentOutcome, events: list[Any], printed: str) -> None:
        self.outcome = outcome
        self.events = events
        self.printed = printed

    @property
    def finished(self) -> AgentFinished:
        """The end, which left work to grade."""
        assert isinstance(self.outcome.end, AgentFinished), self.outcome.end
        return self.outcome.end

    @property
    def failed(self) -> AgentFailed:
        """The end, which left none."""
        assert isinstance(self.outcome.end, AgentFailed), self.outcome.end
        return self.outcome.end

    @property
    def ending(self) -> tuple[str, str | None]:
        """How the phase ended."""
        return self.finished.ended_by, self.finished.error_category

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def said(self) -> list[tuple[str, str | None]]:
        """Messages and thoughts of the agent."""
        return [(m.text, m.reasoning) for m in self.of(AgentMessage) if m.role == "assistant"]

    @property
    def steps(self) -> list[tuple[str, str, Any, Any]]:
        """What was done: where, what, on what, and what came of it."""
        return [
            (s.app, s.action, s.arguments, s.observation if s.error is None else f"! {s.error}")
            for s in self.of(ActionTaken)
        ]

    @property
    def warnings(self) -> list[str]:
        """What is to be known."""
        return [str(w.message) for w in self.of(WarningRaised)]


class Desk:
    """Lets agents work."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.events: list[Any] = []
        self.cut: list[Captured] = []

    def emit(self, event: Any) -> str:
        """What the log would take."""
        encode(event)
        self.events.append(event)
        return f"e{len(self.events)}"

    def context(self, **fields: Any) -> AgentContext:
        """What an agent gets."""
        settings: dict[str, Any] = {
            "sandbox": self.bench.sandbox,
            "folders": self.bench.folders,
            "prompt": "Work.",
            "timeout": 30.0,
            "blobs": self.bench.blobs,
            "clock": self.bench.clock,
            "assignment": Assignment(task="t", attempt=1, model=fields.pop("model", None)),
            "emit": self.emit,
            "cut_off": self.cut.append,
        }
        return AgentContext(**settings | fields)

    async def work(self, scenario: str = "", **fields: Any) -> Worked:
        """Let an agent work that does what a scenario says."""
        bench = self.bench
        place = bench.workspace.parent / "scenario.py"
        await to_thread.run_sync(place.write_text, textwrap.dedent(scenario))
        await bench.prepare()
        context = self.context(**fields)
        words = [sys.executable, "-I", AGENT, str(place)]
        env = program_environment(context) | {"FOLDER": str(bench.workspace)}
        outcome = await run_acp(context, words, env)
        for event in [*outcome.events, outcome.end]:
            encode(event)
        output = outcome.end.output
        printed = b"" if output is None else await bench.blobs.get(output.blob)
        return Worked(outcome, self.events, printed.decode("utf-8", "replace"))


@pytest.fixture
def desk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The fake sandbox's workspace is another path on the host."""
    monkeypatch.setattr(bench.folders, "workspace", str(bench.workspace))
    return Desk(bench)
