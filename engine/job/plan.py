"""What a resume does with each slot, and why. Pure: executions in, plan out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ...events.codes import CATEGORIES
from ...events.kinds import TrialScheduled, VerifierScored
from ...events.kinds.parts import Slot
from ..trial.state import Stage, TrialState

Action = Literal["keep", "leave", "finish", "grade", "run"]


class Execution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One try at a slot."""

    scheduled: TrialScheduled
    state: TrialState
    abandoned: bool = False
    pruned: bool = False
    """Its saved workspace was given up."""
    lost: str | None = None
    """What of its saved work can't be had any more."""
    asking: list[str] = []
    """Verifiers of its task whose checks may ask the apps."""
    unreadable: str | None = None
    """Why the log can't give its record; then nothing is known of its state."""


class PlannedSlot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What will be done about a slot."""

    slot: Slot
    action: Action
    """keep: it has its result. leave: it is not run again, and the reason says what to do.
    finish: all verdicts are in. grade: the saved work is graded. run: the agent runs."""
    reason: str
    trial: str | None = None
    """The execution that the reason speaks of."""
    same_stream: bool = False
    """`finish` and `grade` go on in that execution; else a new one is made."""
    unreadable: bool = False
    """Its record is damaged, or of a later release."""


def forget(execution: Execution) -> Execution:
    """An execution of which nothing is needed any more but its name and whether it finished."""
    return Execution(
        scheduled=execution.scheduled,
        state=TrialState(stage=execution.state.stage),
        abandoned=execution.abandoned,
    )


def retried(category: str, retry_on: Sequence[str] | None) -> bool:
    """Whether a category is run again within a job by itself."""
    if retry_on is not None:
        return category in retry_on
    return category in {
        "sandbox_failed", "start_timeout", "sandbox_lost", "transfer_failed", "world_gone",
    }  # fmt: skip


def plan_slot(
    slot: Slot, executions: Sequence[Execution], only: str | None, *, cancelled: bool = False
) -> PlannedSlot:
    """What a resume does with one slot.

    The last execution that was not given up decides; a job that was cancelled starts nothing that
    it had not started. `only` is `unscored`, `errored` or a
    category, and leaves every other slot alone; what was scored, and what a verifier's own fault
    left unscored, is never run again, by that neither.
    """
    living = [e for e in executions if not e.abandoned]
    if not living:
        if cancelled:
            reason = "the job was cancelled; `trialog run --from JOB` starts anew"
            return PlannedSlot(slot=slot, action="leave", reason=reason)
        if only is not None:
            return PlannedSlot(slot=slot, action="leave", reason=f"not chosen by --only {only}")
        why = "its last execution was given up" if executions else "it was never started"
        return PlannedSlot(slot=slot, action="run", reason=why)
    last = living[-1]
    trial = last.scheduled.trial
    if (unreadable := _unreadable(living)) is not None:
        # Not absent: what it came to may stand there, and an agent's work is not done twice for it.
        return PlannedSlot(
            slot=slot, action="leave", trial=unreadable.scheduled.trial, unreadable=True,
            reason=f"its record can't be read: {unreadable.unreadable}",
        )  # fmt: skip
    if last.state.stage is Stage.FINISHED:
        return _finished(slot, last, trial, only)
    if only is not None:
        reason = f"not chosen by --only {only}"
        return PlannedSlot(slot=slot, action="leave", reason=reason, trial=trial)
    if last.state.stage is Stage.NEW and len(living) > 1:
        # What it was to go on from is there as before.
        before = living[-2]
        if before.state.stage is Stage.FINISHED:
            planned = _finished(slot, before, before.scheduled.trial, None)
            if planned.action == "grade":
                return planned
    return _unfinished(slot, last, trial)


_AGENTS_DOING = {
    "work_too_large": "it would be too large again; "
    "`trialog resume JOB --only work_too_large` runs the agent again",
    "reward_tampered": "what the agent left would be in the way again; "
    "`trialog regrade JOB` grades its saved work, "
    "`trialog resume JOB --only reward_tampered` runs the agent again",
}
"""What an agent can bring about itself, so that it must not gain another try by it."""


def _unreadable(living: Sequence[Execution]) -> Execution | None:
    """The execution that would decide and can't be read: the last, or the one that it follows."""
    last = living[-1]
    if last.unreadable is None and last.state.stage is Stage.NEW and len(living) > 1:
        last = living[-2]
    return None if last.unreadable is None else last


