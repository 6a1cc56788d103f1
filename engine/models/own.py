"""What an agent that is a model brings of its own, as its manifest says."""

from __future__ import annotations

import msgspec


class OwnModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model and its tools; `chat` itself has neither."""

    model: str | None = None
    """Where no other is given; null: one must be."""
    tools: list[str] = []
    """The tools that it gets; empty: all that there are."""
