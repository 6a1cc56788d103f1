"""Going on with environment trials whose engine died, at every event it could have died after."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from helpers.counters import TellsHooks
from helpers.dying import DyingLog, died
from helpers.fakes import FakeBackend
from helpers.jobs import Watched, job_of, services
from helpers.judges import FakeClient
from trialog.engine.authoring.views import Episode
from trialog.engine.console.rows import read_job
from trialog.engine.job.api import Services, plan_resume, resume_job, run_job
from trialog.engine.job.conclude_reviewed import conclude_reviewed
from trialog.engine.job.config import JobConfig
from trialog.engine.job.episode_loading import pack_episode_task
from trialog.engine.job.episode_task import EpisodeTask
from trialog.engine.job.policies import PolicyAgent
from trialog.engine.judges.client import CallFailed, Reply
from trialog.engine.labels.trials import job_trials
from trialog.engine.people.decide import Scores, Submission
from trialog.engine.people.submit import submit
from trialog.engine.people.waiting import waiting
from trialog.engine.projects.project import load_project
from trialog.engine.projects.template import init_project
from trialog.events.errors import LogPoisoned
from trialog.events.kinds.parts import Usage
from trialog.events.log import EventLog
from trialog.events.open import memory_log

CONFIG = JobConfig(tasks=["count-to-ten"], agents=["steady"], attempts=2, concurrency=1, seed=7)
ONE = msgspec.structs.replace(CONFIG, attempts=1)

ASKING = """
def reward(step):
    return float(step.apps["counter"].query("look"))
"""

PERSON = """\
name: customer
version: 0.1.0
kind: human
instructions: Read it.
criteria:
  - {name: helpful, description: "Is it?", max_score: 2}
"""


def project(
    root: Path, *, asks: bool = False, judge: bool = False, person: bool = False
) -> EpisodeTask:
    """The task of a new project: its verifier asks the app questions, or others have a say."""
    init_project(root)
    for name, manifest, wanted in (("quality", JUDGE, judge), ("customer", PERSON, person)):
        if wanted:
            (root / "verifiers" / name).mkdir()
            (root / "verifiers" / name / "verifier.yaml").write_text(manifest)
            task = root / "tasks" / "count-to-ten" / "task.yaml"
            task.write_text(task.read_text().replace("[reached", f"[reached, {name}"))
    if asks:
        verify = root / "verifiers" / "reached" / "verify.py"
        verify.write_text(verify.read_text().replace("\ndef reward(", "\ndef old(") + ASKING)
    loaded = load_project(root)
    agent = loaded.agent("steady")
    packed = pack_episode_task(loaded.task("count-to-ten"), [agent])
    return msgspec.structs.replace(
        packed, policies={"steady": PolicyAgent("steady", agent.policy())}
    )


JUDGE = """\
name: quality
version: 0.1.0
kind: agent
model: m-latest
instructions: Judge the counting.
criteria:
  - {name: clear, description: "Is it?"}
"""
GOOD = '{"clear": {"reason": "it is", "score": 1}}'


def hooks(*, ask: bool = False) -> TellsHooks:
    """A reward for every step, a score of 1, and credit for the last step."""
    return TellsHooks(
        hindsight=lambda trial: [trial.credit(trial.steps()[-1], 0.5)],
        question=("counter", "look", {}) if ask else None,
    )


def made(log: EventLog, folder: Path, task: EpisodeTask) -> Services:
    """What the job needs; its policies are those that came with the task."""
    return msgspec.structs.replace(
        services(log, FakeBackend(), folder), policies=task.policies,
        hooks=hooks(ask=task.sources[0].queries),
    )  # fmt: skip


async def run_until_death(log: EventLog, folder: Path, task: EpisodeTask, appends: int) -> bool:
    """Start the job and die after so many appends; False when it lived to its end."""
    dying: EventLog = DyingLog(log, appends)  # type: ignore[assignment]
    try:
        await run_job(made(dying, folder, task), CONFIG, [task], Watched())
    except BaseException as error:
        if not died(error):
            raise
        return True
    return False


async def resume_until_death(
    log: EventLog, folder: Path, task: EpisodeTask, job: str, appends: int
) -> bool:
    """Go on with the job and die after so many appends; False when it lived to its end."""
    dying: EventLog = DyingLog(log, appends)  # type: ignore[assignment]
    try:
        await resume_job(made(dying, folder, task), job, Watched())
    except BaseException as error:
        if not died(error):
            raise
        return True
    return False


async def streams(log: EventLog) -> dict[str, list[Any]]:
    """Every trial's events."""
    return {name: await log.read(name) for name in await log.streams("trial/")}


