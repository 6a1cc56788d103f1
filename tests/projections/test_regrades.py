"""regrade.json and regrade-summary.json."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from helpers.given import (
    Item,
    agent_finished,
    fill,
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
    view,
)
from trialog.events.errors import UnknownEvent
from trialog.events.kinds import (
    AppQueried,
    BlobsPruned,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JobResumed,
    RegradeFailed,
    RegradeFinished,
    RegradePlanned,
    RegradeScored,
    RegradeSkipped,
    RegradeStarted,
    SandboxRemoved,
    TrialErrored,
    TrialFinished,
    TrialUnscored,
    VerifierFailed,
)
from trialog.events.kinds.parts import Continues, Usage, Verdict
from trialog.events.open import memory_log
from trialog.projections.document import document
from trialog.projections.files import job_files, trial_files
from trialog.projections.rebuild import check, rebuild, rebuild_at
from trialog.projections.regrade import regrade
from trialog.projections.regrades import (
    Graded,
    Regrade,
    RegradesFold,
    digest_of,
    digest_of_run,
    latest_verdict,
    verdict_of,
)
from trialog.projections.summary import SummaryFold
from trialog.projections.trial import TrialFold
from trialog.projections.writer import JobFiles

OLD, NEW, NEWER = ("sha256:" + letter * 64 for letter in "bcd")
ONE, TWO, THREE = "t__00000001", "t__00000002", "t__00000003"
FIELDS = (
    "schema regrade_id trial_name original new verdict reason author error "
    "verifier_digest_before verifier_digest_after history at log error_category warnings notes "
    "as_of_run"
).split()
SUMMARY = (
    "schema regrade_id job counts pass_rate mean_reward mixed_verifiers trials history by_digest "
    "at author reason as_of_run flaky"
).split()


def planned(id: str, *trials: str, **more: Any) -> RegradePlanned:
    """A regrade of these trials."""
    return RegradePlanned(regrade_id=id, tasks=[], trials=list(trials), **more)


def begun(id: str, **more: Any) -> RegradeStarted:
    """It reached the trial."""
    return RegradeStarted(regrade_id=id, task_digest="d", verifiers={"script": NEW}, **more)


def given(id: str, value: float, digest: str = NEW, **more: Any) -> RegradeScored:
    """What it gave the trial."""
    verdict = Verdict(
        verifier="script", verifier_kind="script", digest=digest, weight=1.0, score=value,
        source="verifier",
    )  # fmt: skip
    known: dict[str, Any] = {
        "verdicts": [verdict], "passed": value >= 1.0, "score": value,
        "rewards": {"reward": value}, "reward_source": "verifier", "reward_valid": True,
    }  # fmt: skip
    return RegradeScored(regrade_id=id, **(known | more))


def done(id: str) -> RegradeFinished:
    """Its end."""
    return RegradeFinished(regrade_id=id, regraded=0, failed=0, not_regradable=0)


def regrades_of(*items: Item) -> list[Regrade]:
    """The finished regrades of a job with these events."""
    fold = RegradesFold()
    for event, payload in zip(recorded("job/j", items), items, strict=True):
        assert isinstance(payload, RegradePlanned | RegradeSkipped | RegradeFinished)
        fold.take(event, payload)
    return fold.finished


def of(items: list[Item], *job: Item) -> dict[str, Any] | None:
    """regrade.json of trial ONE, read back."""
    found = regrade(view(*items), regrades_of(*job))
    return None if found is None else json.loads(document(found))


def test_the_verdict_that_stands() -> None:
    """It is the last finished regrade's whose verifiers gave one; the engine's 0 is none."""
    items = [
        *trial(1.0), given("a", 1.0), given("b", 0.5), RegradeFailed(regrade_id="c", error="e",
        category="verifier_failed"), given("d", 0.0, reward_source="engine", reward_valid=False),
        given("open", 1.0),
    ]  # fmt: skip
    known = view(*items)
    found = latest_verdict(known, ["a", "b", "c", "d", "elsewhere"])
    assert found is not None
    assert found.regrade_id == "b"
    assert latest_verdict(known, ["c", "d"]) is None


def test_a_check_of_stability_takes_no_mended_verdicts_place() -> None:
    """Regraded as of the run after a mend, the mended verdict stands; alone, the check does."""
    mend, check = given("mend", 0.0), given("check", 1.0)
    plans = [planned("mend", "t"), done("mend"), planned("check", "t", as_of_run=True)]

    both = of([*trial(1.0), mend, check], *plans, done("check"))
    alone = of([*trial(1.0), check], *plans[2:], done("check"))

    assert both is not None
    assert alone is not None
    assert ("mend", "pass->fail", False) == tuple(
        both[key] for key in ("regrade_id", "verdict", "as_of_run")
    )
    assert ["check"] == [one["regrade_id"] for one in both["history"]]
    assert ("check", "unchanged", True) == tuple(
        alone[key] for key in ("regrade_id", "verdict", "as_of_run")
    )


def folded(job: list[Item], trials: dict[str, list[Item]]) -> SummaryFold:
    """A job of these trials, one a slot, with these events after they were scheduled."""
    fold = SummaryFold()
    head: list[Item] = [job_started(slots=len(trials))]
    head += [scheduled(name, slot=slot(attempt=n)) for n, name in enumerate(trials, 1)]
    fold.feed(recorded("job/j", [*head, *job]))
    for name, items in trials.items():
        events = recorded(f"trial/{name}", items)
        inner = TrialFold(keep=False)
        inner.feed(events)
        known = inner.record()
        assert known is not None
        fold.trial(name, known, events)
    return fold


def summary(job: list[Item], trials: dict[str, list[Item]]) -> dict[str, Any]:
    """regrade-summary.json, read back."""
    found = folded(job, trials).regrade_summary()
    assert found is not None
    return json.loads(document(found))


def test_every_field_is_there_in_its_order() -> None:
    """All fields in the documented order; the run's part is as result.json has it."""
    found = of(
        [*trial(1.0), begun("r", notes=["another sandbox"]), given("r", 0.0)],
        planned("r", ONE, author="ann", reason="too lenient"),
        done("r"),
    )
    assert found is not None
    assert list(found) == FIELDS
    assert found["schema"] == "trialog.regrade/1"
    assert (found["trial_name"], found["verdict"]) == (ONE, "pass->fail")
    assert (found["original"]["reward"], found["original"]["passed"]) == (1.0, True)
    assert (found["new"]["reward"], found["new"]["passed"]) == (0.0, False)
    assert [v["digest"] for v in found["original"]["verifiers"]] == [OLD]
    assert list(found["new"]["verifiers"][0]) == list(found["original"]["verifiers"][0])
    assert (found["verifier_digest_before"], found["verifier_digest_after"]) == (OLD, NEW)
    assert (found["author"], found["reason"], found["error"]) == ("ann", "too lenient", None)
    assert (found["history"], found["notes"]) == ([], ["another sandbox"])
    event = recorded(f"trial/{ONE}", [*trial(1.0), begun("r"), given("r", 0.0)])[-1]
    assert (found["log"]["stream"], found["log"]["version"]) == (event.stream, event.version)
    assert found["at"] == event.at


