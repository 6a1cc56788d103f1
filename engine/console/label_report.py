"""What is told of a verifier that is tried on stored trials, or applied to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...projections.document import total
from ..labels.applying import AppliedTo
from ..labels.said import Said, shown_fault
from ..labels.trying import Tried
from ..trial.state import HookFailure
from .hook_errors import HookErrors
from .terminal import Terminal
from .text import escaped, number, plural, shortened

__all__ = ("DIFFERENCES_SHOWN", "LabelReport")

DIFFERENCES_SHOWN = 5
"""Of one trial."""


class LabelReport:
    """Tells trial by trial what came of it, and counts."""

    def __init__(self, terminal: Terminal, verifier: str) -> None:
        self._terminal = terminal
        self._verifier = verifier
        self.each = True
        """Every trial is told, not only those that differ or could not be tried."""
        self.trials = 0
        self.differing = 0
        self.labelled = 0
        self.problems: Counter[str] = Counter()
        self._stands: Counter[tuple[str, str, bool]] = Counter()
        """Version that was applied, another, and whether the first stands now; trials."""
        self._hook_errors = HookErrors()
        self._checks: Counter[str] = Counter()

    def applied(self, done: AppliedTo) -> None:
        """A trial that the verifier was applied to."""
        self.labelled += done.appended > 0
        now, standing = done.version, done.before[-1:]
        higher = max(done.before, key=in_order, default=now)
        if done.appended and in_order(higher) > in_order(now):
            self._stands[now, higher, True] += 1
        elif not done.appended and done.tried.problem is None and standing not in ([], [now]):
            self._stands[now, standing[0], False] += 1
        self._tell(done.tried, done.appended)

    def tried(self, tried: Tried) -> None:
        """A trial that the verifier was tried on."""
        self._tell(tried, None)

    def _tell(self, tried: Tried, appended: int | None) -> None:
        self.trials += 1
        self.differing += bool(tried.differences)
        if tried.problem is not None:
            self.problems[tried.problem] += 1
        self._hook_errors.take(failures_of(tried.now, self._verifier))
        if tried.now.check is not None and tried.now.check.fault is not None:
            self._checks[shown_fault(tried.now.check.fault) or ""] += 1
        if self._terminal.json:
            self._terminal.data(_document(tried, appended))
        elif self.each or tried.differences or tried.problem is not None:
            for shown in _lines(tried, appended):
                self._terminal.line(shown)

    def summary(self, what: str) -> Iterator[str]:
        """The last lines."""
        yield from self._hook_errors.lines(tense="earns")
        for error, count in self._checks.items():
            yield f"! The check failed in {plural(count, 'trial')}"
            yield f"    there: {escaped(error)}"
        for problem, count in self.problems.items():
            yield f"! {plural(count, 'trial')} left out: {escaped(problem)}"
        for (now, other, stands), count in self._stands.items():
            name, trials = escaped(self._verifier), plural(count, "trial")
            if stands:
                yield (
                    f"! {now} is lower than {other}, which labelled {trials} too: {now} stands "
                    "there now, since it was applied last"
                )
            else:
                yield f"! {now} was applied before {other} in {trials}: {other} still stands there"
            look = other if stands else now
            yield f"    `--as-of {name}@{look}` of rewards and export shows {look}"
        tail = f", labels added to {self.labelled}" if what.startswith("applied") else ""
        yield (
            f"{what} {plural(self.trials - self.problems.total(), 'trial')}{tail}; "
            f"{self.differing} differ from what was recorded"
        )


def in_order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """What a semantic version is ordered by; one before a release is lower than it."""
    numbers, dash, early = version.partition("+")[0].partition("-")
    return tuple(int(part) for part in numbers.split(".") if part.isdigit()), not dash, early


def failures_of(said: Said, verifier: str) -> list[HookFailure]:
    """What failed in one trial, as a run would have recorded it."""
    found: list[HookFailure] = []
    if said.faults:
        first = shown_fault(said.faults[0]) or ""
        steps = len(said.faults)
        found.append(HookFailure(verifier=verifier, hook="reward", steps=steps, error=first))
    if said.hindsight is not None and said.hindsight.fault is not None:
        error = shown_fault(said.hindsight.fault) or ""
        found.append(HookFailure(verifier=verifier, hook="hindsight", error=error))
    return found


def _lines(tried: Tried, appended: int | None) -> Iterator[str]:
    name = escaped(tried.trial)
    if tried.problem is not None:
        yield f"{name}: {escaped(tried.problem)}"
        return
    parts = [_scored(tried)]
    for word, values in (
        ("reward", tried.now.reward_total),
        ("credit", tried.now.credit_total),
    ):
        if values:
            parts.append(f"{plural(len(values), word)} ({_sum(values)})")
    if appended is not None:
        parts.append(f"{plural(appended, 'event')} added" if appended else "nothing new")
    yield f"{name}: {', '.join(parts)}"
    for difference in tried.differences[:DIFFERENCES_SHOWN]:
        event = difference.event_id
        place = f" of step {escaped(tried.steps.get(event, event))}" if event else ""
        before, now = (_shown(value) for value in (difference.recorded, difference.now))
        version = f" by {tried.recorded_version}" if tried.recorded_version else ""
        yield f"  {difference.what}{place}: {now} (recorded{version}: {before})"
    if (more := len(tried.differences) - DIFFERENCES_SHOWN) > 0:
        yield f"  … and {more} more"


def _scored(tried: Tried) -> str:
    check = tried.now.check
    if check is None:
        return "no score"
    if check.fault is not None:
        return f"check failed: {shortened(shown_fault(check.fault), 120)}"
    return f"score {number(check.score)}"


def _sum(values: Sequence[float]) -> str:
    found = total(values)
    return "–" if found is None else f"{found:g}"


def _shown(value: Any) -> str:
    return (
        "nothing"
        if value in (None, [], {})
        else shortened(msgspec.json.encode(value).decode(), 120)
    )


def _document(tried: Tried, appended: int | None) -> dict[str, Any]:
    check = tried.now.check
    document: dict[str, Any] = {
        "trial": tried.trial,
        "task": tried.task,
        "problem": tried.problem,
        "score": check.score if check else None,
        "scores": check.scores if check else {},
        "evidence": check.evidence if check else [],
        "feedback": check.feedback if check else None,
        "error": shown_fault(check.fault) if check else None,
        "rewards": [
            {"event_id": step, "value": one.value, "error": shown_fault(one.fault)}
            for step, one in tried.now.rewards.items()
        ],
        "credits": [] if tried.now.hindsight is None else tried.now.hindsight.credits,
        "recorded_version": tried.recorded_version,
        "differences": tried.differences,
    }
    return document if appended is None else {**document, "appended": appended}
