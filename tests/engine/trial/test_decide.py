"""Given events, when a command, then events: how an execution may go on and how it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.errors import CommandRefused
from trialog.engine.trial.decide import Cancel, Conclude, Interrupt, Record, combine, decide
from trialog.engine.trial.state import TrialState, fold
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentStarted,
    EpisodeEnded,
    HumanReviewRequested,
    HumanReviewSubmitted,
    ProcessesKilled,
    RegradeFailed,
    SandboxFailed,
    SandboxRemoved,
    SandboxStarted,
    TrialErrored,
    TrialEvent,
    TrialFinished,
    TrialInterrupted,
    TrialScored,
    TrialStarted,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
    WarningRaised,
    WorkspaceHardened,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import Criterion, CriterionAsked, Limits, Slot
from trialog.events.values import BlobRef

STARTED = TrialStarted(
    job="j", trial="t__1", slot=Slot(task="t", agent="oracle", attempt=1), execution=1,
    task_digest="sha256:0",
)  # fmt: skip
SANDBOX = SandboxStarted(
    purpose="agent", backend="fake", sandbox_id="s", workspace="/app", limits=Limits(),
    start_seconds=0.1,
)  # fmt: skip
AGENT = AgentStarted(name="oracle")
ACTION = ActionTaken(
    turn=1, app="shell", action="run", started_at="", duration=0.0, observed_by="host"
)
DONE = AgentFinished(ended_by="done", exit_code=0, duration=1.0)
KILLED = ProcessesKilled()
SAVED = WorkspaceSaved(
    archive=BlobRef(blob="sha256:1", size=1), size=1, files=1, outside=[], duration=0.1
)
HARDENED = WorkspaceHardened(duration=0.1)
VERIFIER = VerifierStarted(verifier="script", verifier_kind="script", digest="d", weight=1.0)
WORKED: list[TrialEvent] = [STARTED, SANDBOX, AGENT, DONE, KILLED]
UP_TO_VERIFIER: list[TrialEvent] = [*WORKED, SAVED, HARDENED, VERIFIER]


def scored(score: float, **more: object) -> VerifierScored:
    """A script's verdict."""
    fields: dict[str, object] = {
        "verifier": "script", "verifier_kind": "script", "digest": "d", "weight": 1.0,
        "score": score, "source": "verifier", "duration": 0.5,
    }  # fmt: skip
    return VerifierScored(**(fields | more))  # type: ignore[arg-type]


def failed(category: str, *, infrastructure: bool) -> VerifierFailed:
    """A verifier that could not assess."""
    return VerifierFailed(
        verifier="script", verifier_kind="script", digest="d", weight=1.0, error="why",
        category=category, infrastructure=infrastructure, duration=0.5,
    )  # fmt: skip


def then(given_events: list[TrialEvent], command: object) -> list[TrialEvent]:
    """What the command leads to after these events."""
    return decide(fold(given_events), command)  # type: ignore[arg-type]


def test_whole_trial_passes_in_order() -> None:
    """Every event of an ordinary trial is accepted in the order of the format."""
    state = TrialState()
    for event in [*UP_TO_VERIFIER, scored(1.0)]:
        assert decide(state, Record([event])) == [event]
        state = fold([event], state)
    assert decide(state, Conclude()) == [
        TrialScored(
            passed=True, score=1.0, rewards={"reward": 1.0}, reward_source="verifier",
            reward_valid=True,
        ),
        TrialFinished(outcome="scored"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([], SANDBOX),
        ([STARTED], STARTED),
        ([STARTED], AGENT),
        ([STARTED, SANDBOX, AGENT], AGENT),
        ([STARTED, SANDBOX, AGENT], KILLED),
        (WORKED, ACTION),
        (WORKED, VERIFIER),
        (WORKED, scored(1.0)),
        ([*WORKED, HARDENED], SAVED),
        ([*UP_TO_VERIFIER, scored(1.0)], scored(0.0)),
        (UP_TO_VERIFIER, VERIFIER),
        (WORKED, RegradeFailed(regrade_id="r", error="e", category="c")),
        ([STARTED, TrialFinished(outcome="cancelled")], WarningRaised(code="c", message="m")),
        ([STARTED], TrialFinished(outcome="scored")),
    ],
)  # fmt: skip
def test_out_of_order_is_refused(before: list[TrialEvent], event: TrialEvent) -> None:
    """An event that can't come now is refused, and the message names it and the stage."""
    with pytest.raises(CommandRefused, match=type(event).__name__):
        then(before, Record([event]))


