"""Going on with environment trials whose engine died, at every event it could have died after."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from helpers.counters import TellsHooks
from helpers.dying import DyingLog, died
from helpers.fakes import FakeBackend
from helpers.jobs import Watched, services
from trialog.engine.job.api import Services, resume_job, run_job
from trialog.engine.job.conclude_reviewed import conclude_reviewed
from trialog.engine.job.config import JobConfig
from trialog.engine.job.episode_loading import pack_episode_task
from trialog.engine.job.episode_task import EpisodeTask
from trialog.engine.job.policies import PolicyAgent
from trialog.engine.people.decide import Scores, Submission
from trialog.engine.people.submit import submit
from trialog.engine.projects.project import load_project
from trialog.engine.projects.template import init_project
from trialog.events.log import EventLog
from trialog.events.open import memory_log

CONFIG = JobConfig(tasks=["count-to-ten"], agents=["steady"], attempts=2, concurrency=1, seed=7)

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


def project(root: Path, *, asks: bool = False, person: bool = False) -> EpisodeTask:
    """The task of a new project: its verifier asks the app questions, or a person has a say."""
    init_project(root)
    if asks:
        verify = root / "verifiers" / "reached" / "verify.py"
        verify.write_text(verify.read_text().replace("\ndef reward(", "\ndef old(") + ASKING)
    if person:
        (root / "verifiers" / "customer").mkdir()
        (root / "verifiers" / "customer" / "verifier.yaml").write_text(PERSON)
        task = root / "tasks" / "count-to-ten" / "task.yaml"
        task.write_text(task.read_text().replace("[reached]", "[reached, customer]"))
    loaded = load_project(root)
    agent = loaded.agent("steady")
    packed = pack_episode_task(loaded.task("count-to-ten"), [agent])
    return msgspec.structs.replace(
        packed, policies={"steady": PolicyAgent("steady", agent.policy())}
    )


def hooks() -> TellsHooks:
    """A reward for every step, a score of 1, and credit for the last step."""
    return TellsHooks(
        hindsight=lambda trial: [trial.credit(trial.steps()[-1], 0.5)],
        question=("counter", "look", {}),
    )


def made(log: EventLog, folder: Path, task: EpisodeTask) -> Services:
    """What the job needs; its policies are those that came with the task."""
    return msgspec.structs.replace(
        services(log, FakeBackend(), folder), hooks=hooks(), policies=task.policies
    )


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


async def job_of(log: EventLog) -> str:
    """The name of the only job."""
    (stream,) = await log.streams("job/")
    return stream.removeprefix("job/")


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
            assert count["HindsightCredited"] == 1


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
        # An episode that is recorded to its end is judged as it is; nobody plays it again.
        recorded = {name for name, events in before.items() if kinds(events)["ProcessesKilled"]}
        assert recorded <= set(scored)
        again += len(after) > 2
        folders = [f for f in result.folder.iterdir() if (f / "result.json").exists()]
        assert {f"trial/{f.name}" for f in folders} == set(scored)
        if lived:
            break
    else:
        pytest.fail("the job never lived to its end")
    assert appends > 10
    assert again > 3  # some were cut off while they played


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
