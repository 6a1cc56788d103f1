"""The `trialog` command: words in, words out.

Each command parses its words and calls one function; what is slow to import is imported there, so
that ``--help`` stays quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .engine.console.parsing import command_for
from .engine.console.words import (
    AgentEnv,
    AsOf,
    CallModels,
    DefaultNetwork,
    EnvFile,
    ExportFormat,
    Follow,
    Image,
    Job,
    JobsDir,
    Json,
    JudgeMaxCost,
    LayoutName,
    Log,
    MissingReward,
    ModelGateway,
    OfJob,
    Prices,
    ResourceName,
    Sandbox,
    SandboxName,
    Secret,
    TasksRoot,
    Texts,
    Trial,
    Verbose,
    VerifierEnv,
    VerifierKind,
    VerifierName,
    VerifierSandbox,
)

if TYPE_CHECKING:
    from .engine.console.session import Request

__all__ = ("main",)

app = typer.Typer(
    name="trialog",
    help="Run and grade agent trials; every step goes into a log that all files are made from.",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 every trial scored; 1 some errored or have no score, or a check found "
    "something; 2 wrong usage or configuration; 130 interrupted.",
)


def _group(name: str, what: str) -> typer.Typer:
    """A command of commands."""
    group = typer.Typer(rich_markup_mode=None)

    @group.callback(invoke_without_command=True, help=what)
    def alone(context: typer.Context) -> int:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
        return 0

    app.add_typer(group, name=name)
    return group


environment_commands = _group("environment", "Environments of a project.")
task_commands = _group("task", "Tasks of a project.")
verifier_commands = _group("verifier", "Verifiers: of a project, and on stored trials.")
agent_commands = _group("agent", "Agents of a project.")
human_commands = _group("human", "Trials that wait for people.")
review_commands = _group("review", "Rubric reviews of finished trials; they change no reward.")


def _request(
    json: bool = False, verbose: int = 0, log: str | None = None, jobs_dir: str | None = None
) -> Request:
    from .engine.console.logs import configure
    from .engine.console.session import Request
    from .engine.console.terminal import Terminal

    terminal = Terminal(json=json, environ=os.environ)
    configure(terminal, verbose, os.environ)
    return Request(terminal, _here(), os.environ, log, jobs_dir)


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        from .engine.errors import ConfigError

        raise ConfigError(
            f"the current folder is gone or can't be reached: {error.strerror}; "
            "change to one that is there, and try again"
        ) from error


def _await(function: Callable[..., Awaitable[int]], *arguments: object, **named: object) -> int:
    from functools import partial

    import anyio

    return anyio.run(partial(function, *arguments, **named))


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    if version:
        from .events.version import __version__

        typer.echo(f"trialog {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


@app.command()
def run(
    tasks: Annotated[
        Texts,
        typer.Argument(
            metavar="TASK",
            help="Task folders, folders of task folders, or one sweep file (.yaml).",
        ),
    ] = None,
    agent: Annotated[
        Texts,
        typer.Option(
            "-a",
            "--agent",
            metavar="AGENT",
            help="oracle, nop, chat, command:PATH, agent:PATH or acp:COMMAND. Repeatable. [oracle]",
        ),
    ] = None,
    model: Annotated[
        Texts, typer.Option("-m", "--model", metavar="MODEL", help="A model. Repeatable.")
    ] = None,
    attempts: Annotated[
        int | None, typer.Option("-k", "--attempts", help="Attempts at each. [1]")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("-n", "--concurrency", help="Trials at once. [4]")
    ] = None,
    verifiers: Annotated[
        int | None, typer.Option(help="Verifiers at once. [as many as trials]")
    ] = None,
    param: Annotated[
        Texts,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter; JSON or text. Again with the same name: one more value to try.",
        ),
    ] = None,
    include: Annotated[
        Texts, typer.Option(metavar="GLOB", help="Only tasks with such names. Repeatable.")
    ] = None,
    exclude: Annotated[
        Texts, typer.Option(metavar="GLOB", help="No tasks with such names. Repeatable.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="No more than so many tasks.")] = None,
    sandbox: Annotated[SandboxName | None, typer.Option(help="Where trials run. [auto]")] = None,
    image: Image = None,
    retries: Annotated[
        int | None, typer.Option(help="Tries after the first, when it could not be run. [2]")
    ] = None,
    retry_on: Annotated[
        Texts,
        typer.Option(
            metavar="CATEGORY",
            help="What is tried again. Repeatable. [faults of sandbox and transport]",
        ),
    ] = None,
    timeout_multiplier: Annotated[
        float | None,
        typer.Option(metavar="X", help="For the agents' and verifiers' time limits. [1.0]"),
    ] = None,
    cpus: Annotated[float | None, typer.Option(help="In place of the tasks' own.")] = None,
    memory_mb: Annotated[int | None, typer.Option(help="In place of the tasks' own.")] = None,
    max_turns: Annotated[
        int | None, typer.Option(help="Calls that a trial may make of its model. [100]")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="For a trial's model, beside the task's own limit.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Tokens in and out that a trial may use.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="What a trial's model may cost.")
    ] = None,
    prices: Prices = None,
    model_gateway: Annotated[
        ModelGateway | None,
        typer.Option(help="Let agents in sandboxes call their model through trialog. [auto]"),
    ] = None,
    also_model: Annotated[
        Texts,
        typer.Option(
            metavar="MODEL", help="A further model that agents in sandboxes may call. Repeatable."
        ),
    ] = None,
    default_network: DefaultNetwork = None,
    install_network: Annotated[
        bool | None,
        typer.Option(
            "--install-network",
            help="Give agents a network to be installed, where the task has none.",
        ),
    ] = None,
    agent_env: AgentEnv = None,
    verifier_env: VerifierEnv = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    save_outputs: Annotated[
        bool | None, typer.Option(help="Save each trial's final workspace. [save]")
    ] = None,
    workspace_cap_mb: Annotated[
        int | None, typer.Option(help="Save no larger workspace than this. [512]")
    ] = None,
    missing_reward: Annotated[
        MissingReward | None,
        typer.Option(help="What no usable reward is: a 0, or a verifier's error. [zero]"),
    ] = None,
    verifier_sandbox: VerifierSandbox = None,
    keep_sandbox: Annotated[
        bool | None,
        typer.Option("--keep-sandbox", help="Leave the sandboxes for `trialog exec`."),
    ] = None,
    strict_limits: Annotated[
        bool | None,
        typer.Option("--strict-limits", help="Refuse limits that can't be set here."),
    ] = None,
    judge_max_cost: JudgeMaxCost = None,
    in_process: Annotated[
        bool | None,
        typer.Option(
            "--in-process/--no-in-process",
            help="Run environments' apps in this process, or in a sandbox of their own.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="A seed for the trials' own seeds.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", min=0, max=1, help="Exit with 1 below this pass rate (0 to 1)."
        ),
    ] = None,
    from_job: Annotated[
        str | None,
        typer.Option("--from", metavar="JOB", help="Take an earlier job's configuration."),
    ] = None,
    replay_models: Annotated[
        str | None,
        typer.Option(
            metavar="JOB", help="Answer models from the recorded calls of a job; none is called."
        ),
    ] = None,
    jobs_dir: JobsDir = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Run trials: every task with every agent, model and parameter."""
    from .engine.console.running import run_trials
    from .engine.models.prices import read_prices
    from .engine.settings import parameter_rows

    given = {
        "agents": agent, "models": model, "attempts": attempts, "concurrency": concurrency,
        "verifiers": verifiers, "parameters": parameter_rows(param or ()), "include": include,
        "exclude": exclude, "limit": limit, "sandbox": sandbox and sandbox.value, "image": image,
        "retries": retries, "retry_on": retry_on, "timeout_multiplier": timeout_multiplier,
        "cpus": cpus, "memory_mb": memory_mb, "save_outputs": save_outputs,
        "workspace_cap_mb": workspace_cap_mb,
        "missing_reward": missing_reward and missing_reward.value, "keep_sandbox": keep_sandbox,
        "verifier_sandbox": verifier_sandbox and verifier_sandbox.value,
        "strict_limits": strict_limits, "judge_max_cost": judge_max_cost,
        "in_process": in_process, "seed": seed,
        "max_turns": max_turns, "max_seconds": max_seconds, "max_tokens": max_tokens,
        "max_cost": max_cost, "prices": read_prices(prices) if prices else None,
        "model_gateway": model_gateway and model_gateway.value, "also_models": also_model,
        "replay_models": replay_models, "install_network": install_network,
        "default_network": default_network,
    }  # fmt: skip
    return _await(
        run_trials, _request(json, verbose, log, jobs_dir), tasks or [], given,
        from_job=from_job, fail_under=fail_under, env_file=env_file, agent_env=agent_env or [],
        verifier_env=verifier_env or [], secret_names=secret or [],
    )  # fmt: skip


