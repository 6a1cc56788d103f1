"""For authors of tasks: a first task, and the check that a task can be trusted."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence, Set
from functools import partial
from pathlib import Path
from typing import Literal, cast

import msgspec
from anyio import to_thread

from ...events.codes import CATEGORIES
from ...events.log import EventLog
from ..job.api import run_job
from ..job.config import JobConfig
from ..job.report import Notice, Report, TrialEnded
from ..job.tasks import configured
from ..sandbox.choose import choose
from ..tasks.check import advise
from ..tasks.failed_setup import failed_setup
from ..tasks.load import load_task
from ..tasks.model import Task, TaskWarning
from ..tasks.template import new_task
from .failure import EXIT_FAILED, EXIT_OK
from .images import refuse_without_images
from .outputs import printed, recorded_output
from .running import Variables, read_variables, services_of
from .session import Request, opened
from .text import escaped, number, telling

__all__ = ("check_task", "make_task")

_OUTPUT_LINES = 20


def make_task(request: Request, path: Path, layout: str) -> int:
    """``trialog new``; gives the exit code."""
    written = new_task(path, cast("Literal['a', 'b']", layout))
    terminal = request.terminal
    for file in written:
        terminal.line(escaped(path / file.relative_to(Path(request.here, path))))
    terminal.message(f"note: `trialog check {escaped(path)}` tries it; then change it to your own")
    return EXIT_OK


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one control."""

    agent: str
    expected: str
    holds: bool
    trial: TrialEnded | None
    output: str | None
    """The end of what the verifier printed."""
    setup: str | None = None
    """What it printed of a set-up that failed; only where the reference solution fell short."""

    @property
    def ran(self) -> bool:
        """Whether there is a score: without one nothing is known of the test."""
        return self.trial is not None and self.trial.outcome == "scored"


async def check_task(
    request: Request,
    path: str,
    *,
    sandbox: str,
    image: str | None,
    verifier_sandbox: Literal["shared", "separate"] | None,
    default_network: bool,
    env_file: Path | None,
    verifier_env: Sequence[str],
) -> int:
    """``trialog check``; gives the exit code."""
    terminal = request.terminal
    task = await to_thread.run_sync(load_task, Path(request.here, path))
    config = JobConfig(
        tasks=[path],
        agents=["oracle", "nop"],
        sandbox=cast("Literal['auto', 'docker', 'bubblewrap']", sandbox),
        image=image or request.environ.get("TRIALOG_IMAGE") or None,
        verifier_sandbox=verifier_sandbox,
        default_network=default_network,
    )
    task = configured(task, config)
    advice = [*task.warnings, *await to_thread.run_sync(advise, task)]
    for warning in () if terminal.json else advice:
        terminal.line(f"advice ({warning.code}): {escaped(warning.message)}")
    controls: list[Control] = []
    if task.solution is None:
        terminal.message(
            f"error: task {escaped(task.name)} has no reference solution, so nothing shows that "
            "it can be solved\nhint: write solve.sh into oracle/ or solution/"
        )
    else:
        variables = partial(
            read_variables, request.environ, env_file=env_file, verifier_env=verifier_env
        )
        controls = await _controls(request, task, config, variables)
    return _verdict(request, task, advice, controls)


async def _controls(
    request: Request, task: Task, config: JobConfig, variables: partial[Variables]
) -> list[Control]:
    """Run both controls with a log of their own, which is thrown away."""
    ended: list[TrialEnded] = []
    told = {f"task {task.name}: {warning.message}" for warning in task.warnings}

    def watch(report: Report) -> None:
        match report:
            case TrialEnded() if not report.will_retry:
                ended.append(report)
            case Notice() if report.message not in told:
                request.terminal.message(f"{report.level}: {escaped(report.message)}")
            case _:
                pass

    given = await to_thread.run_sync(variables)
    config = msgspec.structs.replace(config, agent_env=given.agent, verifier_env=given.verifier)
    backend = await choose(config.sandbox, default_image=config.image)
    folder = tempfile.TemporaryDirectory(prefix="trialog-check-", ignore_cleanup_errors=True)
    try:
        await refuse_without_images(backend, config.image, [task])
        throwaway = request._replace(log=None, jobs_folder=folder.name)
        async with opened(throwaway, readonly=False, create=True) as session:
            await run_job(services_of(session, backend, given), config, [task], watch)
            return [await _control(session.log, agent, ended) for agent in ("oracle", "nop")]
    finally:
        await backend.aclose()
        await to_thread.run_sync(folder.cleanup)


