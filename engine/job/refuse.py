"""What a job refuses before anything of it is written: settings that it could not honour."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...events.kinds import JobStarted
from ..agents import Agent, InstalledAgent
from ..agents.chat import CHAT
from ..agents.chat.talk import RESERVED
from ..errors import CommandRefused, ConfigError, TaskError
from ..tasks.dataset import TasksError
from ..tasks.model import Task
from .config import JobConfig


def refuse_unsupported(
    config: JobConfig,
    tasks: Sequence[Task],
    *,
    episodes: Sequence[str] = (),
    policies: Collection[str] = (),
    backend: str = "docker",
) -> None:
    """Raise ConfigError for the first setting or task that can't be run as it asks.

    `backend` is the sandbox that the job has; `episodes` are the names of environment tasks, and
    `policies` those of agents that act in them.
    """
    for agent in config.agents:
        if episodes and agent not in policies and agent not in ("nop", CHAT):
            known = ", ".join(["nop", CHAT, *sorted(policies)])
            raise ConfigError(
                f"{agent} can't act in the environment of task {episodes[0]}; agents that can: "
                f"{known}",
                key="--agent",
            )
        if tasks and agent in policies:
            raise ConfigError(
                f"{agent} is a policy for environments and can't work in the sandbox of task "
                f"{tasks[0].name}; run the two kinds of tasks as two jobs",
                key="--agent",
            )
    if not tasks and not episodes:
        raise ConfigError("no task is left to run; see --include, --exclude and --limit")
    for name, value in (
        ("-n", config.concurrency),
        ("-k", config.attempts),
        ("--verifiers", config.verifiers or 1),
        ("--workspace-cap-mb", config.workspace_cap_mb),
    ):
        if value < 1:
            raise ConfigError(f"expected 1 or more, found {value}", key=name)
    if refused := refused_tasks(config, tasks, backend):
        errors = list(refused.values())
        chosen = len(tasks) + len(episodes)
        raise errors[0] if chosen == 1 else TasksError(errors, chosen, names=list(refused))


def refused_tasks(config: JobConfig, tasks: Sequence[Task], backend: str) -> dict[str, TaskError]:
    """Why tasks can't be run as they ask in this kind of sandbox, by their names."""
    refused: dict[str, TaskError] = {}
    for task in tasks:
        try:
            _refuse_task(config, task, backend)
            if backend == "bubblewrap":
                _refuse_without_images(task)
        except TaskError as error:
            refused[task.name] = error
    return refused


def refuse_imported(started: JobStarted, what: str) -> None:
    """Raise CommandRefused for a job that another system ran: nothing of it can run here."""
    if (of := started.imported) is not None:
        raise CommandRefused(
            f"job {started.job} was imported from {of.system}, so it can't be {what}: its tasks, "
            f"agents and sandboxes are {of.system}'s, and the log has none of them"
        )


def refuse_agents(config: JobConfig, agents: Mapping[str, Agent], tasks: Sequence[Task]) -> None:
    """Raise ConfigError for the first agent that can't be had for one of the tasks."""
    for name, agent in agents.items():
        if not isinstance(agent, InstalledAgent) or agent.network == "none":
            continue
        offline = next((task for task in tasks if not task.settings.sandbox.network), None)
        if offline is None or (agent.network == "install" and config.install_network):
            continue
        when, instead = (
            ("to be installed", "--install-network gives it one for that alone; or bring what it")
            if agent.network == "install"
            else ("while it works", "bring what it")
        )
        raise ConfigError(
            f"{name} needs a network {when} (network in its manifest), and task {offline.name} "
            f"allows none; {instead} needs in its folder or the image, or --exclude the task",
            key="--agent",
        )