@app.command()
def resume(
    job: Job,
    only: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="unscored, errored, or a category of errors."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and why.")
    ] = False,
    judge_max_cost: JudgeMaxCost = None,
    reverify: Annotated[
        bool,
        typer.Option(
            "--reverify", help="Only grade again, as a regrade, what the engine gave a 0."
        ),
    ] = False,
    env_file: EnvFile = None,
    agent_env: AgentEnv = None,
    verifier_env: VerifierEnv = None,
    secret: Secret = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Go on with a job: finish what was cut off, run again what the machine spoiled."""
    if reverify:
        from .engine.console.regrading import reverify_job

        return _await(
            reverify_job, _request(json, verbose, log), job, dry_run=dry_run, env_file=env_file,
            verifier_env=verifier_env or [], secret_names=secret or [],
        )  # fmt: skip
    from .engine.console.running import resume_trials

    return _await(
        resume_trials, _request(json, verbose, log), job, only=only, dry_run=dry_run,
        judge_max_cost=judge_max_cost, env_file=env_file, agent_env=agent_env or [],
        verifier_env=verifier_env or [], secret_names=secret or [],
    )  # fmt: skip


@app.command()
def regrade(
    thing: Annotated[str, typer.Argument(metavar="JOB|TRIAL", help="A job or a trial.")],
    include: Annotated[
        Texts,
        typer.Option(metavar="GLOB", help="Only such names of tasks or trials. Repeatable."),
    ] = None,
    tasks_root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the tasks are now. [where they were]"),
    ] = None,
    verifier_only: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run this verifier alone; the others' scores stay."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("-n", "--concurrency", help="Sandboxes at once. [4]")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last regrade, which was cut off.")
    ] = False,
    as_of_run: Annotated[
        bool,
        typer.Option("--as-of-run", help="By the verifiers exactly as they were in the run."),
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Why; it goes into the log.")] = None,
    call_models: CallModels = False,
    judge_max_cost: JudgeMaxCost = None,
    sandbox: Annotated[
        SandboxName | None, typer.Option(help="Where test scripts run. [the run's]")
    ] = None,
    image: Image = None,
    env_file: EnvFile = None,
    verifier_env: VerifierEnv = None,
    secret: Secret = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Grade saved work again, by the tasks' verifiers of today; the original stays as it is."""
    from .engine.console.regrading import regrade_thing, wish_of

    request = _request(json, verbose, log)
    wish = wish_of(
        include=include or [], tasks_root=tasks_root, here=request.here,
        verifier_only=verifier_only, as_of_run=as_of_run, call_models=call_models,
        judge_max_cost=judge_max_cost, reason=reason, image=image,
    )  # fmt: skip
    return _await(
        regrade_thing, request, thing, wish=wish, dry_run=dry_run, resume=resume,
        sandbox=sandbox and sandbox.value, concurrency=concurrency, env_file=env_file,
        verifier_env=verifier_env or [], secret_names=secret or [],
    )  # fmt: skip


