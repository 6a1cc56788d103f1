"""What a review will do: its trials, the rubric of each, and what each reviewer may read.

All that a user can get wrong is found here, before anything is written or started.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from anyio import to_thread

from ...events.kinds.review import ReviewCriterion
from ...events.log import BlobStore
from ..tasks.snapshot import extract
from .admitting import admit
from .choosing import Subject
from .decide import Asked
from .rubric import BUILT_IN, ReviewRubric, discover_rubric, load_rubric


class PlannedReview(msgspec.Struct, frozen=True, kw_only=True):
    """One trial's review before it is made."""

    subject: Subject
    criteria: list[ReviewCriterion]
    rubric: Path | None = None
    """The rubric's file; null for the built-in one."""
    rubric_path: str | None = None
    """That, as the report shows it."""
    task: Path | None
    """The task's folder, where it was admitted as evidence."""
    notes: list[str]

    @property
    def asked(self) -> Asked:
        """What the stream says of it."""
        return Asked(
            trial=self.subject.trial,
            criteria=[criterion.name for criterion in self.criteria],
            rubric_path=self.rubric_path,
            notes=self.notes,
        )


async def planned_again(
    subject: Subject,
    criteria: Sequence[ReviewCriterion],
    rubric_path: str | None,
    tasks_root: Path | None,
) -> PlannedReview:
    """One trial's review as it was planned before, its rubric as that was then."""
    admission = await to_thread.run_sync(admit, subject, tasks_root)
    return PlannedReview(
        subject=subject,
        criteria=list(criteria),
        rubric_path=rubric_path,
        task=admission.folder,
        notes=subject.notes + ([admission.note] if admission.note else []),
    )


async def plan_reviews(
    subjects: Sequence[Subject], blobs: BlobStore, *, rubric: Path | None, tasks_root: Path | None
) -> list[PlannedReview]:
    """Resolve each trial's rubric and evidence. Raises ConfigError for a rubric that is none."""
    given = None if rubric is None else await to_thread.run_sync(load_rubric, rubric)
    planned: list[PlannedReview] = []
    known: dict[str, ReviewRubric | None] = {}
    for subject in subjects:
        admission = await to_thread.run_sync(admit, subject, tasks_root)
        own = given or await _tasks_own(subject, admission.folder, blobs, known)
        chosen = own or BUILT_IN
        planned.append(
            PlannedReview(
                subject=subject,
                criteria=list(chosen.criteria),
                rubric=chosen.path,
                task=admission.folder,
                notes=subject.notes + ([admission.note] if admission.note else []),
            )
        )
    return planned


async def _tasks_own(
    subject: Subject,
    admitted: Path | None,
    blobs: BlobStore,
    known: dict[str, ReviewRubric | None],
) -> ReviewRubric | None:
    """The rubric that the trial's task brought: as its job took it, else from its folder."""
    if admitted is not None:
        return await to_thread.run_sync(discover_rubric, admitted)
    snapshot = subject.snapshot
    if snapshot is None or snapshot.layout == "project":
        return None
    if snapshot.digest not in known:
        data = await blobs.get(snapshot.snapshot)
        known[snapshot.digest] = await to_thread.run_sync(
            _of_snapshot, data, snapshot.task, Path(snapshot.path)
        )
    return known[snapshot.digest]


def _of_snapshot(data: bytes, task: str, origin: Path) -> ReviewRubric | None:
    with tempfile.TemporaryDirectory(prefix="trialog-review-") as folder:
        place = Path(folder, "task")
        extract(data, place, name=task)
        found = discover_rubric(place)
        if found is None or found.path is None:
            return None
        return ReviewRubric(found.criteria, origin / found.path.relative_to(place))


def seen_from(path: Path, folder: Path) -> str:
    """A path as a file in `folder` names it."""
    return os.path.relpath(path.absolute(), folder.absolute())
