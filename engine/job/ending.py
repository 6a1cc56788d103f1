"""How an execution can end, in events and in what is told of it. Pure."""

from __future__ import annotations

from typing import cast

import msgspec

from ...events.errors import BlobAltered, BlobMissing, said
from ...events.kinds import (
    AgentFailed,
    SandboxRemoved,
    TrialErrored,
    TrialEvent,
    TrialFinished,
    TrialScheduled,
    TrialUnscored,
    VerifierScored,
)
from ...events.kinds.parts import Output
from ...events.values import unescape
from ...projections.grading import NO_REWARD
from ..trial.decide import Cancel, Command, Interrupt, first_failed
from ..trial.state import Stage, TrialState
from .report import TrialEnded


class TrialEnd(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an execution ended."""

    scheduled: TrialScheduled
    state: TrialState
    tools: int
    agent_category: str | None

    @property
    def retry_category(self) -> str | None:
        """The category by which it may be run again within the job."""
        if self.state.errored is not None:
            return self.state.errored.category
        if self.state.unscored is not None:
            return self.state.unscored.category if self.state.unscored.infrastructure else None
        return self.agent_category

    def report(self, *, will_retry: bool) -> TrialEnded:
        """What those who watch the job are told."""
        state, slot = self.state, self.scheduled.slot
        problem = state.errored or state.unscored
        error = None
        if problem is not None:
            error = problem.error if isinstance(problem.error, str) else problem.category
        elif any(isinstance(v, VerifierScored) and v.missing for v in state.verdicts):
            error = NO_REWARD
        failed = first_failed(state.verdicts) if state.unscored else None
        agent_error = state.agent_finished.error if state.agent_finished else None
        return TrialEnded(
            trial=self.scheduled.trial,
            task=slot.task,
            agent=slot.agent,
            model=slot.model,
            attempt=slot.attempt,
            execution=self.scheduled.execution,
            outcome=state.finished.outcome if state.finished else "awaiting_review",
            passed=state.scored.passed if state.scored else None,
            reward=state.scored.score if state.scored else None,
            tools=self.tools,
            parameters=unescape(slot.parameters),
            error=error,
            category=problem.category if problem else self.agent_category,
            verifier=failed.verifier if failed and len(state.verdicts) > 1 else None,
            agent_error=agent_error if isinstance(agent_error, str) else None,
            tampered=state.tampered,
            kept=state.kept,
            infrastructure=state.unscored.infrastructure if state.unscored else False,
            warnings=list(state.warnings),
            hook_failures=list(state.hook_failures),
            will_retry=will_retry,
        )


def commands_to_cut_off(*, cancelled: bool, output: Output | None = None) -> list[Command]:
    """What is recorded of an execution that is stopped under way, with what it had printed."""
    if cancelled:
        return [Interrupt("the job was cancelled", output), Cancel()]
    return [Interrupt("the job was interrupted", output)]


def removal(
    sandbox_id: str, *, seconds: float | None = None, error: str | None = None, kept: bool = False
) -> SandboxRemoved:
    """What is recorded of a sandbox at its end."""
    duration = None if seconds is None else round(seconds, 6)
    return SandboxRemoved(sandbox_id=sandbox_id, duration=duration, error=error, kept=kept)


def alone(error: Exception) -> Exception:
    """The one error in a group; the group itself where several trials met different ones."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        found = [alone(one) for one in group.exceptions]
        return found[0] if len(set(map(repr, found))) == 1 else group
    return error


def fault(state: TrialState, error: Exception) -> list[TrialEvent]:
    """The end of a trial that a fault of the engine's, or of its machine, came upon.

    Without saved work the trial is errored; with it, unscored, so that it can be graded again.
    """
    if state.stage is Stage.FINISHED:
        return []
    error = alone(error)
    category = "host_failed" if isinstance(error, OSError) else "engine_fault"
    what = f"{type(error).__name__}: {said(error)}"
    if isinstance(error, BlobMissing | BlobAltered):
        category = "blob_missing" if isinstance(error, BlobMissing) else "blob_altered"
        what = said(error)
    continues = state.started is not None and state.started.continues is not None
    if state.stage >= Stage.STOPPED or continues:
        return [
            TrialUnscored(error=what, category=category, infrastructure=True),
            TrialFinished(outcome="unscored"),
        ]
    failed: list[TrialEvent] = []
    if state.stage is Stage.AGENT:
        failed.append(AgentFailed(error=what, category=category, duration=0.0))
    return [
        *failed,
        TrialErrored(error=what, category=category),
        TrialFinished(outcome="errored"),
    ]