@app.command()
def rebuild(
    job: Job,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list what is missing or differs.")
    ] = False,
    at: Annotated[
        int | None,
        typer.Option(metavar="POSITION", min=0, help="As of this position of the log."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the files go; with --at.")
    ] = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Write a job's files again from the log, or check that they are what it says."""
    from .engine.console.files import rebuild_job

    return _await(rebuild_job, _request(json, verbose, log), job, check=check, at=at, out=out)


@app.command()
def cancel(
    job: Job,
    reason: Annotated[str | None, typer.Option(help="Why; it goes into the log.")] = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """End what a job has not finished as cancelled."""
    from .engine.console.running import cancel_trials

    return _await(cancel_trials, _request(json, verbose, log), job, reason=reason)


@app.command()
def show(
    thing: Annotated[str, typer.Argument(metavar="JOB|TRIAL", help="A job or a trial.")],
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Show what came of a job or a trial."""
    from .engine.console.showing import show_thing

    return _await(show_thing, _request(json, verbose, log), thing)


@app.command()
def jobs(
    jobs_dir: JobsDir = None, log: Log = None, json: Json = False, verbose: Verbose = 0
) -> int:
    """List the jobs of a log: size, date, pass rate."""
    from .engine.console.showing import list_jobs

    return _await(list_jobs, _request(json, verbose, log, jobs_dir))


@app.command()
def replay(
    trial: Trial,
    at: Annotated[
        int | None, typer.Option(metavar="VERSION", min=1, help="Up to this version only.")
    ] = None,
    follow: Follow = False,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Show every event of a trial, in order."""
    from .engine.console.replaying import replay_trial

    return _await(replay_trial, _request(json, verbose, log), trial, at=at, follow=follow)


@app.command()
def logs(
    trial: Trial,
    verifier: Annotated[
        bool, typer.Option("--verifier", help="What the verifier printed, not the agent.")
    ] = False,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="What the verifiers printed in the last regrade.")
    ] = False,
    install: Annotated[
        bool, typer.Option("--install", help="What the agent's installation printed.")
    ] = False,
    follow: Follow = False,
    log: Log = None,
    verbose: Verbose = 0,
) -> int:
    """Show what a trial's agent or verifier printed."""
    from .engine.console.outputs import show_output

    request = _request(False, verbose, log)
    return _await(
        show_output, request, trial,
        verifier=verifier, follow=follow, regrade=regrade, install=install,
    )  # fmt: skip


@app.command("exec", context_settings={"allow_interspersed_args": False})
def exec_(
    trial: Trial,
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")
    ],
    log: Log = None,
    verbose: Verbose = 0,
) -> int:
    """Run a program in a trial's sandbox that --keep-sandbox left."""
    from .engine.console.kept import run_in_kept

    return _await(run_in_kept, _request(False, verbose, log), trial, command)


