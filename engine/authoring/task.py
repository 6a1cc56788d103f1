"""Environment tasks, and what apps and verifiers see of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from .environment import Environment
    from .verifiers import Verifier


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task as apps and verifiers see it.

    `expected`, `info` and `metadata` never reach the agent.
    """

    name: str
    instructions: str = ""
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    expected: Any = None
    initial_state: dict[str, Any] | None = None
    """The state that the world starts with: one app's, or by app where there are several."""


class Task:
    """Something to do in an environment, and who judges it.

    Verifiers' names are unique in a task, and at least one of them has a `check`.
    """

    def __init__(
        self,
        name: str,
        instructions: str = "",
        *,
        environment: Environment | None = None,
        verifiers: list[Verifier] | None = None,
        expected: Any = None,
        info: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        initial_state: dict[str, Any] | None = None,
    ) -> None:
        from .environment import Environment as Env
        from .verifiers import check_verifiers

        self.name = name
        self.environment = environment or Env(apps=[])
        self.verifiers = list(verifiers or [])
        self.view = TaskView(
            name=name,
            instructions=instructions,
            info=dict(info or {}),
            metadata=dict(metadata or {}),
            expected=expected,
            initial_state=initial_state,
        )
        check_verifiers(name, self.verifiers)
