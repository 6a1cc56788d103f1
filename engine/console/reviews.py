"""Rubric reviews: run, resumed, shown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec.structs import replace

from ...events.codec import decode
from ...events.kinds import ReviewCompleted, ReviewStarted, TrialStarted
from ...projections.reviews import REPORT
from ..agents import Agent, agent_by_name
from ..agents.chat import ChatAgent
from ..errors import CommandRefused
from ..job.agents import taken_agent
from ..job.report import Notice, Report
from ..location import NotFound, job_folder, job_started
from ..models.endpoint import read_endpoint
from ..projects.project import project_review, project_root
from ..reviews.choosing import filed_subjects, logged_subject, logged_subjects
from ..reviews.config import ReviewConfig, resumed_config, review_config
from ..reviews.running import Answer, Review, ReviewResult, run_review
from ..reviews.settling import settle
from ..reviews.starting import (
    Beginning,
    Named,
    new_review,
    resumed_review,
    started_review,
)
from ..sandbox.choose import choose
from .failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from .running import read_variables, services_of
from .session import Request, Session, opened
from .terminal import Terminal
from .text import escaped, plural, shortened
from .watch import JobWatch

__all__ = ("run_reviews",)

WIDTH = 300
"""Characters of an explanation that are shown."""


async def run_reviews(
    request: Request,
    thing: str,
    given: Mapping[str, Any],
    *,
    sandbox: str,
    out_dir: Path | None,
    resume: str | None,
    **variables_given: Any,
) -> int:
    """``trialog review run``; gives the exit code."""
    variables = await to_thread.run_sync(
        partial(read_variables, request.environ, **variables_given)
    )
    request.terminal.hide(variables.secrets)
    chosen = None
    if resume is None:  # what is wrong is told before there is a log
        config = await to_thread.run_sync(_configured, given, variables.environ, request.here)
        agent = await to_thread.run_sync(_reviewer, config, variables.environ, request.here)
        chosen = config, agent
    async with opened(request, thing, readonly=False, create=resume is None) as session:
        named, single = await _named(session, thing)
        fold = None
        if resume is not None:
            fold = await started_review(session.log, named, resume)
            agent = await _taken(fold.begun, session, variables.environ)
            chosen = await to_thread.run_sync(resumed_config, fold.begun, given), agent
            sandbox = fold.begun.sandbox if sandbox == "auto" else sandbox
        assert chosen is not None
        config, agent = chosen
        config = replace(config, single=single)
        backend = await choose(sandbox, default_image=config.image)
        try:
            services = services_of(session, backend, variables)
            settled = await to_thread.run_sync(settle, config, agent, services)
            for told in settled.told:
                request.terminal.message(f"warning: {escaped(told)}")
            begun = await (
                new_review(services, config, named, out_dir, agent)
                if fold is None
                else resumed_review(services, config, named, fold)
            )
            await to_thread.run_sync(_begun, request.terminal, begun)
            with JobWatch(request.terminal, {}) as watch:

                def notices(report: Report) -> None:
                    if isinstance(report, Notice):  # reviewers' trials are told as reviews
                        watch(report)

                result = await run_review(
                    Review(
                        services=services, config=config, id=begun.id, folder=begun.folder,
                        started=begun.started, planned=begun.planned, agent=agent,
                        gateway=settled.gateway, watch=notices,
                        told=partial(_tell, request.terminal),
                    )
                )  # fmt: skip
        finally:
            await backend.aclose()
        return await to_thread.run_sync(_conclude, session, thing, begun, result)


def _configured(given: Mapping[str, Any], environ: Mapping[str, str], here: Path) -> ReviewConfig:
    """What the command line says, else the project; the image also from the environment."""
    image = environ.get("TRIALOG_IMAGE")
    return review_config({**({"image": image} if image else {}), **project_review(here), **given})


def _reviewer(config: ReviewConfig, environ: Mapping[str, str], here: Path) -> Agent:
    """The reviewer, by its name. Raises ConfigError, also for a model that can't be called."""
    root = project_root(here)
    agent = agent_by_name(config.agent, [] if root is None else [root])
    if isinstance(agent, ChatAgent):
        read_endpoint(environ)
    return agent


