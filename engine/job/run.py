"""Starting a job and going on with one."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from ...events.kinds import JobResumed, JobStarted
from ...events.values import escape
from ...projections.writer import JobFiles
from ..agents import Agent
from ..models.endpoint import read_endpoint
from ..redact import Redactor
from ..tasks.model import Task
from .agents import (
    load_agents,
    open_agents,
    secrets_in_programs,
    spelled_alike,
    take_agents,
    unheld_costs,
    unused_settings,
)
from .config import JobConfig, config_of
from .environment import seal
from .episode_task import EpisodeTask
from .folders import unused_job
from .gateway import settle_gateway
from .load import JobPlan, load_job, plan
from .lock import own
from .plan import PlannedSlot
from .policies import models_of
from .record import JobRecord
from .refuse import refuse_agents, refuse_imported, refuse_models, refuse_unsupported
from .replays import ReplayedJob, find_replayed
from .report import JobClosed, Notice, Watcher
from .results import JobResult, write_missing, write_summary
from .services import Services
from .session import Session
from .state import JobState, slots
from .tasks import configured, take
from .versions import versions


async def run_job(
    services: Services,
    config: JobConfig,
    tasks: Sequence[Task | EpisodeTask],
    watch: Watcher,
    *,
    agents: Mapping[str, Agent] | None = None,
) -> JobResult:
    """Run a new job to its end. Raises ConfigError before anything is written.

    `agents` are the configuration's, where the caller has loaded them already.
    """
    config = spelled_alike(config)
    scripted = [configured(task, config) for task in tasks if not isinstance(task, EpisodeTask)]
    episodes = [task for task in tasks if isinstance(task, EpisodeTask)]
    refuse_unsupported(
        config, scripted,
        episodes=[task.view.name for task in episodes], policies=services.policies.keys(),
        backend=services.backend.name,
    )  # fmt: skip
    live = {task.view.name: task for task in episodes if task.live}
    if agents is None:
        agents = await load_agents(config) if scripted else {}
    called = models_of(config.agents, agents, services.policies)
    capped = [t.view.name for t in episodes if t.environment.max_cost is not None]
    refuse_models(config, called, capped)
    replays = await _replays(services, config, [*scripted, *episodes])
    if called and services.model_client is None and replays is None:
        read_endpoint(services.environ)
    refuse_agents(config, agents, scripted)
    config, told = settle_gateway(config, agents, services)
    services = replace(services, agent_env=config.agent_env, verifier_env=config.verifier_env)
    config = replace(
        config,
        sandbox=services.backend.name,
        agent_env=seal(config.agent_env, services.secrets),
        verifier_env=seal(config.verifier_env, services.secrets),
    )
    log = services.log
    job = await unused_job(log, services.clock, services.jobs_folder)
    async with own(services.jobs_folder, job):
        snapshots = await take(tasks, log.blobs)
        record = JobRecord(log, job, clock=services.clock, ids=services.ids, version=0)
        started = JobStarted(
            job=job,
            folder=job,
            config=escape(msgspec.to_builtins(config)),
            versions=await to_thread.run_sync(versions),
            tasks=snapshots,
            slots=sum(1 for _ in slots(config, [t.task for t in snapshots])),
            pid=os.getpid(),
            host=socket.gethostname(),
            agents=await take_agents(agents, log.blobs),
            replays=config.replay_models,
        )
        await record.append(0, started)
        found = await secrets_in_programs(agents, Redactor(services.secrets))
        unseen = unheld_costs(config, services.policies, episodes)
        policies = {n: p for n, p in services.policies.items() if n in config.agents and episodes}
        unused = unused_settings(config, {**policies, **agents})
        for message in (*told, *found, *unused, *unseen):
            watch(Notice(level="warning", message=message))
        for task in scripted:
            for warning in task.warnings:
                watch(Notice(level="warning", message=f"task {task.name}: {warning.message}"))
        planned = await plan(log, JobState(started=started, version=1), None)
        return await Session(
            services=services, config=config, started=started, record=record, plan=planned,
            agents=agents, watch=watch, since=1, resumed=False, live=live, replays=replays,
        ).run()  # fmt: skip


async def _replays(
    services: Services, config: JobConfig, tasks: Sequence[Task | EpisodeTask]
) -> ReplayedJob | None:
    if config.replay_models is None:
        return None
    names = [t.view.name if isinstance(t, EpisodeTask) else t.name for t in tasks]
    return await find_replayed(services.log, config, names)


async def plan_resume(services: Services, job: str, *, only: str | None) -> list[PlannedSlot]:
    """What `resume_job` would do with each slot; nothing is changed."""
    state = await load_job(services.log, job)
    assert state.started is not None
    refuse_imported(state.started, "resumed")
    return (await plan(services.log, state, only)).slots


async def resume_job(
    services: Services, job: str, watch: Watcher, *, only: str | None = None,
    judge_max_cost: float | None = None,
) -> JobResult:  # fmt: skip
    """Go on with a job from what the log has of it; `judge_max_cost` replaces the job's own.

    Raises CommandRefused for a job that is not there, JobLocked for one that runs.
    """
    log = services.log
    await load_job(log, job)
    async with own(services.jobs_folder, job):
        state = await load_job(log, job)
        assert state.started is not None
        refuse_imported(state.started, "resumed")
        config = config_of(state.started)
        limit = judge_max_cost or state.judge_max_cost or config.judge_max_cost
        config = replace(config, judge_max_cost=limit)
        scripted = any(task.layout != "project" for task in state.started.tasks)
        agents = await open_agents(state.started, config, log.blobs) if scripted else {}
        planned = await plan(log, state, only)
        for slot in planned.slots:
            if slot.unreadable:
                message = f"trial {slot.trial} is left alone: {slot.reason}"
                watch(Notice(level="error", message=message))
        replays = None
        if config.replay_models is not None:
            replays = await find_replayed(log, config, [t.task for t in state.started.tasks])
        record = JobRecord(log, job, clock=services.clock, ids=services.ids, version=state.version)
        actions: dict[str, int] = {}
        for slot in planned.slots:
            actions[slot.action] = actions.get(slot.action, 0) + 1
        if state.finished and not {"run", "grade", "finish"} & actions.keys():
            watch(Notice(level="info", message="nothing is left to do"))
            return await _only_files(services, state.started, planned, watch)
        await record.tell(
            JobResumed(
                plan=actions, pid=os.getpid(), host=socket.gethostname(),
                judge_max_cost=judge_max_cost,
            )
        )  # fmt: skip
        return await Session(
            services=services, config=config, started=state.started, record=record, plan=planned,
            agents=agents, watch=watch, since=state.version, resumed=True, replays=replays,
        ).run()  # fmt: skip


async def _only_files(
    services: Services, started: JobStarted, planned: JobPlan, watch: Watcher
) -> JobResult:
    """A job that needs nothing but its files, where some are missing."""
    job, folder = started.job, services.jobs_folder / started.folder
    files = JobFiles(services.log, job, folder, verify=True)
    await write_missing(files, folder, planned.executions, watch)
    summary = await write_summary(files, folder, watch)
    watch(JobClosed(job=job, folder=str(folder), interrupted=False, seconds=0.0))
    return JobResult(job=job, folder=folder, summary=summary, interrupted=False)
