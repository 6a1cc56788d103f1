"""One regrade under way: every chosen trial gets its answer, then the regrade its end."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread

from ...events.errors import BlobAltered, BlobMissing, LogCorrupt, said
from ...events.kinds import RegradeFinished, RegradePlanned, TrialEvent
from ...events.log import BlobStore
from ...projections.episode import episode_blobs
from ...projections.errors import FilesUnwritable
from ...projections.names import Names
from ...projections.regrade_files import RegradeFiles
from ...projections.regrades import Regrade
from ..collector import collect_rarely
from ..errors import SandboxError
from ..job.config import JobConfig
from ..job.environment import unseal
from ..job.episode_task import EpisodeTask
from ..job.hooks import open_hooks
from ..job.judges import open_judges
from ..job.record import JobRecord
from ..job.services import Services
from ..job.session import secrets_of
from ..job.tasks import TaskInJob, open_tasks
from ..labels.workers import in_order
from ..models.limit import CostLimit
from ..reaper import reaper
from ..redact import Redactor
from ..redacting_log import redacting
from ..scratch import scratch_folder, sweep
from .answering import Answers
from .context import Context
from .episode import EpisodeRegrade
from .plan import Refusal, unreadable
from .progress import Progress
from .report import RegradeOpened, RegradeWatcher, TrialRegraded, answered_trial, refused_trial
from .script import ScriptRegrade
from .stored import StoredTrial, read_stored
from .together import TOGETHER, YOUNG, Together, grouped


class RegradeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a regrade."""

    job: str
    regrade_id: str
    folder: Path
    summary: bytes
    """The content of regrade-summary.json; without the trials that can't be read, if there are
    some, where it is not written."""
    problems: list[str] = []
    """Files that could not be written; they can be rebuilt."""


