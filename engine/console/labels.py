"""Verifiers tried on a job's stored trials, and applied to them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import to_thread

from ...events.clock import RandomIds, SystemClock
from ...events.gathered import GatheredReads
from ...events.kinds import TrialScheduled
from ...events.log import EventLog
from ...projections.writer import JobFiles
from ..authoring.verifiers import AgentVerifier
from ..environment import find_secrets
from ..errors import ConfigError
from ..hooks.pool import HookPool
from ..judges.client import JudgeClient, open_client
from ..judges.judge import JudgeResult, judge, recorded_judge
from ..labels.applying import apply_verifier, label_of
from ..labels.current import (
    CurrentVerifier,
    JobTask,
    find_verifier,
    imported_tasks,
    job_tasks,
    recorded_verifier,
)
from ..labels.replay import Judging
from ..labels.stored import StoredTrial
from ..labels.trials import job_trials
from ..labels.trying import Tools, chosen_trials, refuse_script, try_verifier
from ..location import job_folder
from ..models.limit import CostLimit
from ..redact import Redactor
from ..redacting_log import redacting
from ..settings import check_dollars
from .failure import EXIT_FAILED, EXIT_OK
from .label_report import LabelReport
from .session import Request, Session, author, opened
from .text import escaped, plural

__all__ = ("apply_labels", "try_labels")

SHOWN = 20
"""Trials that are told one by one; of more, only those that differ."""


class _Work(NamedTuple):
    """A verifier and the stored trials that it is for."""

    verifier: CurrentVerifier
    tools: Tools
    trials: Sequence[TrialScheduled]
    tasks: dict[str, JobTask | None]


class _Calling(NamedTuple):
    """Judges' models are called, within a limit where there is one."""

    limit: CostLimit | None


def _calling(call_models: bool, dollars: float | None) -> _Calling | None:
    check_dollars(dollars)
    if call_models:
        return _Calling(None if dollars is None else CostLimit(dollars))
    if dollars is not None:
        raise ConfigError("no model is called without --call-models", key="--judge-max-cost")
    return None


async def try_labels(
    request: Request,
    name: str,
    job: str,
    *,
    tasks_root: Path | None,
    check: bool,
    call_models: bool,
    judge_max_cost: float | None = None,
) -> int:
    """``trialog verifier try``; gives the exit code."""
    terminal = request.terminal
    calling = _calling(call_models, judge_max_cost)
    report = LabelReport(request.terminal, name)
    async with (
        opened(request, job) as session,
        _work(session, session.log, name, job, tasks_root, calling) as work,
    ):
        terminal.message(_about(work))
        report.each = len(work.trials) <= SHOWN
        await try_verifier(work.tools, work.verifier, work.trials, work.tasks, report.tried)
    for shown in report.summary("tried on"):
        terminal.line(shown)
    if not check:
        return EXIT_OK
    return EXIT_FAILED if report.differing or report.problems else EXIT_OK


async def apply_labels(
    request: Request,
    name: str,
    job: str,
    *,
    tasks_root: Path | None,
    reason: str | None,
    call_models: bool,
    judge_max_cost: float | None = None,
) -> int:
    """``trialog verifier apply``; gives the exit code."""
    terminal = request.terminal
    terminal.patient = True
    calling = _calling(call_models, judge_max_cost)
    report = LabelReport(request.terminal, name)
    secrets = find_secrets((), request.environ, {})
    terminal.hide(secrets)
    async with opened(request, job, readonly=False) as session:
        log = redacting(session.log, Redactor(secrets))
        async with _work(session, log, name, job, tasks_root, calling) as work:
            label = label_of(work.verifier, author=author(), reason=reason)
            terminal.message(_about(work))
            report.each = len(work.trials) <= SHOWN
            found = await job_trials(log, await session.job(job))
            folder = job_folder(session.place, found.started)
            files = JobFiles(log, found.started.job, folder, verify=True)

            async def written(trial: str) -> None:
                for problem in (await files.write_trial(trial)).problems:
                    terminal.message(f"error: {escaped(problem)}")

            await apply_verifier(
                work.tools, work.verifier, label, work.trials, work.tasks, report.applied,
                clock=SystemClock(), ids=RandomIds(), written=written,
            )  # fmt: skip
    for shown in report.summary("applied to"):
        terminal.line(shown)
    return EXIT_FAILED if report.problems else EXIT_OK


@asynccontextmanager
async def _work(
    session: Session,
    log: EventLog,
    name: str,
    job: str,
    tasks_root: Path | None,
    calling: _Calling | None,
) -> AsyncGenerator[_Work]:
    """What a verifier needs to be run on a job's stored trials."""
    request = session.request
    found = await job_trials(log, await session.job(job))
    tasks = await job_tasks(found.started.tasks, log.blobs)
    if found.started.imported is not None:
        tasks |= imported_tasks(one.slot.task for one in found.trials)
    refuse_script(name, tasks)
    async with AsyncExitStack() as stack:
        scratch = await to_thread.run_sync(
            partial(tempfile.TemporaryDirectory, prefix="trialog-labels-")
        )
        stack.push_async_callback(to_thread.run_sync, scratch.cleanup)
        recorded = sorted({Path(task.path) for task in found.started.tasks})
        root = None if tasks_root is None else Path(request.here, tasks_root)
        verifier = await to_thread.run_sync(
            partial(find_verifier, name, tasks_root=root, here=request.here, recorded=recorded)
        )
        if verifier is None:
            verifier = await recorded_verifier(
                name, found.started.tasks, tasks, log.blobs, Path(scratch.name)
            )
        hooks = await stack.enter_async_context(HookPool())
        judging = _judging(session, log, calling, stack)
        yield _Work(
            verifier,
            Tools(log=log, reads=GatheredReads(log), hooks=hooks, judging=judging),
            chosen_trials(name, found.trials, tasks),
            tasks,
        )


def _judging(
    session: Session, log: EventLog, calling: _Calling | None, stack: AsyncExitStack
) -> Judging:
    redactor = Redactor(find_secrets((), session.request.environ, {}))
    limiter = anyio.CapacityLimiter(4)
    clients: list[JudgeClient] = []
    opening = anyio.Lock()

    async def read_again(
        verifier: AgentVerifier, trial: StoredTrial, digest: str, applied: str | None
    ) -> JudgeResult:
        return await recorded_judge(verifier, trial.replies, digest=digest, blobs=log.blobs)

    async def call(
        verifier: AgentVerifier, trial: StoredTrial, digest: str, applied: str | None
    ) -> JudgeResult:
        async with opening:
            if not clients:
                client = open_client(session.request.environ)
                clients.append(await stack.enter_async_context(client))
        assert trial.episode is not None
        assert calling is not None
        return await judge(
            verifier, trial.episode, clients[0], digest=digest, blobs=log.blobs,
            clock=SystemClock(), limiter=limiter, cost_limit=calling.limit,
            redact=redactor.text, applied=applied,
        )  # fmt: skip

    return call if calling is not None else read_again


def _about(work: _Work) -> str:
    verifier = work.verifier
    return (
        f"verifier {escaped(verifier.name)} {escaped(verifier.version)} ({verifier.kind}) from "
        f"{escaped(verifier.origin)}, on {plural(len(work.trials), 'trial')}"
    )