def test_verdict_of_another_verifier_is_refused() -> None:
    """Only the verifier that was started can answer."""
    with pytest.raises(CommandRefused):
        then(UP_TO_VERIFIER, Record([scored(1.0, verifier="other")]))


def test_removal_may_come_after_the_end() -> None:
    """A sandbox's removal is recorded even after TrialFinished."""
    end = TrialFinished(outcome="cancelled")
    removed = SandboxRemoved(sandbox_id="s")
    assert then([STARTED, end], Record([removed])) == [removed]


def test_failed_agent_is_errored() -> None:
    """An agent that left no work makes the trial errored, with its error and category."""
    failure = AgentFailed(error="gone", category="sandbox_lost", duration=1.0)
    assert then([STARTED, SANDBOX, AGENT, failure], Conclude()) == [
        TrialErrored(error="gone", category="sandbox_lost"),
        TrialFinished(outcome="errored"),
    ]


def test_no_sandbox_is_errored() -> None:
    """Without a sandbox for the agent there is nothing to grade."""
    failure = SandboxFailed(
        purpose="agent", backend="b", phase="start", error="no", category="start_timeout",
        duration=1.0,
    )  # fmt: skip
    assert then([STARTED, failure], Conclude()) == [
        TrialErrored(error="no", category="start_timeout"),
        TrialFinished(outcome="errored"),
    ]


def test_no_sandbox_for_the_verifier_is_unscored() -> None:
    """Without a sandbox to grade in, the saved work is unscored by infrastructure."""
    failure = SandboxFailed(
        purpose="verifier", backend="b", phase="start", error="no", category="start_timeout",
        duration=1.0,
    )  # fmt: skip
    cut = TrialInterrupted(reason="killed", stage="stopped")
    assert then([*WORKED, SAVED, cut, failure], Conclude()) == [
        TrialUnscored(error="no", category="start_timeout", infrastructure=True),
        TrialFinished(outcome="unscored"),
    ]


@pytest.mark.parametrize("infrastructure", [True, False])
def test_failed_verifier_is_unscored(infrastructure: bool) -> None:
    """A verifier that could not assess makes the trial unscored, with who was at fault."""
    verdict = failed("sandbox_lost", infrastructure=infrastructure)
    assert then([*UP_TO_VERIFIER, verdict], Conclude()) == [
        TrialUnscored(error="why", category="sandbox_lost", infrastructure=infrastructure),
        TrialFinished(outcome="unscored"),
    ]


def test_engine_given_zero_says_so() -> None:
    """A 0 that the engine gave is scored, failed, and marked as the engine's."""
    verdict = scored(0.0, source="engine")
    assert then([*UP_TO_VERIFIER, verdict], Conclude())[0] == TrialScored(
        passed=False, score=0.0, rewards={"reward": 0.0}, reward_source="engine"
    )


def test_missing_reward_has_no_rewards() -> None:
    """With --missing-reward error, rewards are null and the trial fails."""
    verdict = scored(0.0, source="engine", missing=True)
    assert then([*UP_TO_VERIFIER, verdict], Conclude())[0] == TrialScored(
        passed=False, score=0.0, rewards=None, reward_source="engine"
    )


@pytest.mark.parametrize(
    ("score", "passed"), [(1.0, True), (0.9999999999999999, False), (5.0, True), (-1.0, False)]
)
def test_passes_at_one_exactly(score: float, passed: bool) -> None:
    """A trial passes at 1.0 or above, compared exactly."""
    assert combine([scored(score)]).passed is passed


def test_several_verifiers_are_weighted() -> None:
    """Several verifiers' scores are weighted; sub-scores carry the verifier's name."""
    verdicts = [
        scored(1.0, scores={"speed": 0.5}),
        scored(0.0, verifier="judge", verifier_kind="agent", weight=3.0, scores={"tone": 0.1}),
    ]
    result = combine(verdicts)
    assert (result.score, result.passed) == (0.25, False)
    assert result.scores == {"script.speed": 0.5, "judge.tone": 0.1}
    assert result.rewards == {"reward": 1.0, "speed": 0.5}