def test_all_of_a_regrade_is_current_or_none() -> None:
    """Before a regrade is finished there is no regrade.json, and no summary of it."""
    items: list[Item] = [*trial(1.0), begun("r"), given("r", 0.0)]
    assert of(items, planned("r", ONE, TWO)) is None
    assert folded([planned("r", ONE, TWO)], {ONE: items}).regrade_summary() is None
    assert of(items, planned("r", ONE, TWO), done("r")) is not None


def test_one_that_was_cut_off_is_the_last_only() -> None:
    """What can be gone on with is the last that was planned, until it is finished."""
    fold = RegradesFold()
    assert fold.unfinished is None
    items = [planned("a", ONE), planned("b", ONE), done("b"), done("b"), done("x")]
    found: list[str | None] = []
    for event, payload in zip(recorded("job/j", items), items, strict=True):
        fold.take(event, payload)
        found.append(fold.unfinished.id if fold.unfinished else None)
    assert found == ["a", "b", None, None, None]
    assert [one.id for one in fold.finished] == ["b"]


def test_regrades_stack() -> None:
    """The latest shows; the earlier are its history, oldest first, each against the original."""
    items: list[Item] = [
        *trial(0.0), given("a", 1.0), given("b", 0.5, NEWER), given("c", 0.0), begun("d")
    ]  # fmt: skip
    job = [
        planned("a", ONE, reason="first"), done("a"), planned("b", ONE), done("b"),
        planned("c", ONE), done("c"), planned("d", ONE),
    ]  # fmt: skip
    found = of(items, *job)
    assert found is not None
    assert (found["regrade_id"], found["verdict"]) == ("c", "unchanged")
    assert [(h["regrade_id"], h["verdict"], h["reason"]) for h in found["history"]] == [
        ("a", "fail->pass", "first"), ("b", "reward_changed", None),
    ]  # fmt: skip
    assert found["history"][1]["verifier_digest_after"] == NEWER
    assert found["history"][1]["new"] == {"reward": 0.5, "passed": False}


