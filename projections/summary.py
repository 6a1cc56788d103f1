"""summary.json: how a job stands. Original verdicts only; regrades and labels never change it.

The fold takes the job's events and, of each execution, what its own fold knows. It can be kept
while a job runs, or made from nothing; the bytes are the same. An execution in flight does not
show in it: it does from its end, from the moment that it waits for a person, or when it is given
up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ..events.codec import decode
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, UnknownEvent
from ..events.kinds import (
    BlobsPruned,
    EngineFault,
    Event,
    JobCancelled,
    JobFinished,
    JobInterrupted,
    JobResumed,
    JobStarted,
    RegradeFinished,
    RegradePlanned,
    RegradeSkipped,
    ReviewCompleted,
    ReviewFailed,
    ReviewFinished,
    ReviewStarted,
    SandboxRemoved,
    TrialAbandoned,
    TrialEvent,
    TrialScheduled,
    TrialScored,
)
from ..events.kinds.parts import Slot
from ..events.values import Json, Text
from .document import compact
from .figures import Cell, Counts, Figures, Standing, figures
from .regrade_summary import KnownTrial, RegradeSummary, regrade_summary
from .regrades import Graded, Regraded, RegradesFold, digest_of_run, original, regraded
from .statistics import Interval
from .texts import score_names
from .trial import TrialView, misplaced
from .usage import UsageTotal, usage_total
from .wall import Sessions

SCHEMA = "trialog.summary/1"
SHARED = 1000
"""Different sums of executions that are kept to be shared."""
UNDECLARED_ARTIFACTS = "separate_without_artifacts"
"""Code of the warning of a trial whose verifier was moved to a sandbox of its own by the switch,
and whose task declares no artifacts."""


_NO_SCORES: dict[str, float] = {}  # one for all: a job may have very many trials


class TrialsNamed(msgspec.Struct, frozen=True, gc=False):
    """How many trials, and which."""

    count: int
    trials: list[str]


class TasksNamed(msgspec.Struct, frozen=True, gc=False):
    """How many trials, and the tasks that a reader should look at."""

    count: int
    tasks: list[str]


class WarningSum(msgspec.Struct, frozen=True, gc=False):
    """One code of warning over the job."""

    code: str
    message: Text
    """The first one's."""
    count: int
    trials: list[str]


class Groups(msgspec.Struct, frozen=True, gc=False):
    """The same figures by task, agent and model; trials without a model are in no model's."""

    task: dict[str, Figures]
    agent: dict[str, Figures]
    model: dict[str, Figures]


class ImportedFrom(msgspec.Struct, frozen=True, gc=False):
    """Another system ran the job."""

    system: str
    version: str | None
    name: str
    digest: str
    left_out: int
    """How many files and trials were left out; `trialog show` lists them."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """summary.json; docs/files.md explains every field."""

    schema: str
    job: str
    config: dict[str, Json]
    counts: Counts
    pass_rate: Interval
    mean_reward: Interval
    scores: dict[str, float]
    pass_at_k: dict[str, float] | None
    by: Groups
    engine_given_rewards: TrialsNamed
    warnings: list[WarningSum]
    separate_verifiers: TasksNamed
    usage: UsageTotal
    wall_seconds: float | None
    replays: str | msgspec.UnsetType = msgspec.UNSET
    """Only there for a job whose models were answered by another one's record."""
    imported: ImportedFrom | msgspec.UnsetType = msgspec.UNSET
    """Only there for a job that another system ran."""


class TrialSum(msgspec.Struct, frozen=True, gc=False):
    """All that a summary knows of one execution."""

    standing: Standing | None
    finished: bool
    engine_given: bool
    separate: bool
    warnings: tuple[tuple[str, Text], ...]
    usage: UsageTotal
    """Of this execution alone, not of one that it goes on from."""
    original: Graded
    digest: str | None
    """Of what graded it."""
    regraded: tuple[Regraded, ...]


def trial_sum(view: TrialView) -> TrialSum:
    """What a job's summary takes from an execution."""
    scored = view.conclusion if isinstance(view.conclusion, TrialScored) else None
    standing = None
    if view.finish is not None:
        outcome = view.finish.payload.outcome
        if scored is not None and outcome == "scored":
            reward = (scored.rewards or {}).get("reward", 0.0)
            standing = Standing(
                outcome, scored.passed, reward, score_names(scored.scores) or _NO_SCORES
            )
        else:
            standing = Standing(outcome, False, 0.0, _NO_SCORES)
    elif view.awaiting_review:
        standing = Standing("awaiting_review", False, 0.0, _NO_SCORES)
    return TrialSum(
        standing=standing,
        finished=view.finish is not None,
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
        usage=usage_total(view.usages[view.inherited :]),
        original=original(view),
        digest=digest_of_run(view),
        regraded=regraded(view) if view.regrades else (),
    )


