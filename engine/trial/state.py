"""What is known of an execution: a pure fold over its stream, for deciding what comes next."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import IntEnum
from functools import partial
from typing import Literal, assert_never

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
from ...events.kinds.parts import SkippedPath


class Stage(IntEnum):
    """How far an execution is. Each is durable once its event is."""

    NEW = 0
    STARTED = 1
    SANDBOX = 2
    AGENT = 3
    WORKED = 4
    """The agent has finished or failed."""
    STOPPED = 5
    """Nothing of the agent's runs any more; what can be saved is being saved."""
    HARDENED = 6
    VERIFYING = 7
    JUDGED = 8
    """Every verifier that was started has answered or failed; people may still be waited for."""
    CONCLUDED = 9
    FINISHED = 10


class HookFailure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A verifier's hook that failed in a trial and earned it nothing; the first error of all."""

    verifier: str
    hook: Literal["reward", "hindsight"]
    steps: int = 0
    """That a reward hook failed on."""
    error: str


class TrialState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An execution as its events tell it."""

    stage: Stage = Stage.NEW
    version: int = 0
    started: TrialStarted | None = None
    sandbox: SandboxStarted | None = None
    """The newest one."""
    sandbox_failed: SandboxFailed | None = None
    interrupted: bool = False
    """Since the last interruption no sandbox has come up."""
    agent_failed: AgentFailed | None = None
    agent_finished: AgentFinished | None = None
    artifacts: ArtifactsSaved | None = None
    workspace: WorkspaceSaved | None = None
    workspace_version: int = 0
    """The version up to which another execution may go on from this one's saved work."""
    verdicts: tuple[VerifierScored | VerifierFailed, ...] = ()
    verifying: str | None = None
    requested: tuple[HumanReviewRequested, ...] = ()
    submitted: tuple[HumanReviewSubmitted, ...] = ()
    scored: TrialScored | None = None
    unscored: TrialUnscored | None = None
    errored: TrialErrored | None = None
    finished: TrialFinished | None = None
    kept_running: bool = False
    """The verifier needs what the agent left running, which no saved work has."""
    episode: bool = False
    """An environment's episode is recorded to its end: verifiers need nothing else."""
    hook_failures: tuple[HookFailure, ...] = ()
    """One a verifier and hook; of labels that were applied later none."""
    judge_cost: float = 0.0
    """US dollars that its judges have cost, as far as it is known."""
    judge_models: tuple[tuple[str, str], ...] = ()
    """Models that judged, each with what it called itself."""
    tools: int = 0
    """Actions that a tool call asked for."""
    warnings: tuple[str, ...] = ()
    tampered: int = 0
    """Findings of what the agent left for the verifier."""
    kept: bool = False
    """A sandbox of it is kept on purpose."""

    @property
    def lost_artifact(self) -> str | None:
        """An artifact of its that could not be taken out of the sandbox, and why."""
        if self.artifacts is None or self.sandbox is None:
            return None
        lost = lost_artifact(self.artifacts, self.sandbox.workspace)
        return None if lost is None else named(lost)

    @property
    def awaiting(self) -> tuple[HumanReviewRequested, ...]:
        """The reviews that people still owe; none once the trial is concluded."""
        if self.stage is not Stage.JUDGED:
            return ()
        given = {review.verifier for review in self.submitted}
        return tuple(asked for asked in self.requested if asked.verifier not in given)