def test_failed_and_not_regradable() -> None:
    """Why there is no new grade is said, with where the log has it."""
    failed = RegradeFailed(
        regrade_id="r", error="KeyError: 'x'", category="verifier_failed",
        verdicts=[
            Verdict(
                verifier="v", verifier_kind="deterministic", digest=NEW, weight=1.0,
                error="KeyError: 'x'", error_category="verifier_failed", line="verify.py:3",
                usage=Usage(model_calls=1),
            )
        ],
    )  # fmt: skip
    found = of([*trial(1.0), failed], planned("r", ONE), done("r"))
    assert found is not None
    assert (found["verdict"], found["error_category"]) == ("failed", "verifier_failed")
    assert (found["new"]["reward"], found["new"]["passed"]) == (None, None)
    assert found["new"]["verifiers"][0]["error"] == "KeyError: 'x' (at verify.py:3)"
    assert found["new"]["verifiers"][0]["usage"]["model_calls"] == 1
    skipped = RegradeSkipped(regrade_id="r", trial=ONE, reason="no saved work", category="c")
    found = of(trial(1.0), planned("r", ONE, TWO), skipped, skipped, done("r"))
    assert found is not None
    assert (found["verdict"], found["error"]) == ("not_regradable", "no saved work")
    assert (found["error_category"], found["new"]["verifiers"]) == ("c", [])
    assert found["log"] == {**found["log"], "stream": "job/j", "version": 2}
    assert of(trial(1.0), planned("r", TWO), done("r")) is None


def test_warnings_and_missing_rewards() -> None:
    """Warnings have their words; a reward that is missing is null, and says so."""
    verdict = Verdict(
        verifier="script", verifier_kind="script", digest=NEW, weight=1.0, score=0.0, missing=True
    )
    answer = given(
        "r", 0.0, verdicts=[verdict], rewards=None, warnings=["reward_missing"],
        messages=["Verifier scored 0: …"],
    )  # fmt: skip
    found = of([*trial(0.0), answer], planned("r", ONE), done("r"))
    assert found is not None
    assert (found["new"]["reward"], found["verdict"]) == (None, "reward_changed")
    assert found["new"]["verifiers"][0]["error_category"] == "verifier_no_reward"
    assert found["warnings"] == [{"code": "reward_missing", "message": "Verifier scored 0: …"}]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (Graded(1.0, True), Graded(0.0, False), "pass->fail"),
        (Graded(0.0, False), Graded(1.0, True), "fail->pass"),
        (Graded(None, None), Graded(1.0, True), "unscored->pass"),
        (Graded(None, None), Graded(0.0, False), "unscored->fail"),
        (Graded(0.25, False), Graded(0.5, False), "reward_changed"),
        (Graded(0.5, False), Graded(0.5, False), "unchanged"),
        (Graded(1.0, True), Graded(None, None), "failed"),
    ],
)
def test_verdicts(before: Graded, after: Graded, verdict: str) -> None:
    """Each way from one grade to the other has its word."""
    assert verdict_of(before, after) == verdict


def test_one_digest_for_all_verifiers() -> None:
    """A single verifier's digest is its own; several have one of all, whatever their order."""
    assert digest_of([]) is None
    assert digest_of([("a", OLD)]) == OLD
    whole = hashlib.sha256(f'{{"a":"{OLD}","b":"{NEW}"}}'.encode()).hexdigest()
    assert digest_of([("b", NEW), ("a", OLD)]) == digest_of([("a", OLD), ("b", NEW)])
    assert digest_of([("a", OLD), ("b", NEW)]) == f"sha256:{whole}"


