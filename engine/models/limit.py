"""A limit on what several callers of models may cost together."""

from __future__ import annotations

import math

from ...events.kinds.parts import Usage
from ...projections.usage import dollars
from .client import CallFailed


class CostLimit:
    """What calls may cost together, by the endpoint's own figures, or by a table of prices.

    Calls that are under way when it is reached are let end, so their costs may go past it.
    `spent` is what they have cost before, `whose` says in words whose limit it is.
    """

    def __init__(
        self, dollars: float, *, spent: float = 0.0, whose: str = "the judges' cost limit"
    ) -> None:
        self.dollars = dollars
        self.spent = spent
        self._whose = whose
        self._unknown = False

    def add(self, usage: Usage) -> None:
        """Count a reply."""
        if usage.cost_usd is None:
            self._unknown = True
        else:
            self.spent = math.fsum((self.spent, usage.cost_usd))

    def reached(self) -> str | None:
        """Why no more calls may be made; null while they may."""
        if self._unknown:
            return (
                "the endpoint does not say what a call costs, so the cost limit can't be held; "
                "go without a limit"
            )
        if self.spent >= self.dollars:
            return f"{self._whose} of ${self.dollars:g} is reached ({dollars(self.spent)} spent)"
        return None

    def check(self) -> None:
        """Raise CallFailed where no more calls may be made."""
        if (why := self.reached()) is not None:
            raise CallFailed(why, "cost_limit")