@app.command("import")
def import_(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A job folder, a log, or a folder of .eval logs."),
    ],
    jobs_dir: JobsDir = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Read a job that another system ran into the log; the same again adds nothing."""
    from .engine.console.importing import import_jobs

    return _await(import_jobs, _request(json, verbose, log, jobs_dir), path)


@app.command()
def explain(
    category: Annotated[
        str | None, typer.Argument(metavar="[CATEGORY]", help="A category or a warning's code.")
    ] = None,
    json: Json = False,
) -> int:
    """Say what a category of errors or a warning means, and what to do; without one, list all."""
    from .engine.console.explaining import explain_code

    return explain_code(_request(json), category)


@app.command()
def new(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder; must not exist.")],
    layout: Annotated[
        LayoutName, typer.Option(help="a: one task.md. b: task.toml and instruction.md.")
    ] = LayoutName.a,
) -> int:
    """Make a task that passes its own check."""
    from .engine.console.authoring import make_task

    return make_task(_request(), path, layout.value)


@app.command()
def check(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task folder.")],
    sandbox: Sandbox = SandboxName.auto,
    image: Image = None,
    verifier_sandbox: VerifierSandbox = None,
    default_network: DefaultNetwork = None,
    env_file: EnvFile = None,
    verifier_env: VerifierEnv = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Check a task: advice, then the reference solution must score 1.0 and doing nothing less."""
    from .engine.console.authoring import check_task

    return _await(
        check_task, _request(json, verbose), task, sandbox=sandbox.value, image=image,
        verifier_sandbox=verifier_sandbox and verifier_sandbox.value,
        default_network=bool(default_network), env_file=env_file, verifier_env=verifier_env or [],
    )  # fmt: skip


