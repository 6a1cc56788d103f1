"""From an episode to a judge's verdict, and again from the record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from helpers.judges import FakeClient, contents, episode, said, verifier
from trialog.engine.authoring.verifiers import AgentVerifier, RubricCriterion
from trialog.engine.errors import ConfigError
from trialog.engine.judges.client import CallFailed, JudgeUnavailable, Reply
from trialog.engine.judges.judge import (
    JudgeResult,
    NothingRecorded,
    judge,
    recorded_judge,
    unavailable_judge,
)
from trialog.engine.judges.scoring import normalised, rubric_score
from trialog.engine.models.limit import CostLimit
from trialog.engine.redact import Redactor
from trialog.events.clock import SystemClock
from trialog.events.codec import encode
from trialog.events.kinds import JudgeSampled, VerifierFailed, VerifierScored
from trialog.events.kinds.parts import Usage
from trialog.events.memory import MemoryLog
from trialog.events.values import BlobRef

RUBRIC = verifier().criteria
DIGEST = "sha256:" + "d" * 64
DOWN = CallFailed("the endpoint answered 503: busy", "unreachable", status=503)
NO_KEY = CallFailed("the endpoint refuses the key: no", "unavailable", status=401)
BAD = CallFailed("the endpoint won't take the request: no", "rejected", status=400)


async def judged(by: AgentVerifier, client: Any, **more: Any) -> JudgeResult:
    """What the judge says; read again from its own record, it says the same to the byte."""
    blobs = more.pop("blobs", None) or MemoryLog().blobs
    result = await judge(
        by, episode(), client, digest=DIGEST, blobs=blobs, clock=SystemClock(), **more
    )
    again = await recorded_judge(
        by, result.events, digest=DIGEST, blobs=blobs, duration=result.verdict.duration
    )
    assert msgspec.json.encode(result) == msgspec.json.encode(again)
    return result


def scored(result: JudgeResult) -> VerifierScored:
    """The verdict, which is a score."""
    assert isinstance(result.verdict, VerifierScored), result.verdict
    return result.verdict


def failed(result: JudgeResult) -> VerifierFailed:
    """The verdict, which is a failure."""
    assert isinstance(result.verdict, VerifierFailed), result.verdict
    return result.verdict


async def test_a_reply_becomes_an_event_and_a_verdict() -> None:
    """Criteria are normalised over their ranges and weighted; everything is recorded."""
    client = FakeClient(said(policy=1, clarity=1))
    result = await judged(verifier(version="1.2.0", weight=0.5), client)
    (event,) = result.events
    assert (1, 1, True) == (event.sample, event.attempt, event.valid)
    assert said(policy=1, clarity=1) == event.reply
    assert {"policy": 1.0, "clarity": 1.0} == event.scores
    assert ("m-latest", "m-2026-01") == (event.model, event.model_reported)
    assert event.prompt_digest is not None
    assert event.latency >= 0
    verdict = scored(result)
    assert (1 * 0.5 + 3 * 1.0) / 4 == verdict.score
    assert {"policy": 0.5, "clarity": 1.0} == verdict.scores
    assert [("policy", 1.0, 0.0, 2.0, 1.0), ("clarity", 1.0, 0.0, 1.0, 3.0)] == [
        (c.name, c.score, c.min_score, c.max_score, c.weight) for c in verdict.criteria
    ]
    assert "step 1 follows it" == verdict.criteria[0].feedback
    assert ("quality", "agent", "1.2.0", DIGEST, 0.5) == (
        verdict.verifier, verdict.verifier_kind, verdict.version, verdict.digest, verdict.weight,
    )  # fmt: skip
    assert ("verifier", "m-latest", [0.875]) == (verdict.source, verdict.model, verdict.samples)
    assert verdict.spread is None
    assert Usage(model_calls=1, input_tokens=10, output_tokens=2) == verdict.usage
    assert [] == result.warnings
    for payload in (event, verdict):
        assert payload == msgspec.json.decode(encode(payload), type=type(payload))
    assert ["m-latest"] == client.models


async def test_a_negative_range_is_normalised() -> None:
    """A criterion may go from any number to any larger one."""
    rubric = [RubricCriterion(name="tone", description="", min_score=-2.0, max_score=2.0)]
    result = await judged(
        verifier(criteria=rubric), FakeClient('{"tone": {"reason": "", "score": -1}}')
    )
    assert 0.25 == scored(result).score


async def test_a_reply_that_does_not_fit_is_asked_for_again() -> None:
    """With the reason, and all replies are in the log."""
    client = FakeClient("excellent", said(policy=11), said())
    result = await judged(verifier(), client)
    assert 1.0 == scored(result).score
    assert [(1, False), (2, False), (3, True)] == [(e.attempt, e.valid) for e in result.events]
    assert ["excellent", said(policy=11), said()] == [e.reply for e in result.events]
    assert ["the reply has no JSON object", 'the score for "policy" is 11, outside of 0 to 2'] == [
        e.error for e in result.events[:2]
    ]
    assert "excellent" in contents(client.asked[1])
    assert "no JSON object" in contents(client.asked[1])
    assert "outside of 0 to 2" in contents(client.asked[2])
    assert 1 == len({e.prompt_digest for e in result.events})
    assert Usage(model_calls=3, input_tokens=30, output_tokens=6) == scored(result).usage
    assert 2 == scored(result).details["replies_malformed"]
    assert {DIGEST} == {e.digest for e in result.events}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I can't.",
        said(policy=11),
        said(clarity="0.7/1"),
        '{"policy": {"score": 2}}',
        Reply(text=said(), finish="length"),
        Reply(text="I won't.", finish="refusal"),
        Reply(text='{"error": {"message": "overloaded"}}', finish="error"),
    ],
    ids=range(8),
)
async def test_replies_that_never_fit_leave_the_trial_unscored(reply: str | Reply) -> None:
    """After three the judge fails; there is no score that nobody gave."""
    client = FakeClient(*[reply] * 4)
    result = await judged(verifier(), client)
    verdict = failed(result)
    assert ("judge_malformed", False) == (verdict.category, verdict.infrastructure)
    assert "asked 3 times" in str(verdict.error)
    assert [1, 2, 3] == [e.attempt for e in result.events]
    assert [{}] * 3 == [e.scores for e in result.events]
    assert not any(e.valid for e in result.events)
    assert 1 == len(client.replies)


async def test_an_error_in_place_of_a_reply_is_not_shown_to_the_judge() -> None:
    """It was not the model that said it."""
    body = Reply(text='{"error": {"message": "overloaded"}}', finish="error")
    client = FakeClient(body, said())
    assert 1.0 == scored(await judged(verifier(), client)).score
    assert ["system", "user"] == [message["role"] for message in client.asked[1]]


async def test_each_call_has_a_fence_of_its_own() -> None:
    """What a reply gives away of one is of no use to the next."""
    client = FakeClient("no", "no", said())
    await judged(verifier(), client)
    fences = {contents(messages).split("BEGIN WORK ")[1][:32] for messages in client.asked}
    assert 3 == len(fences)


async def test_samples_are_averaged_and_their_spread_is_kept() -> None:
    """A criterion's score is the mean over the samples; each sample's score is there too."""
    client = FakeClient(said(policy=2, clarity=0.5), said(policy=1, clarity=0.5))
    result = await judged(verifier(samples=2), client)
    verdict = scored(result)
    assert [1.5, 0.5] == [c.score for c in verdict.criteria]
    assert [(1 + 1.5) / 4, (0.5 + 1.5) / 4] == verdict.samples
    assert 0.125 == verdict.spread
    assert 0.5625 == verdict.score
    assert [1, 2] == [e.sample for e in result.events]
    assert {
        "aggregation": "mean",
        "samples_asked": 2,
        "samples_valid": 2,
        "samples_lost": 0,
        "samples_passed": 0,
        "replies_malformed": 0,
        "criteria_spread": {"policy": 1.0, "clarity": 0.0},
        "models_reported": ["m-2026-01"],
    } == verdict.details
    assert "step 1 follows it\nstep 1 follows it" == verdict.criteria[0].feedback


async def test_samples_that_disagree_about_passing_are_flagged() -> None:
    """And the mean of theirs does not pass: full marks need every sample."""
    result = await judged(verifier(samples=3), FakeClient(said(), said(policy=1), said()))
    verdict = scored(result)
    assert 0.9 < verdict.score < 1.0
    assert 2 == verdict.details["samples_passed"]
    assert ["judge_unstable"] == verdict.warnings == [w.code for w in result.warnings]
    assert "2 of 3 samples pass" in str(result.warnings[0].message)


@pytest.mark.parametrize("replies", [[said()] * 3, [said(policy=1), said(policy=0), said(1, 0)]])
async def test_samples_on_one_side_of_passing_are_not_flagged(replies: list[str]) -> None:
    """A spread alone is no instability."""
    assert [] == (await judged(verifier(samples=3), FakeClient(*replies))).warnings


async def test_blockers_decide_what_passes() -> None:
    """With blockers a sample passes when every one is fully met, whatever else it says."""
    rubric = [
        RubricCriterion(name="policy", description="", max_score=2.0, blocker=True),
        RubricCriterion(name="clarity", description=""),
    ]
    by = verifier(samples=2, criteria=rubric)
    assert [] == (await judged(by, FakeClient(said(clarity=0), said(clarity=1)))).warnings
    unstable = await judged(by, FakeClient(said(policy=1), said()))
    assert ["judge_unstable"] == [w.code for w in unstable.warnings]
    assert scored(unstable).criteria[0].blocker


async def test_a_model_that_changes_between_samples_is_flagged() -> None:
    """An alias that moves makes samples of different judges."""
    replies = [Reply(text=said(), model=name) for name in ("m-2026-01", "m-2026-02", "m-2026-01")]
    result = await judged(verifier(samples=3), FakeClient(*replies))
    assert ["judge_model_changed"] == scored(result).warnings
    assert "m-latest called itself m-2026-01 and then m-2026-02" in str(result.warnings[0].message)
    assert ["m-2026-01", "m-2026-02"] == scored(result).details["models_reported"]
    assert ["m-2026-01", "m-2026-02", "m-2026-01"] == [e.model_reported for e in result.events]


async def test_a_sample_without_a_reply_is_left_out_and_counted() -> None:
    """The others are the verdict."""
    client = FakeClient(said(policy=2, clarity=1), DOWN, said(policy=0, clarity=1))
    result = await judged(verifier(samples=3), client)
    verdict = scored(result)
    assert [1.0, 0.75] == verdict.samples
    assert 0.875 == verdict.score
    assert (3, 2, 1) == tuple(
        verdict.details[name] for name in ("samples_asked", "samples_valid", "samples_lost")
    )
    lost = result.events[1]
    assert (2, "unreachable", False, "") == (lost.sample, lost.failure, lost.valid, lost.reply)
    assert "503" in str(lost.error)
    assert "judge_sample_lost" in verdict.warnings
    assert "1 of 3 samples got no reply" in str(result.warnings[0].message)


@pytest.mark.parametrize(
    ("failures", "category", "infrastructure"),
    [
        ([DOWN, DOWN], "judge_failed", True),
        ([NO_KEY, NO_KEY], "judge_unavailable", True),
        ([BAD, BAD], "judge_failed", False),
        ([BAD, DOWN], "judge_failed", True),
        ([NO_KEY, DOWN], "judge_failed", True),
    ],
    ids=range(5),
)
async def test_without_any_reply_there_is_no_verdict(
    failures: list[CallFailed], category: str, infrastructure: bool
) -> None:
    """Who is at fault decides whether a resume judges again."""
    verdict = failed(await judged(verifier(samples=2), FakeClient(*failures)))
    assert (category, infrastructure) == (verdict.category, verdict.infrastructure)
    assert str(failures[0]) in str(verdict.error)


async def test_a_sample_that_never_fits_fails_the_verdict_though_others_do() -> None:
    """What makes a judge stumble may be the work, so such a sample is not left out."""
    result = await judged(verifier(samples=2), FakeClient(said(), "no", "no", "no"))
    assert "judge_malformed" == failed(result).category
    assert "sample 2 of 2" in str(failed(result).error)


async def test_a_failure_after_a_misfit_leaves_the_sample_out() -> None:
    """Its last word counts."""
    result = await judged(verifier(samples=2), FakeClient(said(), "no", DOWN))
    assert 1.0 == scored(result).score
    assert [(1, 1), (2, 1), (2, 2)] == [(e.sample, e.attempt) for e in result.events]


class Gate:
    """A client whose calls wait until they are let go."""

    def __init__(self) -> None:
        self.open = anyio.Event()
        self.running = 0
        self.most = 0

    async def ask(
        self, model: str, messages: list[dict[str, str]], schema: Mapping[str, Any] | None
    ) -> Reply:
        """A good reply, when the gate is open."""
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.open.wait()
            await checkpoint()
        finally:
            self.running -= 1
        return Reply(text=said())


async def test_calls_are_limited_by_model() -> None:
    """Samples are asked for at once, as far as the limiter has places."""
    gate = Gate()
    limiter = anyio.CapacityLimiter(2)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: judged(verifier(samples=5), gate, limiter=limiter))
        await wait_all_tasks_blocked()
        assert (2, 3) == (gate.running, limiter.statistics().tasks_waiting)
        gate.open.set()
    assert 2 == gate.most


async def test_a_silent_endpoint_is_given_up_at_the_deadline() -> None:
    """A sample without a reply by then is lost, and the trial is not held up."""
    gate = Gate()
    result = await judged(verifier(timeout_sec=0.05, samples=2), gate)
    assert ("judge_failed", True) == (failed(result).category, failed(result).infrastructure)
    assert "no reply within the 0.05 s" in str(failed(result).error)
    assert 0 == gate.running


async def test_waiting_for_a_place_is_not_counted_in_the_deadline() -> None:
    """A judge that others hold up is not late for it."""
    limiter = anyio.CapacityLimiter(1)
    results: list[JudgeResult] = []

    async def run() -> None:
        by = verifier(timeout_sec=0.05)
        results.append(await judged(by, FakeClient(said()), limiter=limiter))

    async with anyio.create_task_group() as group:
        async with limiter:
            group.start_soon(run)
            with anyio.move_on_after(0.1):
                await anyio.Event().wait()  # past the deadline
    assert 1.0 == scored(results[0]).score


async def test_cancelling_a_judge_ends_its_calls() -> None:
    """Nothing goes on behind a cancelled trial."""
    gate = Gate()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: judged(verifier(samples=2), gate))
        await wait_all_tasks_blocked()
        assert 2 == gate.running
        group.cancel_scope.cancel()
    assert 0 == gate.running


def priced(cost: float | None) -> Reply:
    """A good reply at a price."""
    return Reply(text=said(), usage=Usage(model_calls=1, cost_usd=cost))


async def test_costs_are_summed_where_they_are_known() -> None:
    """Null for what the endpoint does not say, never 0."""
    result = await judged(verifier(samples=2), FakeClient(priced(0.25), priced(0.5)))
    usage = scored(result).usage
    assert usage is not None
    assert (2, 0.75, None) == (usage.model_calls, usage.cost_usd, usage.input_tokens)


async def test_no_call_is_made_past_the_cost_limit() -> None:
    """A limit is shared by all judges that it is given to."""
    limit = CostLimit(0.3)
    one = {"limiter": anyio.CapacityLimiter(1), "cost_limit": limit}
    client = FakeClient(priced(0.2), priced(0.2), priced(0.2))
    first = await judged(verifier(samples=3), client, **one)
    assert 1.0 == scored(first).score
    assert ["judge_sample_lost"] == scored(first).warnings
    assert 1 == len(client.replies)
    second = failed(await judged(verifier(), client, **one))
    assert ("judge_cost_limit", True) == (second.category, second.infrastructure)
    assert "limit of $0.3 is reached ($0.4000 spent)" in str(second.error)
    assert 1 == len(client.replies)


async def test_a_judges_own_limit_is_for_one_trial() -> None:
    """Its max_cost ends its calls in one trial, begins anew in the next, and is its own fault."""
    one = {"limiter": anyio.CapacityLimiter(1), "cost_limit": CostLimit(9.0)}
    client = FakeClient(*[priced(0.2)] * 4)
    for _ in range(2):
        result = await judged(verifier(samples=3, max_cost=0.3), client, **one)
        assert scored(result).samples == [1.0, 1.0]
        assert "the max_cost of 'quality' of $0.3 is reached" in str(result.events[2].error)
    assert not client.replies

    malformed = msgspec.structs.replace(priced(0.5), text="no")
    client = FakeClient(malformed, malformed)
    beyond = failed(await judged(verifier(max_cost=0.3), client, **one))
    assert ("judge_cost_limit", False) == (beyond.category, beyond.infrastructure)
    assert 1 == len(client.replies)
    unknown = failed(
        await judged(
            verifier(max_cost=0.3),
            FakeClient(msgspec.structs.replace(priced(None), text="no")),
            **one,
        )
    )
    assert ("judge_cost_limit", False) == (unknown.category, unknown.infrastructure)


async def test_the_jobs_limit_is_not_the_verifiers_fault() -> None:
    """Where the job's limit is reached first, a higher one helps, whatever the judge's own is."""
    limit = CostLimit(1.0, spent=1.0)
    client = FakeClient(priced(0.1))
    result = failed(await judged(verifier(max_cost=5.0), client, cost_limit=limit))
    assert ("judge_cost_limit", True) == (result.category, result.infrastructure)
    assert 1 == len(client.replies)


async def test_a_cost_limit_is_not_held_by_guessing() -> None:
    """Where the endpoint does not say what a call costs, the limit ends the calls, and says so."""
    client = FakeClient(priced(None), priced(None))
    result = await judged(
        verifier(samples=2), client, limiter=anyio.CapacityLimiter(1), cost_limit=CostLimit(9.0)
    )
    assert "does not say what a call costs" in str(result.events[1].error)
    assert 1 == len(client.replies)


async def test_secrets_are_taken_out_before_a_reply_is_read() -> None:
    """So that a replay, which sees what was recorded, reads the same."""
    secret = "hunter2-hunter2"
    text = said().replace("it reads well", f"it says {secret}")
    redact = Redactor({"DB_PASSWORD": secret}).text
    result = await judged(verifier(), FakeClient(text), redact=redact)
    assert secret not in msgspec.json.encode(result).decode()
    assert "it says [redacted:DB_PASSWORD]" == scored(result).criteria[1].feedback


async def test_a_long_reply_is_a_blob() -> None:
    """Events stay small; the replay reads the blob."""
    text = said() + " " + "x" * 20_000
    result = await judged(verifier(), FakeClient(text))
    assert isinstance(result.events[0].reply, BlobRef)
    assert 1.0 == scored(result).score


async def test_a_reply_that_is_no_unicode_is_mended() -> None:
    """A lone surrogate from an endpoint doesn't end a trial."""
    result = await judged(verifier(), FakeClient("\ud800 " + said()))
    assert "\ufffd " + said() == result.events[0].reply


