"""Which trials wait for people, and what a reviewer is shown."""

from __future__ import annotations

from helpers.fakes import CountingIds, TickingClock
from helpers.given import (
    Item,
    action,
    agent_finished,
    fill,
    job_started,
    scheduled,
    scored,
    started,
    verifier_started,
)
from helpers.training import step
from trialog.engine.people.waiting import STEPS_SHOWN, evidence, waiting
from trialog.events.envelope import new_event
from trialog.events.kinds import (
    ArtifactsSaved,
    HumanReviewRequested,
    HumanReviewSubmitted,
    TrialAbandoned,
    TrialFinished,
)
from trialog.events.kinds.parts import CriterionAsked
from trialog.events.kinds.trial import Artifact
from trialog.events.log import EventLog
from trialog.events.open import memory_log
from trialog.events.values import blob_ref

HELP = CriterionAsked(name="help", description="0 to 2", weight=1.0, min_score=0.0, max_score=2.0)


def asked(name: str = "person") -> HumanReviewRequested:
    """A person is asked for help, 0 to 2."""
    return HumanReviewRequested(
        verifier=name, digest="d", weight=1.0, instructions="look", criteria=[HELP]
    )


def judged(trial: str, *middle: Item, job: str = "j") -> list[Item]:
    """A trial whose automatic verifier has scored."""
    return [
        started(trial=trial, job=job),
        *middle,
        agent_finished(answer=[{"half_life": 5730}]),
        verifier_started(),
        scored(0.5, evidence=["line 3"], feedback="almost"),
    ]


async def two_jobs(log: EventLog) -> None:
    """Job j with a trial that waits, one that is over, one that was given up; job k with one."""
    over: list[Item] = [
        asked(),
        HumanReviewSubmitted(verifier="person", score=1.0, criteria=[]),
        TrialFinished(outcome="scored"),
    ]
    await fill(
        log,
        {
            "job/j": [
                job_started(), scheduled("a"), scheduled("b"), scheduled("c"), scheduled("d"),
                TrialAbandoned(trial="c", reason="gone"),
            ],
            "trial/a": [*judged("a"), asked(), asked("other")],
            "trial/b": [*judged("b"), *over],
            "trial/c": [*judged("c"), asked()],
            "trial/d": judged("d"),
            "job/k": [job_started(job="k"), scheduled("e")],
            "trial/e": [*judged("e", job="k"), asked()],
        },
    )  # fmt: skip


async def test_every_review_that_is_owed() -> None:
    """What was answered, ended or given up is not waited for; each person is on a line."""
    async with memory_log() as log:
        await two_jobs(log)

        assert [("j", "a", "other"), ("j", "a", "person"), ("k", "e", "person")] == sorted(
            (one.job, one.trial, one.verifier) for one in await waiting(log)
        )
        assert ["a", "a"] == [one.trial for one in await waiting(log, "j")]
        assert [("t", ["help"])] == [(one.task, one.criteria) for one in await waiting(log, "k")]


async def test_a_review_that_came_in_is_not_owed() -> None:
    """When one of two has answered, the other is still waited for."""
    async with memory_log() as log:
        await two_jobs(log)
        review = HumanReviewSubmitted(verifier="person", score=1.0, criteria=[])
        version = (await log.head("trial/a")).version
        await log.append("trial/a", version, [new_event(review, TickingClock(), CountingIds())])

        assert ["other"] == [one.verifier for one in await waiting(log, "j")]
        found = await evidence(log, "a")
        assert found is not None
        assert (["other"], ["person"]) == ([r.verifier for r in found.requests], found.given)


async def test_what_a_reviewer_is_shown() -> None:
    """A reviewer sees the request, the answer, the steps, what was found before, the artifacts."""
    large = b'"' + b"x" * 20_000 + b'"'
    artifact = Artifact(path="out/a.txt", blob=blob_ref(b"a"), sha256="a", size=1)
    async with memory_log() as log:
        await log.blobs.put(large)
        items = judged(
            "a",
            step("s1", 1),
            action(turn=2, arguments=None, observation=blob_ref(large)),
            action(turn=3, error="no such ticket", observation=None),
            action(turn=4, observation=blob_ref(b"not there")),
            action(turn=5, error=blob_ref(b"not there"), observation=None),
            ArtifactsSaved(artifacts=[artifact], duration=0.0),
        )
        await fill(log, {"trial/a": [*items, asked()]})

        found = await evidence(log, "a")

        assert found is not None
        assert '{"half_life":5730}' == found.answer
        assert ['1. counter.add {"n":1} → 1', "2. shell.run  → " + "x" * 20_000] == found.steps[:2]
        assert found.steps[2].endswith("→ refused: no such ticket")
        assert found.steps[3].endswith("→ (9 bytes)")
        assert found.steps[4].endswith("→ refused: (9 bytes)")
        assert [("script", 0.5, ["line 3"])] == [
            (one.name, one.score, one.evidence) for one in found.verdicts
        ]
        assert ["out/a.txt"] == found.artifacts
        assert ["look"] == [request.instructions for request in found.requests]


async def test_many_steps() -> None:
    """Of very many steps the newest are shown, and how many were left out."""
    async with memory_log() as log:
        steps = [action(turn=turn) for turn in range(1, STEPS_SHOWN + 4)]
        await fill(log, {"trial/a": [*judged("a", *steps), asked()]})

        found = await evidence(log, "a")

        assert found is not None
        assert (STEPS_SHOWN, 3) == (len(found.steps), found.steps_left_out)
        assert found.steps[-1].startswith(f"{STEPS_SHOWN + 3}. ")


async def test_nothing_to_show() -> None:
    """A trial without an event has nothing to show; one without an answer says so."""
    async with memory_log() as log:
        await fill(log, {"trial/a": [started(trial="a"), asked()]})

        assert await evidence(log, "b") is None
        found = await evidence(log, "a")
        assert found is not None
        assert found.answer is None