def test_a_name_that_is_escaped_gets_the_verifiers_before_it() -> None:
    """A name that begins with `$` is stored escaped alone, and needs that no more within one."""
    speed = scored(1.0, scores={"$$blob": 0.5})
    assert combine([speed]).scores == {"$$blob": 0.5}
    judge = scored(0.0, verifier="judge", verifier_kind="agent", scores={"$$blob": 0.1})
    assert combine([speed, judge]).scores == {"script.$blob": 0.5, "judge.$blob": 0.1}


def test_interrupted_verifier_starts_again() -> None:
    """After a cut-off during grading, the order goes on from a sandbox for the verifier."""
    cut = then(UP_TO_VERIFIER, Interrupt("killed"))
    assert cut == [TrialInterrupted(reason="killed", stage="verifying")]
    again = SandboxStarted(
        purpose="verifier", backend="fake", sandbox_id="s2", workspace="/app", limits=Limits(),
        start_seconds=0.1,
    )  # fmt: skip
    rest: list[TrialEvent] = [again, HARDENED, VERIFIER, scored(1.0)]
    assert then([*UP_TO_VERIFIER, *cut], Record(rest)) == rest


def test_finished_stays_finished() -> None:
    """Cancelling, interrupting and concluding a finished trial do nothing."""
    done: list[TrialEvent] = [STARTED, TrialFinished(outcome="cancelled")]
    for command in (Cancel(), Interrupt("x"), Conclude()):
        assert then(done, command) == []


def test_cancel_ends_what_runs() -> None:
    """An unfinished trial is ended as cancelled at any stage."""
    for n in range(len(UP_TO_VERIFIER) + 1):
        assert then(UP_TO_VERIFIER[:n], Cancel()) == [TrialFinished(outcome="cancelled")]


def test_conclude_needs_an_end() -> None:
    """A trial whose agent still works can't be concluded."""
    with pytest.raises(CommandRefused, match="agent"):
        then([STARTED, SANDBOX, AGENT], Conclude())


def test_unfinished_conclusion_is_finished() -> None:
    """A conclusion without its TrialFinished gets it."""
    conclusion = TrialScored(passed=False, score=0.0)
    assert then([*UP_TO_VERIFIER, scored(0.0), conclusion], Conclude()) == [
        TrialFinished(outcome="scored")
    ]


@given(st.integers(0, 9))
def test_folding_in_two_halves_is_folding_once(cut: int) -> None:
    """The state does not depend on where the fold was interrupted."""
    events = [*UP_TO_VERIFIER, scored(1.0), TrialFinished(outcome="scored")]
    assert fold(events[cut:], fold(events[:cut])) == fold(events)


def asked(name: str = "person", **more: object) -> HumanReviewRequested:
    """A person is asked for one criterion, 0 to 4."""
    care = CriterionAsked(name="care", description="", weight=1.0, min_score=0.0, max_score=4.0)
    fields: dict[str, object] = {
        "verifier": name, "version": "2.0.0", "digest": "p", "weight": 1.0, "instructions": "",
        "criteria": [care],
    }  # fmt: skip
    return HumanReviewRequested(**(fields | more))  # type: ignore[arg-type]


def submitted(name: str = "person", value: float = 2.0, *, blocker: bool = False) -> TrialEvent:
    """A person's score."""
    care = Criterion(
        name="care", score=value, min_score=0.0, max_score=4.0, weight=1.0, blocker=blocker
    )
    return HumanReviewSubmitted(verifier=name, score=value / 4.0, criteria=[care])


JUDGED: list[TrialEvent] = [*UP_TO_VERIFIER, scored(1.0)]
EPISODE: list[TrialEvent] = [
    STARTED, SANDBOX, AGENT, EpisodeEnded(apps={}, terminated=True, truncated=False), DONE, KILLED,
]  # fmt: skip


def test_a_trial_waits_for_people() -> None:
    """While a review is owed the trial can't be concluded, and the message names who is waited
    for; without that review it could."""
    assert then(JUDGED, Conclude())

    with pytest.raises(CommandRefused, match="waits for the review of person, other"):
        then([*JUDGED, asked(), asked("other")], Conclude())
    with pytest.raises(CommandRefused, match="waits for the review of other"):
        then([*JUDGED, asked(), asked("other"), submitted()], Conclude())


