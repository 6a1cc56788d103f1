"""What all trials of a running job share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio

from ...events.clock import Clock, Ids
from ...events.log import EventLog
from ...projections.writer import TrialFiles
from ..agents import Agent
from ..hooks.protocol import Hooks
from ..models.models import Models
from ..reaper import Reaper
from ..redact import Redactor
from ..sandbox.protocol import SandboxBackend
from .config import JobConfig
from .episode_task import EpisodeTask, Worlds
from .interruption import Interruption
from .judges import Judges
from .policies import PolicyAgent
from .replays import ReplayedJob
from .report import Watcher
from .tasks import TaskInJob


class JobContext:
    """One running job, or one review. Made once, passed to every trial.

    A review's trials belong to it and to no job: `job` is then the job that is reviewed.
    """

    def __init__(
        self,
        *,
        job: str,
        folder: Path,
        scratch: Path,
        config: JobConfig,
        log: EventLog,
        log_id: str,
        backend: SandboxBackend,
        clock: Clock,
        ids: Ids,
        files: TrialFiles,
        reaper: Reaper,
        redactor: Redactor,
        tasks: Mapping[str, TaskInJob | EpisodeTask],
        agents: Mapping[str, Agent],
        agent_env: Mapping[str, str],
        verifier_env: Mapping[str, str],
        environ: Mapping[str, str],
        policies: Mapping[str, PolicyAgent],
        hooks: Hooks | None,
        worlds: Worlds,
        judges: Judges,
        models: Models,
        watch: Watcher,
        interruption: Interruption,
        replays: ReplayedJob | None = None,
        review: str | None = None,
    ) -> None:
        self.job = job
        self.folder = folder
        self.scratch = scratch
        self.config = config
        self.log = log
        self.log_id = log_id
        self.backend = backend
        self.clock = clock
        self.ids = ids
        self.files = files
        self.reaper = reaper
        self.redactor = redactor
        self.tasks = tasks
        self.agents = agents
        self.agent_env = agent_env
        self.verifier_env = verifier_env
        self.environ = environ
        self.policies = policies
        self.hooks = hooks
        self.worlds = worlds
        self.judges = judges
        self.models = models
        self.watch = watch
        self.interruption = interruption
        self.replays = replays
        self.review = review
        self.agent_slots = anyio.CapacityLimiter(config.concurrency)
        self.verifier_slots = anyio.CapacityLimiter(config.verifiers or config.concurrency)
