"""One execution's events folded into what its files are made of.

The fold keeps what happened and derives nothing: each document derives its own fields from the
frozen record. What comes after TrialFinished changes nothing but the ledger's tail, so that every
other document is frozen there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

import msgspec

from ..events.codec import decode
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, UnknownEvent
from ..events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    AgentStarted,
    AppQueried,
    ArtifactsSaved,
    BlobsPruned,
    EngineFault,
    EnvironmentReset,
    EpisodeEnded,
    Event,
    HindsightCredited,
    HindsightFailed,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JobCancelled,
    JobFinished,
    JobInterrupted,
    JobResumed,
    JobStarted,
    JudgeSampled,
    LeaseLost,
    LeaseTaken,
    ModelCalled,
    ProcessesKilled,
    RegradeFailed,
    RegradeFinished,
    RegradePlanned,
    RegradeScored,
    RegradeSkipped,
    RegradeStarted,
    ReviewCompleted,
    ReviewFailed,
    ReviewFinished,
    ReviewStarted,
    SandboxFailed,
    SandboxLost,
    SandboxRemoved,
    SandboxStarted,
    StepRewarded,
    StepRewardFailed,
    TamperFound,
    TrialAbandoned,
    TrialErrored,
    TrialFinished,
    TrialInterrupted,
    TrialScheduled,
    TrialScored,
    TrialStarted,
    TrialUnscored,
    VerifierApplied,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
    WarningRaised,
    WorkspaceHardened,
    WorkspaceSaved,
)
from ..events.kinds.parts import RequestDifference, Usage
from ..events.values import Text

Episode: TypeAlias = EnvironmentReset | ActionTaken | ModelCalled | AgentMessage
"""What trajectory.json and, with the rewards, steps.jsonl are made of."""
Rewarding: TypeAlias = (
    StepRewarded | StepRewardFailed | HindsightCredited | VerifierScored | HumanReviewSubmitted
)
"""What rewards.jsonl is made of; and why a reward is missing."""
Regrading: TypeAlias = RegradeStarted | RegradeScored | RegradeFailed
"""What regrade.json is made of, with the job's own events."""


class Grading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of one verifier's part in the verdict; the newest answer holds."""

    started: VerifierStarted | None = None
    requested: HumanReviewRequested | None = None
    scored: VerifierScored | None = None
    failed: VerifierFailed | None = None
    submitted: HumanReviewSubmitted | None = None
    samples: tuple[Usage, ...] = ()
    """What each of a judge's replies used."""
    live: bool = False
    """It queried an app that others share."""


class Failures(msgspec.Struct, frozen=True, gc=False):
    """A verifier's reward hook failed on this many steps; the first error stands for all."""

    steps: int
    error: Text


class Finish(msgspec.Struct, frozen=True, gc=False):
    """Where TrialFinished stands in the log."""

    payload: TrialFinished
    at: str
    stream: str
    version: int
    hash: str


class TrialView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An execution as its events tell it, frozen."""

    started: TrialStarted
    started_at: str
    sandbox: SandboxStarted | None
    """The agent's, the newest; where there was none for an agent, the first."""
    sandbox_failed: SandboxFailed | None
    build: tuple[float, ...]
    """Seconds, one a build; so for the other phases."""
    start: tuple[float, ...]
    agent: tuple[float, ...]
    save: tuple[float, ...]
    verifier: tuple[float, ...]
    agent_started: AgentStarted | None
    agent_end: AgentFinished | AgentFailed | None
    episode_end: EpisodeEnded | None
    difference: RequestDifference | None
    """Where a replay first asked a model something else than its record has."""
    usages: tuple[Usage, ...]
    inherited: int
    """How many of `usages` belong to the execution that this one goes on from."""
    steps: int
    tool_calls: int
    workspace: WorkspaceSaved | None
    artifacts: ArtifactsSaved | None
    grading: dict[str, Grading]
    warnings: tuple[WarningRaised, ...]
    tamper: tuple[TamperFound, ...]
    reward_failures: dict[str, Failures]
    hindsight_failures: tuple[HindsightFailed, ...]
    conclusion: TrialScored | TrialUnscored | TrialErrored | None
    finish: Finish | None
    history: tuple[tuple[RecordedEvent, Episode], ...]
    ledger: tuple[tuple[RecordedEvent, Rewarding], ...]
    ledger_at_finish: int
    """How many of `ledger` were there when the trial finished, or are there now."""
    regrades: tuple[tuple[RecordedEvent, Regrading], ...]
    """What regrades began and answered, in order."""
    blocked: LogCorrupt | None
    """The event that no document can be read past."""
    blocked_after_finish: LogCorrupt | None
    """The same, where it comes after TrialFinished: only growing documents stop."""

    @property
    def agent_version(self) -> str | None:
        """Known when it started, or said by the agent while it ran."""
        known = self.agent_started.version if self.agent_started else None
        return known or (self.agent_end.version if self.agent_end else None)

    @property
    def awaiting_review(self) -> bool:
        """Whether the trial waits for a person."""
        return self.finish is None and any(
            part.requested is not None and part.submitted is None for part in self.grading.values()
        )


