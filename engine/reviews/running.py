"""Running a review: each trial's reviewer in a sandbox of its own, each answer an event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import anyio
import msgspec
from anyio import to_thread

from ...events.envelope import NewEvent
from ...events.kinds import (
    ReviewCompleted,
    ReviewEvent,
    ReviewFailed,
    ReviewFinished,
    ReviewStarted,
)
from ...events.log import EventLog
from ...projections.regrades import Regrade
from ...projections.reviews import ReviewerFiles, read_review, write_review
from ...projections.source import JobSource
from ..agents import Agent
from ..agents.chat import ChatAgent
from ..errors import CommandRefused, ReviewStopped, SandboxError
from ..full_disk import stopped_by
from ..job.context import JobContext
from ..job.episode_task import EpisodeTask
from ..job.interruption import Interruption
from ..job.judges import Judges
from ..job.lock import own
from ..job.report import Watcher
from ..job.services import Services
from ..job.session import secrets_of, secrets_of_agents
from ..job.tasks import TaskInJob
from ..models.limit import CostLimit
from ..models.models import open_models
from ..own_log import logger
from ..reaper import reaper
from ..redact import Redactor
from ..redacting_log import redacting
from ..scratch import scratch_folder, sweep
from .calls import spent_before
from .config import ReviewConfig
from .decide import counted
from .planning import PlannedReview
from .reviewer import Reviewer
from .settling import job_config

STOP_SEC = 30.0
"""For removing one sandbox."""

MODEL_SEC = 600.0
"""For one call to a reviewer's model."""

Answer: TypeAlias = ReviewCompleted | ReviewFailed
Told: TypeAlias = Callable[[Answer], Awaitable[None]]


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A review that is about to run, or to go on."""

    services: Services
    config: ReviewConfig
    id: str
    folder: Path
    """Where its report and its reviewers' files go."""
    started: ReviewStarted
    planned: list[PlannedReview]
    """Those of its trials that have no answer yet."""
    agent: Agent
    gateway: bool = False
    """It calls its model through the engine's."""
    watch: Watcher
    """Told of the reviewers' own trials."""
    told: Told
    """Told of each review as it ends."""


class ReviewResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run of a review."""

    completed: int
    failed: int
    interrupted: bool
    problems: list[str]
    """Files that could not be written."""


def stream_of(review: str) -> str:
    """The name of a review's stream."""
    return f"review/{review}"


class _Record:
    """The writing end of a review's stream."""

    def __init__(self, review: Review, log: EventLog, version: int) -> None:
        self._review = review
        self._log = log
        self._version = version
        self._lock = anyio.Lock()

    async def tell(self, event: ReviewEvent) -> None:
        """Append, and wait until it is durable."""
        services = self._review.services
        async with self._lock:
            new = NewEvent(
                id=services.ids.event_id(), at=services.clock.now(), payload=event, causation=None
            )
            appended = await self._log.append(stream_of(self._review.id), self._version, [new])
            self._version = appended.version


async def run_review(review: Review) -> ReviewResult:
    """Review every planned trial, then finish. Each failure is its trial's own.

    The stream begins with ReviewStarted where it is new. Raises JobLocked while another process
    runs this review, ReviewStopped when the log fails under it, or the disk is full.
    """
    try:
        return await _run(review)
    except Exception as error:
        if (reason := stopped_by(error)) is not None:
            raise ReviewStopped(review.id, review.folder / review.started.path, reason) from error
        raise


async def _run(review: Review) -> ReviewResult:
    services = review.services
    async with own(services.jobs_folder, f"review-{review.id}"):
        head = await services.log.head(stream_of(review.id))
        agents = {review.config.agent: review.agent}
        secrets = secrets_of(services, {}) | secrets_of_agents(agents, services.environ)
        redactor = Redactor(secrets)
        log = redacting(services.log, redactor)
        record = _Record(review, log, head.version)
        if head.version == 0:
            await record.tell(review.started)
        elif (await read_review(services.log, review.id)).finished is not None:
            raise CommandRefused(f"review {review.id} is finished; start another")
        interruption = Interruption(None, review.watch)
        async with (
            interruption.listening(services.log, 0),
            scratch_folder(services.jobs_folder, f"review-{review.id}") as scratch,
            reaper(deadline=STOP_SEC) as removal,
            open_models(
                services.environ, services.model_client, needed=isinstance(review.agent, ChatAgent),
                limits=review.config.model_limits, prices=review.config.prices,
                call_timeout=MODEL_SEC, cost_limit=await _cost_limit(review),
                gateway=review.gateway,
            ) as models,
        ):  # fmt: skip
            await _clear_up(services)
            tasks: dict[str, TaskInJob | EpisodeTask] = {}
            files = ReviewerFiles(services.log, review.id, services.jobs_folder, review.folder)
            context = JobContext(
                job=review.id, folder=review.folder, scratch=scratch,
                config=job_config(review.config, services, gateway=review.gateway),
                log=log, log_id=services.log_id, backend=services.backend, clock=services.clock,
                ids=services.ids, files=files, reaper=removal, redactor=redactor, tasks=tasks,
                agents=agents, agent_env=dict(services.agent_env), verifier_env={},
                environ=services.environ, policies={}, hooks=None, worlds=services.worlds,
                judges=Judges(None), models=models, watch=review.watch,
                interruption=interruption, review=review.id,
            )  # fmt: skip
            reviewer = Reviewer(
                review.config, context, tasks, files, image_digest=review.started.image_digest,
                regrades=await _regrades(review),
            )  # fmt: skip
            await _Runner(review, reviewer, record).run(interruption)
        completed, wrong = counted((await read_review(services.log, review.id)).answers)
        if not interruption.interrupted:
            await record.tell(ReviewFinished(completed=completed, failed=wrong))
        report = await write_review(services.log, review.id, services.jobs_folder, review.folder)
    return ReviewResult(
        completed=completed,
        failed=wrong,
        interrupted=interruption.interrupted,
        problems=[str(problem) for problem in report.problems],
    )


async def _cost_limit(review: Review) -> CostLimit | None:
    """What all reviewers may cost together, less what they have cost before a resume."""
    dollars = review.config.max_total_cost
    if dollars is None:
        return None
    spent = await spent_before(review.services.log, review.id)
    return CostLimit(dollars, spent=spent, whose="the review's cost limit")


async def _regrades(review: Review) -> Sequence[Regrade]:
    """The reviewed job's regrades, whose answers are among its trials' files."""
    if review.started.job is None:
        return ()
    source = JobSource(review.services.log, review.started.job)
    await source.trials()
    return source.regrades


async def _clear_up(services: Services) -> None:
    """Remove what engines that were killed left behind."""
    await to_thread.run_sync(sweep, services.jobs_folder)
    try:
        await services.backend.reap(log_id=services.log_id)
    except SandboxError as error:
        logger().warning("what dead engines may have left stays", why=str(error))


class _Runner:
    """Reviews the planned trials, so many at once."""

    def __init__(self, review: Review, reviewer: Reviewer, record: _Record) -> None:
        self._review = review
        self._reviewer = reviewer
        self._record = record

    async def run(self, interruption: Interruption) -> None:
        queue = iter(self._review.planned)

        async def work() -> None:
            for planned in queue:
                if interruption.draining:
                    return
                interruption.running += 1
                try:
                    answer = await self._reviewer.review(planned)
                    await self._record.tell(answer)
                finally:
                    interruption.running -= 1
                await self._review.told(answer)

        with interruption.scope:
            async with anyio.create_task_group() as pool:
                for _ in range(min(self._review.config.concurrency, len(self._review.planned))):
                    pool.start_soon(work)
