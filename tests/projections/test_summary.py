"""summary.json."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from helpers.given import (
    Item,
    agent_finished,
    at,
    job_started,
    recorded,
    scheduled,
    scored,
    slot,
    started,
    trial,
    trial_scored,
    unknown,
    verifier_started,
)
from trialog.events.errors import LogCorrupt, UnknownEvent
from trialog.events.kinds import (
    AgentFailed,
    BlobsPruned,
    EngineFault,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JobCancelled,
    JobFinished,
    JobInterrupted,
    JobResumed,
    ModelCalled,
    RegradeFinished,
    RegradePlanned,
    RegradeScored,
    RegradeSkipped,
    ReviewFinished,
    TrialAbandoned,
    TrialErrored,
    TrialFinished,
    TrialUnscored,
    WarningRaised,
)
from trialog.events.kinds.parts import Continues, Slot, Usage
from trialog.projections.document import document
from trialog.projections.summary import SummaryFold
from trialog.projections.trial import TrialFold

FIELDS = (
    "schema job config counts pass_rate mean_reward scores pass_at_k by engine_given_rewards "
    "warnings separate_verifiers usage wall_seconds"
).split()
COUNTS = (
    "slots scored passed failed unscored errored awaiting_review cancelled superseded"
).split()


def of(job: list[Item], trials: dict[str, list[Item]] | None = None) -> dict[str, Any]:
    """summary.json, read back."""
    found = folded(job, trials).summary()
    assert found is not None
    return json.loads(document(found))


def folded(job: list[Item], trials: dict[str, list[Item]] | None = None) -> SummaryFold:
    """The fold of a job and its trials."""
    fold = SummaryFold()
    fold.feed(recorded("job/j", job))
    for name, items in (trials or {}).items():
        inner = TrialFold(keep=False)
        events = recorded(f"trial/{name}", items)
        inner.feed(events)
        known = inner.record()
        assert known is not None
        fold.trial(name, known, events)
    return fold


def job_of(*outcomes: list[Item], **changes: Any) -> dict[str, Any]:
    """A job in which every trial has a slot of its own, of the task `t`."""
    names = [f"t__{n:08x}" for n in range(len(outcomes))]
    job: list[Item] = [job_started(slots=len(outcomes))]
    job += [scheduled(name, slot=slot(attempt=n + 1, **changes)) for n, name in enumerate(names)]
    return of(job, dict(zip(names, outcomes, strict=True)))


def ended(*items: Item, outcome: Any = "scored", **changes: Any) -> list[Item]:
    """A trial that finished, with this in between."""
    return [started(**changes), *items, TrialFinished(outcome=outcome)]


ERRORED = ended(
    AgentFailed(error="e", category="sandbox_lost", duration=0.0),
    TrialErrored(error="e", category="sandbox_lost"),
    outcome="errored",
)
UNSCORED = ended(
    TrialUnscored(error="e", category="sandbox_lost", infrastructure=True), outcome="unscored"
)
ASKED = HumanReviewRequested(
    verifier="person", digest="d", weight=1.0, instructions="", criteria=[]
)
WAITING: list[Item] = [started(), agent_finished(), ASKED]
ENGINE_ZERO = ended(
    WarningRaised(code="reward_missing", message="Verifier scored 0: no file"),
    scored(0.0, source="engine"),
    trial_scored(0.0, reward_source="engine", reward_valid=False),
)


def test_every_field_is_there_in_its_order() -> None:
    """All fields in the documented order, null where there is nothing to say."""
    found = job_of(trial())

    assert FIELDS == list(found)
    assert COUNTS == list(found["counts"])
    assert ["value", "n", "low", "high", "method"] == list(found["pass_rate"])
    assert ["task", "agent", "model"] == list(found["by"])
    inner = ["counts", "pass_rate", "mean_reward", "scores", "pass_at_k"]
    assert inner == list(found["by"]["task"]["t"])


def test_there_is_none_before_the_job() -> None:
    """A stream without its start has no summary."""
    assert folded([]).summary() is None


def test_what_is_shared_between_executions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few different ones are kept to be shared."""
    outcomes = [ENGINE_ZERO, ERRORED, UNSCORED, ERRORED, ENGINE_ZERO, WAITING, ERRORED]
    before = job_of(*outcomes)
    assert [2, 3] == [before["counts"][name] for name in ("scored", "errored")]
    for kept in (1, 2):
        monkeypatch.setattr("trialog.projections.executions.SHARED", kept)
        assert before == job_of(*outcomes)