def refuse_models(
    config: JobConfig, own: Mapping[str, str | None], capped: Sequence[str] = ()
) -> None:
    """Raise ConfigError for what agents that are models can't do without, or can't honour.

    `own` has such agents of the job's, each with the model that it brings; `capped` are tasks whose
    environment has a cost limit.
    """
    if not own:
        return
    for name, model in own.items():
        if not config.models and model is None:
            raise ConfigError(f"{name} needs a model; name it with --model", key=f"--agent {name}")
    taken = sorted({name for row in config.parameters for name in row} & RESERVED)
    if taken:
        raise ConfigError(
            f"{next(iter(own))} sends {taken[0]} itself, so no parameter may have this name",
            key="--param",
        )
    streams = [row["stream"] for row in config.parameters if "stream" in row]
    if wrong := next((value for value in streams if not isinstance(value, bool)), None):
        raise ConfigError(
            f"stream says whether replies are streamed: true or false, found {wrong!r}",
            key="--param",
        )
    called = config.models or [model for model in own.values() if model is not None]
    unpriced = [model for model in called if model not in config.prices]
    if unpriced and (config.max_cost is not None or capped):
        where = "" if config.max_cost is not None else f" of task {capped[0]}'s environment"
        raise ConfigError(
            f"the cost limit{where} needs the model's price, and there is none for "
            f"{unpriced[0]}; give --prices FILE",
            key="--max-cost",
        )


def _refuse_task(config: JobConfig, task: Task, backend: str) -> None:
    file = task.settings_file
    if task.settings.verifier.keep_processes:
        _refuse_to_keep(config, task, backend)
    if task.settings.verifiers:
        raise TaskError(
            f"task {task.name} lists judges or people beside its script "
            f"({', '.join(task.settings.verifiers)}), which this release does not do yet",
            file=file,
            key="verifiers",
        )
    if task.settings.sandbox.workdir == "/":
        raise TaskError(
            f"task {task.name} has the root as its workspace, which can't be saved or mounted; "
            "name a folder",
            file=file,
            key="workdir",
        )
    if "oracle" in config.agents and task.solution is None:
        raise TaskError(
            f"task {task.name} has no reference solution (oracle/solve.sh or solution/solve.sh), "
            "which the oracle agent runs; use another agent, or --exclude the task",
            file=task.path,
        )


def _refuse_to_keep(config: JobConfig, task: Task, backend: str) -> None:
    """What can't be had where processes of the agent's stay while the test runs."""
    settings = task.settings
    begun = f"task {task.name} is graded on a service that the agent leaves running"
    if (config.verifier_sandbox or settings.verifier.sandbox_mode) == "separate":
        moved = config.verifier_sandbox is not None
        raise TaskError(
            f"{begun}, which can't be brought to a sandbox of the test's own"
            + ("; run it without --verifier-sandbox separate" if moved else ""),
            file=task.settings_file,
            key="--verifier-sandbox" if moved else "verifier.sandbox_mode",
        )
    if backend == "bubblewrap":
        return
    if settings.agent.user is None or _is_root(settings.agent.user):
        raise TaskError(
            f"{begun}. What stays must not be root's, or it could write the reward: set "
            "agent.user to a user of the image that is not root",
            file=task.settings_file,
            key="agent.user",
        )
    if settings.verifier.user is not None and not _is_root(settings.verifier.user):
        raise TaskError(
            f"{begun}, so its test has to run as root, whose files what stays can't reach; leave "
            "verifier.user out",
            file=task.settings_file,
            key="verifier.user",
        )


def _is_root(user: str) -> bool:
    return user.partition(":")[0] in ("root", "0")


def _refuse_without_images(task: Task) -> None:
    """What bubblewrap can't give a task: an image of its own, and users of its own."""
    from ..sandbox.bubblewrap.layout import is_system  # of no use to a job on Docker

    settings, instead = task.settings, "; use --sandbox docker"
    workdir = settings.sandbox.workdir
    if workdir is not None and is_system(workdir):
        raise TaskError(
            f"task {task.name} wants to work in {workdir}, and on bubblewrap that is this "
            f"machine's own system{instead}",
            file=task.settings_file,
            key="workdir",
        )
    if settings.sandbox.docker_image is not None or task.dockerfile is not None:
        image = settings.sandbox.docker_image or "its Dockerfile's"
        raise TaskError(
            f"task {task.name} needs an image ({image}), and bubblewrap runs on this machine's "
            f"own system{instead}",
            file=task.path,
        )
    for key, user in (
        ("agent.user", settings.agent.user),
        ("verifier.user", settings.verifier.user),
    ):
        if user is not None:
            raise TaskError(
                f"task {task.name} wants user {user!r}, and bubblewrap has one user inside"
                f"{instead}",
                file=task.settings_file,
                key=key,
            )