def kinds(events: list[Any]) -> Counter[str]:
    """How many events there are of each kind."""
    return Counter(event.kind for event in events)


ONCE = (
    "TrialStarted", "AgentStarted", "EnvironmentReset", "EpisodeEnded", "AgentFinished",
    "VerifierStarted", "VerifierScored", "HumanReviewRequested", "TrialScored",
    "HindsightCredited", "TrialFinished",
)  # fmt: skip


def check_once(found: dict[str, list[Any]]) -> None:
    """No stream has anything twice, and a whole one has a reward for each of its steps."""
    for events in found.values():
        count = kinds(events)
        assert all(count[kind] <= 1 for kind in ONCE), count
        if count["TrialFinished"]:
            assert count["StepRewarded"] == count["ActionTaken"] == 8
            assert count["HindsightCredited"] == count["TrialScored"]


@pytest.mark.parametrize("asks", [False, True])
async def test_dead_at_every_append(tmp_path: Path, asks: bool) -> None:
    """Wherever the engine dies, a resume ends with every slot scored once, nothing done twice."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", asks=asks))
    assert task.sources[0].queries is asks
    again = 0
    for appends in range(1, 200):
        folder = tmp_path / str(appends)
        async with memory_log() as log:
            lived = not await run_until_death(log, folder, task, appends)
            before = await streams(log)
            result = await resume_job(made(log, folder, task), await job_of(log), Watched())
            after = await streams(log)
        assert result.summary["counts"]["passed"] == 2
        check_once(after)
        scored = [name for name, events in after.items() if kinds(events)["VerifierScored"]]
        assert len(scored) == 2
        # An episode that is recorded to its end is judged as it is; nobody plays it again, unless
        # its check asks the app, which went away with the engine.
        enough = "VerifierScored" if asks else "ProcessesKilled"
        recorded = {name for name, events in before.items() if kinds(events)[enough]}
        assert recorded <= set(scored)
        again += len(after) > 2
        folders = [f for f in result.folder.iterdir() if (f / "result.json").exists()]
        ended = {name for name, events in after.items() if kinds(events)["TrialFinished"]}
        assert {f"trial/{f.name}" for f in folders} == ended
        assert ended == set(scored) or asks
        if lived:
            break
    else:
        pytest.fail("the job never lived to its end")
    assert appends > 10
    assert again > 3  # some were cut off while they played


SECOND = """\
name: second
version: 0.1.0
kind: deterministic
check: verify.py:check
"""


@pytest.mark.parametrize("names", [["reached"], ["reached", "second"]], ids=["one", "two"])
async def test_dead_while_a_check_runs(tmp_path: Path, names: list[str]) -> None:
    """The episode and the check's begin are in the log before it runs: a resume makes the checks
    that are missing, and no agent acts again."""

    def made_project() -> EpisodeTask:
        root = tmp_path / "project"
        project(root)
        (root / "verifiers" / "second").mkdir()
        (root / "verifiers" / "second" / "verifier.yaml").write_text(SECOND)
        (root / "verifiers" / "second" / "verify.py").write_text(
            "def check(episode):\n    return {'score': 1.0}\n"
        )
        task = root / "tasks" / "count-to-ten" / "task.yaml"
        task.write_text(task.read_text().replace("[reached", f"[{', '.join(names)}"))
        agent = load_project(root).agent("steady")
        packed = pack_episode_task(load_project(root).task("count-to-ten"), [agent])
        return msgspec.structs.replace(
            packed, policies={"steady": PolicyAgent("steady", agent.policy())}
        )

    task = await to_thread.run_sync(made_project)
    assert [source.name for source in task.sources] == names
    async with memory_log() as log:
        dying = DyingLog(log, 1000)
        told = hooks()

        def check(episode: Episode) -> float:
            if told.calls.count("check") == len(names):
                dying.die()
                raise LogPoisoned("test", "the process is dead")
            return 1.0

        told.check_with = check
        given = msgspec.structs.replace(made(dying, tmp_path, task), hooks=told)  # type: ignore[arg-type]
        try:
            await run_job(given, ONE, [task], Watched())
        except BaseException as error:
            if not died(error):
                raise
        (before,) = (await streams(log)).values()
        assert [event.kind for event in before[-2:]] == [
            "ProcessesKilled" if len(names) == 1 else "VerifierScored", "VerifierStarted",
        ]  # fmt: skip
        again = hooks()
        given = msgspec.structs.replace(made(log, tmp_path, task), hooks=again)
        result = await resume_job(given, await job_of(log), Watched())
        (after,) = (await streams(log)).values()
    assert after[: len(before)] == before
    assert again.calls == ["check", "hindsight"]
    assert result.summary["counts"]["passed"] == 1
    assert kinds(after)["AgentStarted"] == kinds(after)["AgentFinished"] == 1
    assert kinds(after)["VerifierStarted"] == kinds(after)["VerifierScored"] == len(names)


async def test_dead_twice(tmp_path: Path) -> None:
    """A resume that dies too is gone on with: again every slot is scored once."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", asks=True))
    for first in (3, 9, 15, 20, 24):
        for second in (1, 2, 4, 8):
            folder = tmp_path / f"{first}-{second}"
            async with memory_log() as log:
                assert await run_until_death(log, folder, task, first)
                job = await job_of(log)
                await resume_until_death(log, folder, task, job, second)
                result = await resume_job(made(log, folder, task), job, Watched())
                after = await streams(log)
            assert result.summary["counts"]["passed"] == 2
            check_once(after)
            assert sum(kinds(events)["VerifierScored"] for events in after.values()) == 2