def evolve(state: TrialState, event: TrialEvent) -> TrialState:
    """The state after one more event. The frequent kinds come first: each case is a test."""
    replace = partial(msgspec.structs.replace, state, version=state.version + 1)
    match event:
        case ActionTaken():
            return replace(tools=state.tools + 1) if event.tool_call else replace()
        case StepRewarded() | ModelCalled() | AgentMessage():
            return replace()
        case TrialStarted():
            stage = Stage.STARTED
            if state.episode:  # of the execution that this one goes on from
                stage = Stage.JUDGED if state.verdicts else Stage.STOPPED
            return replace(stage=stage, started=event)
        case SandboxStarted():
            stage = state.stage if event.purpose == "verifier" else Stage.SANDBOX
            return replace(stage=stage, sandbox=event, interrupted=False)
        case SandboxFailed():
            return replace(sandbox_failed=event)
        case AgentStarted():
            return replace(stage=Stage.AGENT)
        case AgentFinished():
            return replace(stage=Stage.WORKED, agent_finished=event)
        case AgentFailed():
            return replace(stage=Stage.WORKED, agent_failed=event)
        case ProcessesKilled():
            return replace(stage=Stage.STOPPED, kept_running=event.kept is not None)
        case ArtifactsSaved():
            return replace(artifacts=event)
        case WorkspaceSaved():
            return replace(workspace=event, workspace_version=state.version + 1)
        case WorkspaceHardened():
            return replace(stage=Stage.HARDENED)
        case VerifierStarted():
            return replace(stage=Stage.VERIFYING, verifying=event.verifier)
        case VerifierScored() | VerifierFailed():
            verdicts = (*state.verdicts, event)
            return replace(stage=Stage.JUDGED, verifying=None, verdicts=verdicts)
        case HumanReviewRequested():
            requested = (*state.requested, event)
            return replace(stage=Stage.JUDGED, requested=requested)
        case HumanReviewSubmitted():
            return replace(submitted=(*state.submitted, event))
        case TrialScored():
            return replace(stage=Stage.CONCLUDED, scored=event)
        case TrialUnscored():
            return replace(stage=Stage.CONCLUDED, unscored=event)
        case TrialErrored():
            return replace(stage=Stage.CONCLUDED, errored=event)
        case TrialFinished():
            return replace(stage=Stage.FINISHED, finished=event)
        case TrialInterrupted():
            # A verifier that was cut off has not answered: it starts again from the saved work.
            stage = Stage.STOPPED if Stage.STOPPED <= state.stage < Stage.JUDGED else state.stage
            return replace(stage=stage, interrupted=True, verifying=None)
        case EpisodeEnded():
            return replace(episode=True)
        case TamperFound():
            return replace(tampered=state.tampered + 1)
        case SandboxRemoved():
            return replace(kept=state.kept or event.kept)
        case JudgeSampled(applied=None):
            cost = event.usage.cost_usd or 0.0
            named = (event.model, event.model_reported or "")
            known = not named[1] or named in state.judge_models
            return replace(
                judge_cost=math.fsum((state.judge_cost, cost)),
                judge_models=state.judge_models if known else (*state.judge_models, named),
            )
        case StepRewardFailed(applied=None) | HindsightFailed(applied=None):
            return replace(hook_failures=_failed(state.hook_failures, event))
        case WarningRaised():
            message = event.message if isinstance(event.message, str) else event.code
            return replace(warnings=(*state.warnings, message))
        case (
            AppQueried() | EnvironmentReset()
            | HindsightCredited() | HindsightFailed() | JudgeSampled() | LeaseLost() | LeaseTaken()
            | RegradeFailed() | RegradeScored() | RegradeStarted()
            | SandboxLost() | StepRewardFailed() | VerifierApplied()
        ):  # fmt: skip
            return replace()
        case _:
            assert_never(event)


def _failed(
    known: tuple[HookFailure, ...], event: StepRewardFailed | HindsightFailed
) -> tuple[HookFailure, ...]:
    reward = isinstance(event, StepRewardFailed)
    hook: Literal["reward", "hindsight"] = "reward" if reward else "hindsight"
    for place, one in enumerate(known):
        if (one.verifier, one.hook) == (event.verifier, hook):
            more = msgspec.structs.replace(one, steps=one.steps + reward)
            return (*known[:place], more, *known[place + 1 :])
    text = event.error if isinstance(event.error, str) else f"({event.error.size} bytes of text)"
    error = f"{text} (at {event.line})" if event.line else text
    one = HookFailure(verifier=event.verifier, hook=hook, steps=int(reward), error=error)
    return (*known, one)


def judged_again(state: TrialState) -> TrialState:
    """What an execution begins with that goes on from this one's recorded episode.

    What verifiers have scored holds; those that failed have yet to judge.
    """
    return TrialState(
        episode=True,
        agent_finished=state.agent_finished,
        verdicts=tuple(v for v in state.verdicts if isinstance(v, VerifierScored)),
        hook_failures=state.hook_failures,
        tools=state.tools,
        warnings=state.warnings,
    )


def lost_artifact(saved: ArtifactsSaved, workspace: str) -> SkippedPath | None:
    """The first file that was there, could not be taken out, and does not come with the workspace.

    What is missing, or a link, or no file, is the agent's own doing, and not among these.
    """
    inside = workspace.rstrip("/") + "/"
    for each in saved.skipped:
        if each.failed and not f"{each.path}/".startswith(inside):
            return each
    return None


def named(lost: SkippedPath) -> str:
    """What was lost, and why."""
    return f"artifact {lost.path}: {lost.reason}"


def fold(events: Iterable[TrialEvent], state: TrialState | None = None) -> TrialState:
    """The state after all of these events."""
    state = state or TrialState()
    for event in events:
        state = evolve(state, event)
    return state