async def _control(log: EventLog, agent: str, ended: Sequence[TrialEnded]) -> Control:
    """Judge one control by the trial that it was."""
    trial = next((trial for trial in ended if trial.agent == agent), None)
    reward = trial.reward if trial is not None and trial.outcome == "scored" else None
    if agent == "oracle":
        holds, expected = reward is not None and reward >= 1.0, "1.0"
    else:
        holds, expected = reward is not None and reward < 1.0, "below 1.0"
    told: str | None = None
    setup: str | None = None
    if trial is not None and not holds:
        output = await recorded_output(log, trial.trial, verifier=True)
        if output is not None:
            lines = printed(await log.blobs.get(output.blob)).splitlines()
            told = "\n".join(lines[-_OUTPUT_LINES:])
            setup = failed_setup(lines) if agent == "oracle" and reward is not None else None
    return Control(
        agent=agent, expected=expected, holds=holds, trial=trial, output=told, setup=setup
    )


def _verdict(
    request: Request, task: Task, advice: Sequence[TaskWarning], controls: Sequence[Control]
) -> int:
    terminal = request.terminal
    good = bool(controls) and all(control.holds for control in controls)
    suspect = [
        TaskWarning(
            "check_setup_failed",
            f"{task.verifier.name}/test.sh: the {control.agent}'s reward of "
            f"{number(control.trial.reward)} may be the test's own fault: it printed "
            f"{control.setup!r}; a 0 that is written counts as the agent's, so end the script "
            "there without a reward, or put what it needs into the image",
        )
        for control in controls
        if control.setup is not None and control.trial is not None
    ]
    if terminal.json:
        terminal.data(
            {
                "task": task.name,
                "ok": good,
                "advice": [*advice, *suspect],
                "controls": list(controls),
            }
        )
    advised = {warning.message for warning in advice}
    for control in controls:
        _tell_control(request, control, advised)
    for warning in () if terminal.json else suspect:
        terminal.line(f"advice ({warning.code}): {escaped(warning.message)}")
    name = escaped(task.name)
    if good:
        terminal.line(f"ok: {name}: the reference solution passes, and doing nothing does not")
        return EXIT_OK
    unrun = [control.trial for control in controls if not control.ran]
    if unrun:
        category = next((trial.category for trial in unrun if trial and trial.category), None)
        known = CATEGORIES.get(category or "")
        why = f": {known.meaning[:1].lower()}{known.meaning[1:].rstrip('.')}" if known else ""
        terminal.message(f"error: {name}: the controls could not be run, so nothing is known{why}")
        if category is not None:
            terminal.message(f"hint: `trialog explain {escaped(category)}` says what to do")
    elif controls:
        terminal.message(f"error: {name}: the test does not tell right from wrong yet")
    return EXIT_FAILED


def _tell_control(request: Request, control: Control, advised: Set[str]) -> None:
    terminal, trial = request.terminal, control.trial
    tag = "ok  " if control.holds else "FAIL" if control.ran else "ERR "
    if trial is None:
        terminal.line(f"[{tag}] {control.agent}: did not end")
        return
    got = f"reward {number(trial.reward)}"
    if trial.outcome != "scored":
        got = f"{trial.outcome}: {telling(trial.error or trial.category, 160)}"
    terminal.line(f"[{tag}] {control.agent}: {got} (must be {control.expected})")
    if not control.ran and control.agent == "oracle":  # of the other it would be the same
        for line in (trial.error or "").splitlines()[1:]:
            terminal.line(f"       | {escaped(line)}")
    for message in trial.warnings:
        if message not in advised:
            terminal.line(f"       warning: {escaped(message)}")
    for line in (control.output or "").splitlines():
        terminal.line(f"       | {line}")