async def test_a_trial_that_waits_for_people_keeps_waiting(tmp_path: Path) -> None:
    """Wherever the engine dies, a resume asks the person once, and then leaves the trial alone."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", person=True))
    for appends in range(1, 200):
        folder = tmp_path / str(appends)
        async with memory_log() as log:
            lived = not await run_until_death(log, folder, task, appends)
            job = await job_of(log)
            result = await resume_job(made(log, folder, task), job, Watched())
            assert result.summary["counts"]["awaiting_review"] == 2
            asked = await streams(log)
            assert sum(kinds(events)["HumanReviewRequested"] for events in asked.values()) == 2
            assert not any(kinds(events)["TrialFinished"] for events in asked.values())
            check_once(asked)

            await resume_job(made(log, folder, task), job, Watched())
            assert await streams(log) == asked  # it still waits, and nothing was done about it
        if lived:
            break
    else:
        pytest.fail("the job never lived to its end")
    assert appends > 10


async def test_dead_after_the_last_review(tmp_path: Path) -> None:
    """Wherever the engine dies once the review is in, a resume ends the trial, scored once."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", person=True))
    for appends in range(20):
        folder = tmp_path / str(appends)
        async with memory_log() as log:
            given = made(log, folder, task)
            config = msgspec.structs.replace(CONFIG, attempts=1)
            job = (await run_job(given, config, [task], Watched())).job
            ((stream, before),) = (await streams(log)).items()
            trial = stream.removeprefix("trial/")
            dying: EventLog = DyingLog(log, appends)  # type: ignore[assignment]

            async def conclude(name: str, log: EventLog = dying, folder: Path = folder) -> None:
                await conclude_reviewed(made(log, folder, task), hooks(), name)

            lived = True
            try:
                await submit(
                    dying, trial,
                    Submission(verifier="customer", scores=Scores(only=2.0), reviewer="ann"),
                    clock=given.clock, ids=given.ids, conclude=conclude,
                )  # fmt: skip
            except BaseException as error:
                if not died(error):
                    raise
                lived = False
            result = await resume_job(given, job, Watched())
            (after,) = (await streams(log)).values()
        assert after[: len(before)] == before
        check_once({stream: after})
        if appends == 0:  # the review was never in the log
            assert result.summary["counts"]["awaiting_review"] == 1
        else:
            assert result.summary["counts"]["passed"] == 1
            assert after[-1].kind == "TrialFinished"
            assert (result.folder / trial / "result.json").exists()
        if lived:
            break
    else:
        pytest.fail("the trial was never concluded without a death")
    assert appends >= 2


DOWN = CallFailed("the endpoint answered 503", "unreachable", status=503)


