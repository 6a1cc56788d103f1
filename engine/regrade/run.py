"""A regrade from its plan to its files; one that was cut off goes on with what is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...events.kinds import RegradePlanned
from ...events.kinds.job import TaskSnapshot
from ...events.log import BlobStore
from ...events.memory import MemoryLog
from ..errors import CommandRefused, ConfigError, RegradeStopped
from ..full_disk import stopped_by
from ..job.config import JobConfig
from ..job.environment import unseal
from ..job.lock import own
from ..job.record import JobRecord
from ..job.refuse import refuse_imported
from ..job.services import Services
from ..job.state import JobState
from ..labels.current import job_tasks
from ..redact import Redactor
from ..redacting_log import redacting
from ..verifier.script import SCRIPT
from .choosing import choose_trials
from .decide import new_id
from .progress import Progress, load_progress
from .report import Noted, RegradeWatcher
from .running import RegradeResult, Running
from .taking import take_as_run, take_current


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants regraded, and how."""

    trial: str | None = None
    """One trial; else the job's."""
    trials: list[str] | None = None
    """Exactly these of the job's, in place of a choice by pattern."""
    include: list[str] = []
    tasks_root: Path | None = None
    verifier_only: str | None = None
    as_of_run: bool = False
    call_models: bool = False
    judge_max_cost: float | None = None
    """Dollars that judges may cost together."""
    reason: str | None = None
    author: str | None = None
    image: str | None = None


async def regrade_job(
    services: Services, job: str, wish: Wish, watch: RegradeWatcher, *, concurrency: int = 4
) -> RegradeResult:
    """Plan a regrade and run it to its end.

    Raises ConfigError and CommandRefused before anything is appended; JobLocked while another
    process runs or regrades the job; RegradeStopped when the log fails under it, or the disk is
    full.
    """
    async with own(services.jobs_folder, job):
        progress = await load_progress(services.log, job)
        if progress.unfinished is not None:
            given_up = f"regrade {progress.unfinished.id} was cut off and is given up"
            watch(Noted(message=f"{given_up}; --resume would have gone on with it"))
        planned = await _plan(services, job, progress, wish)
        record = _record(services, job, progress.state)
        (cause,) = await record.tell(planned.event)
        running = Running(services, job, progress, planned.event, cause, planned.gone)
        return await _to_its_end(running, watch, concurrency)


async def resume_regrade(
    services: Services, job: str, watch: RegradeWatcher, *, concurrency: int = 4
) -> RegradeResult:
    """Go on with the job's last regrade, which was cut off; what is done is not repeated.

    Raises CommandRefused when there is none.
    """
    async with own(services.jobs_folder, job):
        running = await _cut_off(services, job)
        return await _to_its_end(running, watch, concurrency)


async def plan_resume(services: Services, job: str, watch: RegradeWatcher) -> None:
    """Tell what `resume_regrade` would do; nothing is appended and nothing is graded.

    Raises CommandRefused when there is none to resume.
    """
    await (await _cut_off(services, job)).look(watch)


async def _cut_off(services: Services, job: str) -> Running:
    progress = await load_progress(services.log, job)
    if progress.unfinished is None:
        raise CommandRefused(f"no regrade of job {job} was cut off, so there is none to resume")
    return Running(services, job, progress, progress.unfinished.planned, progress.cause, {})


async def _to_its_end(running: Running, watch: RegradeWatcher, concurrency: int) -> RegradeResult:
    try:
        return await running.run(watch, concurrency)
    except Exception as error:
        if (reason := stopped_by(error)) is not None:
            id, folder = running.planned.regrade_id, running.folder
            raise RegradeStopped(id, running.job, folder, reason) from error
        raise


async def plan_regrade(services: Services, job: str, wish: Wish, watch: RegradeWatcher) -> None:
    """Tell what `regrade_job` would do; nothing is appended and nothing is graded."""
    progress = await load_progress(services.log, job)
    if progress.unfinished is not None:
        given_up = f"regrade {progress.unfinished.id} was cut off and would be given up"
        watch(Noted(message=f"{given_up}; --resume goes on with it"))
    planned = await _plan(services, job, progress, wish, dry=True)
    running = Running(services, job, progress, planned.event, "", planned.gone, planned.store)
    await running.look(watch)


class _Planned(msgspec.Struct, frozen=True):
    event: RegradePlanned
    gone: dict[str, str]
    store: BlobStore
    """Where the tasks' snapshots are."""


async def _plan(
    services: Services, job: str, progress: Progress, wish: Wish, *, dry: bool = False
) -> _Planned:
    log, state = services.log, progress.state
    assert state.started is not None
    refuse_imported(state.started, "regraded")
    config = msgspec.convert(state.started.config, JobConfig)
    # A secret that is not there is told before anything is appended.
    unseal(config.verifier_env, services.verifier_env, services.environ, "--verifier-env")
    chosen = await choose_trials(log, job, state, trial=wish.trial, include=wish.include)
    if wish.trials is not None:
        chosen = [one for one in chosen if one.trial in wish.trials]
    needed = {one.slot.task for one in chosen}
    recorded = state.started.tasks
    store = log.blobs
    if wish.as_of_run:
        taken = await take_as_run(recorded, needed, store)
    else:
        if dry:  # what is only looked at is not kept
            store = MemoryLog().blobs
        taken = await take_current(recorded, needed, store, wish.tasks_root)
    if wish.verifier_only is not None:
        listing = await _listing(wish.verifier_only, taken.snapshots, store)
        chosen = [one for one in chosen if one.slot.task in listing]
    scripted = any(task.layout != "project" for task in recorded if task.task in needed)
    event = RegradePlanned(
        regrade_id=new_id(services.clock.now(), progress.ids),
        tasks=taken.snapshots,
        trials=[one.trial for one in chosen],
        author=wish.author,
        reason=wish.reason,
        as_of_run=wish.as_of_run,
        verifier_only=wish.verifier_only,
        sandbox=services.backend.name if scripted else None,
        image=wish.image,
        call_models=wish.call_models,
        judge_max_cost=wish.judge_max_cost,
    )
    return _Planned(event, taken.gone, store)


async def _listing(name: str, snapshots: Sequence[TaskSnapshot], blobs: BlobStore) -> set[str]:
    """The tasks that are graded by a verifier of that name. Raises ConfigError for none."""
    found: set[str] = set()
    known: set[str] = set()
    for task, of_project in (await job_tasks(snapshots, blobs)).items():
        names = [SCRIPT] if of_project is None else of_project.verifiers
        known.update(names)
        if name in names:
            found.add(task)
    if not found:
        raise ConfigError(
            f"no task has a verifier {name!r}; they have: {', '.join(sorted(known)) or 'none'}",
            key="--verifier-only",
        )
    return found


def _record(services: Services, job: str, state: JobState) -> JobRecord:
    clock, ids = services.clock, services.ids
    log = redacting(services.log, Redactor(services.secrets))
    return JobRecord(log, job, clock=clock, ids=ids, version=state.version)