def test_the_runs_digest_is_that_of_what_judged_it() -> None:
    """Scripts, people and verifiers that failed count; one that was never asked does not."""
    asked = HumanReviewRequested(
        verifier="person", digest=NEW, weight=1.0, instructions="", criteria=[]
    )
    submitted = HumanReviewSubmitted(verifier="person", score=1.0, criteria=[])
    both = view(started(), agent_finished(), verifier_started(), scored(), asked, submitted)
    assert digest_of_run(both) == digest_of([("script", OLD), ("person", NEW)])
    failed = VerifierFailed(
        verifier="script", verifier_kind="script", digest=NEWER, weight=1.0, error="e",
        category="c", infrastructure=False, duration=0.0,
    )  # fmt: skip
    assert digest_of_run(view(started(), agent_finished(), failed)) == NEWER
    query = AppQueried(verifier="hook", app="shop", action="look", live=True)
    assert digest_of_run(view(started(), query, agent_finished())) is None


def test_summary_has_every_field() -> None:
    """Counts, both figures over the same trials, and the trials sorted by name."""
    unscored: list[Item] = [
        started(), TrialUnscored(error="e", category="sandbox_lost", infrastructure=True),
        TrialFinished(outcome="unscored"),
    ]  # fmt: skip
    errored: list[Item] = [
        started(), TrialErrored(error="e", category="c"), TrialFinished(outcome="errored"),
    ]  # fmt: skip
    names = [f"t__{n:08x}" for n in range(1, 8)]
    trials: dict[str, list[Item]] = {
        names[6]: [*trial(1.0), given("r", 0.0)],
        names[1]: [*trial(0.0), given("r", 1.0)],
        names[2]: [*unscored, given("r", 1.0)],
        names[3]: [*trial(0.25), given("r", 0.5)],
        names[4]: [*trial(1.0), given("r", 1.0)],
        names[5]: [*trial(1.0), RegradeFailed(regrade_id="r", error="e", category="c")],
        names[0]: errored,
    }
    skipped = RegradeSkipped(regrade_id="r", trial=names[0], reason="no work", category="c")
    found = summary([planned("r", *names, reason="why"), skipped, done("r")], trials)
    assert list(found) == SUMMARY
    assert found["counts"] == {
        "trials": 7, "regraded": 5, "changed": 4, "fail_to_pass": 1, "pass_to_fail": 1,
        "failed": 1, "not_regradable": 1,
    }  # fmt: skip
    assert found["pass_rate"] == {"original": 0.5, "new": 0.5, "n": 4}
    assert found["mean_reward"] == {"original": 0.5625, "new": 0.625, "n": 4}
    assert [row["trial_name"] for row in found["trials"]] == names
    assert [row["verdict"] for row in found["trials"]] == [
        "not_regradable", "fail->pass", "unscored->pass", "reward_changed", "unchanged", "failed",
        "pass->fail",
    ]  # fmt: skip
    assert [row["error"] for row in found["trials"]] == ["no work", *[None] * 4, "e", None]
    assert (found["reason"], found["history"], found["flaky"]) == ("why", [], [])


def test_figures_over_no_trials() -> None:
    """A regrade that could take no trial has no figures."""
    skipped = RegradeSkipped(regrade_id="r", trial=ONE, reason="no", category="c")
    trials: dict[str, list[Item]] = {ONE: trial(1.0), TWO: trial(1.0)}
    found = summary([planned("r", ONE, TWO, "gone"), skipped, done("r")], trials)
    assert found["pass_rate"] == {"original": None, "new": None, "n": 0}
    assert found["counts"]["trials"] == 1


