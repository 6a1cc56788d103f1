"""What happens to a rubric review: stream ``review/<review>``."""

from __future__ import annotations

from ..payload import Part, Payload
from ..values import BlobRef, Json, Text
from .job import AgentSnapshot


class ReviewCriterion(Part, frozen=True, kw_only=True):
    """One criterion of a review rubric."""

    name: str
    description: Text
    guidance: Text


class ReviewCheck(Part, frozen=True, kw_only=True):
    """A reviewer's answer to one criterion."""

    outcome: str
    explanation: Text


class ReviewStarted(Payload, frozen=True, kw_only=True):
    """A review chose its trials. By the review runner."""

    review: str
    path: str
    out_dir: str
    trials: list[str]
    selection: str
    rubric_path: str | None = None
    criteria: list[ReviewCriterion] = []
    rubrics: dict[str, BlobRef] = {}
    """The rubric of each trial where they differ."""
    rubric_paths: dict[str, str | None] = {}
    """The file of each trial's rubric where they differ."""
    agent: str
    model: str | None = None
    sandbox: str
    image_digest: str | None = None
    network: str
    notes: dict[str, list[str]] = {}
    job: str | None = None
    """The job whose trials are reviewed."""
    single: bool = False
    """`path` is the one trial's folder, not its job's."""
    config: Json | None = None
    """All that a resume needs to go on in the same way, escaped."""
    program: AgentSnapshot | None = None
    """The reviewer's program, so that a resume runs the same."""


class ReviewCompleted(Payload, frozen=True, kw_only=True):
    """A reviewer answered every criterion of a trial. By the review runner."""

    trial: str
    reviewer_trial: str
    summary: Text
    checks: dict[str, ReviewCheck]
    rubric_path: str | None = None
    notes: list[str] = []
    criteria: list[str] = []
    """The names of the rubric's criteria, in its order."""
    models_reported: list[str] = []
    """What the reviewer's model called itself, in the order in which it did."""


class ReviewFailed(Payload, frozen=True, kw_only=True):
    """A trial's review crashed or answered in a form that is no review. By the review runner."""

    trial: str
    reviewer_trial: str | None = None
    error: Text
    category: str
    rubric_path: str | None = None
    notes: list[str] = []
    reply: Json | None = None
    criteria: list[str] = []
    """The names of the rubric's criteria, in its order."""


class ReviewFinished(Payload, frozen=True, kw_only=True):
    """Every chosen trial was answered or failed. By the review runner."""

    completed: int
    failed: int
