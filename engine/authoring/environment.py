"""Environments: apps, limits, and stepping through them by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from .app import App
from .task import Task, TaskView

if TYPE_CHECKING:
    from .verifiers import Verifier
    from .views import Step


class Environment:
    """One or more apps (or none), and the limits of an episode in them.

    `reset` and `step` follow Gymnasium's order, for trying apps and rewards at a prompt; `run`
    runs whole trials.
    """

    def __init__(
        self,
        apps: Sequence[type[App[Any]] | App[Any]] = (),
        *,
        name: str = "environment",
        max_turns: int | None = None,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.name = name
        self.apps: dict[str, type[App[Any]]] = {}
        self.settings = dict(settings or {})
        self.max_turns = max_turns
        self.max_seconds = max_seconds
        self.max_cost = max_cost
        for given in apps:
            kind = given if isinstance(given, type) else type(given)
            called = kind.app_name()
            if called in self.apps:
                raise ConfigError(f"environment {name!r} has two apps of the name {called!r}")
            kind.state_type()
            kind.actions()
            self.apps[called] = kind
        self._stepping: Any = None

    def reset(
        self,
        task: Task | TaskView | None = None,
        *,
        seed: int | None = None,
        verifiers: Sequence[Verifier | Callable[[Step], float | None]] = (),
    ) -> Any:
        """Start an episode; the first observation."""
        from ..worlds.stepping import Stepping

        view = task.view if isinstance(task, Task) else task or TaskView(name="task")
        self._stepping = Stepping(self, view, seed=seed, verifiers=verifiers)
        return self._stepping.first_observation

    def step(
        self, action: str, /, *, app: str | None = None, **arguments: Any
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action: observation, the step's total reward, terminated, truncated, info.

        ``info["rewards"]`` has each verifier's part, ``info["error"]`` why an action was refused.
        """
        if self._stepping is None:
            raise ConfigError("call reset() before step()")
        return self._stepping.step(action, app, arguments)  # type: ignore[no-any-return]
