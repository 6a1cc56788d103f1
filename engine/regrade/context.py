"""What all trials of a running regrade share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...events.clock import Clock, Ids
from ...events.kinds import RegradePlanned
from ...events.log import EventLog
from ...projections.episode import TaskData
from ..hooks.protocol import Hooks
from ..job.config import JobConfig
from ..job.episode_task import EpisodeTask
from ..job.judges import Judges
from ..job.tasks import TaskInJob
from ..reaper import Reaper
from ..redact import Redactor
from ..sandbox.protocol import SandboxBackend


class Context(msgspec.Struct, kw_only=True):
    """One running regrade. Made once, passed to every trial; see also `Surroundings`."""

    job: str
    folder: Path
    scratch: Path
    config: JobConfig
    log: EventLog
    log_id: str
    backend: SandboxBackend
    clock: Clock
    ids: Ids
    environ: Mapping[str, str]
    verifier_env: Mapping[str, str]
    reaper: Reaper
    redactor: Redactor
    planned: RegradePlanned
    finished: frozenset[str]
    """The regrades before it whose verdicts stand."""
    pruned: frozenset[str]
    """Blobs that were given up."""
    gone: Mapping[str, str]
    """Why a task can't be had any more, by its name."""
    scripts: Mapping[str, TaskInJob]
    episodes: Mapping[str, EpisodeTask]
    hooks: Hooks | None
    judges: Judges
    opened: dict[tuple[str, str | None, str | None], TaskInJob] = {}

    def script(self, task: str, image_digest: str | None, workspace: str | None) -> TaskInJob:
        """The task with the image and the workspace's path that a trial of it had."""
        key = (task, image_digest, workspace)
        if key not in self.opened:
            self.opened[key] = self.scripts[task].as_run(image_digest, workspace)
        return self.opened[key]

    def data(self, task: str) -> TaskData | None:
        """An environment task as its verifiers see it."""
        found = self.episodes.get(task)
        return None if found is None else found.data()
