"""The manifests of a project, as they were read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from ..authoring.app import Control
from ..authoring.verifiers import RubricCriterion

Network: TypeAlias = Literal["none", "install", "open"]
"""When an agent needs a network: never, while it is installed, or while it works, too."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What all manifests have."""

    name: str
    file: Path
    """Absolute."""
    lines: dict[str, int] = {}
    """The line of each key, such as ``verifiers[0]``."""

    def line(self, key: str) -> int:
        """The line of a key; 1 where it is not written."""
        return self.lines.get(key, 1)

    @property
    def folder(self) -> Path:
        """The resource's folder."""
        return self.file.parent


class ProjectManifest(Manifest, frozen=True, kw_only=True):
    """trialog.yaml."""

    trialog: str | None = None
    """The versions of trialog that it is for, such as ``>=0.1,<0.3``."""
    defaults: dict[str, Any] = {}
    """Settings of jobs that are run in the project, below those of the command line."""
    review: dict[str, str] = {}
    """Who reviews trials, below what the command line says: `agent`, `model`, `image`."""


class AppManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of an environment's `apps`."""

    python: str
    """``env.py:Class``, in the environment's folder."""
    name: str | None = None
    """Null: the class's own."""
    settings: dict[str, Any] = {}
    control: Control | None = None
    """Null: the class's own."""


class EnvironmentManifest(Manifest, frozen=True, kw_only=True):
    """environment.yaml."""

    apps: list[AppManifest] = []
    max_turns: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    """US dollars."""
    image: str | None = None
    """The image of the sandbox that its apps run in."""


class TaskManifest(Manifest, frozen=True, kw_only=True):
    """task.yaml."""

    instructions: str = ""
    environment: str | None = None
    """Null: no apps; the answer is all there is to check."""
    verifiers: list[str] = []
    expected: Any = None
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    initial_state: dict[str, Any] | None = None


class VerifierManifest(Manifest, frozen=True, kw_only=True):
    """verifier.yaml."""

    version: str = "0.1.0"
    kind: Literal["deterministic", "agent", "human"] = "deterministic"
    check: str | list[str] | None = None
    """``verify.py:function``, ``total_reward``, or a command's words."""
    reward: str | None = None
    hindsight: str | None = None
    weight: float = 1.0
    timeout_sec: float = 60.0
    model: str | None = None
    instructions: str = ""
    criteria: list[RubricCriterion] = []
    samples: int = 1
    max_cost: float | None = None
    """US dollars that judging one trial may cost."""

    @property
    def scores(self) -> bool:
        """Whether a task can be scored by it."""
        return self.kind != "deterministic" or self.check is not None


class VersionCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A version that is asked in the sandbox."""

    command: str
    """A line for the sandbox's shell that prints it."""


class AgentManifest(Manifest, frozen=True, kw_only=True):
    """agent.yaml: a policy, a model with tools, or a program that is installed in a sandbox."""

    python: str | None = None
    """``policy.py:Class`` (or a function), in the agent's folder."""
    model: str | None = None
    tools: list[str] = []
    command: str | list[str] | None = None
    """A line for the sandbox's shell, or the words of a program."""
    protocol: Literal["acp"] | None = None
    """What the command speaks on its standard input and output; null: it just works."""
    install: str | None = None
    """Lines for the sandbox's shell, run before the agent works."""
    install_timeout_sec: float = 600.0
    version: str | VersionCommand | None = None
    env: dict[str, str] = {}
    network: Network = "none"
    """When it needs one."""
