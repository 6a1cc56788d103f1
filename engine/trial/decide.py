"""What may happen next to an execution, and how it ends: state and command in, events out.

Plain functions: no clock, no log, nothing awaited. The runner asks before it appends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec

from ...events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    AgentStarted,
    AppQueried,
    ArtifactsSaved,
    EnvironmentReset,
    EpisodeEnded,
    HindsightCredited,
    HindsightFailed,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JudgeSampled,
    LeaseLost,
    LeaseTaken,
    ModelCalled,
    ProcessesKilled,
    RegradeFailed,
    RegradeScored,
    RegradeStarted,
    SandboxFailed,
    SandboxLost,
    SandboxRemoved,
    SandboxStarted,
    StepRewarded,
    StepRewardFailed,
    TamperFound,
    TrialErrored,
    TrialEvent,
    TrialFinished,
    TrialInterrupted,
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
from ...events.kinds.parts import Criterion, Output
from ...events.values import escape, unescape
from ...projections.trial import with_line
from ..errors import CommandRefused
from .state import Stage, TrialState, evolve, fold


class Record(msgspec.Struct, frozen=True, gc=False):
    """These happened, in this order."""

    events: Sequence[TrialEvent]


class Conclude(msgspec.Struct, frozen=True, gc=False):
    """Nothing more will be tried: say what came of it, and finish."""


class Score(msgspec.Struct, frozen=True, gc=False):
    """All verdicts are in: say what they come to. The trial's end comes later."""


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """End the execution as cancelled."""


class Interrupt(msgspec.Struct, frozen=True, gc=False):
    """The execution stops here for now."""

    reason: str
    output: Output | None = None
    """What the phase that was under way had printed."""


Command: TypeAlias = Record | Score | Conclude | Cancel | Interrupt


def decide(state: TrialState, command: Command) -> list[TrialEvent]:
    """The events that the command leads to. Raises CommandRefused where it makes no sense."""
    return follow(state, command)[0]


def follow(state: TrialState, command: Command) -> tuple[list[TrialEvent], TrialState]:
    """The same, and the state after these events."""
    if isinstance(command, Record):
        for event in command.events:
            if not _in_order(state, event):
                raise CommandRefused(
                    f"{type(event).__name__} can't follow: the trial is at stage "
                    f"{state.stage.name.lower()} (version {state.version})"
                )
            state = evolve(state, event)
        return list(command.events), state
    events = _led_to(state, command)
    return events, fold(events, state)


def _led_to(state: TrialState, command: Score | Conclude | Cancel | Interrupt) -> list[TrialEvent]:
    match command:
        case Score():
            return [e for e in _conclude(state) if not isinstance(e, TrialFinished)]
        case Conclude():
            return _conclude(state)
        case Cancel():
            if state.stage is Stage.FINISHED:
                return []
            return [TrialFinished(outcome="cancelled")]
        case Interrupt(reason, output):
            if state.stage in (Stage.NEW, Stage.FINISHED):
                return []
            stage = state.stage.name.lower()
            return [TrialInterrupted(reason=reason, stage=stage, output=output)]
        case _:
            assert_never(command)


def _in_order(state: TrialState, event: TrialEvent) -> bool:
    stage = state.stage
    match event:
        case TrialStarted():
            return stage is Stage.NEW
        case SandboxStarted() | SandboxFailed():
            if event.purpose == "agent":
                return stage is Stage.STARTED
            return stage is Stage.STARTED or Stage.STOPPED <= stage < Stage.JUDGED
        case AgentStarted():
            return stage is Stage.SANDBOX
        case (
            EnvironmentReset() | ActionTaken() | ModelCalled() | AgentMessage() | EpisodeEnded()
            | StepRewarded() | StepRewardFailed()
        ):  # fmt: skip
            return stage is Stage.AGENT or stage is Stage.FINISHED
        case AppQueried():
            return stage in (Stage.AGENT, Stage.VERIFYING)
        case AgentFinished():
            return stage is Stage.AGENT
        case AgentFailed():  # in the sandbox: it could not be installed
            return stage in (Stage.SANDBOX, Stage.AGENT)
        case ProcessesKilled():
            return stage is Stage.WORKED
        case ArtifactsSaved() | WorkspaceSaved():
            return stage is Stage.STOPPED
        case WorkspaceHardened():
            return stage is Stage.STOPPED or (stage is Stage.STARTED and _continues(state))
        case VerifierStarted():
            return stage in (Stage.HARDENED, Stage.JUDGED) or (
                stage is Stage.STOPPED and state.episode
            )
        case JudgeSampled():
            return stage in (Stage.VERIFYING, Stage.FINISHED)
        case VerifierScored() | VerifierFailed():
            return stage is Stage.VERIFYING and state.verifying == event.verifier
        case HumanReviewRequested():
            return _may_ask(state) and event.verifier not in {r.verifier for r in state.requested}
        case HumanReviewSubmitted():
            return event.verifier in {asked.verifier for asked in state.awaiting}
        case TrialScored():
            return stage is Stage.JUDGED and not state.awaiting
        case TrialUnscored() | TrialErrored():
            return Stage.STARTED <= stage < Stage.CONCLUDED
        case HindsightCredited() | HindsightFailed():
            return stage in (Stage.CONCLUDED, Stage.FINISHED)
        case TrialFinished():
            return stage is Stage.CONCLUDED or (
                event.outcome == "cancelled" and stage is not Stage.FINISHED
            )
        case WarningRaised() | TamperFound() | TrialInterrupted() | SandboxLost():
            return stage is not Stage.FINISHED
        case RegradeStarted() | RegradeScored() | RegradeFailed() | VerifierApplied():
            return stage is Stage.FINISHED
        case SandboxRemoved() | LeaseTaken() | LeaseLost():
            return True
        case _:
            assert_never(event)


