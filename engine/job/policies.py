"""Agents for environments, as a job knows them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ..agents.chat import CHAT, ChatAgent
from ..authoring.policy import Answer


class PolicyAgent:
    """A policy under the name that the job calls it: a class (one object a trial) or a function."""

    def __init__(
        self, name: str, policy: Any, *, version: str | None = None, digest: str | None = None
    ) -> None:
        self.name = name
        self.version = version
        self.digest = digest
        self._policy = policy

    def __call__(self) -> Any:
        """The agent of one trial."""
        return self._policy() if inspect.isclass(self._policy) else self._policy


async def _answer_nothing(observation: Any, actions: Sequence[Any]) -> Answer:
    return Answer(None)


NOP = PolicyAgent("nop", _answer_nothing)
"""Does nothing: what a task gives for no work at all."""

CHAT_AGENT = PolicyAgent(CHAT, None, version=ChatAgent.version)
"""A model; its policy is made for each trial (see episode_trial)."""
