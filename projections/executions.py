"""What a job's summary keeps of its executions: packed, some dozens of bytes for each."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec

from ..events.errors import LogCorrupt
from ..events.kinds import TrialScheduled, TrialScored
from ..events.kinds.parts import Slot
from ..events.values import Text
from .document import compact
from .figures import Standing
from .names import Names
from .regrades import Graded, Regraded, digest_of_run, original, regraded
from .texts import score_names
from .trial import TrialView
from .usage import UsageTotal, usage_total

SHARED = 1000
"""Different sums of executions that are kept to be shared."""

UNPACKED = 200
"""Sums that are kept unpacked: most executions have one that others have, too."""

Group: TypeAlias = tuple[str, str, str, str]
"""Task, agent, model (empty for none), parameters as JSON; with the attempt it is the slot."""


class UsageKept(UsageTotal, frozen=True, gc=False, array_like=True):
    """The same figures, packed without their names."""


class TrialSum(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """All that a summary knows of one execution."""

    standing: Standing | None
    engine_given: bool
    separate: bool
    warnings: tuple[tuple[str, Text], ...]
    usage: UsageKept
    """Of this execution alone, not of one that it goes on from."""
    original: Graded
    regraded: tuple[Regraded, ...]


def trial_sum(view: TrialView) -> TrialSum:
    """What a job's summary takes from an execution."""
    scored = view.conclusion if isinstance(view.conclusion, TrialScored) else None
    standing = None
    if view.finish is not None:
        outcome = view.finish.payload.outcome
        if scored is not None and outcome == "scored":
            reward = (scored.rewards or {}).get("reward", 0.0)
            standing = Standing(outcome, scored.passed, reward, score_names(scored.scores))
        else:
            standing = Standing(outcome, False, 0.0, {})
    elif view.awaiting_review:
        standing = Standing("awaiting_review", False, 0.0, {})
    usage = usage_total(view.usages[view.inherited :])
    return TrialSum(
        standing=standing,
        engine_given=(
            standing is not None
            and standing.outcome == "scored"
            and scored is not None
            and scored.reward_source == "engine"
        ),
        separate=any(
            part.started is not None and part.started.sandbox_mode == "separate"
            for part in view.grading.values()
        ),
        warnings=tuple((warning.code, warning.message) for warning in view.warnings),
        usage=UsageKept(*msgspec.structs.astuple(usage)),
        original=original(view),
        regraded=regraded(view) if view.regrades else (),
    )


class Execution(NamedTuple):
    """One try at a slot, unpacked."""

    number: int
    """Among the job's, from 0, in the order in which they were scheduled."""
    trial: str
    execution: int
    abandoned: bool
    finished: bool
    known: TrialSum | None
    """None before its events are known."""


class Counting(NamedTuple):
    """The execution that counts for its slot, and what is known of it."""

    execution: Execution
    known: TrialSum


class Tried(NamedTuple):
    """A slot that was scheduled."""

    group: Group
    attempt: int
    executions: list[Execution]
    counting: Counting | None


class Executions:
    """All executions of a job. Each column has one entry for each, at its number."""

    def __init__(self) -> None:
        self.names = Names()
        self._groups: list[Group] = []
        self._attempts: list[int] = []
        self._executions: list[int] = []
        self._abandoned = bytearray()
        self._finished = bytearray()
        self._known: list[bytes | None] = []
        self._digests: list[str | None] = []
        """Of what graded it."""
        self._blocked: dict[int, LogCorrupt] = {}
        self._same: dict[Group, Group] = {}
        self._shared: dict[bytes, bytes] = {}
        self._unpacked = lru_cache(UNPACKED)(msgspec.json.Decoder(TrialSum).decode)

    @property
    def blocked(self) -> LogCorrupt | None:
        """What the first of those that can't be read can't be read past."""
        return self._blocked[min(self._blocked)] if self._blocked else None

    @property
    def each_blocked(self) -> Iterator[tuple[str, LogCorrupt]]:
        """All that can't be read, and what they can't be read past."""
        for number, reason in sorted(self._blocked.items()):
            yield self.names[number], reason

    def unreadable(self, number: int) -> bool:
        """Whether an execution can't be read to its end."""
        return number in self._blocked

    @property
    def open(self) -> Iterator[str]:
        """Those of now that are not known to have finished, as they are reached."""
        for number in range(len(self.names)):
            if not self._finished[number]:
                yield self.names[number]

    def schedule(self, scheduled: TrialScheduled) -> None:
        """One more execution."""
        number = self.names.add(scheduled.trial)
        here = slice(number, number + 1)  # its place, or the end
        self._groups[here] = [self._group(scheduled.slot)]
        self._attempts[here] = [scheduled.slot.attempt]
        self._executions[here] = [scheduled.execution]
        self._abandoned[here] = self._finished[here] = bytes(1)
        self._known[here] = [None]
        self._digests[here] = [None]
        self._blocked.pop(number, None)

    def abandon(self, trial: str) -> None:
        """An execution was given up."""
        if (number := self.names.number(trial)) is not None:
            self._abandoned[number] = True

    def abandoned(self, trial: str) -> bool:
        """Whether an execution was given up."""
        number = self.names.number(trial)
        return number is not None and bool(self._abandoned[number])

    def know(self, trial: str, view: TrialView) -> None:
        """Keep what is known of an execution now, in the place of what was."""
        number = self._number(trial)
        packed = compact(trial_sum(view))
        if len(self._shared) >= SHARED:
            self._shared.clear()
        self._known[number] = self._shared.setdefault(packed, packed)
        self._digests[number] = digest_of_run(view)
        self._finished[number] = view.finish is not None
        self._blocked.pop(number, None)
        if view.blocked is not None:
            self._blocked[number] = view.blocked

    def block(self, trial: str, reason: LogCorrupt) -> None:
        """An execution can't be read."""
        self._blocked[self._number(trial)] = reason

    def _number(self, trial: str) -> int:
        number = self.names.number(trial)
        assert number is not None  # it was scheduled
        return number

    def known(self, number: int) -> TrialSum | None:
        """What is known of an execution."""
        packed = self._known[number]
        return None if packed is None else self._unpacked(packed)

    def digest(self, number: int) -> str | None:
        """Of what graded an execution."""
        return self._digests[number]

    def task(self, number: int) -> str:
        """Whose execution it is."""
        return self._groups[number][0]

    def slots(self) -> Iterator[Tried]:
        """By group and attempt."""
        numbers: defaultdict[Group, array[int]] = defaultdict(lambda: array("i"))
        for number, group in enumerate(self._groups):
            numbers[group].append(number)
        attempt_of = self._attempts.__getitem__
        for group in sorted(numbers):
            for attempt, same in groupby(sorted(numbers[group], key=attempt_of), attempt_of):
                executions = [self._execution(number) for number in same]
                yield Tried(group, attempt, executions, _counting(executions))

    def _execution(self, number: int) -> Execution:
        return Execution(
            number,
            self.names[number],
            self._executions[number],
            bool(self._abandoned[number]),
            bool(self._finished[number]),
            self.known(number),
        )

    def _group(self, slot: Slot) -> Group:
        parameters = compact(slot.parameters).decode()
        group = (slot.task, slot.agent, slot.model or "", parameters)
        return self._same.setdefault(group, group)


def _counting(executions: Iterable[Execution]) -> Counting | None:
    """The last one that has finished, or that waits for a person."""
    found = [
        Counting(one, one.known)
        for one in executions
        if one.known is not None
        and (one.finished or (one.known.standing is not None and not one.abandoned))
    ]
    return max(found, key=lambda one: one.execution.execution, default=None)
