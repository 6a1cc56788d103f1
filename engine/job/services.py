"""What a job needs of the world, picked by whoever starts it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...events.clock import Clock, Ids
from ...events.log import EventLog
from ..hooks.protocol import Hooks
from ..judges.client import JudgeClient
from ..models.client import ModelClient
from ..sandbox.protocol import SandboxBackend
from .episode_task import InProcessWorlds, Worlds
from .policies import PolicyAgent


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Log, sandboxes, clock and ids; and what is known of the environment."""

    log: EventLog
    log_id: str
    """The log's own random name; a label of everything that is made for its jobs."""
    backend: SandboxBackend
    clock: Clock
    ids: Ids
    jobs_folder: Path
    """The log's folder; jobs' folders lie in it."""
    environ: Mapping[str, str]
    secrets: Mapping[str, str] = {}
    """Values that are replaced before anything is written, by the names that replace them."""
    hooks: Hooks | None = None
    """Runs verifiers' own code; for jobs with environment tasks."""
    worlds: Worlds = msgspec.field(default_factory=InProcessWorlds)
    policies: Mapping[str, PolicyAgent] = {}
    """Agents for environments, by the name that the job calls them."""
    judge_client: JudgeClient | None = None
    """For model judges; null: the endpoint that the environment names, once one is needed."""
    model_client: ModelClient | None = None
    """For agents that use models; null: the endpoint that the environment names."""
    agent_env: Mapping[str, str] = {}
    """Secret values of ``--agent-env`` and ``--verifier-env`` as they were given now; they are
    not recorded, so a resume takes them from here or from the environment."""
    verifier_env: Mapping[str, str] = {}
