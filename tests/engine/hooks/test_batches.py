"""All at once gives what one by one gives, wherever hooks run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.counted import counting
from trialog.engine.hooks.asking import JobHooks
from trialog.engine.hooks.calls import combined
from trialog.engine.hooks.inline import InlineHooks
from trialog.engine.hooks.pool import HookPool, HooksUnavailable
from trialog.engine.hooks.protocol import (
    HindsightGiven,
    Hooks,
    HookSource,
    Recorded,
    TrialGiven,
)
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


READS = {
    "plainly": "sum(r.value for r in episode.rewards)",
    "whatever is raised": "kept(lambda: sum(r.value for r in episode.rewards))",
    "in a thread": "threaded(lambda: sum(r.value for r in episode.rewards))",
    "not at all": "6.0",
}
CHECK = """
    from threading import Thread
    def kept(read):
        try:
            return read()
        except:
            return -1.0
    def threaded(read):
        found = [-1.0]
        thread = Thread(target=lambda: found.append(kept(read)))
        thread.start()
        thread.join()
        return found[-1]
    def reward(step):
        with open(NOTES, "a") as notes:
            notes.write("r")
        return float(step.arguments["n"])
    def check(episode):
        with open(NOTES, "a") as notes:
            notes.write("c")
        return READ
"""


@pytest.mark.parametrize("how", READS)
async def test_recorded_trials_are_rewarded_where_a_check_reads_it(
    hooks: Hooks, make: Make, tmp_path: Path, how: str
) -> None:
    """A check that reads the rewards has them, and from then on at once; another costs none."""
    notes = tmp_path / "notes"
    source = make(CHECK.replace("NOTES", repr(str(notes))).replace("READ", "{'score': IT}")
                  .replace("IT", READS[how]))  # fmt: skip
    for wanted in ("c" if how == "not at all" else "crrrc", "c" if how == "not at all" else "rrrc"):
        notes.write_text("")
        (given,) = await hooks.check_each([Recorded([source], counting(1, 2, 3))])
        assert isinstance(given, TrialGiven)
        assert given.checks["v"].score == 6.0
        assert notes.read_text() == wanted
    at_once = await hooks.trial([source], counting(1, 2, 3), None)
    assert without_seconds(at_once).checks == given.checks


async def test_many_recorded_trials(hooks: Hooks, make: Make) -> None:
    """Each has what it would have alone: scores, faults, and what can't even be sent."""
    one = make(CODE.replace("WEIGHT", "1").replace("FAILS", "3"), name="one")
    two = make(CODE.replace("WEIGHT", "1").replace("FAILS", "None"), name="two",
               check="total_reward")  # fmt: skip
    good, failing = counting(1, 5), counting(1, 2)
    broken = msgspec.structs.replace(good, usage={"odd": object()})
    given = await hooks.check_each(
        [Recorded([one, two], episode) for episode in (good, failing, broken, good)]
        + [Recorded([], good)]
    )
    first, second, third, fourth, fifth = given
    assert isinstance(first, TrialGiven)
    assert isinstance(second, TrialGiven)
    assert isinstance(fourth, TrialGiven)
    assert without_seconds(first) == without_seconds(fourth)
    assert (first.checks["one"].score, first.checks["two"].score) == (6.0, 6.0)
    assert first.checks["one"].evidence == ["12.0"]
    fault = second.checks["one"].fault
    assert fault is not None
    assert fault.error.startswith("KeyError")
    assert isinstance(third, TypeError)
    assert fifth == TrialGiven()


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        ("while True: pass", "its check ran past the deadline"),
        ("__import__('os')._exit(3)", "its check ended the process that it ran in: exit code 3"),
    ],
)
async def test_a_harmful_check_costs_its_trial_only(make: Make, harm: str, error: str) -> None:
    """Of many recorded trials the others have their score."""
    source = make(f"""
        def check(episode):
            if episode.state["value"] == 3:
                {harm}
            return {{"score": episode.state["value"]}}
        def reward(step): return 1.0
    """, timeout_sec=1.0)  # fmt: skip
    async with HookPool() as pool:
        with anyio.fail_after(30):
            trials = [Recorded([source], counting(n)) for n in range(8)]
            given = await pool.check_each(trials)
    checks = [one.checks["v"] for one in given if isinstance(one, TrialGiven)]
    assert [one.score for one in checks] == [0.0, 1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0]
    fault = checks[3].fault
    assert fault is not None
    assert fault.error.startswith(error)


async def test_a_closed_pool_checks_nothing(make: Make) -> None:
    """Each trial is told why; one that nobody is to check needs no pool."""
    source = make("def check(episode): return {'score': 1}")
    async with HookPool() as pool:
        pass
    trials = [Recorded([source], counting(1)), Recorded([source], counting(2))]
    given = await pool.check_each(trials)
    assert [type(one) for one in given] == [HooksUnavailable] * 2
    assert await pool.check_each([Recorded([], counting(1))]) == [TrialGiven()]


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
