"""What model calls used, added up. What nobody saw is null, never 0."""

from __future__ import annotations

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


def usage_total(calls: Sequence[Usage | UsageTotal]) -> UsageTotal:
    """The sum of these; a call that does not say so is one call."""
    if not calls:
        return UNSEEN
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    return UsageTotal(
        _sum([1 if call.model_calls is None and isinstance(call, Usage) else call.model_calls
              for call in calls]),
        _sum([call.input_tokens for call in calls]),
        _sum([call.output_tokens for call in calls]),
        _sum([call.cached_tokens for call in calls]),
        total(costs) if costs else None,
    )  # fmt: skip


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
