"""A review that begins, and one that goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from ...events.kinds import ReviewStarted
from ...events.kinds.review import ReviewCriterion
from ...events.log import BlobStore, EventLog
from ...events.values import BlobRef
from ...projections.review import RUNTIME
from ...projections.reviews import read_review
from ..agents import Agent
from ..errors import CommandRefused, ConfigError, SandboxError
from ..job.agents import take_agents
from ..job.folders import claim
from ..job.services import Services
from ..sandbox.protocol import ImageRequest
from .choosing import Subject, choose
from .config import ReviewConfig, recorded
from .planning import PlannedReview, plan_reviews, planned_again, seen_from

FOLDER = "reviews"
"""Below a job's folder: its reviews, one folder each."""
IMAGE_SEC = 600.0


class Named(NamedTuple):
    """What the user wants reviewed."""

    subjects: list[Subject]
    job: str | None
    """Null for trials that only their files tell of."""
    path: Path
    """The job's folder, or the one trial's."""
    folder: Path
    """The job's folder, which reviews go into by default."""


class Beginning(NamedTuple):
    """A review before its reviewers work."""

    id: str
    folder: Path
    started: ReviewStarted
    planned: list[PlannedReview]


async def new_review(
    services: Services,
    config: ReviewConfig,
    named: Named,
    out_dir: Path | None,
    agent: Agent,
) -> Beginning:
    """Choose and plan; makes the review's folder. Raises ConfigError, CommandRefused."""
    subjects = choose(named.subjects, config.selection)
    if not subjects:
        raise CommandRefused(
            f"of {len(named.subjects)} finished trials none is chosen by --{config.selection}"
            if named.subjects
            else "there is no finished trial to review"
        )
    root = config.tasks_root
    if root is not None and not await to_thread.run_sync(root.is_dir):
        raise ConfigError("there is no such folder", file=root, key="--tasks-root")
    blobs = services.log.blobs
    planned = await plan_reviews(
        subjects, blobs, rubric=config.rubric, tasks_root=config.tasks_root
    )
    digest = await _image(services, config)
    [snapshot] = await take_agents({config.agent: agent}, blobs)
    review = _name(services)
    out = (out_dir or named.folder / FOLDER / review).absolute()
    planned = [
        replace(one, rubric_path=None if one.rubric is None else seen_from(one.rubric, out))
        for one in planned
    ]
    if not await to_thread.run_sync(_taken, out):
        raise ConfigError(
            "this folder is not empty: an earlier review's report may be in it; give another one, "
            "or none",
            file=out,
            key="--out-dir",
        )
    alike = len({(tuple(one.criteria), one.rubric) for one in planned}) == 1
    started = ReviewStarted(
        review=review,
        path=seen_from(named.path, out),
        out_dir=_below(out, services.jobs_folder),
        trials=[one.subject.trial for one in planned],
        selection=config.selection,
        rubric_path=planned[0].rubric_path if alike else None,
        criteria=planned[0].criteria if alike else [],
        rubrics={} if alike else await _rubrics(planned, blobs),
        rubric_paths={} if alike else {one.subject.trial: one.rubric_path for one in planned},
        agent=config.agent,
        model=config.model,
        sandbox=services.backend.name,
        image_digest=digest,
        network=config.network,
        notes={one.subject.trial: one.notes for one in planned if one.notes},
        job=named.job,
        single=config.single,
        config=recorded(config),
        program=snapshot,
    )
    return Beginning(review, out, started, planned)


class Unfinished(NamedTuple):
    """A review that was cut off."""

    begun: ReviewStarted
    open_trials: list[str]


async def started_review(log: EventLog, named: Named, review: str) -> Unfinished:
    """A review that can go on. Raises CommandRefused for one that is not of these trials, or that
    has finished."""
    fold = await read_review(log, review)
    started = fold.started
    if started is None or started.job != named.job:
        raise CommandRefused(f"there is no review {review} of {named.path.name}")
    if fold.blocked is not None:
        raise fold.blocked
    if fold.finished is not None:
        raise CommandRefused(f"review {review} is finished; `trialog review show` shows it")
    return Unfinished(started, fold.open_trials)


async def resumed_review(
    services: Services,
    config: ReviewConfig,
    named: Named,
    unfinished: Unfinished,
) -> Beginning:
    """Go on with a review: its own rubric and trials, those that have no answer yet.

    Raises CommandRefused where other trials are named.
    """
    started = unfinished.begun
    out = services.jobs_folder / started.out_dir
    if started.path != seen_from(named.path, out):
        raise CommandRefused(
            f"review {started.review} is of {started.path} (seen from {out}), not of {named.path}"
        )
    known = {subject.trial: subject for subject in named.subjects}
    criteria = await _recorded_criteria(started, services.log.blobs)
    planned = [
        await planned_again(
            known[trial], criteria[trial], started.rubric_paths.get(trial, started.rubric_path),
            config.tasks_root,
        )
        for trial in unfinished.open_trials if trial in known
    ]  # fmt: skip
    await to_thread.run_sync(claim, out)
    return Beginning(started.review, out, started, planned)


def _name(services: Services) -> str:
    """A review's name: its time, and six random hex digits."""
    moment = services.clock.now()
    return f"{moment[:19].replace('-', '').replace(':', '')}Z-{services.ids.suffix()[:6]}"


async def _image(services: Services, config: ReviewConfig) -> str | None:
    """The digest of the image that every reviewer works in; null on this machine's own system."""
    if services.backend.name == "docker" and config.image is None:
        raise ConfigError(
            "reviewers on Docker work in one image that you name, never in the reviewed task's; "
            "give --image or $TRIALOG_IMAGE"
        )
    if services.backend.name != "docker":
        return None
    request = ImageRequest(task="review", name=config.image, build_timeout_sec=IMAGE_SEC)
    try:
        return (await services.backend.prepare(request)).digest
    except SandboxError as error:
        raise ConfigError(f"the reviewers' image can't be used: {error}", key="--image") from error


async def _rubrics(planned: Sequence[PlannedReview], blobs: BlobStore) -> dict[str, BlobRef]:
    return {
        one.subject.trial: await blobs.put(msgspec.json.encode(one.criteria)) for one in planned
    }


async def _recorded_criteria(
    started: ReviewStarted, blobs: BlobStore
) -> Mapping[str, list[ReviewCriterion]]:
    found = dict.fromkeys(started.trials, started.criteria)
    for trial, ref in started.rubrics.items():
        found[trial] = msgspec.json.decode(await blobs.get(ref), type=list[ReviewCriterion])
    return found


def _taken(folder: Path) -> bool:
    """Make a review's folder its own, or take an empty one; False for one that is not empty."""
    claim(folder)
    return not any(folder.iterdir()) and claim(folder / RUNTIME)


def _below(folder: Path, jobs_folder: Path) -> str:
    """The folder relative to the log's, or whole where it lies elsewhere."""
    whole = Path(os.path.abspath(folder))
    return str(whole.relative_to(jobs_folder) if whole.is_relative_to(jobs_folder) else whole)
