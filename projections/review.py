"""review_report.json: what reviewers found in finished trials.

Folded from the review's own stream and nothing else: no event of a reviewed trial is read, and
none of them can change. The shape is the rubric contract v0.1 of BenchFlow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from ..events.codec import decode
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, UnknownEvent
from ..events.kinds import (
    Event,
    ReviewCompleted,
    ReviewFailed,
    ReviewFinished,
    ReviewStarted,
)
from ..events.values import BlobRef, Text
from .document import document
from .texts import full_text

OUTCOMES = ("pass", "fail", "not_applicable")
"""What a criterion can be answered with."""
RUNTIME = "runtime"
"""The folder of reviewers' own runs, below a review's."""
PENDING = "not reviewed: the review was cut off before this trial"

_Answer: TypeAlias = ReviewCompleted | ReviewFailed


class RubricUsed(msgspec.Struct, frozen=True):
    """`path` is null for the built-in rubric, and where trials had different ones."""

    path: str | None
    criteria: list[str]
    """Of all trials' rubrics, each name once, in the order of their first use."""


class Reviewer(msgspec.Struct, frozen=True):
    """Who reviewed, and what it could reach."""

    agent: str
    model: str | None
    environment: str
    network: str


class Check(msgspec.Struct, frozen=True):
    """The answer to one criterion."""

    explanation: str
    outcome: str


class ReviewedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial's review, or why there is none."""

    trial_name: str
    source_rollout: str
    review_valid: bool
    summary: str | None
    checks: dict[str, Check]
    error: str | None
    reviewer_rollout: str | None
    rubric_path: str | None
    criteria: list[str]
    notes: list[str]


class ReviewReport(msgspec.Struct, frozen=True, kw_only=True):
    """review_report.json. Paths are relative to its folder, but for those outside of the jobs."""

    path: str
    rubric: RubricUsed
    reviewer: Reviewer
    job_summary: str
    trials: list[ReviewedTrial]


