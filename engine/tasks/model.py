"""A task as it was read from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`agent.*`."""

    timeout_sec: float = 600.0
    idle_timeout_sec: float | None = None
    user: str | None = None


class VerifierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`verifier.*`."""

    timeout_sec: float = 600.0
    env: dict[str, str] = {}
    """As written: `${VAR}` is filled in when a job resolves it."""
    reward_low: float = 0.0
    reward_high: float = 1.0
    sandbox_mode: Literal["shared", "separate"] = "shared"
    user: str | None = None
    keep_processes: bool = False
    aggregate: str | None = None
    """`mean`, `min`, or a key of reward.json."""


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`sandbox.*` or `environment.*`."""

    docker_image: str | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    build_timeout_sec: float = 600.0
    network: bool = False
    """`allow_internet`, or `network_mode: public`."""
    network_said: bool = False
    """Whether the task says anything of a network."""
    workdir: str | None = None
    env: dict[str, str] = {}


class DeclaredArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `artifacts`."""

    source: str
    """A path in the sandbox; a relative one starts at the workspace."""
    destination: str | None = None
    """Where it goes below the trial's artifacts/; null: by its source."""


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings that are honoured."""

    agent: AgentSettings = AgentSettings()
    verifier: VerifierSettings = VerifierSettings()
    sandbox: SandboxSettings = SandboxSettings()
    artifacts: list[DeclaredArtifact] = []
    verifiers: list[str] = []
    """Names of judges and people beside the script."""
    solution_env: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    """Plain JSON values; dates are text."""


class TaskWarning(msgspec.Struct, frozen=True):
    """Something about a task that its author should know."""

    code: str
    message: str


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task folder that was read and found in order."""

    name: str
    path: Path
    """The folder, absolute."""
    dataset: Path | None = None
    """The dataset's folder, inside which links are followed; null: the task's parent,
    if it holds other tasks."""
    layout: Literal["a", "b"]
    digest: str
    """``sha256:…`` over the folder's files."""
    prompt: str
    settings: TaskSettings
    settings_file: Path
    verifier: Path
    """The folder with test.sh."""
    solution: Path | None
    """The folder with solve.sh."""
    dockerfile: Path | None
    context: Path | None
    """The build context."""
    environment_digest: str | None
    warnings: list[TaskWarning] = []
