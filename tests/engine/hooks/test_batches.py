"""All at once gives what one by one gives, wherever hooks run."""

from __future__ import annotations

import math
from typing import Any

import anyio
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.counted import counting
from trialog.engine.hooks.asking import JobHooks
from trialog.engine.hooks.calls import combined
from trialog.engine.hooks.inline import InlineHooks
from trialog.engine.hooks.pool import HookPool
from trialog.engine.hooks.protocol import HindsightGiven, HookSource, TrialGiven
from trialog.engine.hooks.wire import Call, Outcome, Source, Work
from trialog.engine.trial.decide import combine
from trialog.events.kinds import VerifierScored
from trialog.projections.episode import EpisodeData, RewardData

from .conftest import Make

CODE = """
    def reward(step):
        n = step.arguments["n"]
        if n == 13:
            raise ValueError(n)
        return None if n == 0 else n * WEIGHT
    def check(episode):
        total = sum(r.value for r in episode.rewards)
        if episode.state["value"] == FAILS:
            raise KeyError("fails")
        return {"score": episode.state["value"] * WEIGHT, "evidence": [repr(total)]}
    def hindsight(trial):
        for step in trial.steps("add"):
            yield trial.credit(step, trial.score, rewards=[r.value for r in trial.rewards])
"""


async def one_by_one(
    hooks: JobHooks, sources: list[HookSource], episode: EpisodeData
) -> TrialGiven:
    """A trial's hooks, a call at a time, each with what the log would have by then."""
    rewards: dict[str, Any] = {}
    ledger: list[RewardData] = []
    for source in sources:
        if source.reward is not None and episode.steps:
            given = [
                (await hooks.rewards(source, episode, [step], None))[0]
                for step in range(len(episode.steps))
            ]
            rewards[source.name] = given
            ledger += [
                RewardData(verifier=source.name, version=source.version, value=g.value,
                           source="step", event_id=step.event_id)
                for g, step in zip(given, episode.steps, strict=True) if g.value is not None
            ]  # fmt: skip
    episode = msgspec.structs.replace(episode, rewards=ledger)
    checks = {s.name: await hooks.check(s, episode, None) for s in sources if s.check}
    verdicts = [
        VerifierScored(
            verifier=s.name, verifier_kind="deterministic", digest=s.digest, weight=s.weight,
            score=score, source="verifier", duration=0.0,
        )
        for s in sources if s.name in checks and (score := checks[s.name].score) is not None
    ]  # fmt: skip
    hindsight: dict[str, Any] = {}
    for source in sources:
        if source.hindsight is not None:
            if len(verdicts) == len(checks):
                score = combine(verdicts).score
                hindsight[source.name] = await hooks.hindsight(source, episode, score)
            else:
                hindsight[source.name] = HindsightGiven()
    return TrialGiven(rewards=rewards, checks=checks, hindsight=hindsight)


def test_a_batch_is_as_one_by_one(make: Make) -> None:
    """For any episode a trial's hooks at once give what they give one by one, in both places."""
    sources = [
        make(CODE.replace("WEIGHT", "0.1").replace("FAILS", "9"), name="one", weight=3.0),
        make(CODE.replace("WEIGHT", "2").replace("FAILS", "None"), name="two", weight=1.0),
        make(CODE.replace("WEIGHT", "1"), name="three", check="total_reward", weight=0.5),
    ]
    number = st.one_of(st.sampled_from([0, 13, -1]), st.integers(-3, 9))
    episodes = st.lists(st.lists(number, max_size=7), min_size=1, max_size=8)

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(episodes)
    def same(drawn: list[list[int]]) -> None:
        async def compare() -> None:
            wanted: list[TrialGiven] = []
            inline = InlineHooks()
            for numbers in drawn:
                wanted.append(await one_by_one(inline, sources, counting(*numbers)))
                at_once = await inline.trial(sources, counting(*numbers), None)
                assert without_seconds(at_once) == wanted[-1]
            found: list[TrialGiven | None] = [None] * len(drawn)

            async def one(place: int, numbers: list[int]) -> None:
                found[place] = without_seconds(await pool.trial(sources, counting(*numbers), None))

            async with HookPool() as pool:
                async with anyio.create_task_group() as tasks:
                    for place, numbers in enumerate(drawn):
                        tasks.start_soon(one, place, numbers)
                assert await one_by_one(pool, sources, counting(*drawn[0])) == wanted[0]
            assert found == wanted

        anyio.run(compare)

    same()


def without_seconds(given: TrialGiven) -> TrialGiven:
    """What was given but for how long it took."""
    return msgspec.structs.replace(given, seconds={})


@given(st.lists(st.tuples(st.floats(0.1, 5), st.floats(-2, 2)), min_size=1, max_size=6))
def test_the_score_is_combined_as_the_engine_does(parts: list[tuple[float, float]]) -> None:
    """Hindsight sees the very score that the trial will have."""
    sources = [Source(str(n), "1", "d", w, "", "", "c", None, None)
               for n, (w, _) in enumerate(parts)]  # fmt: skip
    calls = [Call(n, "check") for n in range(len(parts))]
    verdicts = [
        VerifierScored(
            verifier=str(n), verifier_kind="deterministic", digest="d", weight=w, score=s,
            source="verifier", duration=0.0,
        )
        for n, (w, s) in enumerate(parts)
    ]  # fmt: skip
    work = Work(seq=1, sources=sources, calls=calls, episode=b"")
    done = [Outcome(value=score) for _, score in parts]
    assert combined(work, done) == combine(verdicts).score
    assert combined(work, [*done[:-1], Outcome()]) is None
    assert math.isfinite(combine(verdicts).score)
