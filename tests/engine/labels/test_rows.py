"""Training data, a line a step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from helpers.given import Item, agent_finished, recorded, scored, started, trial, trial_scored
from helpers.training import STEPS, broken, called, credit, labelled, played, ran, step
from trialog.engine.labels.asof import AsOf
from trialog.engine.labels.ledger import ledger_of
from trialog.engine.labels.rows import returns, rows
from trialog.events.kinds import (
    AgentFailed,
    EpisodeEnded,
    HumanReviewRequested,
    StepRewarded,
    StepRewardFailed,
    TrialErrored,
    TrialFinished,
    TrialScored,
)
from trialog.events.kinds.parts import CriterionAsked, Target
from trialog.events.values import blob_ref


def made(
    items: list[Item], moment: AsOf | None = None, gamma: float = 1.0, **blobs: bytes
) -> list[dict[str, Any]]:
    """The rows as a reader has them."""
    found = ledger_of(recorded("trial/t__00000001", items), moment)
    assert found is not None
    store = {blob_ref(data).blob: data for data in blobs.values()}
    return [
        msgspec.json.decode(msgspec.json.encode(row)) for row in rows(found, store, gamma=gamma)
    ]


def steps(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of steps."""
    return [row for row in made if row["kind"] == "step"]


RUN = ran(*played())


def test_every_step_has_its_own_rewards() -> None:
    """Calls in parallel, a call that was made again and a shortened context shift nothing."""
    found = steps(made(RUN))

    assert STEPS == [row["event_id"] for row in found]
    assert [1, 2, 3, 3, 4, 5, 6] == [row["turn"] for row in found]
    assert [0.5, 0.25, None, None, None, 0.125, None] == [row["reward"] for row in found]


def test_what_was_not_scored_is_null() -> None:
    """A step without a reward has null, not 0, and a reward of 0 is 0."""
    zero = StepRewarded(
        verifier="progress", version="1.0.0", digest="d", weight=1.0, value=0.0, space="action",
        target=Target(target="step", event_id="s4"),
    )  # fmt: skip

    assert None is steps(made(RUN))[4]["reward"]
    assert 0.0 == steps(made(ran(*played(), zero)))[4]["reward"]


def test_credit_keeps_apart() -> None:
    """What was credited in hindsight is beside the rewards, not among them."""
    found = steps(made([*RUN, *labelled("1", {"s2": 2.0, "s4": 4.0})]))

    assert [0.5, 0.25, None, None, None, 0.125, None] == [row["reward"] for row in found]
    assert [None, 2.0, None, None, 4.0, None, None] == [row["credit"] for row in found]


def test_both_versions_of_a_label_can_be_had_again() -> None:
    """As of h@1 and as of h@2 give what each gave, and later labels change neither."""
    first, second = labelled("1", {"s2": 2.0, "s4": 4.0}), labelled("2", {"s2": 3.0})
    then = made([*RUN, *first])
    whole = [*RUN, *first, *second]

    assert then == made(whole, AsOf("h", "1"))
    assert made(whole) == made(whole, AsOf("h", "2"))
    assert then != made(whole)
    assert [None, 3.0, *[None] * 5] == [row["credit"] for row in steps(made(whole))]


def test_the_end_is_apart() -> None:
    """The trial's reward at the end is in a row of its own, and no step has it."""
    (*before, last) = made(RUN)

    assert (1.0, 1.0) == (last["reward"], last["score"])
    assert {"step": {"action": 0.875}, "hindsight": {}, "terminal": {"output": 1.0}} == last[
        "totals"
    ]
    assert 0.875 == sum(row["reward"] or 0 for row in before)


def test_cut_off_is_not_the_end() -> None:
    """At a time limit the last step is truncated and not terminated; no other step is either."""
    found = made(RUN)

    assert [(False, True)] == [(row["terminated"], row["truncated"]) for row in found[-1:]]
    assert [(False, False)] * 6 + [(False, True)] == [
        (row["terminated"], row["truncated"]) for row in steps(found)
    ]