def _finished(slot: Slot, last: Execution, trial: str, only: str | None) -> PlannedSlot:
    state = last.state

    def planned(action: Action, reason: str) -> PlannedSlot:
        return PlannedSlot(slot=slot, action=action, reason=reason, trial=trial)

    assert state.finished is not None
    outcome = state.finished.outcome
    category: str | None
    if state.unscored is not None:
        category = state.unscored.category
    elif state.errored is not None:
        category = state.errored.category
    elif state.agent_finished is not None and outcome == "scored":
        category = state.agent_finished.error_category
    else:
        category = None
    chosen = only is not None and only in (outcome, category)
    if only is not None and not chosen:
        return planned("leave", f"not chosen by --only {only}")
    match outcome:
        case "scored":
            assert state.scored is not None
            what = "passed" if state.scored.passed else "failed"
            return planned("keep", f"scored: {what} with {state.scored.score:g}")
        case "cancelled":
            return planned("leave", "cancelled; `trialog run --from JOB` starts anew")
        case "unscored":
            assert state.unscored is not None
            if category in _AGENTS_DOING:
                if chosen:
                    return planned("run", f"unscored ({category}): {state.unscored.error}")
                return planned("leave", f"unscored ({category}): {_AGENTS_DOING[category]}")
            if not state.unscored.infrastructure:
                return planned(
                    "leave",
                    f"unscored ({category}): the verifier was at fault and would fail again; "
                    "mend the test, then `trialog regrade JOB`",
                )
            if category == "world_gone":
                return planned("run", f"unscored ({category}): {state.unscored.error}")
            if state.episode:
                again = f"unscored ({category}): its recorded episode is judged again"
                return planned("grade", again + _unless_asked(last))
            if gap := _not_gradable(last):
                return planned("run", f"unscored ({category}), and {gap}")
            return planned("grade", f"unscored ({category}): its saved work is graded again")
        case "errored":
            if chosen or (category is not None and _infrastructure(category)):
                return planned("run", f"errored ({category}): there was no work to grade")
            return planned(
                "leave", f"errored ({category}): `trialog resume JOB --only errored` runs it again"
            )


def _infrastructure(category: str) -> bool:
    known = CATEGORIES.get(category)
    return known is not None and known.blame == "infrastructure"


def _unfinished(slot: Slot, last: Execution, trial: str) -> PlannedSlot:
    stage = last.state.stage

    def planned(action: Action, reason: str, same: bool) -> PlannedSlot:
        return PlannedSlot(slot=slot, action=action, reason=reason, trial=trial, same_stream=same)

    if stage is Stage.NEW:
        return planned("run", "scheduled, but not begun", True)
    if last.state.awaiting:
        names = ", ".join(asked.verifier for asked in last.state.awaiting)
        reason = f"it waits for the review of {names}; `trialog human open {trial}` shows it"
        return planned("leave", reason, False)
    judging = Stage.STOPPED <= stage <= Stage.JUDGED and not last.state.submitted
    if last.state.episode and judging:
        missing = "the episode is recorded; only verdicts are missing"
        return planned("grade", missing + _unless_asked(last), True)
    if stage >= Stage.JUDGED or last.state.agent_failed is not None:
        return planned("finish", "all verdicts are in; only the end is missing", True)
    if stage < Stage.STOPPED:
        continues = last.state.started is not None and last.state.started.continues is not None
        if continues and last.lost is None:
            return planned("grade", "cut off while its saved work was being graded", True)
        return planned(
            "run", f"cut off at stage {stage.name.lower()}, before work was saved", False
        )
    if gap := _not_gradable(last):
        return planned("run", f"cut off at stage {stage.name.lower()}, and {gap}", False)
    return planned("grade", "the agent had finished and its work is saved", True)


def _unless_asked(execution: Execution) -> str:
    """What may yet make the agent run again: checks that are missing and ask apps that are gone."""
    given = {v.verifier for v in execution.state.verdicts if isinstance(v, VerifierScored)}
    names = [name for name in execution.asking if name not in given]
    if not names:
        return ""
    return f" (and the agent runs again if {' or '.join(names)} asks the apps, which are gone)"


def _not_gradable(execution: Execution) -> str | None:
    state = execution.state
    continues = state.started is not None and state.started.continues is not None
    if execution.pruned:
        return "its saved workspace was pruned"
    if execution.lost is not None:
        return execution.lost
    if state.workspace is None:
        return None if continues else "its workspace was not saved"
    if state.kept_running:
        return "what the agent left running for its test is gone"
    if state.started is not None and state.started.sandbox_mode == "separate":
        # Its verifier gets what was taken out, and no place outside that the agent changed.
        return None if state.lost_artifact is None else f"not saved is {state.lost_artifact}"
    if state.workspace.outside is None:
        return "what the agent changed outside its workspace is not known"
    if state.workspace.outside:
        return "the agent changed places outside its workspace, which are gone"
    return None
