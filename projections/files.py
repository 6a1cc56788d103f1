"""Which files a trial and a job have, and how each is made. A new kind of file is a new entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ..events.errors import LogCorrupt, LogError, said
from ..events.kinds import VerifierFailed, VerifierScored
from ..events.values import BlobRef
from .document import document
from .regrade import regrade
from .regrades import Regrade
from .result import result
from .rewards import rewards
from .steps import state_blobs, steps
from .summary import SummaryFold
from .trajectory import trajectory, trajectory_blobs
from .trial import TrialView

Blobs = Mapping[str, bytes]
"""Bytes by the blob's name."""


class TrialDocument(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A kind of file that every execution has."""

    path: str
    """Below the execution's folder."""
    render: Callable[[TrialView, Blobs, Sequence[Regrade]], bytes | None]
    """The bytes; None when the file is not due yet. Of the job it is given its regrades."""
    blobs: Callable[[TrialView], Iterable[BlobRef]] = lambda view: ()
    """The blobs whose bytes it needs."""
    grows: bool = False
    """It still changes after TrialFinished."""
    of_regrades: bool = False
    """Only trials that were regraded have it."""


class JobDocument(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A kind of file that every job has."""

    path: str
    """Below the job's folder."""
    render: Callable[[SummaryFold], bytes | None]
    of_regrades: bool = False
    """Only jobs that were regraded have it."""


class Copy(msgspec.Struct, frozen=True, gc=False):
    """A file that is a blob by nature."""

    path: str
    blob: BlobRef


class Problem(msgspec.Struct, frozen=True, gc=False):
    """A file that could not be made, and why."""

    path: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.path}: {said(self.error)}"


class Files(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All files of a folder, as the log has them."""

    documents: dict[str, bytes] = {}
    copies: list[Copy] = []
    problems: list[Problem] = []
    due: bool = True
    """They are all there by now: the execution is over, was given up, or waits for a person. Before
    that some may still be missing, or older."""
    known: bool = True
    """Others are not the log's. False where the log can't be read for what there should be."""


def _optional(found: msgspec.Struct | None) -> bytes | None:
    return None if found is None else document(found)


TRIAL_DOCUMENTS = (
    TrialDocument(
        path="steps.jsonl", render=lambda view, blobs, _: steps(view, blobs), blobs=state_blobs
    ),
    TrialDocument(
        path="rewards.jsonl", render=lambda view, _blobs, _regrades: rewards(view), grows=True
    ),
    TrialDocument(
        path="trajectory.json",
        render=lambda view, blobs, _: trajectory(view, blobs),
        blobs=trajectory_blobs,
    ),
    TrialDocument(
        path="regrade.json",
        render=lambda view, _, regrades: _optional(regrade(view, regrades)),
        grows=True,
        of_regrades=True,
    ),
    TrialDocument(
        path="result.json", render=lambda view, _blobs, _regrades: _optional(result(view))
    ),
)
"""In the order in which they are written: result.json is last, so that it says all is there."""

JOB_DOCUMENTS = (
    JobDocument(path="summary.json", render=lambda fold: _optional(fold.summary())),
    JobDocument(
        path="regrade-summary.json",
        render=lambda fold: _optional(fold.regrade_summary()),
        of_regrades=True,
    ),
)

CONSOLE = "verifier/test-stdout.txt"
ARTIFACTS = "artifacts"
REPLAY = "replay"
"""The two requests that differ first, of a trial that replays another."""
ELSEWHERE = ("reviews",)
"""Folders of a job that other projections own."""


def needed_blobs(view: TrialView) -> list[BlobRef]:
    """The blobs whose bytes the trial's documents need, each once."""
    found = (ref for kind in TRIAL_DOCUMENTS for ref in kind.blobs(view))
    return list({ref.blob: ref for ref in found}.values())


def trial_files(
    view: TrialView,
    blobs: Blobs,
    missing: Mapping[str, LogError] | None = None,
    regrades: Sequence[Regrade] = (),
    *,
    only_regrades: bool = False,
) -> Files:
    """An execution's files. `missing` has the blobs that could not be read, and why; `regrades` are
    the job's that are finished. `only_regrades` leaves out what regrades do not change.

    A file that can't be made is a problem of its own; the others are made all the same.
    """
    documents: dict[str, bytes] = {}
    problems: list[Problem] = []
    for kind in TRIAL_DOCUMENTS:
        if kind.of_regrades:
            if not any(view.started.trial in one.trials for one in regrades):
                continue
        elif only_regrades:
            continue
        blocked = view.blocked or (view.blocked_after_finish if kind.grows else None)
        lost = (missing[r.blob] for r in kind.blobs(view) if r.blob in missing) if missing else ()
        reason = blocked or next(iter(lost), None)
        if reason is not None:
            problems.append(Problem(kind.path, reason))
            continue
        try:
            rendered = kind.render(view, blobs, regrades)
        except LogCorrupt as corrupt:
            problems.append(Problem(kind.path, corrupt))
        else:
            if rendered is not None:
                documents[kind.path] = rendered
    copies: list[Copy] = []
    if view.blocked is None and not only_regrades:
        copies = _copies(view, problems)
    due = view.finish is not None or view.awaiting_review
    return Files(documents=documents, copies=copies, problems=problems, due=due)


def no_trial_files(reason: Exception, *, only_regrades: bool = False) -> Files:
    """Every document that any trial has is a problem, for this reason; or what regrades change."""
    paths = (kind.path for kind in TRIAL_DOCUMENTS if kind.of_regrades == only_regrades)
    return Files(problems=[Problem(path, reason) for path in paths], known=False)


def no_job_files(reason: Exception) -> Files:
    """The same of a job's own."""
    paths = (kind.path for kind in JOB_DOCUMENTS if not kind.of_regrades)
    return Files(problems=[Problem(path, reason) for path in paths])


def job_files(fold: SummaryFold, *, readable: bool = False) -> Files:
    """A job's own files. With `readable`, of the executions that can be read, for a person who is
    told of the others; without, such a one keeps them from being made."""
    documents: dict[str, bytes] = {}
    problems: list[Problem] = []
    for kind in JOB_DOCUMENTS:
        if kind.of_regrades and not fold.regrades.finished:
            continue
        blocked = fold.regrades_blocked if kind.of_regrades else fold.blocked
        if readable:
            blocked = fold.blocked_in_job
        if blocked is not None:
            problems.append(Problem(kind.path, blocked))
        elif (rendered := kind.render(fold)) is not None:
            documents[kind.path] = rendered
    return Files(documents=documents, problems=problems)


def _copies(view: TrialView, problems: list[Problem]) -> list[Copy]:
    """Console output, requests that differ, and artifacts, of which a path that is no plain one
    is a problem."""
    copies: dict[str, Copy] = {}
    for part in view.grading.values():
        graded: VerifierScored | VerifierFailed | None = part.scored or part.failed
        if graded is not None and graded.verifier_kind == "script" and graded.output is not None:
            copies[CONSOLE] = Copy(CONSOLE, graded.output.blob)
    if (differs := view.difference) is not None:
        requests = {"request.json": differs.request_now, "recorded.json": differs.request_recorded}
        for name, blob in requests.items():
            if blob is not None:
                copies[f"{REPLAY}/{name}"] = Copy(f"{REPLAY}/{name}", blob)
    for artifact in view.artifacts.artifacts if view.artifacts else ():
        path = f"{ARTIFACTS}/{artifact.path}"
        if is_plain(artifact.path):
            copies[path] = Copy(path, artifact.blob)
        else:
            reason = ValueError("this path would leave the folder, or is none; it is not written")
            problems.append(Problem(path, reason))
    return list(copies.values())


def is_plain(path: str) -> bool:
    """Whether a relative path stays where it starts, on every system's rules that matter here."""
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
