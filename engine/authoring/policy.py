"""Policies: agents written in Python, and what they may do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from .app import ActionSpec


class Action(msgspec.Struct, frozen=True):
    """Do this. `app` only where two apps have an action of that name."""

    name: str
    arguments: dict[str, Any] = {}
    app: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """Be done, with this as the answer; `Answer(None)` gives none."""

    value: Any = None


class Policy(Protocol):
    """An agent for environments: one object a trial, or a plain async function."""

    async def act(self, observation: Any, actions: Sequence[ActionSpec]) -> Action | Answer:
        """What to do next. The first observation has the task's instructions."""
        ...