class TrialFold:
    """Folds a trial's events one by one; `record` freezes what is known so far.

    For an execution that goes on from another one, the events of the other come first. With
    `keep` false the history and the ledger are not kept: enough for a job's summary, and small.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._started: tuple[TrialStarted, str] | None = None
        self._sandbox: SandboxStarted | None = None
        self._sandbox_failed: SandboxFailed | None = None
        self._build: list[float] = []
        self._start: list[float] = []
        self._agent: list[float] = []
        self._save: list[float] = []
        self._verifier: list[float] = []
        self._agent_started: AgentStarted | None = None
        self._agent_end: AgentFinished | AgentFailed | None = None
        self._episode_end: EpisodeEnded | None = None
        self._difference: RequestDifference | None = None
        self._usages: list[Usage] = []
        self._inherited = 0
        self._steps = 0
        self._tool_calls = 0
        self._workspace: WorkspaceSaved | None = None
        self._artifacts: ArtifactsSaved | None = None
        self._grading: dict[str, Grading] = {}
        self._warnings: dict[WarningRaised, None] = {}
        self._tamper: dict[TamperFound, None] = {}
        self._reward_failures: dict[str, Failures] = {}
        self._hindsight_failures: list[HindsightFailed] = []
        self._conclusion: TrialScored | TrialUnscored | TrialErrored | None = None
        self._finish: Finish | None = None
        self._history: list[tuple[RecordedEvent, Episode]] = []
        self._ledger: list[tuple[RecordedEvent, Rewarding]] = []
        self._ledger_at_finish: int | None = None
        self._regrades: list[tuple[RecordedEvent, Regrading]] = []
        self._blocked: LogCorrupt | None = None

    @property
    def blocked(self) -> LogCorrupt | None:
        """The event that ended the fold."""
        return self._blocked

    def feed(self, events: Iterable[RecordedEvent]) -> None:
        """Take in more of the stream, in order.

        What can't be decoded ends the fold, unless it may be passed over.
        """
        if self._blocked is not None:
            return
        apply = self._apply
        for event in events:
            try:
                apply(event, decode(event))
            except UnknownEvent as unknown:
                if not event.ignorable:
                    self._blocked = unknown
                    return
            except LogCorrupt as corrupt:
                self._blocked = corrupt
                return

    def take(self, event: RecordedEvent, payload: Event) -> None:
        """One more event, decoded already. Raises LogCorrupt where it does not belong here."""
        if self._blocked is None:
            self._apply(event, payload)

    def record(self) -> TrialView | None:
        """What is known so far; None when the trial has not started."""
        if self._started is None:
            return None
        started, started_at = self._started
        in_time = self._finish is None
        late = self._ledger_at_finish
        return TrialView(
            started=started,
            started_at=started_at,
            sandbox=self._sandbox,
            sandbox_failed=self._sandbox_failed,
            build=tuple(self._build),
            start=tuple(self._start),
            agent=tuple(self._agent),
            save=tuple(self._save),
            verifier=tuple(self._verifier),
            agent_started=self._agent_started,
            agent_end=self._agent_end,
            episode_end=self._episode_end,
            difference=self._difference,
            usages=tuple(self._usages),
            inherited=self._inherited,
            steps=self._steps,
            tool_calls=self._tool_calls,
            workspace=self._workspace,
            artifacts=self._artifacts,
            grading=dict(self._grading),
            warnings=tuple(self._warnings),
            tamper=tuple(self._tamper),
            reward_failures=dict(self._reward_failures),
            hindsight_failures=tuple(self._hindsight_failures),
            conclusion=self._conclusion,
            finish=self._finish,
            history=tuple(self._history),
            ledger=tuple(self._ledger),
            ledger_at_finish=len(self._ledger) if late is None else late,
            regrades=tuple(self._regrades),
            blocked=self._blocked if in_time else None,
            blocked_after_finish=None if in_time else self._blocked,
        )

    def _apply(self, event: RecordedEvent, payload: Event) -> None:
        """One event. What each trial has comes first: each case is a test of its own."""
        match payload:
            case ActionTaken():
                if self._finish is None:
                    self._steps += 1
                    if payload.tool_call is not None:
                        self._tool_calls += 1
                    if self._keep:
                        self._history.append((event, payload))
            case StepRewarded() | HindsightCredited():
                if self._keep:
                    self._ledger.append((event, payload))
            case TrialStarted():
                self._begin(event, payload)
            case RegradeStarted() | RegradeScored() | RegradeFailed():
                self._regrades.append((event, payload))
            case _ if self._finish is not None:
                return  # frozen
            case ModelCalled():
                self._usages.append(payload.usage)
                self._difference = self._difference or payload.difference
                self._remember(event, payload)
            case AppQueried():
                if payload.live:
                    self._grade(payload.verifier, live=True)
            case AgentMessage() | EnvironmentReset():
                self._remember(event, payload)
            case VerifierStarted():
                self._grade(payload.verifier, started=payload, samples=(), live=False)
            case VerifierScored():
                self._grade(payload.verifier, scored=payload, failed=None)
                self._verified(payload)
                self._enter(event, payload)
            case SandboxStarted():
                self._open_sandbox(payload)
            case AgentStarted():
                self._agent_started = payload
                if payload.install is not None:
                    self._start.append(payload.install.duration)
            case EpisodeEnded():
                self._episode_end = payload
            case AgentFinished() | AgentFailed():
                self._agent_end = payload
                if not payload.untimed:
                    self._agent.append(payload.duration)
            case (
                ProcessesKilled() | SandboxLost() | SandboxRemoved() | TrialInterrupted()
                | LeaseTaken() | LeaseLost() | VerifierApplied()
            ):  # fmt: skip
                pass
            case TrialScored() | TrialUnscored() | TrialErrored():
                self._conclusion = payload
            case TrialFinished():
                self._end(event, payload)
            case StepRewardFailed():
                self._fail_step(payload)
                self._enter(event, payload)
            case WarningRaised():
                self._warnings[payload] = None
            case TamperFound():
                self._tamper[payload] = None
            case SandboxFailed():
                self._sandbox_failed = payload
                (self._build if payload.phase == "build" else self._start).append(payload.duration)
            case ArtifactsSaved():
                self._artifacts = payload
                if not payload.untimed:
                    self._save.append(payload.duration)
            case WorkspaceSaved():
                self._workspace = payload
                self._save.append(payload.duration)
            case WorkspaceHardened():
                self._verifier.append(payload.duration)
            case JudgeSampled():
                samples = self._grading.get(payload.verifier, Grading()).samples
                self._grade(payload.verifier, samples=(*samples, payload.usage))
            case VerifierFailed():
                self._grade(payload.verifier, failed=payload, scored=None)
                self._difference = self._difference or payload.difference
                self._verified(payload)
            case HumanReviewRequested():
                self._grade(payload.verifier, requested=payload)
            case HumanReviewSubmitted():
                self._grade(payload.verifier, submitted=payload)
                self._enter(event, payload)
            case HindsightFailed():
                self._hindsight_failures.append(payload)
            case (
                JobStarted() | TrialScheduled() | TrialAbandoned() | JobResumed()
                | JobInterrupted() | JobCancelled() | JobFinished() | RegradePlanned()
                | RegradeSkipped() | RegradeFinished() | BlobsPruned() | EngineFault()
                | ReviewStarted() | ReviewCompleted() | ReviewFailed() | ReviewFinished()
            ):  # fmt: skip
                raise misplaced(event, "a trial's")
            case _:
                assert_never(payload)

    def _remember(self, event: RecordedEvent, payload: Episode) -> None:
        if self._keep:
            self._history.append((event, payload))

    def _enter(self, event: RecordedEvent, payload: Rewarding) -> None:
        if self._keep:
            self._ledger.append((event, payload))

    def _begin(self, event: RecordedEvent, payload: TrialStarted) -> None:
        """The trial starts; what an earlier execution concluded does not hold for this one."""
        self._started = payload, event.at
        self._inherited = len(self._usages)
        self._conclusion = None
        self._finish = None
        self._ledger_at_finish = None
        self._regrades.clear()

    def _open_sandbox(self, payload: SandboxStarted) -> None:
        if payload.purpose == "agent" or self._sandbox is None:
            self._sandbox = payload
        if payload.build_seconds is not None:
            self._build.append(payload.build_seconds)
        self._start.append(payload.start_seconds)

    def _verified(self, payload: VerifierScored | VerifierFailed) -> None:
        if not payload.untimed:
            self._verifier.append(payload.duration)

    def _grade(self, verifier: str, **known: object) -> None:
        before = self._grading.get(verifier, Grading())
        self._grading[verifier] = msgspec.structs.replace(before, **known)

    def _fail_step(self, payload: StepRewardFailed) -> None:
        error = with_line(payload.error, payload.line)
        before = self._reward_failures.get(payload.verifier, Failures(0, error))
        self._reward_failures[payload.verifier] = Failures(before.steps + 1, before.error)

    def _end(self, event: RecordedEvent, payload: TrialFinished) -> None:
        self._finish = Finish(payload, event.at, event.stream, event.version, event.hash.hex())
        self._ledger_at_finish = len(self._ledger)


def with_line(error: Text, line: str | None) -> Text:
    """An error with the place in the user's file where it was raised."""
    return f"{error} (at {line})" if line is not None and isinstance(error, str) else error


def misplaced(event: RecordedEvent, owner: str) -> LogCorrupt:
    """The error for an event in a stream where its kind does not belong."""
    return LogCorrupt(
        f"stream {event.stream!r} version {event.version}",
        f"position {event.position}: kind {event.kind!r} does not belong in {owner} stream",
    )
