"""What one trial's model calls have used, held against its limits."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from ...events.kinds.parts import Usage
from ...projections.usage import dollars
from .limit import CostLimit
from .models import ModelLimits


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that allows no further call."""

    why: str
    ended_by: Literal["max_turns", "max_seconds", "max_cost", "truncated"]
    """As AgentFinished has it."""
    category: Literal["max_turns", "max_seconds", "max_cost", "max_tokens"]


class Meter:
    """Counts calls, tokens and dollars of one trial. A call under way may go past a limit."""

    def __init__(self, limits: ModelLimits, together: CostLimit | None = None) -> None:
        """`together` is what several trials may cost in all."""
        self._limits = limits
        self._together = together
        self.calls = 0
        """Calls that were begun."""
        self._tokens = 0
        self._dollars = 0.0
        self._no_tokens = False
        """The endpoint did not say how many a call took."""
        self._no_cost = False

    def begin(self) -> int:
        """A call is made; its number, from 1."""
        self.calls += 1
        return self.calls

    def count(self, usage: Usage) -> None:
        """What a call used, its cost included."""
        if self._together is not None:
            self._together.add(usage)
        if usage.input_tokens is None or usage.output_tokens is None:
            self._no_tokens = True
        else:
            self._tokens += usage.input_tokens + usage.output_tokens
        if usage.cost_usd is None:
            self._no_cost = True
        else:
            self._dollars = math.fsum((self._dollars, usage.cost_usd))

    def reached(self, *, turn: bool = True) -> Reached | None:
        """The limit that forbids another call, or one that is no `turn`; null where none does."""
        limits = self._limits
        if turn and limits.turns is not None and self.calls >= limits.turns:
            why = f"the agent was stopped after {self.calls} turns"
            return Reached(why=why, ended_by="max_turns", category="max_turns")
        if limits.cost is not None and (self._no_cost or self._dollars >= limits.cost):
            why = (
                "the endpoint does not say what a call used, so the cost limit can't be held"
                if self._no_cost
                else f"the agent was stopped at a cost of {dollars(self._dollars)} (the limit is "
                f"${limits.cost:g})"
            )
            return Reached(why=why, ended_by="max_cost", category="max_cost")
        if self._together is not None and (spent := self._together.reached()) is not None:
            return Reached(why=spent, ended_by="max_cost", category="max_cost")
        if limits.tokens is not None and (self._no_tokens or self._tokens >= limits.tokens):
            why = (
                "the endpoint does not say what a call used, so the token limit can't be held"
                if self._no_tokens
                else f"the agent was stopped after {self._tokens} tokens (the limit is "
                f"{limits.tokens})"
            )
            return Reached(why=why, ended_by="truncated", category="max_tokens")
        return None