def test_configuration() -> None:
    """The configuration is the one that the job resolved when it started."""
    found = of([job_started(config={"b": 1, "a": {"x": None}})])

    assert ("trialog.summary/1", "j", {"b": 1, "a": {"x": None}}) == (
        found["schema"], found["job"], found["config"],
    )  # fmt: skip


def test_counts() -> None:
    """Each slot stands in one of the counts; slots that have not ended are in none."""
    found = job_of(
        trial(1.0), trial(0.5), UNSCORED, ERRORED, WAITING, ended(outcome="cancelled"), [started()]
    )

    assert {
        "slots": 7, "scored": 2, "passed": 1, "failed": 1, "unscored": 1, "errored": 1,
        "awaiting_review": 1, "cancelled": 1, "superseded": 0,
    } == found["counts"]  # fmt: skip


def test_rates_count_scored_and_errored() -> None:
    """An errored trial is a failure and a 0; unscored, waiting and cancelled ones are left out."""
    found = job_of(trial(1.0), trial(0.5), ERRORED, UNSCORED, WAITING, ended(outcome="cancelled"))

    assert (1 / 3, 3, "wilson") == tuple(found["pass_rate"][k] for k in ("value", "n", "method"))
    assert (0.5, 3, "student_t") == tuple(found["mean_reward"][k] for k in ("value", "n", "method"))
    assert found["pass_rate"]["low"] < 1 / 3 < found["pass_rate"]["high"]


def test_no_verdict_is_no_zero() -> None:
    """An unscored trial moves no mean; a real 0 and one of the engine's do."""
    assert 1.0 == job_of(trial(1.0), UNSCORED)["mean_reward"]["value"]

    assert 0.5 == job_of(trial(1.0), trial(0.0))["mean_reward"]["value"]
    assert 0.5 == job_of(trial(1.0), ENGINE_ZERO)["mean_reward"]["value"]


def test_a_missing_reward_counts_as_zero() -> None:
    """With --missing-reward error the rewards are null, and the trial counts as 0."""
    missing = ended(
        scored(0.0, source="engine", missing=True),
        trial_scored(0.0, passed=False, rewards=None, reward_source="engine", reward_valid=False),
    )

    found = job_of(trial(1.0), missing)

    assert (0.5, 2, 1) == (
        found["mean_reward"]["value"], found["mean_reward"]["n"], found["counts"]["failed"],
    )  # fmt: skip


def test_the_mean_is_of_the_reward() -> None:
    """With judges beside the script, the mean reward is the script's."""
    found = job_of(ended(trial_scored(0.9, passed=False, rewards={"reward": 0.5})))

    assert 0.5 == found["mean_reward"]["value"]


def test_zeros_of_the_engine_are_named() -> None:
    """How many rewards the engine gave, and in which trials."""
    assert {"count": 1, "trials": ["t__00000001"]} == job_of(trial(1.0), ENGINE_ZERO)[
        "engine_given_rewards"
    ]
    assert {"count": 0, "trials": []} == job_of(trial(0.0))["engine_given_rewards"]


def test_sub_scores() -> None:
    """A sub-score's mean is over the trials of the tasks that have it; a lost one is 0."""
    with_speed = ended(trial_scored(1.0, scores={"speed": 0.5, "care": 1.0, "$$blob": 1.0}))
    job: list[Item] = [job_started(slots=4)]
    trials: dict[str, list[Item]] = {}
    for n, (task, items) in enumerate(
        [("a", with_speed), ("a", ENGINE_ZERO), ("a", ERRORED), ("b", trial(1.0)), ("a", UNSCORED)]
    ):
        job.append(scheduled(f"{task}__{n}", slot=slot(task=task, attempt=n + 1)))
        trials[f"{task}__{n}"] = items

    found = of(job, trials)

    assert {"$blob": 1 / 3, "care": 1 / 3, "speed": 0.5 / 3} == found["scores"]
    assert ["$blob", "care", "speed"] == list(found["scores"])
    assert {} == found["by"]["task"]["b"]["scores"]


def test_a_sub_score_that_no_float_can_sum() -> None:
    """A mean that can't be told is left out, not infinite."""
    huge = ended(trial_scored(1.0, scores={"x": 1.7e308}))

    found = job_of(huge, huge)

    assert 1.7e308 == found["scores"]["x"]


def test_pass_at_k() -> None:
    """With several attempts, the unbiased chance that one of k passes, for each k."""
    found = job_of(trial(1.0), trial(0.0), trial(0.0), trial(1.0))

    assert {"1": 0.5, "2": 1 - 1 / 6, "3": 1.0, "4": 1.0} == found["pass_at_k"]


