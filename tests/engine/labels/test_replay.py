"""A verifier's current code over a stored trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from helpers.given import Item, recorded, scored, started, step_rewarded
from helpers.training import called, credit, labelled, played, ran, step
from trialog.engine.authoring.views import Credit
from trialog.engine.hooks.protocol import (
    AskApp,
    CheckGiven,
    HindsightGiven,
    HookFault,
    HookSource,
    RewardGiven,
)
from trialog.engine.labels.replay import replay
from trialog.engine.labels.said import Said, differences, shown_fault
from trialog.engine.labels.stored import StoredTrial, read_stored
from trialog.events.kinds import (
    EnvironmentReset,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JudgeSampled,
    StepRewardFailed,
    VerifierApplied,
    VerifierFailed,
    VerifierStarted,
)
from trialog.events.kinds.parts import Usage
from trialog.events.values import blob_ref
from trialog.projections.episode import EpisodeData, RewardData, TaskData

PROGRESS = HookSource(
    name="progress", version="1.0.0", digest="sha256:c", weight=1.0, timeout_sec=60.0,
    folder=Path("."), root=Path("."), check="total_reward", reward="v.py:r", hindsight="v.py:h",
)  # fmt: skip


class Hooks:
    """Hooks that keep what they were given."""

    def __init__(self, values: Sequence[float | None]) -> None:
        self.values = values
        self.seen: dict[str, EpisodeData] = {}
        self.steps: list[str] = []
        self.score: float | None = None

    async def rewards(
        self, source: HookSource, episode: EpisodeData, steps: Sequence[int], ask: AskApp | None
    ) -> list[RewardGiven]:
        """One of the values for each."""
        assert ask is None
        self.steps = [episode.steps[number].event_id for number in steps]
        return [RewardGiven(value=value) for value in self.values]

    async def check(
        self, source: HookSource, episode: EpisodeData, ask: AskApp | None
    ) -> CheckGiven:
        """A score."""
        assert ask is None
        self.seen["check"] = episode
        return CheckGiven(score=1.0)

    async def hindsight(
        self, source: HookSource, episode: EpisodeData, score: float | None
    ) -> HindsightGiven:
        """No credit."""
        self.seen["hindsight"] = episode
        self.score = score
        return HindsightGiven()

    async def aclose(self) -> None:
        """Nothing to end."""


def stored(items: list[Item], verifier: str = "progress") -> StoredTrial:
    """A trial as the log has it."""
    found = read_stored(
        "t__00000001", recorded("trial/t__00000001", items), verifier, TaskData(name="t"), {}
    )
    assert found is not None
    return found


def earned(data: EpisodeData) -> list[tuple[str, str, float]]:
    """Who gave what."""
    return [(one.verifier, one.source, one.value) for one in data.rewards]


SEVEN: list[float | None] = [1.0, 2.0, None, None, None, 3.0, None]


async def test_hooks_see_the_trial_as_it_was() -> None:
    """The check sees what was earned before it, the hindsight all verdicts too; own rewards are
    those of the current code, in the places of the recorded ones."""
    items = ran(*played())
    hooks = Hooks(SEVEN)

    said = await replay(PROGRESS, stored(items), hooks)  # type: ignore[arg-type]

    own = [("progress", "step", value) for value in (1.0, 2.0, 3.0)]
    verdict = ("exact", "verifier", 1.0)
    assert [*own, verdict] == earned(hooks.seen["check"])
    assert [*own, verdict] == earned(hooks.seen["hindsight"])
    assert 1.0 == hooks.score
    assert {"s1": 1.0, "s2": 2.0, "s5": 3.0} == {k: v.value for k, v in said.rewards.items()}


async def test_what_came_later_is_not_seen() -> None:
    """Neither its own verdict nor hindsight, nor labels that were applied later, reach a hook."""
    items = [*ran(*played())[:-1], credit("s1", 9.0), ran()[-1], *labelled("1", {"s2": 9.0})]
    hooks = Hooks([])
    exact = PROGRESS.__class__(
        name="exact", version="1.0.0", digest="d", weight=1.0, timeout_sec=1.0, folder=Path("."),
        root=Path("."), check="v.py:c", hindsight="v.py:h",
    )  # fmt: skip

    await replay(exact, stored(items, "exact"), hooks)  # type: ignore[arg-type]

    steps = [("progress", "step", value) for value in (0.5, 0.25, 0.125)]
    assert steps == earned(hooks.seen["check"])
    assert [*steps, ("exact", "verifier", 1.0)] == earned(hooks.seen["hindsight"])


async def test_more_and_fewer_rewards_than_were_recorded() -> None:
    """Further rewards stand behind the recorded ones, and before any verdict."""
    trial = stored(ran(*played()))

    more = Hooks([1.0] * 7)
    await replay(PROGRESS, trial, more)  # type: ignore[arg-type]
    assert ["step"] * 7 + ["verifier"] == [one.source for one in more.seen["check"].rewards]
    none = Hooks([None] * 7)
    await replay(PROGRESS, trial, none)  # type: ignore[arg-type]
    assert ["verifier"] == [one.source for one in none.seen["check"].rewards]


async def test_other_verifiers_rewards_stay() -> None:
    """What other verifiers gave the steps is not touched."""
    items = ran(*played(), step_rewarded("s1", 7.0, verifier="other"))
    hooks = Hooks(SEVEN)

    await replay(PROGRESS, stored(items), hooks)  # type: ignore[arg-type]

    assert ("other", "step", 7.0) in earned(hooks.seen["check"])
    assert RewardData(
        verifier="progress", version="1.0.0", value=3.0, source="step", event_id="s5"
    ) in hooks.seen["check"].rewards  # fmt: skip


async def test_only_what_the_engine_saw_is_rewarded() -> None:
    """A step that the agent's program reported is not given to a reward hook."""
    hooks = Hooks([1.0])
    items = ran(
        EnvironmentReset(apps={}), step("s1", 1, states={}),
        step("s2", 2, states={}, observed_by="agent"),
    )  # fmt: skip

    await replay(PROGRESS, stored(items), hooks)  # type: ignore[arg-type]

    assert ["s1"] == hooks.steps