@app.command()
def clean(
    sandbox: Sandbox = SandboxName.auto,
    jobs_dir: JobsDir = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Remove what engines that died left behind.

    A run's start removes only what its own log's engines left; this removes what any log's did.
    """
    from .engine.console.cleaning import clean_up

    return _await(clean_up, _request(json, verbose, log, jobs_dir), sandbox=sandbox.value)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder; new or empty.")],
) -> int:
    """Make a project: an environment, a task, a verifier and an agent that work."""
    from .engine.console.projects import make_project

    return make_project(_request(), path)


@app.command()
def validate(json: Json = False) -> int:
    """Check the project here: every manifest, and every function, imported; all faults at once."""
    from .engine.console.projects import validate_project

    return validate_project(_request(json))


@environment_commands.command("init")
def environment_init(name: ResourceName) -> int:
    """Make an environment with one app in the project here."""
    from .engine.console.projects import make_resource

    return make_resource(_request(), "environment", name)


@task_commands.command("init")
def task_init(name: ResourceName) -> int:
    """Make a task in the project here, with its first environment and verifier."""
    from .engine.console.projects import make_resource

    return make_resource(_request(), "task", name)


@verifier_commands.command("init")
def verifier_init(
    name: ResourceName,
    kind: Annotated[
        VerifierKind,
        typer.Option(help="Who verifies: code (deterministic), a model (agent) or people (human)."),
    ] = VerifierKind.deterministic,
) -> int:
    """Make a verifier in the project here."""
    from .engine.console.projects import make_resource

    return make_resource(_request(), "verifier", name, judged_by=kind.value)


@verifier_commands.command("validate")
def verifier_validate(name: ResourceName, json: Json = False) -> int:
    """Check one verifier of the project here: its manifest, and its functions, imported."""
    from .engine.console.projects import validate_project

    return validate_project(_request(json), verifier=name)


@verifier_commands.command("try")
def verifier_try(
    name: VerifierName,
    job: OfJob,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 where anything differs from the record.")
    ] = False,
    tasks_root: TasksRoot = None,
    call_models: CallModels = False,
    judge_max_cost: JudgeMaxCost = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Show what a verifier gives now on a job's stored trials; nothing is kept."""
    from .engine.console.labels import try_labels

    return _await(
        try_labels, _request(json, verbose, log), name, job, tasks_root=tasks_root, check=check,
        call_models=call_models, judge_max_cost=judge_max_cost,
    )  # fmt: skip


@verifier_commands.command("apply")
def verifier_apply(
    name: VerifierName,
    job: OfJob,
    reason: Annotated[str | None, typer.Option(help="Why; it goes into the log.")] = None,
    tasks_root: TasksRoot = None,
    call_models: CallModels = False,
    judge_max_cost: JudgeMaxCost = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Add a verifier's rewards and credit to a job's stored trials, under its version."""
    from .engine.console.labels import apply_labels

    return _await(
        apply_labels, _request(json, verbose, log), name, job, tasks_root=tasks_root,
        reason=reason, call_models=call_models, judge_max_cost=judge_max_cost,
    )  # fmt: skip


@verifier_commands.command("agreement")
def verifier_agreement(
    first: Annotated[str, typer.Argument(metavar="A", help="A verifier: NAME or NAME@VERSION.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    job: OfJob,
    tolerance: Annotated[
        float, typer.Option(metavar="X", help="How far apart, from 0 to 1, still agrees.")
    ] = 0.1,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Compare two verifiers on the trials that both scored, criterion by criterion."""
    from .engine.console.agreement import show_agreement

    request = _request(json, verbose, log)
    return _await(show_agreement, request, first, second, job, tolerance=tolerance)


@app.command()
def rewards(
    trial: Trial, as_of: AsOf = None, log: Log = None, json: Json = False, verbose: Verbose = 0
) -> int:
    """Show a trial's reward ledger: who gave what to which step."""
    from .engine.console.rewards import show_rewards

    return _await(show_rewards, _request(json, verbose, log), trial, as_of=as_of)


@app.command()
def export(
    thing: Annotated[str, typer.Argument(metavar="JOB|TRIAL", help="A job or a trial.")],
    format: Annotated[
        ExportFormat,
        typer.Option(
            help="jsonl: training data, a line a step. trl: prompt and completion, a line a trial. "
            "parquet: tables for analysis. atif: trajectories. events: the log's events as they "
            "are. otel: traces (OTLP JSON). junit: a test report (XML)."
        ),
    ] = ExportFormat.jsonl,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where it goes; a folder for parquet. [standard output]"),
    ] = None,
    as_of: AsOf = None,
    gamma: Annotated[
        float, typer.Option(metavar="X", help="How much a turn later counts, up to 1.")
    ] = 1.0,
    log: Log = None,
    verbose: Verbose = 0,
) -> int:
    """Write trials for other programs: training data, trajectories, events, traces, reports."""
    from .engine.console.exporting import export_thing

    return _await(
        export_thing, _request(False, verbose, log), thing, form=format.value, out=out,
        as_of=as_of, gamma=gamma,
    )  # fmt: skip


@human_commands.command("list")
def human_list(
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Only of this job.")] = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """List the reviews that are owed."""
    from .engine.console.people import list_waiting

    return _await(list_waiting, _request(json, verbose, log), job=job)


@human_commands.command("open")
def human_open(trial: Trial, log: Log = None, json: Json = False, verbose: Verbose = 0) -> int:
    """Show a trial to its reviewer: what is asked, what was done, where the files are."""
    from .engine.console.people import open_trial

    return _await(open_trial, _request(json, verbose, log), trial)


@human_commands.command("submit")
def human_submit(
    trial: Trial,
    score: Annotated[
        list[str],
        typer.Option(
            metavar="X|CRITERION=X",
            help="The score, on its own range; once for each criterion where there are several.",
        ),
    ],
    verifier: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which review it is; not needed where one is owed."),
    ] = None,
    feedback: Annotated[str | None, typer.Option(help="Why, in words.")] = None,
    reviewer: Annotated[str | None, typer.Option(metavar="NAME", help="Who reviewed it.")] = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Score a trial that waits; a review can't be changed or sent twice."""
    from .engine.console.people import submit_review

    return _await(
        submit_review, _request(json, verbose, log), trial, verifier=verifier, score=score,
        feedback=feedback, reviewer=reviewer,
    )  # fmt: skip


@review_commands.command("run")
def review_run(
    thing: Annotated[str, typer.Argument(metavar="JOB|TRIAL", help="What is reviewed.")],
    passing: Annotated[
        bool, typer.Option("--passing", help="Only trials that passed without an error.")
    ] = False,
    failing: Annotated[bool, typer.Option("--failing", help="All others.")] = False,
    rubric: Annotated[
        Path | None,
        typer.Option("-r", "--rubric", metavar="FILE", help="The rubric. [task's, else built in]"),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="The reviewer, say command:./review.py.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The reviewer's model.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("-n", metavar="N", help="Reviewers at work at once. [4]")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="What one trial's reviewer may take. [1800]")
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(help="Calls that one trial's reviewer may make. [100]"),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Tokens in and out that one trial's reviewer may use.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="What one trial's reviewer may cost.")
    ] = None,
    max_total_cost: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="What all reviewers may cost together.")
    ] = None,
    prices: Prices = None,
    tasks_root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where tasks may be read from, as evidence."),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the report goes. [JOB/reviews/ID]")
    ] = None,
    allow_open_network: Annotated[
        bool, typer.Option("--allow-open-network", help="Reviewers may use it; the report says so.")
    ] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with a review that was cut off.")
    ] = None,
    sandbox: Sandbox = SandboxName.auto,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="The image that reviewers work in (docker).")
    ] = None,
    env_file: EnvFile = None,
    agent_env: AgentEnv = None,
    secret: Secret = None,
    log: Log = None,
    jobs_dir: JobsDir = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Have a reviewer answer a rubric for each finished trial; a report comes of it."""
    from .engine.console.reviews import run_reviews
    from .engine.errors import ConfigError
    from .engine.models.prices import read_prices

    if passing and failing:
        raise ConfigError("give --passing or --failing, not both")
    given = {
        "agent": agent, "model": model, "image": image, "rubric": rubric and rubric.absolute(),
        "tasks_root": tasks_root and tasks_root.absolute(), "concurrency": concurrency,
        "open_network": allow_open_network or None,
        "selection": "passing" if passing else "failing" if failing else None,
        "max_seconds": max_seconds, "max_turns": max_turns, "max_tokens": max_tokens,
        "max_cost": max_cost, "max_total_cost": max_total_cost,
        "prices": read_prices(prices) if prices else None,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    return _await(
        run_reviews, _request(json, verbose, log, jobs_dir), thing, given, sandbox=sandbox.value,
        out_dir=out_dir, resume=resume, env_file=env_file, agent_env=agent_env or (),
        secret_names=secret or (),
    )  # fmt: skip


@review_commands.command("show")
def review_show(
    thing: Annotated[
        str, typer.Argument(metavar="JOB|TRIAL", help="What was reviewed, or a review's folder.")
    ],
    review: Annotated[
        str | None, typer.Option("--review", metavar="ID", help="Which one. [the newest]")
    ] = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Show a review's report."""
    from .engine.console.review_showing import show_review

    return _await(show_review, _request(json, verbose, log), thing, review=review)


@agent_commands.command("init")
def agent_init(
    name: ResourceName,
    installed: Annotated[
        bool, typer.Option("--installed", help="A program that works in a sandbox, by a manifest.")
    ] = False,
) -> int:
    """Make an agent in the project here."""
    from .engine.console.projects import make_resource

    return make_resource(_request(), "agent", name, installed=installed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code: object = command_for(app, words)(words, prog_name="trialog", standalone_mode=False)
    except typer.TyperException as error:
        from .engine.console.failure import EXIT_USAGE, usage, write

        context = getattr(error, "ctx", None)
        write(usage(error.format_message(), context.command_path if context else "trialog"))
        return EXIT_USAGE
    except BaseException as error:
        from .engine.console import failure

        if isinstance(error, SystemExit):
            raise
        if failure.nobody_reads(error):
            return failure.EXIT_OK
        failure.write(failure.lines(error, os.environ))
        return failure.exit_code(failure.unwrapped(error))
    return code if isinstance(code, int) else 0
