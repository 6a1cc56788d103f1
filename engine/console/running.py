"""Jobs that run: a new one, one that is resumed, and one that is ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from anyio import to_thread

from ...events.clock import RandomIds, SystemClock
from ...events.values import unescape
from ..agents import Agent, agent_name
from ..environment import assignments, find_secrets, read_env_file
from ..errors import ConfigError, SandboxUnavailable
from ..job.agents import load_agents
from ..job.api import Services, cancel_job, plan_resume, resume_job, run_job
from ..job.config import JobConfig, config_of
from ..job.environment import unseal
from ..job.refuse import refuse_imported
from ..location import job_started
from ..projects.project import project_defaults
from ..sandbox.choose import choose
from ..sandbox.protocol import SandboxBackend
from ..settings import check_dollars, check_only, read_sweep, resolve, split_tasks
from ..tasks.dataset import TasksError
from ..tasks.model import Task
from .chosen import choose_tasks
from .conclusion import conclude
from .images import refuse_without_images, with_refusals
from .lines import plan_line
from .session import Request, Session, opened, place_of
from .text import escaped, plural
from .watch import JobWatch

__all__ = (
    "Variables",
    "cancel_trials",
    "no_backend",
    "read_variables",
    "resume_trials",
    "run_trials",
    "services_of",
)


class Variables(NamedTuple):
    """What the user gave of the environment."""

    environ: Mapping[str, str]
    """The process's own, with the file's variables over it."""
    agent: dict[str, str]
    verifier: dict[str, str]
    secrets: dict[str, str]


def read_variables(
    environ: Mapping[str, str],
    *,
    env_file: Path | None = None,
    agent_env: Sequence[str] = (),
    verifier_env: Sequence[str] = (),
    secret_names: Sequence[str] = (),
) -> Variables:
    """All variables: for agents those of the file, then those of ``--agent-env``."""
    of_file = read_env_file(env_file, environ) if env_file else {}
    around = {**environ, **of_file}
    agent = {**of_file, **assignments(agent_env, "--agent-env", around)}
    verifier = assignments(verifier_env, "--verifier-env", around)
    secrets = find_secrets(secret_names, around, {**agent, **verifier})
    return Variables(around, agent, verifier, secrets)


def services_of(session: Session, backend: SandboxBackend, variables: Variables) -> Services:
    """What a job needs: this is where the real clock and the real ids are picked."""
    return Services(
        log=session.log,
        log_id=session.log.log_id,
        backend=backend,
        clock=SystemClock(),
        ids=RandomIds(),
        jobs_folder=session.place.folder,
        environ=variables.environ,
        secrets=variables.secrets,
        agent_env=variables.agent,
        verifier_env=variables.verifier,
    )


async def run_trials(
    request: Request,
    words: Sequence[str],
    given: Mapping[str, Any],
    *,
    from_job: str | None,
    fail_under: float | None,
    **variables_given: Any,
) -> int:
    """``trialog run``; gives the exit code."""
    await to_thread.run_sync(place_of, request, None)  # a wrong --log is told first
    variables = await to_thread.run_sync(
        partial(read_variables, request.environ, **variables_given)
    )
    request.terminal.hide(variables.secrets)
    if not words:
        from_job = from_job or given.get("replay_models")  # all of the job again
    earlier = await _recorded(request, from_job) if from_job else None
    config = await to_thread.run_sync(
        partial(_configured, words, given, variables, earlier, request.here)
    )
    try:
        chosen = await to_thread.run_sync(partial(choose_tasks, config, request.here))
    except TasksError as error:
        raise await _all_faults(error, config) from None
    tasks = chosen.scripted
    agents = await load_agents(config) if chosen.scripted else {}
    if earlier is None and config.replay_models is not None:
        earlier = await _recorded(request, config.replay_models)
    _tell_changes(request, tasks, agents, earlier)
    backend = await choose(
        config.sandbox if tasks or not config.in_process else "in-process",
        default_image=config.image,
        strict_limits=config.strict_limits,
    )
    try:
        try:
            await refuse_without_images(backend, config.image, tasks)
        except TasksError as error:
            raise await with_refusals(error, config, backend) from None
        create = config.replay_models is None
        async with opened(request, readonly=False, create=create) as session:
            if config.replay_models is not None:
                job = await session.job(config.replay_models)
                config = msgspec.structs.replace(config, replay_models=job)
            services = msgspec.structs.replace(
                services_of(session, backend, variables), policies=chosen.policies
            )
            with JobWatch(request.terminal, msgspec.to_builtins(config)) as watch:
                result = await run_job(services, config, [*tasks, *chosen.episodes], watch)
            return await conclude(session, result, watch, fail_under=fail_under)
    finally:
        await backend.aclose()


async def _all_faults(error: TasksError, config: JobConfig) -> TasksError:
    """With what else will be refused, where a sandbox can be had to tell."""
    if not error.others:
        return error
    try:
        backend = await choose(config.sandbox, default_image=config.image)
    except (SandboxUnavailable, ConfigError):
        return error  # told when the tasks are in order
    try:
        return await with_refusals(error, config, backend)
    finally:
        await backend.aclose()


class _Earlier(NamedTuple):
    job: str
    config: JobConfig
    digests: dict[str, str]
    programs: dict[str, str | None]
    """Digests of the agents' programs, by their names."""


