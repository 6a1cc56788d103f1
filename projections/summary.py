"""summary.json: how a job stands. Original verdicts only; regrades and labels never change it.

The fold takes the job's events and, of each execution, what its own fold knows. It can be kept
while a job runs, or made from nothing; the bytes are the same. An execution in flight does not
show in it: it does from its end, from the moment that it waits for a person, or when it is given
up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
)
from ..events.values import Json, Text
from .document import compact
from .executions import Executions, Tried
from .figures import Cell, Counts, Tally
from .names import Names
from .regrade_summary import KnownTrial, RegradeSummary, regrade_summary
from .regrades import Graded, RegradesFold
from .statistics import Interval
from .trial import TrialView, misplaced
from .usage import UsageSum, UsageTotal
from .wall import Sessions

SCHEMA = "trialog.summary/1"
UNDECLARED_ARTIFACTS = "separate_without_artifacts"
"""Code of the warning of a trial whose verifier was moved to a sandbox of its own by the switch,
and whose task declares no artifacts."""


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
    """The same figures by task, agent and model, as JSON already: a fifth of the structs' size.

    Trials without a model are in no model's.
    """

    task: dict[str, msgspec.Raw]
    agent: dict[str, msgspec.Raw]
    model: dict[str, msgspec.Raw]


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


class SummaryFold:
    """Folds a job: its own events, and its executions as they become known."""

    def __init__(self) -> None:
        self.started: JobStarted | None = None
        self._executions = Executions()
        self._sessions = Sessions()
        self._cancelled = False
        self._blocked: LogCorrupt | None = None
        self.regrades = RegradesFold()

    @property
    def trials(self) -> Names:
        """Every execution that was scheduled, in order; more come as they are fed."""
        return self._executions.names

    @property
    def open_trials(self) -> Iterator[str]:
        """Those that are not known to have finished."""
        return self._executions.open

    def abandoned(self, trial: str) -> bool:
        """Whether an execution was given up: nothing more comes of it."""
        return self._executions.abandoned(trial)

    @property
    def blocked(self) -> LogCorrupt | None:
        """The event that the summary can't be read past."""
        return self._blocked or self._executions.blocked

    @property
    def blocked_in_job(self) -> LogCorrupt | None:
        """The same, where it is one of the job's own."""
        return self._blocked

    @property
    def regrades_blocked(self) -> LogCorrupt | None:
        """The same of the last regrade's summary, which says itself what it could not take."""
        last = self.regrades.finished[-1]
        found = (
            reason
            for trial, reason in self._executions.each_blocked
            if trial in last.trials and trial not in last.skipped
        )
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
        return trial in self._executions.names

    def trial(
        self, trial: str, known: TrialView | LogCorrupt, events: Iterable[RecordedEvent] = ()
    ) -> None:
        """Take in what is known of an execution now, and the times of its new events."""
        if isinstance(known, TrialView):
            self._executions.know(trial, known)
        else:
            self._executions.block(trial, known)
        self._sessions.saw(_of_the_run(events, known))

    def summary(self) -> Summary | None:
        """The job as it stands; None before its start."""
        if self.started is None:
            return None
        whole, groups = Tally(), _Grouped()
        usage, noted = UsageSum(), _Noted()
        for slot in self._executions.slots():
            cell = _cell(slot)
            whole.take(cell)
            groups.take(cell)
            noted.take(slot)
            for execution in slot.executions:
                known = execution.known
                if known is not None and (known.standing is not None or execution.abandoned):
                    usage.add(known.usage)
        found = whole.figures(self.started.slots, given_up=self._cancelled)
        return Summary(
            schema=SCHEMA,
            job=self.started.job,
            config=self.started.config,
            counts=found.counts,
            pass_rate=found.pass_rate,
            mean_reward=found.mean_reward,
            scores=found.scores,
            pass_at_k=found.pass_at_k,
            by=groups.figures(given_up=self._cancelled),
            engine_given_rewards=noted.engine_given,
            warnings=noted.warnings,
            separate_verifiers=noted.separate,
            usage=usage.total(),
            wall_seconds=self._sessions.wall_seconds(),
            replays=self.started.replays or msgspec.UNSET,
            imported=_imported(self.started),
        )

    def regrade_summary(self) -> RegradeSummary | None:
        """The job's last regrade; None where none was finished."""
        if self.started is None or not self.regrades.finished:
            return None
        known = _KnownTrials(self._executions)
        return regrade_summary(self.started.job, self.regrades.finished, known)

    def _apply(self, event: RecordedEvent, payload: Event) -> None:
        match payload:
            case TrialScheduled():
                self._executions.schedule(payload)
            case JobStarted():
                self.started = payload
                self._sessions.start(event.at)
            case TrialAbandoned():
                self._executions.abandon(payload.trial)
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


