"""regrade-summary.json: the last regrade of a job, and all before it in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from ..events.values import Text
from .regrades import CHANGED, Graded, Regrade, Regraded, Verdict, verdict_of
from .statistics import mean_of

SCHEMA = "trialog.regrade-summary/1"


class KnownTrial(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a regrade's summary needs to know of an execution."""

    task: str
    original: Graded
    scored: bool
    """The run itself gave it a score, so it is in pass rate and mean reward."""
    counts: bool
    """It is the execution of its slot that counts."""
    digest: str | None
    """Of the run's verifiers."""
    regraded: tuple[Regraded, ...]


class RegradeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a regrade's trials came to what."""

    trials: int
    regraded: int
    changed: int
    fail_to_pass: int
    pass_to_fail: int
    failed: int
    not_regradable: int


class Compared(msgspec.Struct, frozen=True):
    """A figure before and after, over the same trials; null over none."""

    original: float | None
    new: float | None
    n: int
    """Trials that have a score both before and after."""


class RegradedTrial(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One trial of the last regrade."""

    trial_name: str
    task_name: str
    original: Graded
    new: Graded
    verdict: Verdict
    error: Text | None
    verifier_digest_before: str | None
    verifier_digest_after: str | None


class DigestFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The current verdicts that one version of a task's verifiers gave."""

    task_name: str
    verifier_digest: str
    trials: int
    passed: int
    pass_rate: float | None
    mean_reward: float | None


class EarlierRegrade(msgspec.Struct, frozen=True, kw_only=True):
    """A regrade before the last."""

    regrade_id: str
    at: str
    author: str | None
    reason: str | None
    counts: RegradeCounts


class RegradeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """regrade-summary.json; docs/files.md explains every field."""

    schema: str
    regrade_id: str
    job: str
    counts: RegradeCounts
    pass_rate: Compared
    mean_reward: Compared
    mixed_verifiers: bool
    trials: list[RegradedTrial]
    history: list[EarlierRegrade]
    by_digest: list[DigestFigures]
    at: str
    author: str | None
    reason: str | None
    as_of_run: bool
    flaky: list[str]


class KnownTrials(Protocol):
    """A job's executions of which something is known."""

    def __iter__(self) -> Iterator[KnownTrial]: ...

    def get(self, trial: str) -> KnownTrial | None:
        """One by its name."""
        ...


def regrade_summary(job: str, regrades: Sequence[Regrade], trials: KnownTrials) -> RegradeSummary:
    """The job's last finished regrade, of `regrades` in their order, of which there is one."""
    *earlier, last = regrades
    found: list[RegradedTrial] = []
    both: list[RegradedTrial] = []
    flaky: list[str] = []
    for known, row in regraded_trials(last, trials):
        found.append(row)
        if known.scored and row.new.passed is not None:
            both.append(row)
        if _flaky(known, last.id):
            flaky.append(row.trial_name)
    table = _by_digest(trials, {one.id for one in regrades})
    tasks = [row.task_name for row in table]
    mixed = len(set(tasks)) < len(tasks)
    return RegradeSummary(
        schema=SCHEMA,
        regrade_id=last.id,
        job=job,
        counts=counts_of(one.verdict for one in found),
        pass_rate=_compared(both, lambda graded: float(bool(graded.passed))),
        mean_reward=_compared(both, lambda graded: graded.reward or 0.0),
        mixed_verifiers=mixed,
        trials=found,
        history=[
            EarlierRegrade(
                regrade_id=one.id,
                at=one.at,
                author=one.planned.author,
                reason=one.planned.reason,
                counts=counts_of(row.verdict for _, row in regraded_trials(one, trials)),
            )
            for one in earlier
        ],
        by_digest=table if mixed else [],
        at=last.at,
        author=last.planned.author,
        reason=last.planned.reason,
        as_of_run=last.planned.as_of_run,
        flaky=flaky,
    )


def regraded_trials(
    one: Regrade, trials: KnownTrials
) -> Iterator[tuple[KnownTrial, RegradedTrial]]:
    """What a regrade made of each of its trials, sorted by name."""
    for name in sorted(one.trials):
        known = trials.get(name)
        if known is None:
            continue
        answer = next((each for each in known.regraded if each.regrade_id == one.id), None)
        skipped = one.skipped.get(name)
        if answer is None and skipped is None:
            continue
        error = answer.error if answer else skipped.payload.reason if skipped else None
        new = answer.graded if answer else Graded()
        yield (
            known,
            RegradedTrial(
                trial_name=name,
                task_name=known.task,
                original=known.original,
                new=new,
                verdict=verdict_of(known.original, new) if answer else "not_regradable",
                error=error,
                verifier_digest_before=known.digest,
                verifier_digest_after=answer.digest if answer else None,
            ),
        )


def counts_of(verdicts: Iterable[Verdict]) -> RegradeCounts:
    """The counts of these verdicts, one a trial."""
    known = Counter[str](verdicts)
    trials, failed, not_regradable = known.total(), known["failed"], known["not_regradable"]
    return RegradeCounts(
        trials=trials,
        regraded=trials - failed - not_regradable,
        changed=sum(known[one] for one in CHANGED),
        fail_to_pass=known["fail->pass"],
        pass_to_fail=known["pass->fail"],
        failed=failed,
        not_regradable=not_regradable,
    )


def _compared(trials: Sequence[RegradedTrial], figure: Callable[[Graded], float]) -> Compared:
    n = len(trials)
    if not n:
        return Compared(None, None, 0)
    before, after = (
        mean_of([figure(graded) for graded in side], n)
        for side in ([one.original for one in trials], [one.new for one in trials])
    )
    return Compared(before, after, n)


def _flaky(known: KnownTrial, regrade_id: str) -> bool:
    return any(one.flaky for one in known.regraded if one.regrade_id == regrade_id)


def _by_digest(trials: KnownTrials, finished: set[str]) -> list[DigestFigures]:
    """The job's current verdicts by task and by what gave them."""
    groups: dict[tuple[str, str], list[Graded]] = {}
    for known in trials:
        digest, graded = _current(known, finished)
        if known.counts and digest is not None and graded.passed is not None:
            groups.setdefault((known.task, digest), []).append(graded)
    return [
        DigestFigures(
            task_name=task,
            verifier_digest=digest,
            trials=len(group),
            passed=sum(bool(one.passed) for one in group),
            pass_rate=mean_of([float(bool(one.passed)) for one in group], len(group)),
            mean_reward=mean_of([one.reward or 0.0 for one in group], len(group)),
        )
        for (task, digest), group in sorted(groups.items())
    ]


def _current(known: KnownTrial, finished: set[str]) -> tuple[str | None, Graded]:
    """The verdict that stands: the last that a finished regrade gave, else the run's."""
    for one in reversed(known.regraded):
        if one.regrade_id in finished and one.graded.passed is not None:
            return one.digest, one.graded
    return known.digest, known.original