def test_mixed_verifiers_have_a_table_for_each_digest() -> None:
    """Three zeros, of which one is regraded to 1: 0 of 2 by one verifier, 1 of 1 by the other.

    Once all are regraded by one verifier, nothing is mixed any more.
    """
    trials: dict[str, list[Item]] = {ONE: trial(0.0), TWO: trial(0.0)}
    trials[THREE] = [*trial(0.0), given("a", 1.0)]
    job: list[Item] = [planned("a", THREE), done("a")]
    found = summary(job, trials)
    assert found["mixed_verifiers"] is True
    assert found["pass_rate"] == {"original": 0.0, "new": 1.0, "n": 1}
    table = [
        (row["task_name"], row["verifier_digest"], row["trials"], row["passed"], row["pass_rate"])
        for row in found["by_digest"]
    ]
    assert table == [("t", OLD, 2, 0, 0.0), ("t", NEW, 1, 1, 1.0)]
    assert [row["mean_reward"] for row in found["by_digest"]] == [0.0, 1.0]
    for items in trials.values():
        items.append(given("b", 1.0, NEWER))
    assert summary([*job, planned("b", *trials)], trials)["mixed_verifiers"] is True
    found = summary([*job, planned("b", *trials), done("b")], trials)
    assert (found["mixed_verifiers"], found["by_digest"]) == (False, [])
    assert found["pass_rate"] == {"original": 0.0, "new": 1.0, "n": 3}
    assert [row["regrade_id"] for row in found["history"]] == ["a"]
    assert found["history"][0]["counts"]["fail_to_pass"] == 1


def test_tasks_with_verifiers_of_their_own_are_not_mixed() -> None:
    """Different verifiers for different tasks are as it should be."""
    fold = SummaryFold()
    job: list[Item] = [
        job_started(slots=2),
        scheduled(ONE, slot=slot(task="a")),
        scheduled(TWO, slot=slot(task="b")),
        planned("r", ONE, TWO),
        done("r"),
    ]
    fold.feed(recorded("job/j", job))
    for name, digest in ((ONE, NEW), (TWO, NEWER)):
        inner = TrialFold(keep=False)
        inner.feed(recorded(f"trial/{name}", [*trial(0.0), given("r", 1.0, digest)]))
        known = inner.record()
        assert known is not None
        fold.trial(name, known)
    found = fold.regrade_summary()
    assert found is not None
    assert not found.mixed_verifiers


def test_a_flaky_verifier_is_named() -> None:
    """A regrade as of the run that gives something else names the trial."""
    flaky = given("r", 0.0, OLD, warnings=["verifier_flaky"], messages=["it gave 1.0 in the run"])
    found = summary(
        [planned("r", ONE, TWO, as_of_run=True), done("r")],
        {ONE: [*trial(1.0), flaky], TWO: [*trial(1.0), given("r", 1.0, OLD)]},
    )
    assert (found["as_of_run"], found["flaky"]) == (True, [ONE])


def test_summary_json_is_never_changed() -> None:
    """A job's summary is the same before and after regrades, its time included."""
    trials: dict[str, list[Item]] = {ONE: trial(1.0)}
    before = folded([JobResumed(plan={}, pid=1, host="h")], trials).summary()
    late: list[Item] = [SandboxRemoved(sandbox_id="s"), begun("r"), given("r", 0.0)]
    job: list[Item] = [JobResumed(plan={}, pid=1, host="h"), planned("r", ONE), done("r")]
    after = folded(
        [*job, BlobsPruned(what="workspace", blobs=[])], {ONE: [*trials[ONE], *late]}
    ).summary()
    assert before is not None
    assert after is not None
    assert document(before) == document(after)


async def test_files_come_from_the_log(tmp_path: Path) -> None:
    """Both files are rebuilt, checked, and as they stood before a position."""
    async with memory_log() as log:
        skipped = RegradeSkipped(regrade_id="r", trial=TWO, reason="no work", category="c")
        await fill(
            log,
            {
                f"trial/{ONE}": [*trial(1.0, trial=ONE), begun("r"), given("r", 0.0)],
                f"trial/{TWO}": trial(1.0, trial=TWO),
                f"trial/{THREE}": trial(1.0, trial=THREE),
                "job/j": [
                    job_started(slots=3),
                    scheduled(ONE),
                    scheduled(TWO, slot=slot(attempt=2)),
                    scheduled(THREE, slot=slot(attempt=3)),
                    planned("r", ONE, TWO),
                    skipped,
                    done("r"),
                ],
            },
        )
        await rebuild(log, "j", tmp_path)
        assert await check(log, "j", tmp_path) == []
        for name, there in ((ONE, True), (TWO, True), (THREE, False)):
            assert (tmp_path / "j" / name / "regrade.json").exists() is there
        last = await log.last_position()
        await rebuild_at(log, "j", last - 1, tmp_path / "before")
        assert not list((tmp_path / "before").rglob("regrade*.json"))
        await rebuild_at(log, "j", last, tmp_path / "after")
        for path in (f"{ONE}/regrade.json", f"{TWO}/regrade.json", "regrade-summary.json"):
            written = (tmp_path / "j" / path).read_bytes()
            assert (tmp_path / "after" / path).read_bytes() == written
            (tmp_path / "j" / path).write_bytes(written + b" ")
            assert [str(one.path) for one in await check(log, "j", tmp_path)] == [path]
            (tmp_path / "j" / path).write_bytes(written)
        assert json.loads(written)["counts"]["pass_to_fail"] == 1