class ReviewFold:
    """Folds the stream ``review/<review>``."""

    def __init__(self) -> None:
        self.started: ReviewStarted | None = None
        self.finished: ReviewFinished | None = None
        self.blocked: LogCorrupt | None = None
        """The event that the report can't be read past."""
        self._answers: dict[str, _Answer] = {}

    def feed(self, events: Iterable[RecordedEvent]) -> None:
        """Take in more of the stream, in order."""
        for event in events:
            if self.blocked is not None:
                return
            try:
                self._apply(event, decode(event))
            except UnknownEvent as unknown:
                if not event.ignorable:
                    self.blocked = unknown
            except LogCorrupt as corrupt:
                self.blocked = corrupt

    def _apply(self, event: RecordedEvent, payload: Event) -> None:
        match payload:
            case ReviewStarted():
                self.started = payload
            case ReviewCompleted() | ReviewFailed():
                self._answers[payload.trial] = payload
            case ReviewFinished():
                self.finished = payload
            case _:
                raise LogCorrupt(
                    f"stream {event.stream!r} version {event.version}",
                    f"a {event.kind} has no place in a review's stream",
                )

    @property
    def open_trials(self) -> list[str]:
        """The chosen trials that have no answer yet."""
        chosen = self.started.trials if self.started is not None else ()
        return [trial for trial in chosen if trial not in self._answers]

    @property
    def answers(self) -> list[ReviewCompleted | ReviewFailed]:
        """What is known of the chosen trials, in the report's order."""
        chosen = self.started.trials if self.started is not None else ()
        return [self._answers[trial] for trial in chosen if trial in self._answers]

    @property
    def reviewers(self) -> list[tuple[str, str]]:
        """The reviewers' own runs: the reviewed trial and the reviewer's, in the report's order."""
        return [
            (answer.trial, answer.reviewer_trial)
            for answer in self.answers
            if answer.reviewer_trial is not None
        ]

    def blobs(self) -> list[BlobRef]:
        """The blobs that the report's texts are in, each once."""
        found: dict[str, BlobRef] = {}
        for answer in self.answers:
            texts = [answer.error] if isinstance(answer, ReviewFailed) else _texts(answer)
            found |= {text.blob: text for text in texts if isinstance(text, BlobRef)}
        return list(found.values())

    def report(self, blobs: Mapping[str, bytes]) -> ReviewReport | None:
        """The report; None before the review's end. `blobs` has those of `blobs`."""
        started = self.started
        if started is None or self.finished is None:
            return None
        changed = self._model_changed(started)
        trials = [self._trial(started, trial, changed, blobs) for trial in started.trials]
        paths = {trial.rubric_path for trial in trials}
        names = [name for trial in trials for name in trial.criteria]
        return ReviewReport(
            path=started.path,
            rubric=RubricUsed(
                path=paths.pop() if len(paths) == 1 else None,
                criteria=list(dict.fromkeys(names)),
            ),
            reviewer=Reviewer(started.agent, started.model, started.sandbox, started.network),
            job_summary=job_summary(trials),
            trials=trials,
        )

    def _model_changed(self, started: ReviewStarted) -> dict[str, str]:
        """A note for each trial whose model called itself otherwise than the review's first."""
        names = {
            answer.trial: answer.models_reported
            for answer in self.answers
            if isinstance(answer, ReviewCompleted)
        }
        first = next((name for told in names.values() for name in told), None)
        return {
            trial: f"{started.model} called itself {' and then '.join(told)}, and {first} before: "
            "the reviews are of different models"
            for trial, told in names.items()
            if any(name != first for name in told)
        }

    def _trial(
        self,
        started: ReviewStarted,
        trial: str,
        changed: Mapping[str, str],
        blobs: Mapping[str, bytes],
    ) -> ReviewedTrial:
        answer = self._answers.get(trial)
        valid = answer if isinstance(answer, ReviewCompleted) else None
        own = None if answer is None else answer.reviewer_trial
        notes = [*started.notes.get(trial, ()), *(answer.notes if answer is not None else ())]
        if trial in changed:
            notes.append(changed[trial])
        return ReviewedTrial(
            trial_name=trial,
            source_rollout=started.path if started.single else f"{started.path}/{trial}",
            review_valid=valid is not None,
            summary=full_text(valid.summary, blobs) if valid else None,
            checks={
                name: Check(full_text(check.explanation, blobs), check.outcome)
                for name, check in (valid.checks.items() if valid else ())
            },
            error=_error(answer, blobs),
            reviewer_rollout=None if own is None else runtime_path(trial, own),
            rubric_path=answer.rubric_path
            if answer is not None
            else started.rubric_paths.get(trial, started.rubric_path),
            criteria=[c.name for c in started.criteria] if answer is None else answer.criteria,
            notes=list(dict.fromkeys(notes)),
        )


def runtime_path(trial: str, reviewer_trial: str) -> str:
    """The folder of a reviewer's own run, below the review's."""
    return f"{RUNTIME}/{trial}/{reviewer_trial}"


def job_summary(trials: Iterable[ReviewedTrial]) -> str:
    """A sentence on how many reviews are valid, and one a criterion on what they say."""
    known = list(trials)
    valid = [trial for trial in known if trial.review_valid]
    counts: dict[str, dict[str, int]] = {}
    for trial in valid:
        for name, check in trial.checks.items():
            of_this = counts.setdefault(name, dict.fromkeys(OUTCOMES, 0))
            of_this[check.outcome] = of_this.get(check.outcome, 0) + 1
    lines = [f"{len(valid)} of {len(known)} trial{'s' * (len(known) != 1)} reviewed."]
    for name, by_outcome in counts.items():
        told = ", ".join(f"{count} {outcome}" for outcome, count in by_outcome.items())
        lines.append(f"{name}: {told}.")
    return " ".join(lines)


def review_document(fold: ReviewFold, blobs: Mapping[str, bytes]) -> bytes | None:
    """The bytes of review_report.json; None before the review's end."""
    report = fold.report(blobs)
    return None if report is None else document(report)


def _texts(answer: ReviewCompleted) -> list[Text]:
    return [answer.summary, *(check.explanation for check in answer.checks.values())]


def _error(answer: _Answer | None, blobs: Mapping[str, bytes]) -> str | None:
    if answer is None:
        return PENDING
    return full_text(answer.error, blobs) if isinstance(answer, ReviewFailed) else None
