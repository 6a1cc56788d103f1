"""One run of a job: from its lock to its last file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import msgspec
from anyio import to_thread

from ...events.kinds import EngineFault, JobStarted
from ...projections.writer import JobFiles
from ..agents import Agent, InstalledAgent
from ..environment import is_secret_name
from ..errors import JobStopped, SandboxError, log_error_in
from ..full_disk import stopped_by
from ..hooks.protocol import Hooks
from ..models.limit import CostLimit
from ..models.models import Models, open_models
from ..reaper import Reaper, reaper
from ..redact import Redactor
from ..redacting_log import redacted, redacting
from ..scratch import scratch_folder, sweep
from ..tasks.environment import resolve_env
from .config import JobConfig
from .context import JobContext
from .drive import Driver
from .ending import alone
from .environment import unseal
from .episode_task import EpisodeTask, Worlds
from .finish import finish_job
from .hooks import open_hooks
from .interruption import Interruption
from .judges import Judges, open_judges
from .load import JobPlan
from .policies import models_of
from .record import JobRecord
from .replays import ReplayedJob
from .report import JobClosed, JobOpened, Notice, Report, Watcher
from .results import JobResult, write_missing, write_summary
from .services import Services
from .tasks import TaskInJob, open_tasks
from .worlds import open_worlds


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is about to run, or to go on; its lock is held."""

    services: Services
    config: JobConfig
    """As recorded."""
    started: JobStarted
    record: JobRecord
    plan: JobPlan
    agents: Mapping[str, Agent]
    watch: Watcher
    since: int
    """The job's version as this run of it began."""
    resumed: bool
    replays: ReplayedJob | None = None
    """What answers its models."""
    live: Mapping[str, EpisodeTask] = {}
    """Environment tasks as the caller has them, by name; others come from their snapshots."""

    @property
    def folder(self) -> Path:
        """The job's folder."""
        return self.services.jobs_folder / self.started.folder

    def warn(self, message: str) -> None:
        """Tell those who watch."""
        self.watch(Notice(level="warning", message=message))

    async def run(self) -> JobResult:
        """Run what is planned, to the end of the job or until it is told to stop.

        Raises JobStopped when the log fails under it, or the disk is full.
        """
        try:
            return await self._run()
        except Exception as error:
            if (reason := stopped_by(error)) is not None:
                raise JobStopped(self.started.job, self.folder, reason) from error
            raise

    async def _run(self) -> JobResult:
        services, job = self.services, self.started.job
        begun = services.clock.monotonic()
        self.watch(
            JobOpened(
                job=job, folder=str(self.folder), slots=self.started.slots,
                sandbox=services.backend.name, resumed=self.resumed,
                replays=self.started.replays,
            )
        )  # fmt: skip
        files = JobFiles(services.log, job, self.folder, verify=self.resumed)
        interruption = Interruption(self.record, self.watch)
        async with (
            interruption.listening(services.log, self.since),
            scratch_folder(services.jobs_folder, job) as scratch,
        ):
            await self._clear_up()
            await write_missing(files, self.folder, self.plan.executions, self.watch)
            tasks = await self._tasks(scratch)
            async with (
                open_worlds(tasks.values(), self.config, services.worlds, scratch) as worlds,
                open_hooks(tasks.values(), services.hooks) as hooks,
                reaper(deadline=self.config.stop_timeout_sec) as removal,
                open_judges(
                    tasks.values() if self.replays is None else (),
                    services.environ,
                    services.judge_client,
                    cost_limit=self._judge_limit(),
                    models=self.plan.judge_models,
                ) as judges,
                self._models(tasks.values()) as models,
            ):
                context = self._context(
                    files, interruption, removal, scratch, tasks, judges, models, hooks, worlds
                )
                await self._drive(Driver(context, self.plan, self.record, files))
            for sandbox in removal.left:
                self.warn(f"sandbox {sandbox} is not removed; `trialog clean` tries again")
            if not interruption.interrupted:
                tries = [e for slot in self.plan.executions.values() for e in slot]
                seconds = services.clock.monotonic() - begun
                names = [e.scheduled.trial for e in tries]
                await finish_job(services.log, self.record, names, seconds)
            summary = await write_summary(files, self.folder, self.watch)
        self.watch(
            JobClosed(
                job=job, folder=str(self.folder), interrupted=interruption.interrupted,
                seconds=services.clock.monotonic() - begun,
            )
        )  # fmt: skip
        return JobResult(
            job=job, folder=self.folder, summary=summary, interrupted=interruption.interrupted
        )

    def _judge_limit(self) -> CostLimit | None:
        """What the job's judges may still cost; what they have cost so far counts."""
        dollars = self.config.judge_max_cost
        return None if dollars is None else CostLimit(dollars, spent=self.plan.judge_cost)

    async def _tasks(self, scratch: Path) -> dict[str, TaskInJob | EpisodeTask]:
        services = self.services
        return await open_tasks(
            self.started.tasks, services.log.blobs, scratch / "tasks", backend=services.backend,
            config=self.config, images=self.plan.images, live=self.live,
        )  # fmt: skip

    def _models(
        self, tasks: Iterable[TaskInJob | EpisodeTask]
    ) -> AbstractAsyncContextManager[Models]:
        services, config = self.services, self.config
        policies = dict(services.policies)
        for task in tasks:
            policies |= task.policies if isinstance(task, EpisodeTask) else {}
        called = models_of(config.agents, self.agents, policies)
        return open_models(
            services.environ, services.model_client,
            needed=bool(called) and self.replays is None,
            limits=config.model_limits(), prices=config.prices,
            call_timeout=config.model_timeout_sec,
            gateway=config.model_gateway == "on" and self.replays is None, also=config.also_models,
        )  # fmt: skip

    def _context(
        self,
        files: JobFiles,
        interruption: Interruption,
        removal: Reaper,
        scratch: Path,
        tasks: Mapping[str, TaskInJob | EpisodeTask],
        judges: Judges,
        models: Models,
        hooks: Hooks | None,
        worlds: Worlds,
    ) -> JobContext:
        services, config = self.services, self.config
        environ = services.environ
        redactor = Redactor(
            secrets_of(services, tasks) | secrets_of_agents(self.agents, services.environ)
        )
        for name in redactor.too_short:
            self.warn(f"the value of {name} is under 8 characters and is not redacted")
        log = redacting(services.log, redactor)
        self.record.log = log
        return JobContext(
            job=self.started.job, folder=self.folder, scratch=scratch, config=config, log=log,
            log_id=services.log_id, backend=services.backend, clock=services.clock,
            ids=services.ids, files=files, reaper=removal, redactor=redactor,
            tasks=tasks, agents=self.agents,
            agent_env=unseal(config.agent_env, services.agent_env, environ, "--agent-env"),
            verifier_env=unseal(
                config.verifier_env, services.verifier_env, environ, "--verifier-env"
            ),
            environ=environ, policies=services.policies, hooks=hooks,
            worlds=worlds, judges=judges, models=models, watch=partial(_tell, self.watch, redactor),
            interruption=interruption, replays=self.replays,
        )  # fmt: skip

    async def _drive(self, driver: Driver) -> None:
        """Run the slots; a fault outside of any trial is an event before it ends the job."""
        try:
            await driver.run()
        except Exception as error:
            if log_error_in(error) is None:
                cause = alone(error)
                what = f"{type(cause).__name__}: {cause}"
                fault = EngineFault(error=what, where="job", category="engine_fault")
                await self.record.tell(fault)
            raise

    async def _clear_up(self) -> None:
        """Remove what engines that were killed left behind of this log's jobs."""
        services = self.services
        folders = await to_thread.run_sync(sweep, services.jobs_folder)
        sandboxes: list[str] = []
        try:
            sandboxes = await services.backend.reap(log_id=services.log_id)
        except SandboxError as error:
            self.warn(f"what dead engines may have left is not removed: {error}")
        if gone := left_behind(len(folders), len(sandboxes), services.backend.name):
            message = f"removed what killed engines had left: {gone}"
            self.watch(Notice(level="info", message=message))


