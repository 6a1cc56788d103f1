"""A job's regrades, and what each made of a trial: folds over the job's and the trials' events.

All of a regrade is current or none of it: its verdicts stand from the moment that it is finished.
One that was cut off shows nowhere but in the log.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from ..events.envelope import RecordedEvent
from ..events.kinds import (
    RegradeFailed,
    RegradeFinished,
    RegradePlanned,
    RegradeScored,
    RegradeSkipped,
    RegradeStarted,
    TrialScored,
)
from ..events.values import Text
from .document import compact
from .names import Names
from .trial import TrialView

Verdict: TypeAlias = Literal[
    "pass->fail", "fail->pass", "unscored->pass", "unscored->fail", "reward_changed", "unchanged",
    "failed", "not_regradable",
]  # fmt: skip
CHANGED = frozenset(
    {"pass->fail", "fail->pass", "unscored->pass", "unscored->fail", "reward_changed"}
)
FLAKY = "verifier_flaky"
"""Code of the warning of a verifier that, as it was in the run, gives something else now."""


class Graded(msgspec.Struct, frozen=True, gc=False):
    """What a grading came to; nulls where there was none."""

    reward: float | None = None
    passed: bool | None = None


class Skipped(msgspec.Struct, frozen=True):
    """A trial that a regrade could not take, and where the log says so."""

    payload: RegradeSkipped
    event: RecordedEvent


class Regrade(msgspec.Struct, kw_only=True):
    """A regrade as the job's stream tells it. Private to one fold, which changes it in place."""

    planned: RegradePlanned
    """Once it is finished, without its trials."""
    trials: Names
    """Those that it chose."""
    at: str
    skipped: dict[str, Skipped] = {}
    finished: RegradeFinished | None = None

    @property
    def id(self) -> str:
        """Its name."""
        return self.planned.regrade_id


def by_weight(regrades: Iterable[Regrade]) -> list[Regrade]:
    """Finished regrades in the order in which their verdicts stand, the last over the others.

    One that ran the verifiers as they were in the run says how stable the run's own verdict is; it
    takes no mended verdict's place, whenever it was made.
    """
    return sorted(regrades, key=lambda one: not one.planned.as_of_run)


class RegradesFold:
    """Folds the regrades out of a job's own stream."""

    def __init__(self) -> None:
        self._planned: dict[str, Regrade] = {}
        self.finished: list[Regrade] = []
        """In the order in which they were finished."""

    @property
    def unfinished(self) -> Regrade | None:
        """The last one, if it was cut off; `--resume` goes on with it."""
        last = next(reversed(self._planned.values()), None)
        return last if last is not None and last.finished is None else None

    def take(
        self, event: RecordedEvent, payload: RegradePlanned | RegradeSkipped | RegradeFinished
    ) -> None:
        """One more event of the job's."""
        match payload:
            case RegradePlanned():
                self._planned[payload.regrade_id] = Regrade(
                    planned=payload, trials=Names(payload.trials), at=event.at
                )
            case RegradeSkipped():
                if (found := self._planned.get(payload.regrade_id)) is not None:
                    found.skipped.setdefault(payload.trial, Skipped(payload, event))
            case _:
                found = self._planned.get(payload.regrade_id)
                if found is not None and found.finished is None:
                    found.finished = payload
                    found.planned = msgspec.structs.replace(found.planned, trials=[])
                    self.finished.append(found)


class Regraded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one regrade made of one trial; all that a job's summary keeps of it.

    Nothing that is each trial's own, such as a time: what is the same is kept once.
    """

    regrade_id: str
    graded: Graded
    digest: str | None
    error: Text | None
    flaky: bool


def answered(view: TrialView) -> dict[str, tuple[RecordedEvent, RegradeScored | RegradeFailed]]:
    """The answer of each regrade that has one, by the regrade's id; the first holds."""
    found: dict[str, tuple[RecordedEvent, RegradeScored | RegradeFailed]] = {}
    for event, payload in view.regrades:
        if not isinstance(payload, RegradeStarted):
            found.setdefault(payload.regrade_id, (event, payload))
    return found


def regraded(view: TrialView) -> tuple[Regraded, ...]:
    """What a job's summary takes of a trial's regrades, finished or not."""
    return tuple(
        Regraded(
            regrade_id=id,
            graded=graded_by(answer),
            digest=digest_of((v.verifier, v.digest) for v in answer.verdicts),
            error=answer.error if isinstance(answer, RegradeFailed) else None,
            flaky=isinstance(answer, RegradeScored) and FLAKY in answer.warnings,
        )
        for id, (_, answer) in answered(view).items()
    )


def latest_verdict(view: TrialView, finished: Iterable[str]) -> RegradeScored | None:
    """What the last of the `finished` regrades (ids, by weight) gave whose verifiers gave one."""
    answers = answered(view)
    scored = [answers[id][1] for id in finished if id in answers]
    given = [one for one in scored if isinstance(one, RegradeScored) and one.reward_valid]
    return given[-1] if given else None


def graded_by(answer: RegradeScored | RegradeFailed) -> Graded:
    """What a regrade came to."""
    if isinstance(answer, RegradeFailed):
        return Graded()
    return Graded((answer.rewards or {}).get("reward"), answer.passed)


def original(view: TrialView) -> Graded:
    """What the run itself came to, as result.json has it."""
    outcome = view.finish.payload.outcome if view.finish else None
    if outcome == "scored" and isinstance(view.conclusion, TrialScored):
        return Graded((view.conclusion.rewards or {}).get("reward"), view.conclusion.passed)
    return Graded(None, False if outcome == "errored" else None)


def verdict_of(before: Graded, after: Graded) -> Verdict:
    """How a regrade's answer compares with the run's."""
    if after.passed is None:
        return "failed"
    if before.passed is None:
        return "unscored->pass" if after.passed else "unscored->fail"
    if before.passed != after.passed:
        return "fail->pass" if after.passed else "pass->fail"
    return "unchanged" if before.reward == after.reward else "reward_changed"


def digest_of(verifiers: Iterable[tuple[str, str]]) -> str | None:
    """One digest for all that graded a trial: a single verifier's own, null for none.

    Of several it is SHA-256 over the JSON object of name → digest, keys sorted.
    """
    digests = dict(sorted(verifiers))
    if len(digests) > 1:
        return sys.intern(f"sha256:{hashlib.sha256(compact(digests)).hexdigest()}")
    return next(map(sys.intern, digests.values()), None)


def digest_of_run(view: TrialView) -> str | None:
    """The same of the run's verifiers."""
    found: list[tuple[str, str]] = []
    for name, part in view.grading.items():
        answer = part.requested or part.scored or part.failed or part.started
        if answer is not None:
            found.append((name, answer.digest))
    return digest_of(found)