async def judged_by_nobody(
    log: EventLog, folder: Path, task: EpisodeTask, told: TellsHooks
) -> tuple[Services, str, str]:
    """Run one trial while the judge's endpoint is down: the services, the job and the trial."""
    given = msgspec.structs.replace(made(log, folder, task), hooks=told)
    down = msgspec.structs.replace(given, judge_client=FakeClient(DOWN))
    result = await run_job(down, ONE, [task], Watched())
    assert result.summary["counts"]["unscored"] == 1
    (stream,) = await streams(log)
    return given, result.job, stream.removeprefix("trial/")


async def test_only_the_verifiers_that_failed_judge_again(tmp_path: Path) -> None:
    """A judge that was down judges the recorded episode: no agent acts, no check is made anew."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", judge=True))
    told = hooks()
    async with memory_log() as log:
        given, job, first = await judged_by_nobody(log, tmp_path, task, told)
        assert told.calls.count("check") == 1
        (planned,) = await plan_resume(given, job, only=None)
        assert (planned.action, planned.same_stream) == ("grade", False)
        assert "judge_failed" in planned.reason
        assert "its recorded episode is judged again" in planned.reason

        up = msgspec.structs.replace(given, judge_client=FakeClient(GOOD))
        result = await resume_job(up, job, Watched())
        (second,) = {name.removeprefix("trial/") for name in await streams(log)} - {first}
        events = (await streams(log))[f"trial/{second}"]
    assert [event.kind for event in events] == [
        "TrialStarted", "VerifierStarted", "JudgeSampled", "VerifierScored", "TrialScored",
        "HindsightCredited", "TrialFinished",
    ]  # fmt: skip
    assert told.calls.count("check") == 1
    assert result.summary["counts"] | {"passed": 1, "unscored": 0} == result.summary["counts"]
    written = json.loads((result.folder / second / "result.json").read_bytes())
    assert [(v["name"], v["score"]) for v in written["verifiers"]] == [
        ("reached", 1.0), ("quality", 1.0),
    ]  # fmt: skip
    assert written["continues"]["stream"] == f"trial/{first}"
    assert (written["n_steps"], written["execution"], written["outcome"]) == (8, 2, "scored")
    lines = (result.folder / second / "rewards.jsonl").read_text().splitlines()
    sources = Counter(json.loads(line)["source"] for line in lines)
    assert sources == {"step": 8, "verifier": 1, "judge": 1, "hindsight": 1}


async def test_dead_while_a_recorded_episode_is_judged_again(tmp_path: Path) -> None:
    """Wherever the engine dies on the way, the next resume ends it, with nothing done twice."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", judge=True))
    for appends in range(1, 50):
        folder = tmp_path / str(appends)
        async with memory_log() as log:
            given, job, first = await judged_by_nobody(log, folder, task, hooks())
            dying: EventLog = DyingLog(log, appends)  # type: ignore[assignment]
            lived = True
            try:
                up = msgspec.structs.replace(given, log=dying, judge_client=FakeClient(GOOD, GOOD))
                await resume_job(up, job, Watched())
            except BaseException as error:
                if not died(error):
                    raise
                lived = False
            up = msgspec.structs.replace(given, judge_client=FakeClient(GOOD, GOOD))
            result = await resume_job(up, job, Watched())
            after = await streams(log)
        assert result.summary["counts"]["passed"] == 1
        del after[f"trial/{first}"]
        assert sum(kinds(events)["TrialScored"] for events in after.values()) == 1
        assert not any(kinds(events)["ActionTaken"] for events in after.values())
        assert all(kinds(events)[kind] <= 1 for events in after.values() for kind in ONCE)
        if lived:
            break
    else:
        pytest.fail("the job never lived to its end")
    assert appends > 4