def left_behind(folders: int, sandboxes: int, backend: str) -> str:
    """In words what was removed of engines that are dead; empty for nothing."""
    told: list[str] = []
    if folders:
        told.append(f"scratch folders of {folders} dead engine{'s' * (folders > 1)}")
    if sandboxes:
        one, several = (
            ("container, network or volume", "containers, networks and volumes")
            if backend == "docker"
            else ("sandbox", "sandboxes")
        )
        told.append(f"{sandboxes} {one if sandboxes == 1 else several}")
    return ", ".join(told)


def _tell(watch: Watcher, redactor: Redactor, report: Report) -> None:
    watch(redacted(report, redactor))


def secrets_of_agents(agents: Mapping[str, Agent], environ: Mapping[str, str]) -> dict[str, str]:
    """The values that manifests of agents take from the environment."""
    return {
        name: value
        for agent in agents.values()
        if isinstance(agent, InstalledAgent)
        for name, value in resolve_env(agent.env, environ).secrets.items()
    }


def secrets_of(services: Services, tasks: Mapping[str, TaskInJob | EpisodeTask]) -> dict[str, str]:
    """Every secret value that may turn up: those known already and those of verifiers' env."""
    given = {**services.agent_env, **services.verifier_env}
    secrets = {name: value for name, value in given.items() if is_secret_name(name)}
    secrets |= services.secrets
    for task in tasks.values():
        if isinstance(task, EpisodeTask):
            continue
        secrets |= resolve_env(task.task.settings.verifier.env, services.environ).secrets
    return {name: value for name, value in secrets.items() if value}