def test_a_waiting_trial_has_no_score_yet() -> None:
    """A score can't be recorded while a review is owed."""
    score = then(JUDGED, Conclude())[:1]

    with pytest.raises(CommandRefused, match="TrialScored"):
        then([*JUDGED, asked()], Record(score))


def test_people_count_by_their_weight() -> None:
    """A person's score is combined with the others', and its criteria are sub-scores."""
    before = [*JUDGED, asked(weight=3.0), submitted(value=2.0)]

    assert then(before, Conclude()) == [
        TrialScored(
            passed=False, score=0.625, scores={"person.care": 0.5}, rewards={"reward": 1.0},
            reward_source="verifier", reward_valid=True,
        ),
        TrialFinished(outcome="scored"),
    ]  # fmt: skip


def test_people_alone_can_score() -> None:
    """A trial of an environment may have no verifier but a person."""
    assert then([*EPISODE, asked(), submitted(value=4.0)], Conclude()) == [
        TrialScored(
            passed=True, score=1.0, scores={"care": 1.0}, rewards={"reward": 1.0},
            reward_source="verifier", reward_valid=True,
        ),
        TrialFinished(outcome="scored"),
    ]  # fmt: skip


def judged(*criteria: tuple[float, bool], score: float) -> VerifierScored:
    """A judge's verdict on criteria of 0 to 1, each with whether it is a blocker."""
    return scored(
        score, verifier="judge", verifier_kind="agent",
        criteria=[
            Criterion(
                name=f"c{number}", score=value, min_score=0.0, max_score=1.0, weight=1.0,
                blocker=blocker,
            )
            for number, (value, blocker) in enumerate(criteria)
        ],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("exact", "judge", "passed"),
    [
        (1.0, judged((1.0, True), (0.5, False), score=0.75), True),
        (1.0, judged((0.999, True), (1.0, False), score=0.9995), False),
        (0.999, judged((1.0, True), (1.0, False), score=1.0), False),
        (1.0, judged((1.0, False), (0.5, False), score=0.75), False),
        (1.0, judged((1.0, True), (0.9, True), (1.0, False), score=0.97), False),
    ],
    ids=["met", "unmet", "exact check failed", "no blockers", "one of two unmet"],
)
def test_blockers_decide(exact: float, judge: VerifierScored, passed: bool) -> None:
    """With blockers a trial passes when each is fully met and every exact check is 1.0, whatever
    the total; without any it passes at 1.0 alone."""
    check = scored(exact, verifier="check", verifier_kind="deterministic")
    found = combine([check, judge])
    assert found.passed is passed
    assert found.score == pytest.approx((exact + judge.score) / 2)


def test_a_persons_blocker() -> None:
    """Where a person's criterion is a blocker, it decides whether the trial passes."""
    met = [*JUDGED, asked(), submitted(value=4.0, blocker=True)]
    unmet = [*JUDGED, asked(), submitted(value=3.0, blocker=True)]

    assert [True, False] == [
        event.passed
        for before in (met, unmet)
        for event in then(before, Conclude())
        if isinstance(event, TrialScored)
    ]


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (WORKED, asked()),
        (UP_TO_VERIFIER, asked()),
        ([*UP_TO_VERIFIER, failed("verifier_failed", infrastructure=False)], asked()),
        ([*JUDGED, asked()], asked()),
        (JUDGED, submitted()),
        ([*JUDGED, asked()], submitted("other")),
        ([*JUDGED, asked(), submitted()], submitted()),
        ([*JUDGED, asked(), TrialFinished(outcome="cancelled")], submitted()),
    ],
)
def test_reviews_out_of_order_are_refused(before: list[TrialEvent], event: TrialEvent) -> None:
    """People are asked once, after every verdict is in and none failed; each answers once."""
    with pytest.raises(CommandRefused, match=type(event).__name__):
        then(before, Record([event]))


def test_a_review_that_is_owed_outlasts_an_interruption() -> None:
    """A trial that waits goes on waiting when its engine stops."""
    state = fold([*JUDGED, asked(), TrialInterrupted(reason="SIGINT", stage="judged")])

    assert ["person"] == [request.verifier for request in state.awaiting]


def test_nobody_is_waited_for_at_the_end() -> None:
    """A trial that was cancelled while it waited waits no more."""
    assert () == fold([*JUDGED, asked(), TrialFinished(outcome="cancelled")]).awaiting
