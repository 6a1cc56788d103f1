"""What those who watch a regrade are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from ...events.kinds import RegradeFailed, RegradePlanned, RegradeScored
from ...events.values import Text
from ...projections.regrades import Graded, Verdict, graded_by, verdict_of
from .plan import Refusal
from .stored import StoredTrial


class RegradeOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A regrade begins, or goes on."""

    planned: RegradePlanned
    resumed: bool = False
    """It was cut off before."""


class Digests(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier's files in the run and now, by digest; null where it has no verdict or is gone."""

    run: str | None
    now: str | None


class TrialRegraded(msgspec.Struct, frozen=True, kw_only=True):
    """A trial has its answer; or, of a plan, would be regraded (`verdict` is null then)."""

    trial: str
    task: str
    original: Graded
    new: Graded = Graded()
    verdict: Verdict | None = None
    reason: str | None = None
    """Why it failed, or is not regradable."""
    category: str | None = None
    notes: list[str] = []
    warnings: list[Text] = []
    verifiers: dict[str, Digests] = {}
    """Of a plan: what would grade it, by the verifier's name."""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is no trial's."""

    message: str


RegradeReport: TypeAlias = RegradeOpened | TrialRegraded | Noted
RegradeWatcher: TypeAlias = Callable[[RegradeReport], None]


def answered_trial(
    trial: StoredTrial, outcome: RegradeScored | RegradeFailed, notes: list[str]
) -> TrialRegraded:
    """What a regrade came to."""
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


def refused_trial(
    trial: StoredTrial,
    refused: Refusal | None,
    *,
    notes: Sequence[str] = (),
    verifiers: Mapping[str, str] | None = None,
) -> TrialRegraded:
    """A trial that is not regraded; or, of a plan, without `refused`, that would be.

    `verifiers` are the digests of those that would grade it, by name.
    """
    return TrialRegraded(
        trial=trial.trial,
        task=trial.task,
        original=trial.original,
        verdict=None if refused is None else "not_regradable",
        reason=refused.reason if refused else None,
        category=refused.category if refused else None,
        notes=list(notes),
        verifiers={} if verifiers is None else _compared(trial, verifiers),
    )


def _compared(trial: StoredTrial, verifiers: Mapping[str, str]) -> dict[str, Digests]:
    run = {name: verdict.digest for name, verdict in trial.verdicts.items()}
    return {
        name: Digests(run=run.get(name), now=verifiers.get(name))
        for name in sorted(run.keys() | verifiers.keys())
    }