def test_pass_at_k_of_one_attempt_is_null() -> None:
    """One attempt has no pass@k."""
    assert job_of(trial(1.0))["pass_at_k"] is None


def test_pass_at_k_needs_k_attempts() -> None:
    """A k that no group has enough assessed attempts for is left out."""
    assert {"1": 1.0} == job_of(trial(1.0), UNSCORED)["pass_at_k"]


def test_groups() -> None:
    """The same figures by task, agent and model; a trial without a model is in no model's."""
    slots = [
        slot(task="b", agent="x", model="m1"),
        slot(task="a", agent="x", model="m2"),
        slot(task="a", agent="oracle"),
    ]
    job: list[Item] = [job_started(slots=3)]
    job += [scheduled(f"t__{n}", slot=s) for n, s in enumerate(slots)]

    by = of(job, {"t__0": trial(1.0), "t__1": trial(0.0), "t__2": trial(1.0)})["by"]

    assert ["a", "b"] == list(by["task"])
    assert ["oracle", "x"] == list(by["agent"])
    assert ["m1", "m2"] == list(by["model"])
    assert (2, 0.5) == (by["task"]["a"]["counts"]["slots"], by["task"]["a"]["pass_rate"]["value"])
    assert 1.0 == by["model"]["m1"]["mean_reward"]["value"]


def twice(
    first: list[Item], second: list[Item] | None, *more: Item
) -> tuple[list[Item], dict[str, list[Item]]]:
    """A slot that was tried twice."""
    job: list[Item] = [
        job_started(), scheduled("t__1"), scheduled("t__2", execution=2), *more,
    ]  # fmt: skip
    trials = {"t__1": first}
    return job, trials if second is None else trials | {"t__2": second}


def test_the_last_finished_execution_counts() -> None:
    """Earlier executions of a slot are superseded, whatever they were."""
    found = of(*twice(UNSCORED, trial(1.0)))

    assert (1, 1, 0, 1) == tuple(
        found["counts"][k] for k in ("slots", "scored", "unscored", "superseded")
    )


def test_a_running_execution_does_not_hide_a_finished_one() -> None:
    """While a slot is tried again, its last result stands; a young attempt hides no older one."""
    for second in (None, [started()]):
        found = of(*twice(UNSCORED, second))
        assert (1, 0, 0) == tuple(
            found["counts"][k] for k in ("unscored", "awaiting_review", "superseded")
        )


def test_an_execution_that_waits_counts_over_an_earlier_one() -> None:
    """Once it has been judged but for a person, an execution stands for its slot."""
    found = of(*twice(UNSCORED, WAITING))
    assert (0, 1, 1) == tuple(
        found["counts"][k] for k in ("unscored", "awaiting_review", "superseded")
    )
    given_up = of(*twice(UNSCORED, WAITING, TrialAbandoned(trial="t__2", reason="x")))
    assert (1, 0) == tuple(given_up["counts"][k] for k in ("unscored", "awaiting_review"))


def test_an_abandoned_execution_is_superseded() -> None:
    """An execution that was given up stays, and is counted as superseded."""
    found = of(*twice([started()], trial(1.0), TrialAbandoned(trial="t__1", reason="killed")))

    assert (1, 1) == (found["counts"]["scored"], found["counts"]["superseded"])


def test_a_review_that_was_given_up() -> None:
    """An execution that waited for a person and was given up waits no more."""
    found = of(*twice(WAITING, None, TrialAbandoned(trial="t__1", reason="x")))

    assert 0 == found["counts"]["awaiting_review"]


def test_giving_up_what_nobody_scheduled() -> None:
    """A name that the job doesn't know gives up nothing."""
    found = of([job_started(), scheduled(), TrialAbandoned(trial="other", reason="x")])

    assert 0 == found["counts"]["superseded"]


def test_order_of_executions_does_not_matter() -> None:
    """Which execution counts follows from its number, not from when it is read."""
    job, trials = twice(trial(0.0), trial(1.0))

    assert of(job, trials) == of(job, dict(reversed(trials.items())))


def test_a_person_finishes_later() -> None:
    """A review that finishes after the job changes the summary."""
    given = HumanReviewSubmitted(verifier="person", score=1.0, criteria=[])

    before = job_of(WAITING)
    after = job_of([*WAITING, given, trial_scored(), TrialFinished(outcome="scored")])

    assert (1, 0) == (before["counts"]["awaiting_review"], before["counts"]["scored"])
    assert (0, 1) == (after["counts"]["awaiting_review"], after["counts"]["passed"])


def test_a_review_that_is_in() -> None:
    """Between the last submission and the end the trial no longer waits."""
    given = HumanReviewSubmitted(verifier="person", score=1.0, criteria=[])

    assert 0 == job_of([*WAITING, given])["counts"]["awaiting_review"]