async def test_names_like_references_are_escaped() -> None:
    """A criterion of the name `$blob` can't forge a reference to a blob."""
    rubric = [RubricCriterion(name="$blob", description="")]
    result = await judged(
        verifier(criteria=rubric), FakeClient('{"$blob": {"reason": "", "score": 1}}')
    )
    verdict = scored(result)
    assert ["$$blob"] == list(result.events[0].scores) == list(verdict.scores)
    assert {"$$blob": None} == verdict.details["criteria_spread"]


async def test_labels_name_the_event_they_belong_to() -> None:
    """Replies that are asked for later carry the id of what applied them."""
    result = await judged(verifier(), FakeClient("no", DOWN), applied="e9")
    assert ["e9", "e9"] == [e.applied for e in result.events]


async def test_recorded_replies_are_read_by_the_rubric_of_today() -> None:
    """A changed rubric reads the same replies anew; what no longer fits gives no score."""
    blobs = MemoryLog().blobs
    result = await judged(verifier(), FakeClient(said(policy=2, clarity=0)), blobs=blobs)
    assert 0.25 == scored(result).score
    heavier = [msgspec.structs.replace(c, weight=1.0) for c in verifier().criteria]
    again = await recorded_judge(
        verifier(criteria=heavier), result.events, digest="sha256:e", blobs=blobs
    )
    assert (0.5, "sha256:e") == (scored(again).score, scored(again).digest)
    fewer = await recorded_judge(
        verifier(criteria=heavier[:1]), result.events, digest="sha256:e", blobs=blobs
    )
    assert "judge_malformed" == failed(fewer).category
    assert not fewer.events[0].valid