async def test_only_what_regrades_change_is_written(tmp_path: Path) -> None:
    """After a regrade its own file is written alone; names of no folder get none."""
    async with memory_log() as log:
        odd = "../out"
        await fill(
            log,
            {
                f"trial/{ONE}": [*trial(1.0, trial=ONE), begun("r"), given("r", 0.0)],
                f"trial/{odd}": trial(1.0, trial=odd),
                "job/j": [
                    job_started(slots=3),
                    scheduled(ONE),
                    scheduled(TWO, slot=slot(attempt=2)),
                    scheduled(odd, slot=slot(attempt=3)),
                    planned("r", ONE, TWO, odd),
                    RegradeSkipped(regrade_id="r", trial=odd, reason="no", category="c"),
                    done("r"),
                ],
            },
        )
        files = JobFiles(log, "j", tmp_path / "j")
        report = await files.write_regrades([ONE, TWO, odd])
        assert report.written == 1
        assert [problem.path for problem in report.problems] == [odd]
        assert [path.name for path in (tmp_path / "j" / ONE).iterdir()] == ["regrade.json"]
        assert (await files.write_regrades([ONE])).unchanged == 1
        await rebuild(log, "j", tmp_path)
        assert (await files.write_regrades([ONE])).unchanged == 1


async def test_a_regraded_trial_that_can_not_be_read(tmp_path: Path) -> None:
    """What the regrade made of it is a problem; the run's own files are not touched."""
    async with memory_log() as log:
        unread = started(trial=ONE, continues=Continues(stream="trial/x", version=3, hash="00"))
        await fill(
            log,
            {
                f"trial/{ONE}": [unread],
                "job/j": [job_started(), scheduled(ONE), planned("r", ONE), done("r")],
            },
        )
        report = await JobFiles(log, "j", tmp_path / "j").write_regrades([ONE])
        assert [problem.path for problem in report.problems] == [f"{ONE}/regrade.json"]


def test_an_unknown_kind_stops_a_trials_regrade() -> None:
    """A trial whose stream can't be read on has its result, but no regrade.json until it can."""
    events = recorded(f"trial/{ONE}", [*trial(1.0), begun("r"), given("r", 0.0)])
    fold = TrialFold()
    fold.feed([*events[:-1], unknown(events[-1], ignorable=False)])
    known = fold.record()
    assert known is not None
    files = trial_files(known, {}, regrades=regrades_of(planned("r", ONE), done("r")))
    assert "result.json" in files.documents
    stopped = [problem.path for problem in files.problems]
    assert stopped == ["rewards.jsonl", "regrade.json"]
    assert isinstance(files.problems[1].error, UnknownEvent)


def test_an_unknown_kind_stops_the_jobs_regrades() -> None:
    """A job's stream that can't be read on stops the summary of regrades, if there is one."""
    job = [job_started(), planned("r", ONE), done("r"), done("r")]
    events = recorded("job/j", job)
    for end, stopped in ((2, ["summary.json"]), (3, ["summary.json", "regrade-summary.json"])):
        fold = SummaryFold()
        fold.feed([*events[:end], unknown(events[end], ignorable=False)])
        assert [problem.path for problem in job_files(fold).problems] == stopped


def test_a_trial_in_flight_has_none() -> None:
    """An execution that has not finished has no regrade.json."""
    assert regrade(view(started()), regrades_of(planned("r", ONE), done("r"))) is None
    scores = trial_scored(1.0)
    assert regrade(view(started(), scores), []) is None


def test_a_skip_of_an_unknown_regrade_is_passed_over() -> None:
    """An event that belongs to no plan changes nothing."""
    assert regrades_of(RegradeSkipped(regrade_id="x", trial=ONE, reason="r", category="c")) == []