def test_regrades_and_labels_change_nothing() -> None:
    """The summary keeps the original verdicts."""
    regraded = RegradeScored(regrade_id="r", verdicts=[], passed=False, score=0.0)
    job: list[Item] = [job_started(), scheduled()]
    more: list[Item] = [
        RegradePlanned(regrade_id="r", tasks=[], trials=["t__00000001"]),
        RegradeSkipped(regrade_id="r", trial="x", reason="gone", category="image_gone"),
        RegradeFinished(regrade_id="r", regraded=1, failed=0, not_regradable=0),
        BlobsPruned(what="workspace", blobs=[]),
        EngineFault(error="e", where="w", category="engine_fault"),
    ]

    assert of(job, {"t__00000001": trial()}) == of(
        [*job, *more], {"t__00000001": [*trial(), regraded]}
    )


def test_a_cancelled_job() -> None:
    """What had not finished when the job was cancelled ended as cancelled."""
    job: list[Item] = [
        job_started(slots=4),
        scheduled("a", slot=slot()),
        scheduled("b", slot=slot(attempt=2)),
    ]

    found = of([*job, JobCancelled()], {"a": trial(), "b": WAITING})

    assert (1, 0, 3) == tuple(
        found["counts"][k] for k in ("scored", "awaiting_review", "cancelled")
    )
    resumed = of([*job, JobCancelled(), JobResumed(plan={}, pid=1, host="h")], {"a": trial()})
    assert 0 == resumed["counts"]["cancelled"]


def test_warnings() -> None:
    """Warnings are counted by code, with the first message and the trials."""
    conflict = WarningRaised(code="reward_conflict", message="txt 0, json 1")
    other = WarningRaised(code="reward_conflict", message="txt 1, json 0")

    found = job_of(ended(conflict, other, trial_scored()), trial(), ENGINE_ZERO)

    assert [
        {
            "code": "reward_conflict", "message": "txt 0, json 1", "count": 2,
            "trials": ["t__00000000"],
        },
        {
            "code": "reward_missing", "message": "Verifier scored 0: no file", "count": 1,
            "trials": ["t__00000002"],
        },
    ] == found["warnings"]  # fmt: skip


def test_separate_verifiers() -> None:
    """Verifiers in a sandbox of their own are counted; tasks that were moved unprepared named."""
    separate = verifier_started(sandbox_mode="separate")
    moved = WarningRaised(code="separate_without_artifacts", message="declares none")

    found = job_of(
        ended(separate, scored(), trial_scored()),
        ended(separate, moved, scored(), trial_scored()),
        trial(),
    )

    assert {"count": 2, "tasks": ["t"]} == found["separate_verifiers"]
    assert {"count": 0, "tasks": []} == job_of(trial())["separate_verifiers"]


def called(tokens: int) -> ModelCalled:
    """A model call."""
    return ModelCalled(
        model="m", request={}, usage=Usage(input_tokens=tokens, cost_usd=0.1), started_at=at(1),
        latency=0.5, retries=0,
    )  # fmt: skip


def test_usage_covers_every_execution() -> None:
    """What superseded and abandoned executions used counts too, each once."""
    gone = TrialAbandoned(trial="t__1", reason="killed")

    found = of(*twice([started(), called(3)], ended(called(4), trial_scored()), gone))

    assert (7, 2) == (found["usage"]["input_tokens"], found["usage"]["model_calls"])
    assert math.isclose(0.2, found["usage"]["cost_usd"])


def test_usage_of_an_execution_in_flight() -> None:
    """A running execution does not show yet; without any call usage is null."""
    assert [None] * 5 == list(job_of([started(), called(3)])["usage"].values())


def test_usage_that_was_inherited_counts_once() -> None:
    """An execution that goes on from another one adds only what it used itself."""
    place = Continues(stream="trial/t__1", version=2, hash="")
    first: list[Item] = [started(), called(3)]
    again = [*first, *ended(called(4), trial_scored(), continues=place)]

    found = of(*twice(ended(called(3), outcome="unscored"), again))

    assert 7 == found["usage"]["input_tokens"]


def test_wall_seconds() -> None:
    """The time of all sessions: the engine's figure, or the times of the events."""
    job: list[Item] = [
        job_started(),
        JobInterrupted(signal="SIGINT", running=1),
        JobResumed(plan={}, pid=2, host="h"),
        JobFinished(root="", heads=[], trials=1, wall_seconds=2.5),
    ]

    assert 3.5 == of(job)["wall_seconds"]
    assert of(job[:1])["wall_seconds"] is None


