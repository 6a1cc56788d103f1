"""What a job is told to do, as resolved: the content of `JobStarted.config`.

Everything that decides how trials run is in here, so that a resume and ``run --from`` need nothing
else. Values of secrets are not: an environment variable whose value is secret is recorded as
``${NAME}`` and read from the environment again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ...events.kinds import JobStarted
from ...events.values import unescape
from ..models.models import ModelLimits
from ..models.prices import Price

MissingReward = Literal["zero", "error"]
SandboxMode = Literal["shared", "separate"]

MOVED = (
    "--verifier-sandbox moved the test to a sandbox of its own, and the task declares no artifacts"
)
"""The warning of a task that never said what its test needs elsewhere."""


class JobConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job's configuration."""

    tasks: list[str]
    """Paths as they were given."""
    include: list[str] = []
    exclude: list[str] = []
    limit: int | None = None
    agents: list[str] = msgspec.field(default_factory=lambda: ["oracle"])
    """`oracle`, `nop`, `chat`, `command:PATH`, `agent:PATH`, or a project's by its name."""
    models: list[str] = []
    """None given: one run without a model."""
    parameters: list[dict[str, Any]] = []
    """Rows of the matrix; none given: one run without parameters."""
    attempts: int = 1
    """`-k`."""
    seed: int | None = None
    sandbox: Literal["auto", "docker", "bubblewrap", "in-process"] = "auto"
    """Resolved to one of the two when the job starts."""
    image: str | None = None
    """For tasks that name none."""
    concurrency: int = 4
    """`-n`: agents at work at once."""
    verifiers: int | None = None
    """Verifiers at work at once; null: as many as agents."""
    retries: int = 2
    """Further executions of a slot within a run."""
    retry_on: list[str] | None = None
    """Categories that are retried; null: faults of the sandbox and of transport."""
    timeout_multiplier: float = 1.0
    """For the agent's and the verifier's deadline."""
    cpus: float | None = None
    memory_mb: int | None = None
    max_turns: int | None = None
    """Calls that an agent's model may get; null: 100. These are for each trial, where the engine
    sees the calls: of `chat`, and through the gateway."""
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    """Dollars."""
    prices: dict[str, Price] = {}
    """What models cost, by their names."""
    model_gateway: Literal["auto", "on", "off"] = "auto"
    """Agents in sandboxes reach their model through the engine; `on` once that is settled."""
    also_models: list[str] = []
    """Models beside its own that an agent in a sandbox may call."""
    model_timeout_sec: float = 600.0
    """For one call to a model, tries and waits included."""
    default_network: bool = False
    """Tasks that don't say whether they have a network have one."""
    install_network: bool = False
    """An agent that needs a network to be installed has one then, where its task has none."""
    agent_env: dict[str, str] = {}
    verifier_env: dict[str, str] = {}
    replay_models: str | None = None
    """The job whose recorded calls answer models and judges; none is called."""
    save_outputs: bool = True
    workspace_cap_mb: int = 512
    missing_reward: MissingReward = "zero"
    verifier_sandbox: SandboxMode | None = None
    """Where test scripts run; null: as each task says."""
    keep_sandbox: bool = False
    strict_limits: bool = False
    judge_max_cost: float | None = None
    """US dollars that all model judges of the job may cost together."""
    in_process: bool = True
    """Apps of environments run in the engine's own process; else in a sandbox of their own."""
    start_timeout_sec: float = 120.0
    save_timeout_sec: float = 300.0
    """For saving the work, for bringing it into another sandbox, and for clearing the verifier's
    way of what the agent left."""
    stop_timeout_sec: float = 30.0
    """For removing one sandbox, and for what runs when a job is interrupted."""

    def model_limits(self) -> ModelLimits:
        """What one trial's agent may use of its model."""
        limits = ModelLimits(seconds=self.max_seconds, tokens=self.max_tokens, cost=self.max_cost)
        if self.max_turns is None:
            return limits
        return msgspec.structs.replace(limits, turns=self.max_turns)


def config_of(started: JobStarted) -> JobConfig:
    """The configuration that a job was started with."""
    return msgspec.convert(unescape(started.config), JobConfig)
