"""Agents for environments, as a job knows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..agents import Agent
from ..agents.chat import CHAT, ChatAgent
from ..authoring.policy import Answer
from ..models.own import OwnModel

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
        self._settings = _settings_of(policy)

    @property
    def takes_settings(self) -> bool:
        """Whether a model or parameters can make any difference to what it does."""
        return self.own is not None or bool(self._settings)

    def __call__(self, model: str | None = None, parameters: Mapping[str, Any] = {}) -> Any:
        """The agent of one trial; a class is given those of its settings that it names."""
        if not inspect.isclass(self._policy):
            return self._policy
        values = {"model": model, "parameters": dict(parameters)}
        wanted = {
            name: values[name]
            for name, needed in self._settings.items()
            if needed or values[name]  # its own default stands where there is nothing
        }
        return self._policy(**wanted)


def _settings_of(policy: Any) -> dict[str, bool]:
    """Which of a job's settings a class names, and whether it can't be made without."""
    if not inspect.isclass(policy):
        return {}
    try:
        named = inspect.signature(policy).parameters
    except (TypeError, ValueError):  # it has none that can be known
        return {}
    return {
        name: named[name].default is inspect.Parameter.empty
        for name in ("model", "parameters")
        if name in named and named[name].kind in _BY_NAME
    }


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