@pytest.mark.parametrize(
    ("ended_by", "expected"),
    [
        ("done", (True, False)),
        ("answer", (True, False)),
        ("agent_exit", (True, False)),
        ("terminated", (True, False)),
        ("agent_timeout", (False, True)),
        ("max_turns", (False, True)),
        ("max_seconds", (False, True)),
        ("max_cost", (False, True)),
        ("idle_timeout", (False, True)),
        ("truncated", (False, True)),
    ],
)
def test_how_an_agent_ended(ended_by: str, expected: tuple[bool, bool]) -> None:
    """Where no world says how the episode ended, the way in which the agent ended does."""
    items = [*trial()[:3], step("s1", 1), agent_finished(ended_by=ended_by), *trial()[-3:]]

    (row,) = steps(made(items))

    assert expected == (row["terminated"], row["truncated"])


def test_what_the_world_says_comes_first() -> None:
    """A world that came to its end in the same moment as a limit did terminate."""
    ended = EpisodeEnded(apps={}, terminated=True, truncated=False)
    items = [
        *trial()[:3],
        step("s1", 1),
        ended,
        agent_finished(ended_by="max_turns"),
        *trial()[-3:],
    ]

    assert (True, False) == (
        made(items)[-1]["terminated"],
        made(items)[-1]["truncated"],
    )


def test_a_trial_whose_verifier_failed() -> None:
    """An unscored trial is masked with its reason, not left out, and its reward is null, not 0."""
    found = made(broken(*played()))

    assert STEPS == [row["event_id"] for row in steps(found)]
    assert {(True, "unscored", "verifier_error: KeyError: 'done'")} == {
        (row["masked"], row["mask_reason"], row["mask_detail"]) for row in found
    }
    assert (None, None) == (found[-1]["reward"], found[-1]["score"])
    assert {} == found[-1]["totals"]["terminal"]


def test_a_scored_trial_is_not_masked() -> None:
    """What a verifier gave may be trained on, a true 0 too."""
    assert {(False, None)} == {(row["masked"], row["mask_reason"]) for row in made(RUN)}
    assert 0.0 == made(trial(0.0))[-1]["reward"]


def test_a_zero_of_the_engine() -> None:
    """A 0 that the engine gave is masked, and is no reward."""
    items = [
        started(),
        scored(0.0, source="engine", warnings=["reward_missing"]),
        trial_scored(0.0, reward_source="engine", reward_valid=False),
        TrialFinished(outcome="scored"),
    ]

    (row,) = made(items)

    assert ("engine_given", None, 0.0) == (row["mask_reason"], row["reward"], row["score"])
    assert "reward_missing" in row["mask_detail"]


def test_a_trial_without_work() -> None:
    """An errored trial without a step is there as one masked row."""
    items: list[Item] = [
        started(),
        AgentFailed(error="gone", category="sandbox_lost", duration=0.0),
        TrialErrored(error="gone", category="sandbox_lost"),
        TrialFinished(outcome="errored"),
    ]

    (row,) = made(items)

    assert ("trial", 0, "errored", "sandbox_lost: gone") == (
        row["kind"], row["steps"], row["mask_reason"], row["mask_detail"],
    )  # fmt: skip
    assert (False, False, None) == (row["terminated"], row["truncated"], row["discounted"])


def test_a_trial_that_waits_or_goes_on() -> None:
    """A trial that has no end yet is masked, with what it waits for."""
    asked = HumanReviewRequested(
        verifier="person", digest="d", weight=1.0, instructions="",
        criteria=[CriterionAsked(name="c", description="", weight=1, min_score=0, max_score=1)],
    )  # fmt: skip

    assert ("awaiting_review", "it waits for person") == (
        made([started(), asked])[-1]["mask_reason"], made([started(), asked])[-1]["mask_detail"],
    )  # fmt: skip
    assert "not_finished" == made([started()])[-1]["mask_reason"]
    assert "cancelled" == made([started(), TrialFinished(outcome="cancelled")])[-1]["mask_reason"]


def test_a_reward_that_failed() -> None:
    """A hook that raised leaves its step without a reward, and the row says why."""
    failed = StepRewardFailed(
        verifier="progress", version="1.0.0", digest="d", step="s4", error="KeyError: 'x'",
        line="verify.py:14",
    )  # fmt: skip

    row = steps(made(ran(*played(), failed)))[4]

    assert None is row["reward"]
    (entry,) = row["rewards"]
    assert ("progress", None, "KeyError: 'x' (at verify.py:14)") == (
        entry["verifier"], entry["value"], entry["error"],
    )  # fmt: skip