async def test_replies_may_be_recorded_in_any_order() -> None:
    """Samples run at once; the verdict does not depend on which came first."""
    blobs = MemoryLog().blobs
    client = FakeClient(said(policy=1), said(), "no", said(policy=0))
    result = await judged(verifier(samples=3), client, blobs=blobs)
    again = await recorded_judge(
        verifier(samples=3), result.events[::-1], digest=DIGEST, blobs=blobs,
        duration=result.verdict.duration,
    )  # fmt: skip
    assert result.verdict == again.verdict
    assert result.warnings == again.warnings


async def test_without_recorded_replies_there_is_nothing_to_read() -> None:
    """That is said, in place of a wrong number."""
    with pytest.raises(NothingRecorded, match="no recorded replies of judge 'quality'"):
        await recorded_judge(verifier(), [], digest=DIGEST, blobs=MemoryLog().blobs)


def test_where_no_client_is_to_be_had_the_verdict_says_so() -> None:
    """A resume judges again once that is mended."""
    result = unavailable_judge(verifier(), JudgeUnavailable("no key"), digest=DIGEST)
    verdict = failed(result)
    assert ("judge_unavailable", True, "no key") == (
        verdict.category, verdict.infrastructure, verdict.error,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        ({"weight": 0.0}, "finite sum above 0"),
        ({"weight": math.inf}, "weight is inf"),
        ({"weight": math.nan}, "weight is nan"),
        ({"min_score": -math.inf}, "too wide"),
        ({"min_score": -1e308, "max_score": 1e308}, "too wide"),
    ],
    ids=range(5),
)
def test_a_rubric_that_no_score_can_be_made_of_is_refused(
    criterion: dict[str, float], words: str
) -> None:
    """Before anything runs, not as a division by zero at the end."""
    with pytest.raises(ConfigError, match=words):
        verifier(criteria=[RubricCriterion(name="a", description="", **criterion)])


