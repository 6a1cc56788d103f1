"""What applying a verifier appends: what it says and what is there in, events out."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.given import Item, recorded, started, step_rewarded, verifier_started
from helpers.given import scored as verdict
from helpers.training import credit, played, ran
from trialog.engine.authoring.views import Credit
from trialog.engine.errors import CommandRefused
from trialog.engine.hooks.protocol import CheckGiven, HindsightGiven, HookFault, RewardGiven
from trialog.engine.labels.decide import Label, application, refuse
from trialog.engine.labels.said import Said
from trialog.engine.labels.stored import StoredTrial, read_stored
from trialog.events.kinds import (
    Event,
    HindsightCredited,
    HindsightFailed,
    HumanReviewRequested,
    HumanReviewSubmitted,
    StepRewarded,
    StepRewardFailed,
    VerifierApplied,
    VerifierFailed,
)
from trialog.events.kinds.parts import Target
from trialog.projections.episode import TaskData

LABEL = Label(
    verifier="h", kind="deterministic", version="1", digest="sha256:h", weight=2.0, author="ann",
    reason="why",
)  # fmt: skip
SAID = Said(
    check=CheckGiven(score=0.5, scores={"a": 1.0}, evidence=["so"], feedback="fine"),
    rewards={
        "s1": RewardGiven(value=0.25),
        "s2": RewardGiven(fault=HookFault(error="KeyError: 'x'", line="verify.py:3")),
    },
    hindsight=HindsightGiven(
        credits=[
            Credit(event_id="s1", value=1.0, metadata={"$why": 1}),
            Credit(event_id="m1", value=2.0, target="event"),
        ]
    ),
)


def stored(*items: Item, verifier: str = "h") -> StoredTrial:
    """A trial as the log has it."""
    events = recorded("trial/t__00000001", items)
    found = read_stored("t__00000001", events, verifier, TaskData(name="t"), {})
    assert found is not None
    return found


RUN = ran(*played())


def apply(trial: StoredTrial, said: Said = SAID) -> list[Any]:
    """What is appended."""
    return application(LABEL, trial, said, applied="a1")


def again(events: list[Event]) -> list[Item]:
    """The same events, as the log has them afterwards."""
    return [("a1", events[0]), *events[1:]]


def test_everything_that_was_said() -> None:
    """VerifierApplied comes first, and every label names it, the version and the digest."""
    first, reward, failure, one, two = apply(stored(*RUN))

    assert first == VerifierApplied(
        verifier="h", verifier_kind="deterministic", version="1", digest="sha256:h", score=0.5,
        scores={"a": 1.0}, evidence=["so"], feedback="fine", author="ann", reason="why",
    )  # fmt: skip
    assert reward == StepRewarded(
        verifier="h", version="1", digest="sha256:h", app="counter", value=0.25, weight=2.0,
        target=Target(target="step", event_id="s1"), space="action", applied="a1",
    )  # fmt: skip
    assert failure == StepRewardFailed(
        verifier="h", version="1", digest="sha256:h", step="s2", error="KeyError: 'x'",
        line="verify.py:3", applied="a1",
    )  # fmt: skip
    assert isinstance(one, HindsightCredited)
    assert ({"$$why": 1}, "step", "event") == (one.metadata, one.target.target, two.target.target)
    assert {"a1"} == {reward.applied, failure.applied, one.applied, two.applied}


def test_the_same_again_adds_nothing() -> None:
    """What this version has said of the trial is not appended a second time."""
    events = apply(stored(*RUN))

    assert events
    assert [] == apply(stored(*RUN, *again(events)))


@pytest.mark.parametrize(
    "more",
    [
        Said(rewards={**SAID.rewards, "s3a": RewardGiven(value=0.0)}),
        Said(rewards={"s4": RewardGiven(fault=HookFault(error="E"))}),
        Said(rewards={"s2": RewardGiven(value=1.0)}),
        Said(
            hindsight=HindsightGiven(
                credits=[Credit(event_id="s1", value=1.0), Credit(event_id="s1", value=1.0)]
            )
        ),
        Said(hindsight=HindsightGiven(credits=[Credit(event_id="s5", value=1.0)])),
    ],
)
def test_what_is_missing_is_added(more: Said) -> None:
    """A step that was not labelled yet, or a further credit for one target, is a label more."""
    there = [*RUN, *again(apply(stored(*RUN)))]

    assert apply(stored(*there), more)


@pytest.mark.parametrize(
    "less",
    [
        Said(),
        Said(check=CheckGiven(score=0.0)),
        Said(rewards={"s1": RewardGiven(value=9.0)}),
        Said(rewards={"s1": RewardGiven(fault=HookFault(error="E"))}),
        Said(hindsight=HindsightGiven(credits=[Credit(event_id="s1", value=9.0)])),
        Said(hindsight=HindsightGiven(fault=HookFault(error="E"))),
    ],
)
def test_a_version_says_a_thing_once(less: Said) -> None:
    """A label is known by its target, not its value: the first one of a version stays."""
    there = [*RUN, *again(apply(stored(*RUN)))]

    assert [] == apply(stored(*there), less)


def test_what_the_run_gave_is_there() -> None:
    """An unchanged verifier that is applied after the run adds nothing, its failures included."""
    failed = VerifierFailed(
        verifier="h", verifier_kind="deterministic", version="1", digest="sha256:h", weight=2.0,
        error="E", category="verifier_failed", infrastructure=False, duration=0.0,
    )  # fmt: skip
    run = [
        *RUN[:-3],
        verifier_started(verifier="h", version="1", digest="sha256:h"),
        failed,
        step_rewarded("s1", 0.25, verifier="h", version="1", digest="sha256:h"),
        StepRewardFailed(verifier="h", version="1", digest="sha256:h", step="s2", error="E"),
        HindsightFailed(verifier="h", version="1", digest="sha256:h", error="E"),
        *RUN[-2:],
    ]
    said = Said(
        check=CheckGiven(fault=HookFault(error="E")),
        rewards=SAID.rewards,
        hindsight=HindsightGiven(fault=HookFault(error="E")),
    )

    assert [] == apply(stored(*run), said)
    assert apply(stored(*RUN), said)


def test_failures_are_recorded() -> None:
    """A check and a hindsight that fail are in the log with their error."""
    said = Said(
        check=CheckGiven(fault=HookFault(error="KeyError: 'x'", line="verify.py:3")),
        hindsight=HindsightGiven(fault=HookFault(error="E", line="verify.py:9")),
    )

    first, failure = apply(stored(*RUN), said)

    assert ("KeyError: 'x' (at verify.py:3)", None) == (first.error, first.score)
    assert failure == HindsightFailed(
        verifier="h", version="1", digest="sha256:h", error="E", line="verify.py:9", applied="a1"
    )


def test_another_version_is_another_label() -> None:
    """Labels of an earlier version stay, and those of a new one are appended."""
    there = [*RUN, *again(apply(stored(*RUN)))]
    label = Label(verifier="h", kind="deterministic", version="2", digest="sha256:2", weight=1.0)

    assert 5 == len(application(label, stored(*there), SAID, applied="a2"))


def asked() -> HumanReviewRequested:
    """A person is asked."""
    return HumanReviewRequested(
        verifier="person", digest="d", weight=1.0, instructions="", criteria=[]
    )


def test_a_trial_that_waits_is_refused() -> None:
    """While a trial waits for people nothing is applied; once the review is in, it is."""
    waits = [started(), verdict(1.0), asked()]
    reviewed = [*waits, HumanReviewSubmitted(verifier="person", score=1.0, criteria=[])]

    with pytest.raises(CommandRefused, match="wait for people"):
        refuse([stored(*waits)], LABEL)
    refuse([stored(*reviewed)], LABEL)


def test_other_code_under_the_same_version_is_refused() -> None:
    """A version is one code for ever: another digest must raise the version."""
    by_run = [*RUN[:-1], credit("s1", 1.0, digest="sha256:other"), RUN[-1]]
    applied = VerifierApplied(
        verifier="h", verifier_kind="deterministic", version="1", digest="sha256:other"
    )
    by_label = [*RUN, ("a", applied)]

    refuse([stored(*RUN)], LABEL)
    for items in (by_run, by_label):
        with pytest.raises(CommandRefused, match="raise the version"):
            refuse([stored(*items)], LABEL)
    other = Label(verifier="h", kind="deterministic", version="2", digest="sha256:2", weight=1.0)
    refuse([stored(*by_run), stored(*by_label)], other)
