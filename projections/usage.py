"""What model calls used, added up. What nobody saw is null, never 0."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import msgspec

from ..events.kinds.parts import Usage
from .document import total


class UsageTotal(msgspec.Struct, frozen=True, gc=False):
    """Sums over the calls that said how much they used."""

    model_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None


UNSEEN = UsageTotal(None, None, None, None, None)


class UsageSum:
    """Adds up what calls used; a call that does not say so is one call."""

    def __init__(self) -> None:
        self._calls: int | None = None
        self._input: int | None = None
        self._output: int | None = None
        self._cached: int | None = None
        self._costs = array("d")

    def add(self, used: Usage | UsageTotal) -> None:
        """One more."""
        calls = 1 if used.model_calls is None and isinstance(used, Usage) else used.model_calls
        self._calls = _plus(self._calls, calls)
        self._input = _plus(self._input, used.input_tokens)
        self._output = _plus(self._output, used.output_tokens)
        self._cached = _plus(self._cached, used.cached_tokens)
        if used.cost_usd is not None:
            self._costs.append(used.cost_usd)

    def total(self) -> UsageTotal:
        """The sum until now."""
        cost = total(self._costs) if self._costs else None
        return UsageTotal(self._calls, self._input, self._output, self._cached, cost)


def usage_total(calls: Sequence[Usage | UsageTotal]) -> UsageTotal:
    """The sum of these."""
    if not calls:
        return UNSEEN
    found = UsageSum()
    for call in calls:
        found.add(call)
    return found.total()


def _plus(known: int | None, more: int | None) -> int | None:
    return more if known is None else known if more is None else known + more


def dollars(value: float) -> str:
    """``$0.0123``: four decimals, and as many more as two figures of a smaller sum need."""
    small = 0 < value < 0.001
    return f"${value:.{1 - math.floor(math.log10(value)) if small else 4}f}"