rubrics = st.lists(
    st.tuples(
        st.floats(-1e6, 1e6),
        st.floats(1e-3, 1e6),
        st.floats(0, 1e6),
        st.floats(0, 1),
    ),
    min_size=1,
    max_size=5,
).filter(lambda rubric: sum(weight for _, _, weight, _ in rubric) > 0)


@given(rubrics)
def test_a_score_lies_between_0_and_1(rubric: list[tuple[float, float, float, float]]) -> None:
    """Whatever ranges and weights are; full marks are exactly 1.0, the lowest exactly 0.0."""
    criteria = [
        RubricCriterion(name=str(i), description="", min_score=low, max_score=low + span, weight=w)
        for i, (low, span, w, _) in enumerate(rubric)
    ]
    given = {
        c.name: c.min_score + share * (c.max_score - c.min_score)
        for c, (*_, share) in zip(criteria, rubric, strict=True)
    }
    assert 0.0 <= rubric_score(given, criteria) <= 1.0
    assert all(0.0 <= normalised(given[c.name], c) <= 1.0 for c in criteria)
    assert 1.0 == rubric_score({c.name: c.max_score for c in criteria}, criteria)
    assert 0.0 == rubric_score({c.name: c.min_score for c in criteria}, criteria)


@pytest.mark.parametrize(
    ("weights", "scores"),
    [([1e20, 1.0], [1.0, 0.0]), ([1.0, 1.0], [1.0, math.nextafter(1.0, 0.0)])],
    ids=range(2),
)
def test_rounding_passes_nobody(weights: list[float], scores: list[float]) -> None:
    """A plain sum would be 1.0 here, with a criterion that is not fully met."""
    assert 1.0 == math.fsum(w * s for w, s in zip(weights, scores, strict=True)) / math.fsum(
        weights
    )
    criteria = [
        RubricCriterion(name=str(i), description="", weight=w) for i, w in enumerate(weights)
    ]
    assert rubric_score({str(i): s for i, s in enumerate(scores)}, criteria) < 1.0