class _Execution(msgspec.Struct, gc=False):
    trial: str
    group: tuple[str, str, str, str]
    """Task, agent, model (empty for none), parameters as JSON; with `attempt` it is the slot."""
    attempt: int
    number: int
    abandoned: bool = False
    known: TrialSum | None = None
    blocked: LogCorrupt | None = None


class _Slot(NamedTuple):
    """One that was scheduled, with its executions in order."""

    executions: list[_Execution]
    counting: tuple[_Execution, TrialSum] | None


class SummaryFold:
    """Folds a job: its own events, and its executions as they become known."""

    def __init__(self) -> None:
        self.started: JobStarted | None = None
        self._executions: dict[str, _Execution] = {}
        self._sums: dict[str, TrialSum] = {}
        self._groups: dict[tuple[str, str, str, str], tuple[str, str, str, str]] = {}
        self._sessions = Sessions()
        self._cancelled = False
        self._blocked: LogCorrupt | None = None
        self.regrades = RegradesFold()

    @property
    def trials(self) -> list[str]:
        """Every execution that was scheduled, in order."""
        return list(self._executions)

    @property
    def open_trials(self) -> list[str]:
        """Those that are not known to have finished."""
        return [
            trial
            for trial, execution in self._executions.items()
            if execution.known is None or not execution.known.finished
        ]

    @property
    def blocked(self) -> LogCorrupt | None:
        """The event that the summary can't be read past."""
        found = (e.blocked for e in self._executions.values() if e.blocked is not None)
        return self._blocked or next(found, None)

    def feed(self, events: Iterable[RecordedEvent]) -> None:
        """Take in more of the job's own stream, in order."""
        for event in events:
            if self._blocked is not None:
                return
            try:
                self._apply(event, decode(event))
            except UnknownEvent as unknown:
                if not event.ignorable:
                    self._blocked = unknown
            except LogCorrupt as corrupt:
                self._blocked = corrupt

    def __contains__(self, trial: str) -> bool:
        return trial in self._executions

    def trial(
        self, trial: str, known: TrialView | LogCorrupt, events: Iterable[RecordedEvent] = ()
    ) -> None:
        """Take in what is known of an execution now, and the times of its new events."""
        execution = self._executions[trial]
        if isinstance(known, TrialView):
            execution.known, execution.blocked = self._shared(trial_sum(known)), known.blocked
        else:
            execution.blocked = known
        self._sessions.saw(_of_the_run(events, known))

    def summary(self) -> Summary | None:
        """The job as it stands; None before its start."""
        if self.started is None:
            return None
        cells: list[Cell] = []
        counting: list[tuple[_Execution, TrialSum]] = []
        for slot in self._slots():
            cells.append(_cell(slot))
            if slot.counting is not None:
                counting.append(slot.counting)
        whole = figures(cells, self.started.slots, given_up=self._cancelled)
        return Summary(
            schema=SCHEMA,
            job=self.started.job,
            config=self.started.config,
            counts=whole.counts,
            pass_rate=whole.pass_rate,
            mean_reward=whole.mean_reward,
            scores=whole.scores,
            pass_at_k=whole.pass_at_k,
            by=Groups(
                self._by(cells, lambda cell: cell.group[0]),
                self._by(cells, lambda cell: cell.group[1]),
                self._by(cells, lambda cell: cell.group[2]),
            ),
            engine_given_rewards=_engine_given(counting),
            warnings=_warnings(counting),
            separate_verifiers=_separate(counting),
            usage=usage_total([
                execution.known.usage
                for execution in self._executions.values()
                if execution.known is not None
                and (execution.known.standing is not None or execution.abandoned)
            ]),
            wall_seconds=self._sessions.wall_seconds(),
            replays=self.started.replays or msgspec.UNSET,
            imported=_imported(self.started),
        )  # fmt: skip

    def regrade_summary(self) -> RegradeSummary | None:
        """The job's last regrade; None where none was finished."""
        if self.started is None or not self.regrades.finished:
            return None
        counting = {slot.counting[0].trial for slot in self._slots() if slot.counting is not None}
        known = {
            trial: KnownTrial(
                task=execution.group[0],
                original=execution.known.original,
                scored=execution.known.original.passed is not None
                and execution.known.standing is not None
                and execution.known.standing.outcome == "scored",
                counts=trial in counting,
                digest=execution.known.digest,
                regraded=execution.known.regraded,
            )
            for trial, execution in self._executions.items()
            if execution.known is not None
        }
        return regrade_summary(self.started.job, self.regrades.finished, known)

    def _apply(self, event: RecordedEvent, payload: Event) -> None:
        match payload:
            case TrialScheduled():
                self._executions[payload.trial] = _Execution(
                    payload.trial,
                    self._group(payload.slot),
                    payload.slot.attempt,
                    payload.execution,
                )
            case JobStarted():
                self.started = payload
                self._sessions.start(event.at)
            case TrialAbandoned():
                if (given_up := self._executions.get(payload.trial)) is not None:
                    given_up.abandoned = True
            case JobResumed():
                self._cancelled = False
                self._sessions.start(event.at)
            case JobInterrupted():
                self._sessions.interrupt(event.at)
            case JobCancelled():
                self._cancelled = True
            case JobFinished():
                self._sessions.finish(payload.wall_seconds)
            case RegradePlanned() | RegradeSkipped() | RegradeFinished():
                self.regrades.take(event, payload)
                return  # a regrade is no part of the job's own time
            case BlobsPruned() | EngineFault():
                pass
            case ReviewStarted() | ReviewCompleted() | ReviewFailed() | ReviewFinished():
                raise misplaced(event, "a job's")
            case _:
                _no_trial_event(payload, event)
        self._sessions.saw((event,))

    def _slots(self) -> Iterator[_Slot]:
        """By group and attempt."""
        executions = sorted(self._executions.values(), key=attrgetter("attempt"))
        executions.sort(key=attrgetter("group"))  # the same as by both, without a key for each
        for _, same in groupby(executions, attrgetter("group", "attempt")):
            slot = list(same)
            yield _Slot(slot, _counting(slot))

    def _group(self, slot: Slot) -> tuple[str, str, str, str]:
        parameters = compact(slot.parameters).decode()
        group = (slot.task, slot.agent, slot.model or "", parameters)
        return self._groups.setdefault(group, group)

    def _shared(self, known: TrialSum) -> TrialSum:
        """One for all executions of which the summary knows the same, as of most of a job's."""
        if known.warnings or known.regraded:
            return known
        if len(self._sums) >= SHARED:
            self._sums.clear()
        return self._sums.setdefault(repr(known), known)

    def _by(self, cells: Iterable[Cell], name_of: Callable[[Cell], str]) -> dict[str, Figures]:
        groups: dict[str, list[Cell]] = {}
        for cell in cells:
            groups.setdefault(name_of(cell), []).append(cell)
        groups.pop("", None)
        return {
            name: figures(groups[name], len(groups[name]), given_up=self._cancelled)
            for name in sorted(groups)
        }