def _may_ask(state: TrialState) -> bool:
    """Whether people may be asked: the automatic verdicts are in, and none of them failed."""
    if any(isinstance(verdict, VerifierFailed) for verdict in state.verdicts):
        return False
    return state.stage in (Stage.HARDENED, Stage.JUDGED) or (
        state.stage is Stage.STOPPED and state.episode
    )


def _continues(state: TrialState) -> bool:
    return state.started is not None and state.started.continues is not None


def _conclude(state: TrialState) -> list[TrialEvent]:
    match state:
        case TrialState(stage=Stage.FINISHED):
            return []
        case TrialState(stage=Stage.CONCLUDED):
            return [TrialFinished(outcome=_outcome(state))]
        case TrialState(agent_failed=AgentFailed(error=error, category=category)):
            return [
                TrialErrored(error=error, category=category),
                TrialFinished(outcome="errored"),
            ]
        case TrialState(verdicts=verdicts) if first := first_failed(verdicts):
            return [
                TrialUnscored(
                    error=with_line(first.error, first.line),
                    category=first.category,
                    infrastructure=first.infrastructure,
                ),
                TrialFinished(outcome="unscored"),
            ]
        case TrialState(awaiting=(_, *_)):
            names = ", ".join(asked.verifier for asked in state.awaiting)
            raise CommandRefused(f"the trial waits for the review of {names}")
        case TrialState(stage=Stage.JUDGED, verdicts=verdicts):
            scored = combine(
                [v for v in verdicts if isinstance(v, VerifierScored)] + _by_people(state)
            )
            return [scored, TrialFinished(outcome="scored")]
        case TrialState(sandbox_failed=SandboxFailed() as failure):
            if failure.purpose == "agent":
                return [
                    TrialErrored(error=failure.error, category=failure.category),
                    TrialFinished(outcome="errored"),
                ]
            return [
                TrialUnscored(error=failure.error, category=failure.category, infrastructure=True),
                TrialFinished(outcome="unscored"),
            ]
        case _:
            raise CommandRefused(
                f"the trial can't be concluded at stage {state.stage.name.lower()}"
            )


def first_failed(verdicts: Iterable[VerifierScored | VerifierFailed]) -> VerifierFailed | None:
    """The failure that a trial is unscored for: a verifier's own before the machine's."""
    failed = [v for v in verdicts if isinstance(v, VerifierFailed)]
    return next((v for v in failed if not v.infrastructure), failed[0] if failed else None)


def _outcome(state: TrialState) -> Literal["scored", "unscored", "errored"]:
    if state.scored:
        return "scored"
    return "unscored" if state.unscored else "errored"


def _by_people(state: TrialState) -> list[VerifierScored]:
    """What people gave, as verdicts; the log has their submissions instead of such events."""
    asked = {request.verifier: request for request in state.requested}
    return [by_person(asked[given.verifier], given) for given in state.submitted]


def by_person(asked: HumanReviewRequested, given: HumanReviewSubmitted) -> VerifierScored:
    """A person's review as a verdict."""
    return VerifierScored(
        verifier=given.verifier,
        verifier_kind="human",
        version=asked.version,
        digest=asked.digest,
        weight=asked.weight,
        score=given.score,
        scores=escape({c.name: share(c) for c in given.criteria}),
        criteria=given.criteria,
        feedback=given.feedback,
        source="verifier",
        duration=0.0,
    )


def share(criterion: Criterion) -> float:
    """A criterion's score between the ends of its range, 0 to 1."""
    given = criterion.min_score if criterion.score is None else criterion.score
    share = (given - criterion.min_score) / (criterion.max_score - criterion.min_score)
    return min(max(share, 0.0), 1.0)


def combine(verdicts: Sequence[VerifierScored]) -> TrialScored:
    """The trial's score from its verifiers': the sum of weight x score over the sum of weights.

    A script alone keeps its number as it is, with the script's rewards beside it. Sub-scores of
    several verifiers are named ``verifier.name``. A trial passes at 1.0 or above, compared exactly;
    where criteria have blockers, it passes when every exact check is 1.0 and every blocker is met.
    """
    script = next((v for v in verdicts if v.verifier_kind == "script"), None)
    if len(verdicts) == 1:
        score, scores = verdicts[0].score, verdicts[0].scores
    else:
        total = math.fsum(v.weight for v in verdicts)
        score = math.fsum(v.weight * v.score for v in verdicts) / total
        # With a verifier's name before it, a score's own name begins no key any more.
        scores = {
            f"{v.verifier}.{name}": x for v in verdicts for name, x in unescape(v.scores).items()
        }
    missing = any(v.missing for v in verdicts)
    if missing:
        rewards = None
    elif script is not None:
        rewards = {"reward": script.score} | script.scores
    else:
        rewards = {"reward": score}
    by_engine = any(v.source == "engine" for v in verdicts)
    return TrialScored(
        passed=_passes(score, verdicts) and not missing,
        score=score,
        scores=scores,
        rewards=rewards,
        reward_source="engine" if by_engine else "verifier",
        reward_valid=not by_engine,
    )


def _passes(score: float, verdicts: Sequence[VerifierScored]) -> bool:
    blockers = [c for v in verdicts for c in v.criteria if c.blocker]
    if not blockers:
        return score >= 1.0
    exact = [v.score for v in verdicts if v.verifier_kind in ("script", "deterministic")]
    met = all(c.score is not None and c.score >= c.max_score for c in blockers)
    return met and all(one >= 1.0 for one in exact)