def test_a_reward_that_was_given_after_it_had_failed() -> None:
    """A label of the same version that was given later takes the failure's place."""
    failed = StepRewardFailed(
        verifier="progress", version="1.0.0", digest="d", step="s4", error="late"
    )
    after = StepRewarded(
        verifier="progress", version="1.0.0", digest="d", value=1.0, weight=1.0, space="action",
        target=Target(target="step", event_id="s4"), applied="a",
    )  # fmt: skip

    row = steps(made([*ran(*played(), failed), after]))[4]

    assert (1.0, 1) == (row["reward"], len(row["rewards"]))


def test_spans() -> None:
    """A credit for a span of a model call's text has a row of its own, with the tokens."""
    span = Target(target="event", event_id="m4", field="text", token_start=3, token_end=5)

    found = made([*RUN[:-1], credit("m4", 0.5, target=span, space="reasoning"), RUN[-1]])

    (row,) = [row for row in found if row["kind"] == "event"]
    assert ("m4", "ModelCalled", 4, 0.5) == (
        row["event_id"], row["event"], row["turn"], row["credit"],
    )  # fmt: skip
    target = row["rewards"][0]["target"]
    assert (3, 5, "text") == (target["token_start"], target["token_end"], target["field"])
    assert {"reasoning": 0.5} == found[-1]["totals"]["hindsight"]
    assert found.index(row) < [row["event_id"] for row in found[:-1]].index("s4")


def test_later_turns_are_discounted() -> None:
    """The return of a step counts later turns less; calls of one turn are not apart in time."""
    found = made([*RUN[:-1], credit("s3b", 1.0), RUN[-1]], gamma=0.5)

    assert [0.5 + 0.125 + 0.25 + 0.125 / 16, 0.25 + 0.5 + 0.125 / 8] == [
        row["to_go"] for row in steps(found)[:2]
    ]
    assert [1.0 + 0.125 / 4] * 2 == [row["to_go"] for row in steps(found)[2:4]]
    assert (0.5, found[0]["to_go"]) == (found[-1]["gamma"], found[-1]["discounted"])


def test_undiscounted_returns_are_plain_sums() -> None:
    """With gamma 1 the return is the sum of what is still to come, and null after the last."""
    found = steps(made(RUN))

    assert [0.875, 0.375, 0.125, 0.125, 0.125, 0.125, None] == [row["to_go"] for row in found]


@examples(
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.floats(-10, 10)), max_size=12),
    st.floats(0.1, 1.0),
)
def test_returns_are_what_they_say(values: list[tuple[int, float | None]], gamma: float) -> None:
    """A return is its own value and the discounted return of what follows."""
    ordered = sorted(values, key=lambda pair: pair[0])
    found = returns(ordered, gamma)

    for number, (turn, value) in enumerate(ordered):
        rest = found[number + 1] if number + 1 < len(found) else None
        factor = gamma if rest is not None and ordered[number + 1][0] != turn else 1.0
        if value is None and rest is None:
            assert found[number] is None
        else:
            assert found[number] == pytest.approx((value or 0.0) + (rest or 0.0) * factor)


def test_large_values_are_in_full() -> None:
    """A value that the log keeps as a blob is in the row itself."""
    large = b'{"text":"' + b"x" * 20_000 + b'"}'
    items = [*trial()[:3], step("s1", 1, observation=blob_ref(large)), *trial()[-5:]]

    (row,) = steps(made(items, large=large))

    assert 20_000 == len(row["observation"]["text"])


def test_parameters_and_versions() -> None:
    """The trial's row says what was run and which versions of verifiers its labels are of."""
    found = made([*RUN, *labelled("2", {"s2": 1.0})])[-1]

    assert {"progress": "1.0.0", "h": "2"} == found["versions"]
    assert [("h", "2")] == [(one["verifier"], one["version"]) for one in found["applied"]]
    assert ["exact"] == [entry["verifier"] for entry in found["rewards"]]


def test_a_script_without_rewards() -> None:
    """With the reward missing by the user's own choice there is none to train on."""
    scores = TrialScored(
        passed=False, score=0.0, rewards=None, reward_source="engine", reward_valid=False
    )
    items: list[Item] = [started(), scores, TrialFinished(outcome="scored")]

    assert "engine_given" == made(items)[-1]["mask_reason"]


def test_calls_without_steps_have_no_row() -> None:
    """Only what was credited has a row besides the steps."""
    items = [*trial()[:3], ("m1", called(1)), *trial()[-5:]]

    assert ["trial"] == [row["kind"] for row in made(items)]