def _imported(started: JobStarted) -> ImportedFrom | msgspec.UnsetType:
    of = started.imported
    if of is None:
        return msgspec.UNSET
    return ImportedFrom(of.system, of.version, of.name, of.digest, len(of.skipped))


def _of_the_run(
    events: Iterable[RecordedEvent], known: TrialView | LogCorrupt
) -> Iterable[RecordedEvent]:
    """Without labels and regrades, which came after the trial's end and are not the job's time."""
    finish = known.finish if isinstance(known, TrialView) else None
    if finish is None:
        return events
    return (
        event
        for event in events
        if event.stream != finish.stream
        or event.version <= finish.version
        or event.kind == SandboxRemoved.__name__
    )


def _counting(executions: list[_Execution]) -> tuple[_Execution, TrialSum] | None:
    """The execution that counts: the last one that has finished, or that waits for a person."""
    known = [
        (execution, execution.known)
        for execution in executions
        if execution.known is not None
        and (
            execution.known.finished
            or (execution.known.standing is not None and not execution.abandoned)
        )
    ]
    return max(known, key=lambda pair: pair[0].number, default=None)


def _cell(slot: _Slot) -> Cell:
    first, counting = slot.executions[0], slot.counting
    earlier = sum(e.number < counting[0].number for e in slot.executions) if counting else 0
    standing = counting[1].standing if counting else None
    return Cell(first.group[0], first.group, first.attempt, earlier, standing)


def _engine_given(counting: Iterable[tuple[_Execution, TrialSum]]) -> TrialsNamed:
    trials = [execution.trial for execution, known in counting if known.engine_given]
    return TrialsNamed(len(trials), trials)


def _separate(counting: Iterable[tuple[_Execution, TrialSum]]) -> TasksNamed:
    separate = [(execution, known) for execution, known in counting if known.separate]
    tasks = {
        execution.group[0]
        for execution, known in separate
        if any(code == UNDECLARED_ARTIFACTS for code, _ in known.warnings)
    }
    return TasksNamed(len(separate), sorted(tasks))


def _warnings(counting: Iterable[tuple[_Execution, TrialSum]]) -> list[WarningSum]:
    found: dict[str, list[tuple[str, Text]]] = {}
    for execution, known in counting:
        for code, message in known.warnings:
            found.setdefault(code, []).append((execution.trial, message))
    return [
        WarningSum(
            code,
            warned[0][1],
            len(warned),
            list(dict.fromkeys(trial for trial, _ in warned)),
        )
        for code, warned in sorted(found.items())
    ]


def _no_trial_event(payload: TrialEvent, event: RecordedEvent) -> None:
    """What is left are a trial's kinds; they have no place here."""
    raise misplaced(event, "a job's")