def _cell(slot: Tried) -> Cell:
    counting = slot.counting
    if counting is None:
        return Cell(slot.group[0], slot.group, slot.attempt, 0, None)
    execution, known = counting
    earlier = sum(one.execution < execution.execution for one in slot.executions)
    return Cell(slot.group[0], slot.group, slot.attempt, earlier, known.standing)


class _Grouped:
    """The figures by task, agent and model in the making."""

    def __init__(self) -> None:
        self._tallies: tuple[dict[str, Tally], ...] = ({}, {}, {})

    def take(self, cell: Cell) -> None:
        for tallies, name in zip(self._tallies, cell.group, strict=False):
            if name:
                tallies.setdefault(name, Tally()).take(cell)

    def figures(self, *, given_up: bool) -> Groups:
        task, agent, model = (
            {
                name: msgspec.Raw(compact(tally.figures(tally.slots, given_up=given_up)))
                for name, tally in sorted(tallies.items())
            }
            for tallies in self._tallies
        )
        return Groups(task, agent, model)


class _Noted:
    """What is told beside the figures, of the executions that count."""

    def __init__(self) -> None:
        self._engine_given: list[str] = []
        self._separate = 0
        self._undeclared: set[str] = set()
        self._warnings: dict[str, _Warned] = {}

    def take(self, slot: Tried) -> None:
        if slot.counting is None:
            return
        execution, known = slot.counting
        if known.engine_given:
            self._engine_given.append(execution.trial)
        if known.separate:
            self._separate += 1
            if any(code == UNDECLARED_ARTIFACTS for code, _ in known.warnings):
                self._undeclared.add(slot.group[0])
        for code, message in known.warnings:
            self._warnings.setdefault(code, _Warned(message)).by(execution.trial)

    @property
    def engine_given(self) -> TrialsNamed:
        return TrialsNamed(len(self._engine_given), self._engine_given)

    @property
    def separate(self) -> TasksNamed:
        return TasksNamed(self._separate, sorted(self._undeclared))

    @property
    def warnings(self) -> list[WarningSum]:
        return [
            WarningSum(code, warned.message, warned.count, warned.trials)
            for code, warned in sorted(self._warnings.items())
        ]


class _Warned:
    def __init__(self, message: Text) -> None:
        self.message = message
        self.count = 0
        self.trials: list[str] = []

    def by(self, trial: str) -> None:
        """A trial warned, perhaps once more."""
        self.count += 1
        if trial not in self.trials[-1:]:
            self.trials.append(trial)


class _KnownTrials:
    """Executions as a regrade's summary needs them, unpacked one by one."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions
        self._counting = bytearray(len(executions.names))
        for slot in executions.slots():
            if slot.counting is not None:
                self._counting[slot.counting.execution.number] = True

    def __iter__(self) -> Iterator[KnownTrial]:
        found = (self._known(number) for number in range(len(self._counting)))
        return (known for known in found if known is not None)

    def get(self, trial: str) -> KnownTrial | None:
        """One of them; None where nothing is known of it, though it can be read."""
        number = self._executions.names.number(trial)
        if number is None:
            return None
        known = self._known(number)
        if known is None and self._executions.unreadable(number):
            return KnownTrial(
                task=self._executions.task(number), original=Graded(), scored=False, counts=False,
                digest=None, regraded=(),
            )  # fmt: skip
        return known

    def _known(self, number: int) -> KnownTrial | None:
        known = self._executions.known(number)
        if known is None:
            return None
        return KnownTrial(
            task=self._executions.task(number),
            original=known.original,
            scored=known.original.passed is not None
            and known.standing is not None
            and known.standing.outcome == "scored",
            counts=bool(self._counting[number]),
            digest=self._executions.digest(number),
            regraded=known.regraded,
        )


def _no_trial_event(payload: TrialEvent, event: RecordedEvent) -> None:
    """What is left are a trial's kinds; they have no place here."""
    raise misplaced(event, "a job's")
