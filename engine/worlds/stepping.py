"""An environment stepped through by hand: a world, and rewards right after each action."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...projections.episode import StepData, TaskData
from ..authoring.environment import Environment
from ..authoring.task import TaskView
from ..authoring.verifiers import DeterministicVerifier, Verifier
from ..authoring.views import Step
from .world import World


class Stepping:
    """One episode at a prompt. Rewards that raise are the caller's to see, so they are raised."""

    def __init__(
        self,
        environment: Environment,
        task: TaskView,
        *,
        seed: int | None,
        verifiers: Sequence[Verifier | Callable[[Step], float | None]],
    ) -> None:
        self._world = World(environment, task, seed=0 if seed is None else seed)
        self._task = TaskData(
            name=task.name, instructions=task.instructions, info=task.info,
            metadata=task.metadata, expected=task.expected, initial_state=task.initial_state,
        )  # fmt: skip
        self._hooks: dict[str, Callable[[Step], float | None]] = {}
        for verifier in verifiers:
            if isinstance(verifier, DeterministicVerifier):
                if verifier.reward is not None:
                    self._hooks[verifier.name] = verifier.reward
            elif callable(verifier):
                self._hooks[getattr(verifier, "__name__", "reward")] = verifier
        reset = self._world.reset()
        self.first_observation: Any = reset.observation
        self._states = {name: app.state for name, app in reset.apps.items()}
        self._max_turns = environment.max_turns
        self._turn = 0

    def step(
        self, action: str, app: str | None, arguments: dict[str, Any]
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; see Environment.step."""
        self._turn += 1
        acted = self._world.act(action, arguments, app)
        before, self._states = self._states, {**self._states, **acted.states}
        data = StepData(
            event_id=f"step-{self._turn}", turn=self._turn, app=acted.app, action=acted.action,
            arguments=acted.arguments, observation=acted.observation, error=acted.error,
            states=acted.states,
        )  # fmt: skip
        step = Step(self._task, data, before, self._states, self._world.query)
        rewards: dict[str, float | None] = {name: hook(step) for name, hook in self._hooks.items()}
        total = math.fsum(value for value in rewards.values() if value is not None)
        truncated = acted.truncated or (
            self._max_turns is not None and self._turn >= self._max_turns and not acted.terminated
        )
        info: dict[str, Any] = {"rewards": rewards, "error": acted.error, "app": acted.app}
        return acted.observation, total, acted.terminated, truncated, info