async def test_people_have_their_say_after_a_judge_that_was_down(tmp_path: Path) -> None:
    """An episode that is judged again waits for its people like any other, and is then scored."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", judge=True, person=True))
    async with memory_log() as log:
        given, job, first = await judged_by_nobody(log, tmp_path, task, hooks())
        up = msgspec.structs.replace(given, judge_client=FakeClient(GOOD))
        result = await resume_job(up, job, Watched())
        (second,) = {name.removeprefix("trial/") for name in await streams(log)} - {first}
        assert [wanted.trial for wanted in await waiting(log, job)] == [second]
        counts = result.summary["counts"]
        assert (counts["awaiting_review"], counts["unscored"], counts["superseded"]) == (1, 0, 1)
        assert [one.trial for one in (await job_trials(log, job)).trials] == [second]
        rows = await read_job(log, job)
        assert ([row.trial for row in rows.open], rows.superseded) == ([second], [first])

        async def conclude(name: str) -> None:
            await conclude_reviewed(given, hooks(), name)

        said = Submission(verifier="customer", scores=Scores(only=1.0), reviewer="ann")
        await submit(log, second, said, clock=given.clock, ids=given.ids, conclude=conclude)
    written = json.loads((result.folder / second / "result.json").read_bytes())
    assert {v["name"]: v["score"] for v in written["verifiers"]} == {
        "reached": 1.0, "quality": 1.0, "customer": 0.5,
    }  # fmt: skip
    assert written["score"] == pytest.approx(2.5 / 3)


async def test_a_check_that_asks_needs_its_world(tmp_path: Path) -> None:
    """Where the engine died before a check had asked its app, the agent runs again, and why is
    told before and after; what a check had asked already is answered from the log."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", asks=True))
    met = 0
    for appends in range(1, 40):
        folder = tmp_path / str(appends)
        async with memory_log() as log:
            if not await run_until_death(log, folder, task, appends):
                break
            before = await streams(log)
            cut = [
                name for name, events in before.items()
                if kinds(events)["ProcessesKilled"] and kinds(events)["AppQueried"] == 8
            ]  # fmt: skip
            given, job = made(log, folder, task), await job_of(log)
            plans = await plan_resume(given, job, only=None)
            await resume_job(given, job, Watched())
            after = await streams(log)
        for stream in cut:
            met += 1
            (planned,) = [p for p in plans if p.trial == stream.removeprefix("trial/")]
            assert planned.action == "grade"
            assert "the agent runs again if reached asks the apps" in planned.reason
            assert kinds(after[stream])["VerifierFailed"] == 1
            assert "world_gone" in after[stream][-2].data
            assert len(after) == 3  # another execution of that slot
    assert met


async def test_judges_cost_no_more_than_the_job_allows(tmp_path: Path) -> None:
    """The job's limit holds over all trials and resumes; a resume may raise it, and that holds."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", judge=True))
    priced = Reply(text=GOOD, usage=Usage(model_calls=1, cost_usd=0.25))
    config = msgspec.structs.replace(CONFIG, attempts=4, judge_max_cost=0.3)
    client = FakeClient(*[priced] * 8)
    async with memory_log() as log:
        given = msgspec.structs.replace(made(log, tmp_path, task), judge_client=client)
        result = await run_job(given, config, [task], Watched())
        assert (result.summary["counts"]["scored"], result.summary["counts"]["unscored"]) == (2, 2)
        again = await resume_job(given, result.job, Watched())
        assert again.summary["counts"]["scored"] == 2  # what was spent before counts
        assert len(client.replies) == 6
        raised = await resume_job(given, result.job, Watched(), judge_max_cost=0.6)
        assert raised.summary["counts"]["scored"] == 3
        last = await resume_job(given, result.job, Watched())
        assert last.summary["counts"]["scored"] == 3  # still 0.6, of which 0.75 is spent
        assert len(client.replies) == 5


async def test_an_alias_that_moves_within_a_job_is_told(tmp_path: Path) -> None:
    """Where a judge's name leads to another model than in an earlier trial, also of an earlier
    run of the job, the trial is warned of; where it leads to the same, it is not."""
    task = await to_thread.run_sync(lambda: project(tmp_path / "project", judge=True))
    old = Reply(text=GOOD, model="m-2026-01")
    new = Reply(text=GOOD, model="m-2026-02")
    config = msgspec.structs.replace(CONFIG, attempts=3)
    async with memory_log() as log:
        given = msgspec.structs.replace(
            made(log, tmp_path, task), judge_client=FakeClient(old, old, DOWN)
        )
        result = await run_job(given, config, [task], Watched())
        assert (result.summary["counts"]["scored"], result.summary["warnings"]) == (2, [])
        later = msgspec.structs.replace(given, judge_client=FakeClient(new))
        result = await resume_job(later, result.job, Watched())
    (warning,) = result.summary["warnings"]
    assert (warning["code"], warning["count"]) == ("judge_model_changed", 1)
    assert (
        "m-latest called itself m-2026-01 in this job before, and m-2026-02 here"
        in (warning["message"])
    )