async def _recorded(request: Request, job: str) -> _Earlier:
    """The configuration of an earlier job, its tasks by the folders that they were read from."""
    async with opened(request, job) as session:
        name = await session.job(job)
        started = await job_started(session.log, name)
    refuse_imported(started, "run again")
    config = config_of(started)
    config = msgspec.structs.replace(
        config, tasks=[task.path for task in started.tasks], include=[], exclude=[], limit=None
    )
    return _Earlier(
        name,
        config,
        {task.task: task.digest for task in started.tasks},
        {agent_name(taken.agent): taken.digest for taken in started.agents},
    )


def _configured(
    words: Sequence[str],
    given: Mapping[str, Any],
    variables: Variables,
    earlier: _Earlier | None,
    here: Path,
) -> JobConfig:
    paths, sweep_word = split_tasks(words)
    sweep = (Path(sweep_word), read_sweep(Path(sweep_word))) if sweep_word else None
    agent, verifier = variables.agent, variables.verifier
    if earlier is not None:
        base = earlier.config
        agent = unseal(base.agent_env, agent, variables.environ, "--agent-env") | agent
        verifier = (
            unseal(base.verifier_env, verifier, variables.environ, "--verifier-env") | verifier
        )
    config = resolve(
        {**given, "tasks": paths, "agent_env": agent, "verifier_env": verifier},
        sweep=sweep,
        base=earlier.config if earlier else None,
        defaults=project_defaults(here),
    )
    image = config.image or variables.environ.get("TRIALOG_IMAGE") or None
    return msgspec.structs.replace(config, image=image)


def _tell_changes(
    request: Request,
    tasks: Sequence[Task],
    agents: Mapping[str, Agent],
    earlier: _Earlier | None,
) -> None:
    """Say which tasks and programs are not what they were when the earlier job took them."""
    if earlier is None:
        return
    changed = [
        f"task {task.name} is not as it was in {earlier.job}; its files of today are used"
        for task in tasks
        if earlier.digests.get(task.name, task.digest) != task.digest
    ]
    changed += [
        f"agent {name} is not as it was in {earlier.job}; its program of today is used"
        for name, agent in agents.items()
        if earlier.programs.get(name, agent.digest) != agent.digest
    ]
    for message in changed:
        request.terminal.message(f"warning: {escaped(message)}")


async def resume_trials(
    request: Request,
    job: str,
    *,
    only: str | None,
    dry_run: bool,
    judge_max_cost: float | None = None,
    **variables_given: Any,
) -> int:
    """``trialog resume``; gives the exit code."""
    check_only(only)
    check_dollars(judge_max_cost)
    variables = await to_thread.run_sync(
        partial(read_variables, request.environ, **variables_given)
    )
    request.terminal.hide(variables.secrets)
    async with opened(request, job, readonly=dry_run) as session:
        name = await session.job(job)
        started = await job_started(session.log, name)
        if dry_run:
            services = services_of(session, await no_backend(), variables)
            for slot in await plan_resume(services, name, only=only):
                if request.terminal.json:
                    request.terminal.data(slot)
                else:
                    request.terminal.line(plan_line(slot))
            return 0
        config = config_of(started)
        backend = await choose(
            config.sandbox, default_image=config.image, strict_limits=config.strict_limits
        )
        try:
            services = services_of(session, backend, variables)
            with JobWatch(request.terminal, unescape(started.config)) as watch:
                result = await resume_job(
                    services, name, watch, only=only, judge_max_cost=judge_max_cost
                )
            return await conclude(session, result, watch, resumed=True)
        finally:
            await backend.aclose()


async def cancel_trials(request: Request, job: str, *, reason: str | None) -> int:
    """``trialog cancel``; gives the exit code."""
    async with opened(request, job, readonly=False) as session:
        name = await session.job(job)
        variables = await to_thread.run_sync(read_variables, request.environ)
        services = services_of(session, await no_backend(), variables)
        ended = await cancel_job(services, name, reason)
    if request.terminal.json:
        request.terminal.data({"job": name, "cancelled": ended})
    else:
        request.terminal.line(f"Job {escaped(name)}: {plural(ended, 'trial')} cancelled")
    return 0


async def no_backend() -> SandboxBackend:
    """For commands that make no sandbox, which work where there is none; nothing is started."""

    def make() -> SandboxBackend:
        from ..sandbox.bubblewrap import BubblewrapBackend

        return BubblewrapBackend()

    return await to_thread.run_sync(make)