async def _taken(started: ReviewStarted, session: Session, environ: Mapping[str, str]) -> Agent:
    """The reviewer as its review took it, whatever has become of its files."""
    agent = await taken_agent(started.agent, started.program, session.log.blobs)
    if isinstance(agent, ChatAgent):
        read_endpoint(environ)
    return agent


async def _named(session: Session, thing: str) -> tuple[Named, bool]:
    """What the user named, and whether it is one trial."""
    log, place = session.log, session.place
    try:
        job = await session.job(thing)
    except NotFound as no_job:
        try:
            trial = await session.trial(thing)
        except NotFound:
            folder = Path(session.request.here, thing)
            if not await to_thread.run_sync(folder.is_dir):
                raise no_job from None
            subjects = await to_thread.run_sync(filed_subjects, folder)
            alone = len(subjects) == 1 and subjects[0].folder == folder
            return Named(subjects, None, folder, folder.parent if alone else folder), alone
        return await _one(session, trial), True
    folder = job_folder(place, await job_started(log, job))
    return Named(await logged_subjects(log, job, folder), job, folder, folder), False


async def _one(session: Session, trial: str) -> Named:
    log = session.log
    first = decode((await log.read(f"trial/{trial}", limit=1))[0])
    if not isinstance(first, TrialStarted) or first.review is not None:
        raise CommandRefused(f"{trial} is a reviewer's own run, which is not reviewed itself")
    job = first.job
    started = await job_started(log, job)
    folder = job_folder(session.place, started)
    snapshots = {snapshot.task: snapshot for snapshot in started.tasks}
    subject = await logged_subject(log, trial, snapshots.get(first.slot.task), folder)
    return Named([] if subject is None else [subject], job, folder / trial, folder)


def _begun(terminal: Terminal, begun: Beginning) -> None:
    started, count = begun.started, len(begun.planned)
    if terminal.json:
        terminal.data({"review": begun.id, "trials": count, "folder": str(begun.folder)})
        return
    by = f"{started.agent}, model {started.model}" if started.model else started.agent
    terminal.line(
        f"Review {begun.id} started: {plural(count, 'trial')} by {escaped(by)} on {started.sandbox}"
    )


async def _tell(terminal: Terminal, answer: Answer) -> None:
    await to_thread.run_sync(_told, terminal, answer)


def _told(terminal: Terminal, answer: Answer) -> None:
    if terminal.json:
        terminal.data(answer)
    elif isinstance(answer, ReviewCompleted):
        outcomes = ", ".join(f"{name}={check.outcome}" for name, check in answer.checks.items())
        terminal.line(f"[REVIEW] {escaped(answer.trial)} ({escaped(outcomes)})")
    else:
        error = answer.error if isinstance(answer.error, str) else answer.category
        terminal.line(f"[ERR] {escaped(answer.trial)} ({shortened(error, WIDTH)})")


def _conclude(session: Session, thing: str, begun: Beginning, result: ReviewResult) -> int:
    terminal = session.terminal
    for problem in result.problems:
        terminal.message(f"error: {escaped(problem)}")
    report = session.shown(begun.folder / REPORT)
    if terminal.json:
        terminal.data(
            {
                "review": begun.id,
                "completed": result.completed,
                "failed": result.failed,
                "interrupted": result.interrupted,
                "report": report,
            }
        )
    else:
        told = f"{plural(result.completed, 'trial')} reviewed, {result.failed} failed"
        terminal.line(f"Review {begun.id}: {told}")
    if result.interrupted:
        again = shlex.quote(escaped(thing))
        terminal.message(f"`trialog review run {again} --resume {begun.id}` goes on")
        return EXIT_INTERRUPTED
    if not terminal.json:
        terminal.line(f"Report: {escaped(report)}")
    return EXIT_FAILED if result.failed or result.problems else EXIT_OK
