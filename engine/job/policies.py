"""Agents for environments, as a job knows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..agents import Agent
from ..agents.chat import CHAT, ChatAgent
from ..authoring.policy import Answer
from ..models.own import OwnModel


class PolicyAgent:
    """A policy under the name that the job calls it: a class (one object a trial) or a function.

    One that is a model has its settings in place of it: its policy is made for each trial.
    """

    def __init__(
        self, name: str, policy: Any, *, version: str | None = None, digest: str | None = None
    ) -> None:
        self.name = name
        self.version = version
        self.digest = digest
        self.own: OwnModel | None = policy if isinstance(policy, OwnModel) else None
        self._policy = policy

    def __call__(self) -> Any:
        """The agent of one trial."""
        return self._policy() if inspect.isclass(self._policy) else self._policy


async def _answer_nothing(observation: Any, actions: Sequence[Any]) -> Answer:
    return Answer(None)


NOP = PolicyAgent("nop", _answer_nothing)
"""Does nothing: what a task gives for no work at all."""

CHAT_AGENT = PolicyAgent(CHAT, OwnModel(), version=ChatAgent.version)
"""The model that a job names."""


def models_of(
    names: Iterable[str], agents: Mapping[str, Agent], policies: Mapping[str, PolicyAgent]
) -> dict[str, str | None]:
    """Those of a job's agents that are models which the engine calls, each with its own model."""
    found: dict[str, str | None] = {}
    for name in names:
        policy, agent = policies.get(name), agents.get(name)
        own = policy.own if policy else agent.own if isinstance(agent, ChatAgent) else None
        if own is None and policy is None and agent is None and name == CHAT:
            own = OwnModel()
        if own is not None:
            found[name] = own.model
    return found
