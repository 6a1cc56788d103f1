"""One regrade under way: every chosen trial gets its answer, then the regrade its end."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread

from ...events.envelope import NewEvent, RecordedEvent
from ...events.errors import (
    BlobAltered,
    BlobMissing,
    EventInvalid,
    LogCorrupt,
    LogError,
    VersionConflict,
    said,
)
from ...events.gathered import GatheredReads
from ...events.kinds import (
    RegradeFailed,
    RegradeFinished,
    RegradePlanned,
    RegradeScored,
    RegradeSkipped,
    RegradeStarted,
    TrialEvent,
)
from ...events.log import BlobStore
from ...events.values import BlobRef
from ...projections.episode import episode_blobs
from ...projections.errors import FilesUnwritable
from ...projections.regrades import graded_by, verdict_of
from ...projections.source import JobSource, read_trial
from ...projections.writer import JobFiles
from ..errors import SandboxError
from ..job.config import JobConfig
from ..job.environment import unseal
from ..job.episode_task import EpisodeTask
from ..job.execution import log_fault
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
from .context import Context
from .episode import EpisodeRegrade
from .plan import Refusal
from .progress import Progress
from .report import RegradeOpened, RegradeWatcher, TrialRegraded
from .script import ScriptRegrade
from .stored import StoredTrial, read_stored

SUMMARY = "regrade-summary.json"
ATTEMPTS = 20
"""Conflicts in a row after which something is wrong."""


class RegradeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a regrade."""

    job: str
    regrade_id: str
    folder: Path
    summary: bytes
    """The content of regrade-summary.json."""
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
        self._counts = {"regraded": 0, "failed": 0, "not_regradable": 0}

    async def run(self, watch: RegradeWatcher, concurrency: int) -> RegradeResult:
        """Regrade what has no answer yet, end the regrade, and write the files."""
        clock, ids = self.services.clock, self.services.ids
        version = self.progress.state.version
        record = JobRecord(self.services.log, self.job, clock=clock, ids=ids, version=version)
        unfinished = self.progress.unfinished
        resumed = unfinished is not None and unfinished.id == self.planned.regrade_id
        skipped = set(unfinished.skipped) if unfinished is not None and resumed else set[str]()
        self._counts["not_regradable"] = len(skipped)
        left = [trial for trial in self.planned.trials if trial not in skipped]
        watch(RegradeOpened(planned=self.planned, resumed=resumed))
        async with self._context(record) as context:
            slots = anyio.CapacityLimiter(concurrency)

            async def one(trial: str) -> TrialRegraded | None:
                return await self._one(context, record, trial, slots)

            await in_order(left, one, lambda told: None if told is None else watch(told))
        await record.tell(
            RegradeFinished(regrade_id=self.planned.regrade_id, **self._counts), cause=self._cause
        )
        return await self._write_files()

    async def look(self, watch: RegradeWatcher) -> None:
        """Tell of each trial what would be done with it."""
        watch(RegradeOpened(planned=self.planned))
        async with self._context(None) as context:

            async def one(trial: str) -> TrialRegraded:
                found = await self._read(context, trial)
                if isinstance(found, Refusal):
                    stored = StoredTrial(trial=trial, task=self._tasks[trial])
                    return _told(stored, found)
                work = self._work(context, found)
                refused = await work.prepare(thorough=True)
                return _told(found, refused, notes=work.notes)

            await in_order(self.planned.trials, one, watch)

    async def _one(
        self, context: Context, record: JobRecord, trial: str, slots: anyio.CapacityLimiter
    ) -> TrialRegraded | None:
        """A trial's answer; None where the log has it already."""
        found = await self._read(context, trial)
        if isinstance(found, Refusal):
            stored = StoredTrial(trial=trial, task=self._tasks[trial])
            return await self._skip(record, stored, found)
        earlier = found.answered.get(self.planned.regrade_id)
        if earlier is not None:
            self._count(earlier)
            return None
        if self._tasks[trial] in self._episodes:
            return await self._regrade(context, record, found)
        async with slots:
            return await self._regrade(context, record, found)

    async def _regrade(
        self, context: Context, record: JobRecord, found: StoredTrial
    ) -> TrialRegraded:
        work = self._work(context, found)
        try:
            refused = await work.prepare()
            if refused is not None:
                return await self._skip(record, found, refused)
            started = self._started(context, found, work)
            begun = context.ids.event_id()
            at_once: list[TrialEvent] = [started]
            if isinstance(work, ScriptRegrade):  # nothing is made before the log has it
                await self._append(context, found, [(begun, started, self._cause)])
                at_once = []
            outcome = await self._outcome(work)
            if isinstance(outcome, Refusal):
                return await self._skip(record, found, outcome)
            replies = work.replies if isinstance(work, EpisodeRegrade) else []
            events = [(begun, event, self._cause) for event in at_once]
            rest: list[TrialEvent] = [
                *(msgspec.structs.replace(reply, applied=begun) for reply in replies), outcome
            ]  # fmt: skip
            events += [(context.ids.event_id(), event, begun) for event in rest]
            await self._append(context, found, events)
        finally:
            work.release()
        self._count(outcome)
        return _answered(found, outcome, work.notes)

    async def _outcome(
        self, work: ScriptRegrade | EpisodeRegrade
    ) -> RegradeScored | RegradeFailed | Refusal:
        """What comes of it; a fault of ours, or of the machine, ends this trial and no other."""
        try:
            return await work.run()
        except EventInvalid as error:
            return await self._fault(work, error)
        except LogCorrupt as error:
            return Refusal("trial_unreadable", str(error))
        except LogError:
            raise
        except Exception as error:  # the others must go on
            return await self._fault(work, error)

    async def _fault(self, work: ScriptRegrade | EpisodeRegrade, error: Exception) -> RegradeFailed:
        await log_fault(work.trial.trial, error)
        return RegradeFailed(
            regrade_id=self.planned.regrade_id,
            error=f"{type(error).__name__}: {said(error)}",
            category="host_failed" if isinstance(error, OSError) else "engine_fault",
            infrastructure=True,
        )

    async def _read(self, context: Context, trial: str) -> StoredTrial | Refusal:
        """The trial as the log has it, with its episode where it is graded on that."""
        data = context.data(self._tasks[trial])
        try:
            events = await read_trial(context.reads, trial)
            blobs: dict[str, bytes] = {}
            if data is not None:
                naming = [event for event in events if '"$blob"' in event.data]
                blobs = {ref.blob: await context.log.blobs.get(ref) for ref in _blobs(naming)}
            return read_stored(trial, events, data, blobs, finished=context.finished)
        except LogCorrupt as error:
            return Refusal("trial_unreadable", str(error))
        except BlobMissing as error:
            return Refusal("blob_missing", str(error))
        except BlobAltered as error:
            return Refusal("blob_altered", str(error))

    def _work(self, context: Context, trial: StoredTrial) -> ScriptRegrade | EpisodeRegrade:
        if self._tasks[trial.trial] in self._episodes:
            return EpisodeRegrade(context, trial)
        return ScriptRegrade(context, trial)

    def _started(
        self, context: Context, trial: StoredTrial, work: ScriptRegrade | EpisodeRegrade
    ) -> RegradeStarted:
        digests = {task.task: task.digest for task in self.planned.tasks}
        return RegradeStarted(
            regrade_id=self.planned.regrade_id,
            task_digest=digests[trial.task],
            verifiers=work.verifiers,
            sandbox=context.backend.name if isinstance(work, ScriptRegrade) else None,
            image_digest=work.image_digest,
            author=self.planned.author,
            reason=self.planned.reason,
            supersedes=trial.standing,
            notes=work.notes,
        )

    async def _skip(self, record: JobRecord, trial: StoredTrial, refused: Refusal) -> TrialRegraded:
        await record.tell(
            RegradeSkipped(
                regrade_id=self.planned.regrade_id, trial=trial.trial, reason=refused.reason,
                category=refused.category,
            ),
            cause=self._cause,
        )  # fmt: skip
        self._counts["not_regradable"] += 1
        return _told(trial, refused)

    def _count(self, outcome: RegradeScored | RegradeFailed) -> None:
        self._counts["failed" if isinstance(outcome, RegradeFailed) else "regraded"] += 1

    async def _append(
        self, context: Context, trial: StoredTrial, events: Sequence[tuple[str, TrialEvent, str]]
    ) -> None:
        """Append (id, event, cause), after whatever else was appended to the trial meanwhile."""
        log, stream = context.log, f"trial/{trial.trial}"
        new = [
            NewEvent(id=id, at=context.clock.now(), payload=event, causation=cause or None)
            for id, event, cause in events
        ]
        for _ in range(ATTEMPTS):
            try:
                trial.version = (await log.append(stream, trial.version, new)).version
            except VersionConflict:
                trial.version = (await log.head(stream)).version
            else:
                return
        raise VersionConflict(stream, trial.version, -1)

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
                ids=services.ids, reads=GatheredReads(log), environ=environ,
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

    async def _write_files(self) -> RegradeResult:
        log = self.services.log
        files = JobFiles(log, self.job, self.folder)
        problems: list[str] = []
        try:
            report = await files.write_regrades(self.planned.trials)
            problems += map(str, report.problems)
            report = await files.write_summary()
            problems += map(str, report.problems)
            summary = await to_thread.run_sync((self.folder / SUMMARY).read_bytes)
        except (FilesUnwritable, OSError) as error:
            problems.append(said(error))
            summary = (await JobSource(log, self.job).summary()).documents[SUMMARY]
        return RegradeResult(
            job=self.job,
            regrade_id=self.planned.regrade_id,
            folder=self.folder,
            summary=summary,
            problems=problems,
        )


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="trialog-regrade-")


def _blobs(events: Sequence[RecordedEvent]) -> list[BlobRef]:
    return list({ref.blob: ref for ref in episode_blobs(events)}.values())


def _answered(
    trial: StoredTrial, outcome: RegradeScored | RegradeFailed, notes: list[str]
) -> TrialRegraded:
    graded = graded_by(outcome)
    failed = outcome if isinstance(outcome, RegradeFailed) else None
    return TrialRegraded(
        trial=trial.trial,
        task=trial.task,
        original=trial.original,
        new=graded,
        verdict=verdict_of(trial.original, graded),
        reason=None if failed is None else str(failed.error),
        category=None if failed is None else failed.category,
        notes=notes,
        warnings=outcome.messages if isinstance(outcome, RegradeScored) else [],
    )


def _told(
    trial: StoredTrial, refused: Refusal | None, *, notes: Sequence[str] = ()
) -> TrialRegraded:
    return TrialRegraded(
        trial=trial.trial,
        task=trial.task,
        original=trial.original,
        verdict=None if refused is None else "not_regradable",
        reason=refused.reason if refused else None,
        category=refused.category if refused else None,
        notes=list(notes),
    )