def test_the_work_of_a_killed_session_counts() -> None:
    """A session that was killed lasted as long as its trials' events came."""
    job: list[Item] = [job_started(), scheduled()]
    finish = JobFinished(root="", heads=[], trials=1, wall_seconds=0.5)
    fold = SummaryFold()
    events = recorded("job/j", [*job, *[JobResumed(plan={}, pid=2, host="h")] * 30, finish])
    fold.feed([*events[:2], events[-2], events[-1]])
    inner = TrialFold()
    inner.feed(trial_events := recorded("trial/t__00000001", trial()))
    known = inner.record()
    assert known is not None

    fold.trial("t__00000001", known, trial_events)

    summary = fold.summary()
    assert summary is not None
    assert 8.5 == summary.wall_seconds


@pytest.mark.parametrize("at_once", [True, False])
def test_an_unknown_kind_stops_the_summary(at_once: bool) -> None:
    """A kind that may not be passed over stops the summary, with its position and name."""
    events = recorded("job/j", [job_started(), scheduled(), scheduled("t__2")], position=40)
    events[1] = unknown(events[1], ignorable=False)
    fold = SummaryFold()
    for part in [events] if at_once else [events[:2], events[2:]]:
        fold.feed(part)

    assert isinstance(fold.blocked, UnknownEvent)
    assert "position 41" in str(fold.blocked)
    assert "FutureThing" in str(fold.blocked)
    assert [] == list(fold.trials)


def test_an_ignorable_kind_is_passed_over() -> None:
    """A kind that may be passed over leaves the summary as it would be without it."""
    events = recorded("job/j", [job_started(), scheduled(), scheduled("t__2")])
    fold = SummaryFold()

    fold.feed([events[0], unknown(events[1], ignorable=True), events[2]])

    assert fold.blocked is None
    assert ["t__2"] == list(fold.trials)


@pytest.mark.parametrize(
    "item", [started(), ReviewFinished(completed=0, failed=0), TrialFinished(outcome="scored")]
)
def test_a_kind_of_another_stream(item: Item) -> None:
    """A trial's or a review's event in a job's stream is a fault of the log."""
    fold = folded([job_started(), item])

    assert isinstance(fold.blocked, LogCorrupt)
    assert "does not belong in a job's stream" in str(fold.blocked)


def test_an_unreadable_trial_stops_the_summary() -> None:
    """The summary can't be told while one of its trials can't be read."""
    fold = folded([job_started(), scheduled()])
    error = LogCorrupt("here", "broken")

    fold.trial("t__00000001", error)

    assert error is fold.blocked


def test_what_is_kept_of_a_trial_is_small() -> None:
    """However many trials a job has, its summary needs a few dozens of bytes for each."""

    def traced(trials: int) -> tuple[int, int]:
        slots = [slot(task=f"t{n % 10}", attempt=n // 10 + 1) for n in range(trials)]
        names = [f"t__{n:08x}" for n in range(trials)]
        job = recorded("job/j", [job_started(slots=trials), *map(scheduled_at, names, slots)])
        inner = TrialFold(keep=False)
        inner.feed(recorded("trial/t", trial()))
        known = inner.record()
        assert known is not None
        tracemalloc.start()
        fold = SummaryFold()
        fold.feed(job)
        for name in names:
            fold.trial(name, known)
        kept, _ = tracemalloc.get_traced_memory()
        assert fold.summary() is not None
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept, peak

    traced(100)  # what is made once
    few, many = traced(500), traced(2_500)
    assert 20 * 2_000 < many[0] - few[0] < 120 * 2_000
    assert many[1] - few[1] < 300 * 2_000


def scheduled_at(name: str, place: Slot) -> Item:
    """An execution of a slot."""
    return scheduled(name, slot=place)


def test_open_trials() -> None:
    """A trial is open until it has finished."""
    job: list[Item] = [job_started(), *(scheduled(name) for name in ("a", "b", "c"))]

    fold = folded(job, {"a": trial(), "b": [started()]})

    assert ["a", "b", "c"] == list(fold.trials)
    assert ["b", "c"] == list(fold.open_trials)
    assert "a" in fold
    assert "d" not in fold


def test_a_replay_names_the_job_that_answers() -> None:
    """Only there for a job whose models another one's record answers."""
    assert "replays" not in of([job_started()])
    assert "j1" == of([job_started(replays="j1")])["replays"]


def test_every_field_is_documented() -> None:
    """docs/files.md names every field."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "files.md").read_text("utf-8")

    assert [] == [field for field in FIELDS + COUNTS if f"`{field}`" not in page]
