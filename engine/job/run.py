"""Starting a job and going on with one."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from ...events.errors import LogError
from ...events.kinds import EngineFault, JobResumed, JobStarted
from ...projections.errors import FilesUnwritable
from ...projections.writer import JobFiles
from ..agents import Agent, agent_by_name
from ..errors import JobStopped, SandboxError
from ..reaper import reaper
from ..redact import Redactor
from ..redacting_log import redacting
from ..scratch import scratch_folder, sweep
from ..tasks.environment import resolve_env
from ..tasks.model import Task
from ..trial.state import Stage
from .config import JobConfig
from .context import JobContext
from .drive import Driver
from .ending import alone
from .environment import seal, unseal
from .finish import finish_job
from .folders import unused_job
from .interruption import Interruption
from .load import JobPlan, load_job, plan
from .lock import own
from .plan import Execution, PlannedSlot
from .record import JobRecord
from .refuse import refuse_unsupported
from .report import JobClosed, JobOpened, Notice, Watcher
from .services import Services
from .state import JobState, slots
from .tasks import TaskInJob, open_tasks, take


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a job."""

    job: str
    folder: Path
    summary: dict[str, Any]
    """The content of summary.json."""
    interrupted: bool


async def run_job(
    services: Services, config: JobConfig, tasks: Sequence[Task], watch: Watcher
) -> JobResult:
    """Run a new job to its end. Raises ConfigError before anything is written."""
    refuse_unsupported(config, tasks)
    config = replace(config, sandbox=services.backend.name)
    agents = {name: await to_thread.run_sync(agent_by_name, name) for name in config.agents}
    recorded = replace(
        config,
        agent_env=seal(config.agent_env, services.secrets),
        verifier_env=seal(config.verifier_env, services.secrets),
    )
    services = replace(services, agent_env=config.agent_env, verifier_env=config.verifier_env)
    log = services.log
    job = await unused_job(log, services.clock, services.jobs_folder)
    async with own(services.jobs_folder, job):
        since = await log.last_position()
        snapshots = await take(list(tasks), log.blobs)
        record = JobRecord(log, job, clock=services.clock, ids=services.ids, version=0)
        started = JobStarted(
            job=job,
            folder=job,
            config=msgspec.to_builtins(recorded),
            versions=await to_thread.run_sync(_versions),
            tasks=snapshots,
            slots=sum(1 for _ in slots(config, [t.task for t in snapshots])),
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        await record.append(0, started)
        for task in tasks:
            for warning in task.warnings:
                _warn(watch, f"task {task.name}: {warning.message}")
        planned = await plan(log, JobState(started=started, version=1), None)
        return await _drive(
            services, recorded, started, record, planned,
            agents=agents, watch=watch, since=since, resumed=False,
        )  # fmt: skip


def _versions() -> dict[str, str]:
    return {
        "trialog": version("trialog"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


async def plan_resume(services: Services, job: str, *, only: str | None) -> list[PlannedSlot]:
    """What `resume_job` would do with each slot; nothing is changed."""
    return (await plan(services.log, await load_job(services.log, job), only)).slots


async def resume_job(
    services: Services, job: str, watch: Watcher, *, only: str | None = None
) -> JobResult:
    """Go on with a job from what the log has of it.

    Raises CommandRefused for a job that is not there, JobLocked for one that runs.
    """
    log = services.log
    state = await load_job(log, job)
    assert state.started is not None
    config = msgspec.convert(state.started.config, JobConfig)
    async with own(services.jobs_folder, job):
        since = await log.last_position()
        state = await load_job(log, job)
        assert state.started is not None
        agents = {name: await to_thread.run_sync(agent_by_name, name) for name in config.agents}
        planned = await plan(log, state, only)
        record = JobRecord(log, job, clock=services.clock, ids=services.ids, version=state.version)
        actions: dict[str, int] = {}
        for slot in planned.slots:
            actions[slot.action] = actions.get(slot.action, 0) + 1
        if state.finished and not {"run", "grade", "finish"} & actions.keys():
            watch(Notice(level="info", message="nothing is left to do"))
            return await _only_files(services, state, planned.executions, watch)
        await record.tell(JobResumed(plan=actions, pid=os.getpid(), host=socket.gethostname()))
        return await _drive(
            services, config, state.started, record, planned,
            agents=agents, watch=watch, since=since, resumed=True,
        )  # fmt: skip


async def _only_files(
    services: Services, state: JobState, executions: dict[str, list[Execution]], watch: Watcher
) -> JobResult:
    """A job that needs nothing but its files, where some are missing."""
    assert state.started is not None
    job, folder = state.started.job, services.jobs_folder / state.started.folder
    files = JobFiles(services.log, job, folder)
    await _write_missing(files, folder, executions)
    summary = await _write_summary(files, folder, watch)
    watch(JobClosed(job=job, folder=str(folder), interrupted=False, seconds=0.0))
    return JobResult(job=job, folder=folder, summary=summary, interrupted=False)


async def _write_missing(
    files: JobFiles, folder: Path, executions: Mapping[str, list[Execution]]
) -> None:
    """Write the files of finished trials that have none: their engine died before it could."""
    finished = [
        e.scheduled.trial
        for tries in executions.values()
        for e in tries
        if e.state.stage is Stage.FINISHED
    ]
    for trial in await to_thread.run_sync(_without_result, folder, finished):
        await files.write_trial(trial)


def _without_result(folder: Path, trials: list[str]) -> list[str]:
    return [trial for trial in trials if not (folder / trial / "result.json").exists()]


async def _drive(
    services: Services, config: JobConfig, started: JobStarted, record: JobRecord, planned: JobPlan,
    *, agents: Mapping[str, Agent], watch: Watcher, since: int, resumed: bool,
) -> JobResult:  # fmt: skip
    """Run what is planned. Raises JobStopped when the log fails under it."""
    try:
        return await _drive_in(
            services, config, started, record, planned,
            agents=agents, watch=watch, since=since, resumed=resumed,
        )  # fmt: skip
    except Exception as error:
        of_the_log = _of_the_log(error)
        if of_the_log is not None:
            raise JobStopped(started.job, str(of_the_log)) from error
        raise


async def _drive_in(
    services: Services,
    config: JobConfig,
    started: JobStarted,
    record: JobRecord,
    planned: JobPlan,
    *,
    agents: Mapping[str, Agent],
    watch: Watcher,
    since: int,
    resumed: bool,
) -> JobResult:
    folder = services.jobs_folder / started.folder
    begun = services.clock.monotonic()
    agent_env = unseal(config.agent_env, services.agent_env, services.environ, "--agent-env")
    verifier_env = unseal(
        config.verifier_env, services.verifier_env, services.environ, "--verifier-env"
    )
    watch(
        JobOpened(
            job=started.job, folder=str(folder), slots=started.slots,
            sandbox=services.backend.name, resumed=resumed,
        )
    )  # fmt: skip
    files = JobFiles(services.log, started.job, folder)
    interruption = Interruption(record, watch)
    async with (
        interruption.listening(services.log, since),
        scratch_folder(services.jobs_folder, started.job) as scratch,
    ):
        tasks = await open_tasks(
            started.tasks, services.log.blobs, scratch / "tasks", backend=services.backend,
            config=config, images=planned.images,
        )  # fmt: skip
        await _clear_up(services, watch)
        redactor = Redactor(_secrets(services, tasks))
        for name in redactor.too_short:
            _warn(watch, f"the value of {name} is under 8 characters and is not redacted")
        async with reaper(deadline=config.stop_timeout_sec) as removal:
            context = JobContext(
                job=started.job, folder=folder, scratch=scratch, config=config,
                log=redacting(services.log, redactor), log_id=services.log_id,
                backend=services.backend, clock=services.clock, ids=services.ids, record=record,
                files=files, reaper=removal, redactor=redactor, tasks=tasks, agents=agents,
                agent_env=agent_env, verifier_env=verifier_env, environ=services.environ,
                watch=watch, interruption=interruption,
            )  # fmt: skip
            await _write_missing(files, folder, planned.executions)
            await _run(Driver(context, planned), record)
        for sandbox in removal.left:
            _warn(watch, f"sandbox {sandbox} is not removed; `trialog clean` tries again")
        if not interruption.interrupted:
            trials = [e.scheduled.trial for tries in planned.executions.values() for e in tries]
            await finish_job(services.log, record, trials, services.clock.monotonic() - begun)
        summary = await _write_summary(files, folder, watch)
    watch(
        JobClosed(
            job=started.job, folder=str(folder), interrupted=interruption.interrupted,
            seconds=services.clock.monotonic() - begun,
        )
    )  # fmt: skip
    return JobResult(
        job=started.job, folder=folder, summary=summary, interrupted=interruption.interrupted
    )


async def _run(driver: Driver, record: JobRecord) -> None:
    """Run the slots; a fault outside of any trial is an event before it ends the job."""
    try:
        await driver.run()
    except Exception as error:
        if _of_the_log(error) is None:
            cause = alone(error)
            what = f"{type(cause).__name__}: {cause}"
            await record.tell(EngineFault(error=what, where="job", category="engine_fault"))
        raise


def _of_the_log(error: Exception) -> LogError | None:
    if isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error).exceptions
        return next((found for one in inner if (found := _of_the_log(one))), None)
    return error if isinstance(error, LogError) else None


async def _clear_up(services: Services, watch: Watcher) -> None:
    """Remove what engines that were killed left behind of this log's jobs."""
    gone = await to_thread.run_sync(sweep, services.jobs_folder)
    try:
        gone += await services.backend.reap(log_id=services.log_id)
    except SandboxError as error:
        _warn(watch, f"what dead engines may have left is not removed: {error}")
    if gone:
        message = f"removed what a killed engine had left: {', '.join(gone)}"
        watch(Notice(level="info", message=message))


def _warn(watch: Watcher, message: str) -> None:
    watch(Notice(level="warning", message=message))


def _secrets(services: Services, tasks: Mapping[str, TaskInJob]) -> dict[str, str]:
    """Every secret value that may turn up: those known already and those of verifiers' env."""
    secrets = dict(services.secrets)
    for task in tasks.values():
        resolved = resolve_env(task.task.settings.verifier.env, services.environ)
        secrets |= resolved.secrets
    return {name: value for name, value in secrets.items() if value}


async def _write_summary(files: JobFiles, folder: Path, watch: Watcher) -> dict[str, Any]:
    try:
        report = await files.write_summary()
    except FilesUnwritable as error:
        watch(Notice(level="error", message=str(error)))
        return {}
    for problem in report.problems:
        watch(Notice(level="error", message=str(problem)))
    return await to_thread.run_sync(_read, folder / "summary.json")


def _read(path: Path) -> dict[str, Any]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