async def test_a_trial_without_a_score_has_no_hindsight() -> None:
    """Without a score there is no hindsight, and without work no check; steps are rewarded."""
    hooks = Hooks([1.0])
    items: list[Item] = [started(), EnvironmentReset(apps={}), step("s1", 1, states={})]

    said = await replay(PROGRESS, stored(items), hooks)  # type: ignore[arg-type]

    assert (None, None, ["s1"]) == (said.check, said.hindsight, list(said.rewards))
    assert {} == hooks.seen


def test_a_trial_without_recorded_states() -> None:
    """A trial of a test script says that it can't be replayed, in place of a wrong number."""
    trial = stored([started(), scored(1.0)])

    assert trial.problem is not None
    assert "no recorded state" in trial.problem
    assert trial.episode is None
    assert stored(ran(*played())).problem is None


def test_what_the_log_has_of_a_verifier() -> None:
    """Score, rewards, failures and credits are read by version; the newest is last."""
    failed = StepRewardFailed(
        verifier="progress", version="1.0.0", digest="sha256:c", step="s4", error="E", line="v.py:1"
    )
    applied = VerifierApplied(
        verifier="progress", verifier_kind="deterministic", version="2.0.0", digest="sha256:2",
        score=0.5, scores={"a": 1.0}, evidence=["so"], feedback="fine",
    )  # fmt: skip
    credited = credit(
        "s1", 1.0, verifier="progress", version="2.0.0", applied="a", metadata={"$$why": 1}
    )
    items = [*ran(*played(), failed), ("a", applied), credited]

    trial = stored(items)

    assert ["1.0.0", "2.0.0"] == list(trial.said)
    one, two = trial.said["1.0.0"], trial.said["2.0.0"]
    assert [0.5, 0.25, 0.125] == one.reward_total
    assert ["E (at v.py:1)"] == [shown_fault(fault) for fault in one.faults]
    assert CheckGiven(score=0.5, scores={"a": 1.0}, evidence=["so"], feedback="fine") == two.check
    assert two.hindsight is not None
    assert [Credit(event_id="s1", value=1.0, metadata={"$why": 1})] == two.hindsight.credits
    assert [1.0] == two.credit_total
    assert {"2.0.0": {"sha256:2", "sha256:h"}} == {"2.0.0": trial.digests["2.0.0"]}


def test_failed_checks_and_long_texts() -> None:
    """A failed check is its error; a text that is a blob elsewhere is shown by its size."""
    failed = VerifierFailed(
        verifier="progress", verifier_kind="deterministic", version="1.0.0", digest="sha256:c",
        weight=1.0, error=blob_ref(b"long"), category="verifier_timeout", infrastructure=False,
        duration=0.0, line="v.py:1",
    )  # fmt: skip
    again = VerifierApplied(
        verifier="progress", verifier_kind="deterministic", version="2.0.0", digest="d", error="E"
    )

    trial = stored([started(), failed, again])

    first, second = (said.check for said in trial.said.values())
    assert first is not None
    assert first.fault is not None
    assert ("(4 bytes of text)", True) == (first.fault.error, first.fault.timed_out)
    assert CheckGiven(fault=HookFault(error="E")) == second