class Running:
    """A planned regrade of one job, whose lock is held. `store` has the tasks' snapshots."""

    def __init__(
        self,
        services: Services,
        job: str,
        progress: Progress,
        planned: RegradePlanned,
        cause: str,
        gone: Mapping[str, str],
        store: BlobStore | None = None,
    ) -> None:
        assert progress.state.started is not None
        self.services = services
        self.job = job
        self.progress = progress
        self.planned = planned
        self.started = progress.state.started
        self.folder = services.jobs_folder / self.started.folder
        self._cause = cause
        self._gone = gone
        self._store = services.log.blobs if store is None else store
        self._tasks = {
            one.trial: one.slot.task for each in progress.state.executions.values() for one in each
        }
        self._episodes = {task.task for task in self.started.tasks if task.layout == "project"}

    async def run(self, watch: RegradeWatcher, concurrency: int) -> RegradeResult:
        """Regrade what has no answer yet, end the regrade, and write the files."""
        clock, ids = self.services.clock, self.services.ids
        version = self.progress.state.version
        record = JobRecord(self.services.log, self.job, clock=clock, ids=ids, version=version)
        watch(RegradeOpened(planned=self.planned, resumed=self._resumed))
        left = self._left()
        with closing(self._files()) as files:
            async with self._context(record) as context:
                skipped = len(self.planned.trials) - len(left)
                answers = Answers(context, record, self._cause, skipped)
                await self._regrade_all(context, answers, files, left, watch, concurrency)
            await record.tell(
                RegradeFinished(regrade_id=self.planned.regrade_id, **answers.counts),
                cause=self._cause,
            )
            return await self._write_files(files)

    @property
    def _resumed(self) -> bool:
        unfinished = self.progress.unfinished
        return unfinished is not None and unfinished.id == self.planned.regrade_id

    def _left(self) -> list[str]:
        """The trials that the job's stream has no answer of; their own may have one."""
        unfinished = self.progress.unfinished
        skipped = unfinished.skipped if unfinished is not None and self._resumed else {}
        return [trial for trial in self.planned.trials if trial not in skipped]

    def _files(self) -> RegradeFiles:
        """The files, as they will be when this regrade is finished, after those that are."""
        this = Regrade(planned=self.planned, trials=Names(self.planned.trials), at="")
        regrades = [*self.progress.regrades, this]
        return RegradeFiles(self.services.log, self.job, self.folder, regrades)

    async def _regrade_all(
        self,
        context: Context,
        answers: Answers,
        files: RegradeFiles,
        left: Sequence[str],
        watch: RegradeWatcher,
        concurrency: int,
    ) -> None:
        slots = anyio.CapacityLimiter(concurrency)
        together = Together(context, answers, files, self._tasks)

        async def some(trials: list[str]) -> list[TrialRegraded | None]:
            if together.takes(trials[0]):
                return await together.regrade(trials)
            return [await self._one(context, answers, files, trial, slots) for trial in trials]

        def tell(told: list[TrialRegraded | None]) -> None:
            for one in told:
                if one is not None:
                    watch(one)

        async with anyio.create_task_group() as helpers:
            helpers.start_soon(collect_rarely, YOUNG)
            await in_order(list(grouped(left, together.takes, TOGETHER)), some, tell)
            helpers.cancel_scope.cancel()

    async def look(self, watch: RegradeWatcher) -> None:
        """Tell of each trial without an answer what would be done with it."""
        watch(RegradeOpened(planned=self.planned, resumed=self._resumed))

        def tell(told: TrialRegraded | None) -> None:
            if told is not None:
                watch(told)

        files = self._files()
        async with self._context(None) as context:

            async def one(trial: str) -> TrialRegraded | None:
                found = await self._read(context, files, trial)
                if isinstance(found, Refusal):
                    stored = StoredTrial(trial=trial, task=self._tasks[trial])
                    return refused_trial(stored, found)
                if self.planned.regrade_id in found.answered:
                    return None
                work = self._work(context, found)
                refused = await work.prepare(thorough=True)
                verifiers = work.verifiers if refused is None else None
                return refused_trial(found, refused, notes=work.notes, verifiers=verifiers)

            await in_order(self._left(), one, tell)

    async def _one(
        self,
        context: Context,
        answers: Answers,
        files: RegradeFiles,
        trial: str,
        slots: anyio.CapacityLimiter,
    ) -> TrialRegraded | None:
        """A trial's answer; None where the log has it already."""
        found = await self._read(context, files, trial)
        if isinstance(found, Refusal):
            stored = StoredTrial(trial=trial, task=self._tasks[trial])
            return await answers.skip(stored, found)
        earlier = found.answered.get(self.planned.regrade_id)
        if earlier is not None:
            answers.count(earlier)
            return None
        if self._tasks[trial] in self._episodes:
            return await self._regrade(context, answers, found)
        async with slots:
            return await self._regrade(context, answers, found)

    async def _regrade(
        self, context: Context, answers: Answers, found: StoredTrial
    ) -> TrialRegraded:
        work = self._work(context, found)
        try:
            refused = await work.prepare()
            if refused is not None:
                return await answers.skip(found, refused)
            first = answers.first(answers.started(work))
            at_once = [first]
            if isinstance(work, ScriptRegrade):  # nothing is made before the log has it
                await answers.append(found, at_once)
                at_once = []
            outcome = await answers.outcome(work, work.run())
            if isinstance(outcome, Refusal):
                return await answers.skip(found, outcome)
            replies = work.replies if isinstance(work, EpisodeRegrade) else []
            rest: list[TrialEvent] = [
                *(msgspec.structs.replace(reply, applied=first.id) for reply in replies), outcome
            ]  # fmt: skip
            await answers.append(found, [*at_once, *answers.rest(first, rest)])
        finally:
            work.release()
        answers.count(outcome)
        return answered_trial(found, outcome, work.notes)

    async def _read(
        self, context: Context, files: RegradeFiles, trial: str
    ) -> StoredTrial | Refusal:
        """The trial as the log has it, with its episode where it is graded on that."""
        data = context.data(self._tasks[trial])
        events = await files.events_of(trial)
        if isinstance(events, LogCorrupt):
            return unreadable(events)
        try:
            blobs: dict[str, bytes] = {}
            if data is not None:
                blobs = {
                    ref.blob: await context.log.blobs.get(ref) for ref in episode_blobs(events)
                }
            return read_stored(trial, events, data, blobs, finished=context.finished)
        except (LogCorrupt, BlobMissing, BlobAltered) as error:
            return unreadable(error)

    def _work(self, context: Context, trial: StoredTrial) -> ScriptRegrade | EpisodeRegrade:
        if self._tasks[trial.trial] in self._episodes:
            return EpisodeRegrade(context, trial)
        return ScriptRegrade(context, trial)

    @asynccontextmanager
    async def _context(self, record: JobRecord | None) -> AsyncGenerator[Context]:
        """All that trials need. Without `record` nothing is cleared up: it is only looked at."""
        services = self.services
        config = msgspec.structs.replace(
            msgspec.convert(self.started.config, JobConfig), keep_sandbox=False
        )
        async with AsyncExitStack() as stack:
            if record is None:
                made = await to_thread.run_sync(_temporary)
                stack.push_async_callback(to_thread.run_sync, made.cleanup)
                scratch = Path(made.name)
            else:
                folder = scratch_folder(services.jobs_folder, self.job)
                scratch = await stack.enter_async_context(folder)
                await to_thread.run_sync(sweep, services.jobs_folder)
                with suppress(SandboxError):
                    await services.backend.reap(log_id=services.log_id)
            tasks = await open_tasks(
                self.planned.tasks, self._store, scratch / "tasks", backend=services.backend,
                config=config,
            )  # fmt: skip
            episodes = {n: task for n, task in tasks.items() if isinstance(task, EpisodeTask)}
            scripts = {n: task for n, task in tasks.items() if isinstance(task, TaskInJob)}
            hooks = await stack.enter_async_context(open_hooks(tasks.values(), services.hooks))
            client = services.judge_client
            called = episodes.values() if self.planned.call_models and record else ()
            dollars = self.planned.judge_max_cost
            limit = None if dollars is None else CostLimit(dollars)
            judges = await stack.enter_async_context(
                open_judges(called, services.environ, client, cost_limit=limit)
            )
            removal = await stack.enter_async_context(reaper(deadline=config.stop_timeout_sec))
            redactor = Redactor(secrets_of(services, tasks))
            log = redacting(services.log, redactor)
            if record is not None:
                record.log = log
            given, environ = services.verifier_env, services.environ
            sealed = unseal(config.verifier_env, given, environ, "--verifier-env")
            yield Context(
                job=self.job, folder=self.folder, scratch=scratch, config=config, log=log,
                log_id=services.log_id, backend=services.backend, clock=services.clock,
                ids=services.ids, environ=environ,
                verifier_env={**sealed, **given},
                reaper=removal, redactor=redactor, planned=self.planned,
                finished=self.progress.finished, pruned=frozenset(self.progress.state.pruned),
                gone=self._missing(), scripts=scripts, episodes=episodes, hooks=hooks,
                judges=judges,
            )  # fmt: skip

    def _missing(self) -> dict[str, str]:
        """Why a chosen trial's task can't be had; of a resume, that it was so at the plan."""
        there = {task.task for task in self.planned.tasks}
        needed = {self._tasks[trial] for trial in self.planned.trials}
        reason = "its task was gone when the regrade was planned"
        return {task: self._gone.get(task, reason) for task in needed - there}

    async def _write_files(self, files: RegradeFiles) -> RegradeResult:
        problems: list[str] = []
        try:
            report = await files.write_regrades(self.planned.trials)
            problems += map(str, report.problems)
            report = await files.write_summary()
            problems += map(str, report.problems)
        except (FilesUnwritable, OSError) as error:
            problems.append(said(error))
        return RegradeResult(
            job=self.job,
            regrade_id=self.planned.regrade_id,
            folder=self.folder,
            summary=await files.regrade_summary(),
            problems=problems,
        )


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="trialog-regrade-")