async def test_a_mean_of_samples_is_full_only_where_all_are() -> None:
    """The least that a sample can fall short by counts."""
    short = math.nextafter(1.0, 0.0)
    assert 1.0 == (1.0 + short) / 2
    result = await judged(verifier(samples=2), FakeClient(said(), said(clarity=short)))
    assert scored(result).score < 1.0
    assert ["judge_unstable"] == scored(result).warnings


async def test_a_criterion_without_weight_costs_nothing() -> None:
    """It is asked and shown, and the score goes by the others."""
    rubric = [msgspec.structs.replace(c, weight=w) for c, w in zip(RUBRIC, (0.0, 1.0), strict=True)]
    result = await judged(verifier(criteria=rubric), FakeClient(said(policy=0)))
    assert (1.0, 0.0) == (scored(result).score, scored(result).scores["policy"])


thirds = st.lists(
    st.one_of(
        st.builds(said, st.integers(0, 2), st.sampled_from([0, 0.1, 0.7, 1])),
        st.sampled_from(["no", DOWN]),
    ),
    min_size=1,
    max_size=4,
)


@given(thirds)
async def test_every_record_reads_back_to_the_same_bytes(replies: list[Any]) -> None:
    """Live and replayed verdicts are one function of the replies; none is made of nothing."""
    client = FakeClient(*replies, *[said()] * 12)
    limiter = anyio.CapacityLimiter(1)
    result = await judged(verifier(samples=len(replies)), client, limiter=limiter)
    verdict = result.verdict
    if isinstance(verdict, VerifierScored):
        assert any(event.valid for event in result.events)
        assert min(verdict.samples) - 1e-12 <= verdict.score <= max(verdict.samples) + 1e-12
    else:
        assert verdict.category in ("judge_malformed", "judge_failed")
    assert all(isinstance(event, JudgeSampled) for event in result.events)