def test_people_and_judges() -> None:
    """A person's review and a judge's replies are kept with the trial."""
    asked = HumanReviewRequested(
        verifier="person", version="1", digest="d", weight=1.0, instructions="", criteria=[]
    )
    given = HumanReviewSubmitted(verifier="person", score=0.5, criteria=[], feedback="fine")
    reply = JudgeSampled(
        verifier="judge", sample=1, attempt=1, valid=True, reply="{}", model="m", usage=Usage(),
        latency=0.1,
    )  # fmt: skip
    later = JudgeSampled(
        verifier="judge", sample=1, attempt=1, valid=True, reply="[]", model="m", usage=Usage(),
        latency=0.1, applied="a",
    )  # fmt: skip

    person = stored([started(), asked, given], "person")
    assert CheckGiven(score=0.5, feedback="fine") == person.said["1"].check
    assert person.review == given
    assert [reply] == stored([started(), reply, later], "judge").replies
    assert [later] == stored([started(), later], "judge").replies
    assert [] == stored([started()], "judge").replies
    again = VerifierStarted(verifier="judge", verifier_kind="agent", digest="d", weight=1.0)
    anew = replace(reply, reply="{ }")
    assert [anew] == stored([started(), again, reply, again, anew], "judge").replies


def test_states_of_a_trial() -> None:
    """A trial is finished, waits for people, or goes on."""
    asked = HumanReviewRequested(
        verifier="person", digest="d", weight=1.0, instructions="", criteria=[]
    )

    assert ["finished", "waiting", "open"] == [
        stored(items).state for items in (ran(), [started(), asked], [started()])
    ]
    assert read_stored("t", [], "v", None, {}) is None
    assert 6 == stored([started(), *played()[:5]]).version


def said(**changes: Any) -> Said:
    """A verifier that says a few things."""
    known: dict[str, Any] = {
        "check": CheckGiven(score=1.0, scores={"a": 1.0}, evidence=["e"], feedback="f"),
        "rewards": {"s1": RewardGiven(value=1.0)},
        "hindsight": HindsightGiven(credits=[Credit(event_id="s1", value=1.0)]),
    }
    return Said(**(known | changes))


def test_the_same_does_not_differ() -> None:
    """The same words, and nothing against no credits, are no difference."""
    assert [] == differences(said(), said())
    assert [] == differences(Said(), Said(hindsight=HindsightGiven(), check=CheckGiven()))


def test_everything_that_differs_is_named() -> None:
    """Each part that is said otherwise is a difference of its own, values compared exactly."""
    fault = HookFault(error="E", line="v.py:1")
    changed = said(
        check=CheckGiven(score=1.0 + 2**-52, scores={}, evidence=[], feedback=None),
        rewards={"s1": RewardGiven(value=2.0), "s2": RewardGiven(fault=fault)},
        hindsight=HindsightGiven(fault=fault),
    )

    found = differences(said(), changed)

    assert ["score", "scores", "evidence", "feedback", "reward", "reward", "credits"] == [
        one.what for one in found
    ]
    assert [("s1", 1.0, 2.0), ("s2", None, "E (at v.py:1)")] == [
        (one.event_id, one.recorded, one.now) for one in found if one.what == "reward"
    ]
    assert "E (at v.py:1)" == found[-1].now
    (failed,) = differences(Said(), Said(check=CheckGiven(fault=fault)))
    assert ("check", None, "E (at v.py:1)") == (failed.what, failed.recorded, failed.now)
    assert "E" == shown_fault(HookFault(error="E"))


@pytest.mark.parametrize("timed_out", [True, False])
def test_where_a_deadline_met_the_code_is_chance(timed_out: bool) -> None:
    """What ran past its deadline is compared without its line; any other error with it."""

    def at(line: int, *, now: bool) -> Said:
        # The log does not tell of rewards and credits that they ran past a deadline.
        fault = HookFault(error="E", line=f"v.py:{line}", timed_out=timed_out and now)
        return Said(
            check=CheckGiven(fault=fault), rewards={"s1": RewardGiven(fault=fault)},
            hindsight=HindsightGiven(fault=fault),
        )  # fmt: skip

    found = differences(at(1, now=False), at(2, now=True))

    assert [one.what for one in found] == ([] if timed_out else ["check", "reward", "credits"])


def test_calls_are_there_to_credit() -> None:
    """A model call of the trial is in the episode that hindsight is given."""
    trial = stored(ran(EnvironmentReset(apps={}), ("m1", called(1))))

    assert trial.episode is not None
    assert ["m1"] == [call["event_id"] for call in trial.episode.model_calls]
