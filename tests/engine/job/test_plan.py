"""Given a slot's executions, what a resume does with it and why."""

from __future__ import annotations

from typing import Any

import pytest

from trialog.engine.job.plan import Execution, plan_slot, retried
from trialog.engine.trial.state import TrialState, fold
from trialog.events.kinds import (
    AgentFinished,
    AgentStarted,
    EpisodeEnded,
    HumanReviewRequested,
    HumanReviewSubmitted,
    ProcessesKilled,
    SandboxStarted,
    TrialErrored,
    TrialEvent,
    TrialFinished,
    TrialScheduled,
    TrialScored,
    TrialStarted,
    TrialUnscored,
    VerifierScored,
    VerifierStarted,
    WorkspaceHardened,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import Continues, Limits, Slot
from trialog.events.values import BlobRef

SLOT = Slot(task="t", agent="oracle", attempt=1)
STARTED = TrialStarted(job="j", trial="t__1", slot=SLOT, execution=1, task_digest="d")
GOING_ON = TrialStarted(
    job="j", trial="t__2", slot=SLOT, execution=2, task_digest="d",
    continues=Continues(stream="trial/t__1", version=6, hash="00"),
)  # fmt: skip
SANDBOX = SandboxStarted(
    purpose="agent", backend="b", sandbox_id="s", workspace="/app", limits=Limits(),
    start_seconds=0.1,
)  # fmt: skip
AGENT = AgentStarted(name="oracle")
DONE = AgentFinished(ended_by="done", duration=1.0)
KILLED = ProcessesKilled()
VERIFIER = VerifierStarted(verifier="script", verifier_kind="script", digest="d", weight=1.0)
HARDENED = WorkspaceHardened(duration=0.1)
AGENT_PHASE: list[TrialEvent] = [STARTED, SANDBOX, AGENT, DONE, KILLED]


def saved(outside: list[str] | None) -> WorkspaceSaved:
    """A saved workspace."""
    return WorkspaceSaved(
        archive=BlobRef(blob="sha256:1", size=1), size=1, files=1, outside=outside, duration=0.1
    )


def execution(events: list[TrialEvent], number: int = 1, **more: Any) -> Execution:
    """An execution with these events."""
    scheduled = TrialScheduled(trial=f"t__{number}", slot=SLOT, execution=number)
    return Execution(scheduled=scheduled, state=fold(events), **more)


def ended(outcome: TrialEvent, finished: str) -> list[TrialEvent]:
    """A whole trial with this end."""
    return [*AGENT_PHASE, saved([]), outcome, TrialFinished(outcome=finished)]  # type: ignore[arg-type]


PASSED = ended(TrialScored(passed=True, score=1.0), "scored")
REAL_ZERO = ended(TrialScored(passed=False, score=0.0), "scored")
LOST = TrialUnscored(error="e", category="sandbox_lost", infrastructure=True)
TAMPERED = TrialUnscored(error="e", category="reward_tampered", infrastructure=False)
BROKEN = TrialUnscored(error="e", category="verifier_failed", infrastructure=False)
CRASH = TrialErrored(error="e", category="model_error")
REFUSED = TrialErrored(error="e", category="limits_refused")
NO_IMAGE = TrialErrored(error="e", category="image_unavailable")


@pytest.mark.parametrize(
    ("events", "action", "same", "words"),
    [
        ([], "run", True, "not begun"),
        ([STARTED], "run", False, "stage started"),
        ([STARTED, SANDBOX], "run", False, "stage sandbox"),
        ([STARTED, SANDBOX, AGENT], "run", False, "stage agent"),
        (AGENT_PHASE, "run", False, "not saved"),
        ([*AGENT_PHASE, saved([])], "grade", True, "work is saved"),
        ([*AGENT_PHASE, saved([]), HARDENED, VERIFIER], "grade", True, "work is saved"),
        ([*AGENT_PHASE, saved(["/etc/x"])], "run", False, "outside its workspace, which are gone"),
        ([*AGENT_PHASE, saved(None)], "run", False, "not known"),
        ([*AGENT_PHASE, saved([]), TrialScored(passed=True, score=1.0)], "finish", True, "verdict"),
        ([GOING_ON], "grade", True, "being graded"),
        ([GOING_ON, HARDENED, VERIFIER], "grade", True, "work is saved"),
        (PASSED, "keep", False, "passed with 1"),
        (REAL_ZERO, "keep", False, "failed with 0"),
        (ended(LOST, "unscored"), "grade", False, "graded again"),
        ([*AGENT_PHASE, LOST, TrialFinished(outcome="unscored")], "run", False, "not saved"),
        (ended(BROKEN, "unscored"), "leave", False, "trialog regrade JOB"),
        (ended(TAMPERED, "unscored"), "leave", False, "would be in the way again"),
        ([STARTED, CRASH, TrialFinished(outcome="errored")], "leave", False, "--only errored"),
        ([STARTED, REFUSED, TrialFinished(outcome="errored")], "leave", False, "limits_refused"),
        ([STARTED, NO_IMAGE, TrialFinished(outcome="errored")], "run", False, "no work to grade"),
        ([STARTED, TrialFinished(outcome="cancelled")], "leave", False, "run --from"),
    ],
)
def test_plan_and_reason(events: list[TrialEvent], action: str, same: bool, words: str) -> None:
    """Every last durable stage leads to one action, with its reason."""
    planned = plan_slot(SLOT, [execution(events)], None)
    assert (planned.action, planned.same_stream) == (action, same)
    assert words in planned.reason


def test_never_started_slot_runs() -> None:
    """A slot without an execution is run."""
    assert plan_slot(SLOT, [], None).action == "run"


def test_young_execution_hides_no_older_one() -> None:
    """An execution that was given up leaves the earlier result in place."""
    both = [execution(PASSED, 1), execution([STARTED], 2, abandoned=True)]
    assert plan_slot(SLOT, both, None).action == "keep"


def test_last_execution_decides() -> None:
    """An earlier unscored execution does not count beside a later result."""
    both = [execution(ended(LOST, "unscored"), 1), execution(REAL_ZERO, 2)]
    assert plan_slot(SLOT, both, None).action == "keep"


def test_a_grading_that_never_began_is_planned_again() -> None:
    """An execution that was to grade saved work and never began does not cost that work."""
    planned = plan_slot(SLOT, [execution(ended(LOST, "unscored"), 1), execution([], 2)], None)
    assert (planned.action, planned.trial, planned.same_stream) == ("grade", "t__1", False)


EPISODE: list[TrialEvent] = [
    STARTED, SANDBOX, AGENT, EpisodeEnded(apps={}, terminated=False, truncated=False), DONE, KILLED,
]  # fmt: skip
CHECKING = VerifierStarted(verifier="a", verifier_kind="deterministic", digest="d", weight=1.0)
CHECKED = VerifierScored(
    verifier="a", verifier_kind="deterministic", digest="d", weight=1.0, score=1.0,
    source="verifier", duration=0.0,
)  # fmt: skip


def unjudged(category: str) -> list[TrialEvent]:
    """A recorded episode whose judging failed for no fault of a verifier's."""
    lost = TrialUnscored(error="a asks", category=category, infrastructure=True)
    return [*EPISODE, CHECKING, CHECKED, lost, TrialFinished(outcome="unscored")]


@pytest.mark.parametrize(
    ("events", "action", "same", "words"),
    [
        (EPISODE[:4], "run", False, "stage agent"),
        (EPISODE, "grade", True, "only verdicts are missing"),
        ([*EPISODE, CHECKING, CHECKED], "grade", True, "only verdicts are missing"),
        (unjudged("judge_failed"), "grade", False, "its recorded episode is judged again"),
        (unjudged("world_gone"), "run", False, "a asks"),
    ],
)
def test_plan_of_an_episode(events: list[TrialEvent], action: str, same: bool, words: str) -> None:
    """A recorded episode is judged, and played again only where a check needs its world."""
    planned = plan_slot(SLOT, [execution(events)], None)
    assert (planned.action, planned.same_stream) == (action, same)
    assert words in planned.reason


def test_a_check_that_may_ask_is_named() -> None:
    """The plan names checks that may need the world, unless they have answered."""
    known = execution(EPISODE, asking=["a", "b"])
    assert "if a or b asks the apps" in plan_slot(SLOT, [known], None).reason
    known = execution([*EPISODE, CHECKING, CHECKED], asking=["a"])
    assert "asks" not in plan_slot(SLOT, [known], None).reason


def test_pruned_workspace_is_not_graded() -> None:
    """Saved work that was pruned can't be graded: the agent runs again."""
    planned = plan_slot(SLOT, [execution(ended(LOST, "unscored"), pruned=True)], None)
    assert planned.action == "run"
    assert "pruned" in planned.reason


@pytest.mark.parametrize(
    ("events", "only", "action"),
    [
        (ended(LOST, "unscored"), "unscored", "grade"),
        (ended(LOST, "unscored"), "sandbox_lost", "grade"),
        (ended(LOST, "unscored"), "errored", "leave"),
        ([STARTED, CRASH, TrialFinished(outcome="errored")], "errored", "run"),
        ([STARTED, CRASH, TrialFinished(outcome="errored")], "model_error", "run"),
        (PASSED, "errored", "leave"),
        ([STARTED, SANDBOX], "errored", "leave"),
        ([], "unscored", "leave"),
    ],
)
def test_only_chooses(events: list[TrialEvent], only: str, action: str) -> None:
    """--only runs the outcome or category that it names and leaves all else."""
    assert plan_slot(SLOT, [execution(events)], only).action == action


STOPPED_ZERO = [
    STARTED, SANDBOX, AGENT,
    AgentFinished(ended_by="agent_timeout", duration=1.0, error_category="agent_timeout"),
    KILLED, saved([]), TrialScored(passed=False, score=0.0), TrialFinished(outcome="scored"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "only", "action", "words"),
    [
        (STOPPED_ZERO, "agent_timeout", "keep", "scored: failed with 0"),
        (ended(BROKEN, "unscored"), "unscored", "leave", "would fail again"),
        (ended(BROKEN, "unscored"), "verifier_failed", "leave", "would fail again"),
    ],
)
def test_only_never_runs_an_honest_score_again(
    events: list[TrialEvent], only: str, action: str, words: str
) -> None:
    """A real 0 and a verifier's own fault stay, also where --only names them."""
    planned = plan_slot(SLOT, [execution(events)], only)
    assert planned.action == action
    assert words in planned.reason


def test_only_leaves_what_never_started() -> None:
    """--only does not start what had never begun."""
    assert plan_slot(SLOT, [], "errored").action == "leave"


def test_what_is_retried() -> None:
    """Faults of the sandbox are retried by default; --retry-on replaces the list."""
    assert retried("sandbox_lost", None)
    assert not retried("agent_timeout", None)
    assert retried("agent_timeout", ["agent_timeout"])
    assert not retried("sandbox_lost", ["agent_timeout"])


def test_state_of_nothing() -> None:
    """An empty stream is an execution that has not begun."""
    assert fold([]) == TrialState()


def test_a_trial_that_waits_for_people_is_left() -> None:
    """While a person's review is owed there is nothing to resume; once it is in, there is."""
    asked = HumanReviewRequested(
        verifier="person", digest="d", weight=1.0, instructions="", criteria=[]
    )
    given = HumanReviewSubmitted(verifier="person", score=1.0, criteria=[])
    waiting = [*AGENT_PHASE, HARDENED, asked]

    left = plan_slot(SLOT, [execution(waiting)], None)
    assert ("leave", "t__1") == (left.action, left.trial)
    assert "waits for the review of person" in left.reason
    finished = plan_slot(SLOT, [execution([*waiting, given])], None)
    assert ("finish", True) == (finished.action, finished.same_stream)
