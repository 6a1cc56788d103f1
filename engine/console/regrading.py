"""Regrades: saved work graded again, what came of it, and what would be done."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
from anyio import to_thread

from ...events.codec import decode
from ...events.errors import LogCorrupt
from ...events.kinds import TrialStarted
from ...projections.regrade_files import SUMMARY
from ...projections.regrade_summary import RegradeSummary
from ..errors import CommandRefused, ConfigError
from ..job.config import JobConfig
from ..job.services import Services
from ..location import job_folder, job_started
from ..regrade.progress import load_progress
from ..regrade.report import Noted, RegradeOpened, RegradeReport, TrialRegraded
from ..regrade.reverify import REASON, engine_given
from ..regrade.run import Wish, plan_regrade, plan_resume, regrade_job, resume_regrade
from ..regrade.running import RegradeResult
from ..sandbox.choose import choose
from ..settings import check_dollars
from .failure import EXIT_FAILED, EXIT_OK
from .regrade_lines import planned_line, regrade_lines, trial_notes
from .running import Variables, read_variables, services_of
from .session import Request, Session, author, opened
from .terminal import Terminal
from .text import escaped, plural

__all__ = ("regrade_thing", "reverify_job")


class _Means(NamedTuple):
    """How regrades are run, as the user gave it."""

    sandbox: str | None
    image: str | None
    concurrency: int | None


async def regrade_thing(
    request: Request,
    thing: str,
    *,
    wish: Wish,
    dry_run: bool,
    resume: bool,
    sandbox: str | None,
    concurrency: int | None,
    **variables_given: Any,
) -> int:
    """``trialog regrade``; gives the exit code."""
    if resume and wish != Wish():
        raise ConfigError(
            "--resume goes on with a regrade as it was planned; leave out what would change it"
        )
    variables = await _variables(request, variables_given)
    means = _Means(sandbox, wish.image, concurrency)
    async with opened(request, thing, readonly=dry_run) as session:
        job, trial = await _job_of(session, thing)
        wish = msgspec.structs.replace(wish, trial=trial, author=author())
        return await _regrade(session, job, wish, means, variables, dry_run=dry_run, resume=resume)


async def reverify_job(
    request: Request, thing: str, *, dry_run: bool, **variables_given: Any
) -> int:
    """``trialog resume --reverify``; gives the exit code."""
    variables = await _variables(request, variables_given)
    async with opened(request, thing, readonly=dry_run) as session:
        job = await session.job(thing)
        trials = await engine_given(session.log, job)
        if not trials:
            session.terminal.line("no trial has a 0 that the engine gave; nothing is left to do")
            return EXIT_OK
        wish = Wish(trials=trials, as_of_run=True, reason=REASON, author=author())
        means = _Means(None, None, None)
        return await _regrade(session, job, wish, means, variables, dry_run=dry_run)


async def _variables(request: Request, given: dict[str, Any]) -> Variables:
    variables = await to_thread.run_sync(partial(read_variables, request.environ, **given))
    request.terminal.hide(variables.secrets)
    return variables


async def _job_of(session: Session, thing: str) -> tuple[str, str | None]:
    """The job that is meant, and the trial when it is only one."""
    name, is_job = await session.job_or_trial(thing)
    if is_job:
        return name, None
    first = decode((await session.log.read(f"trial/{name}", limit=1))[0])
    if not isinstance(first, TrialStarted):
        raise LogCorrupt(f"stream 'trial/{name}'", "it does not begin with a TrialStarted")
    if first.review is not None:
        raise CommandRefused(f"{name} is a reviewer's own run, which is not regraded")
    return first.job, name


async def _regrade(
    session: Session,
    job: str,
    wish: Wish,
    means: _Means,
    variables: Variables,
    *,
    dry_run: bool = False,
    resume: bool = False,
) -> int:
    started = await job_started(session.log, job)
    config = msgspec.convert(started.config, JobConfig)
    if resume:
        means = await _as_planned(session, job, means)
    backend = await choose(
        means.sandbox or config.sandbox,
        default_image=means.image or config.image or variables.environ.get("TRIALOG_IMAGE"),
        strict_limits=config.strict_limits,
    )
    session.terminal.patient = True
    watch = _Watch(session.terminal, dry_run=dry_run)
    try:
        services = services_of(session, backend, variables)
        if dry_run:
            if resume:
                await plan_resume(services, job, watch)
            else:
                await plan_regrade(services, job, wish, watch)
            watch.end_of_plan()
            return EXIT_FAILED if watch.refused else EXIT_OK
        result = await _run(services, job, wish, watch, means.concurrency, resume=resume)
    except anyio.get_cancelled_exc_class():
        if watch.begun and not dry_run:
            shown = shlex.quote(escaped(session.shown(job_folder(session.place, started))))
            session.terminal.message(f"stopped; `trialog regrade {shown} --resume` goes on")
        raise
    finally:
        await backend.aclose()
    return _conclude(session, result)


async def _as_planned(session: Session, job: str, means: _Means) -> _Means:
    """In the kind of sandbox and image that the regrade was begun in, if no other is named."""
    unfinished = (await load_progress(session.log, job)).unfinished
    if unfinished is None:
        return means
    planned = unfinished.planned
    return means._replace(
        sandbox=means.sandbox or planned.sandbox, image=means.image or planned.image
    )


async def _run(
    services: Services,
    job: str,
    wish: Wish,
    watch: _Watch,
    concurrency: int | None,
    *,
    resume: bool,
) -> RegradeResult:
    at_once = 4 if concurrency is None else concurrency
    if at_once < 1:
        raise ConfigError(f"expected 1 or more, found {at_once}", key="-n")
    if resume:
        return await resume_regrade(services, job, watch, concurrency=at_once)
    return await regrade_job(services, job, wish, watch, concurrency=at_once)


def _conclude(session: Session, result: RegradeResult) -> int:
    terminal = session.terminal
    summary = msgspec.json.decode(result.summary, type=RegradeSummary)
    shown = session.shown(result.folder / SUMMARY)
    if terminal.json:
        terminal.data({"report": "regrade", "job": result.job, "summary": summary})
    terminal.lines(regrade_lines(summary, shown))
    for problem in result.problems:
        terminal.message(f"error: {escaped(problem)}")
    counts = summary.counts
    bad = counts.failed or counts.not_regradable or summary.flaky or result.problems
    return EXIT_FAILED if bad else EXIT_OK


class _Watch:
    """Tells what a regrade reports, as it comes."""

    def __init__(self, terminal: Terminal, *, dry_run: bool) -> None:
        self._terminal = terminal
        self._dry_run = dry_run
        self._would = 0
        self._told = 0
        self._trials = 0
        self.refused = 0
        """Trials that are not regradable."""
        self.begun = False
        """The plan is in the log."""

    def __call__(self, report: RegradeReport) -> None:
        terminal = self._terminal
        match report:
            case RegradeOpened():
                self._trials = len(report.planned.trials)
                self.begun = True
                if not self._dry_run:
                    what = "goes on" if report.resumed else "begins"
                    terminal.message(
                        f"Regrade {report.planned.regrade_id} {what}: "
                        f"{plural(self._trials, 'trial')}"
                    )
            case Noted():
                terminal.message(f"note: {escaped(report.message)}")
            case TrialRegraded():
                self._told += 1
                self._would += report.verdict is None
                self.refused += report.verdict == "not_regradable"
                if terminal.json:
                    terminal.data({"report": "trial", **msgspec.structs.asdict(report)})
                elif self._dry_run:
                    terminal.line(planned_line(report))
                for line in trial_notes(report):
                    terminal.message(line)

    def end_of_plan(self) -> None:
        """Say what the plan comes to."""
        done = self._trials - self._told
        answered = f", {done} {'has its' if done == 1 else 'have their'} answer" if done else ""
        self._terminal.line(
            f"{self._would} of {plural(self._trials, 'trial')} would be regraded{answered}; "
            "nothing was done"
        )


def wish_of(
    *,
    include: Sequence[str],
    tasks_root: Path | None,
    here: Path,
    verifier_only: str | None,
    as_of_run: bool,
    call_models: bool,
    judge_max_cost: float | None,
    reason: str | None,
    image: str | None,
) -> Wish:
    """What the command line asks for. Raises ConfigError for what contradicts itself."""
    if as_of_run and tasks_root is not None:
        raise ConfigError(
            "--as-of-run takes the verifiers as the job recorded them; --tasks-root names others"
        )
    if tasks_root is not None and not Path(here, tasks_root).is_dir():
        raise ConfigError("there is no such folder", file=tasks_root, key="--tasks-root")
    if as_of_run and call_models:
        raise ConfigError("--as-of-run reads judges' recorded replies; --call-models asks anew")
    if judge_max_cost is not None and not call_models:
        raise ConfigError("--judge-max-cost limits what judges are asked for; give --call-models")
    check_dollars(judge_max_cost)
    return Wish(
        include=list(include),
        tasks_root=None if tasks_root is None else Path(here, tasks_root),
        verifier_only=verifier_only,
        as_of_run=as_of_run,
        call_models=call_models,
        judge_max_cost=judge_max_cost,
        reason=reason,
        image=image,
    )
