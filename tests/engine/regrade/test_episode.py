"""Regrades of trials that functions, judges and people grade."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from helpers.altering import change as change_log
from helpers.desk import JUDGE, PERSON, change, run_desk, write_desk
from helpers.dying import DyingLog, died
from helpers.judges import FakeClient, said
from trialog.engine.errors import ConfigError
from trialog.engine.hooks.pool import HookPool
from trialog.engine.job.conclude_reviewed import conclude_reviewed
from trialog.engine.job.services import Services
from trialog.engine.people.decide import Submission, parse_scores
from trialog.engine.people.submit import submit
from trialog.engine.regrade.report import RegradeReport, TrialRegraded
from trialog.engine.regrade.run import Wish, plan_regrade, regrade_job, resume_regrade
from trialog.engine.regrade.together import grouped
from trialog.engine.sandbox.none import NoSandboxes
from trialog.events.clock import RandomIds, SystemClock
from trialog.events.envelope import Appended, NewEvent, new_event
from trialog.events.kinds import RegradeStarted, VerifierApplied
from trialog.events.log import EventLog
from trialog.events.open import open_log
from trialog.projections.rebuild import check


class Desk:
    """A project that has run, and its regrades."""

    def __init__(self, root: Path, jobs: Path) -> None:
        self.root = root
        self.jobs = jobs
        self.job = ""
        self.client: Any = None

    async def run(self, attempts: int = 2) -> None:
        """Run the task."""
        self.job = (await run_desk(self.root, self.jobs, attempts=attempts)).job

    @asynccontextmanager
    async def services(self) -> AsyncIterator[Services]:
        """As a command has them."""
        async with open_log(self.jobs / "trialog.db") as log, HookPool(size=1) as hooks:
            yield Services(
                log=log, log_id=log.log_id, backend=NoSandboxes(), clock=SystemClock(),
                ids=RandomIds(), jobs_folder=self.jobs, environ={}, hooks=hooks,
                judge_client=self.client,
            )  # fmt: skip

    async def regrade(self, **wish: Any) -> dict[str, Any]:
        """Regrade the job; the content of the summary. The files are as the log has them."""
        told: list[RegradeReport] = []
        async with self.services() as services:
            done = await regrade_job(services, self.job, Wish(**wish), told.append)
            assert await check(services.log, self.job, self.jobs) == []
        return msgspec.json.decode(done.summary)

    async def plan(self, **wish: Any) -> list[TrialRegraded]:
        """What would be done."""
        told: list[RegradeReport] = []
        async with self.services() as services:
            await plan_regrade(services, self.job, Wish(**wish), told.append)
        return [one for one in told if isinstance(one, TrialRegraded)]

    def originals(self) -> dict[str, bytes]:
        """Every file that the job had before any regrade."""
        return {
            str(path.relative_to(self.jobs)): path.read_bytes()
            for path in (self.jobs / self.job).rglob("*")
            if path.is_file() and not path.name.startswith("regrade")
        }

    def regraded(self) -> list[dict[str, Any]]:
        """Every regrade.json."""
        files = sorted((self.jobs / self.job).glob("*/regrade.json"))
        return [json.loads(file.read_bytes()) for file in files]

    async def kinds(self) -> list[list[str]]:
        """The kinds of events after each trial's end."""
        async with open_log(self.jobs / "trialog.db", readonly=True) as log:
            found: list[list[str]] = []
            for stream in await log.streams("trial/"):
                kinds = [event.kind for event in await log.read(stream)]
                found.append(kinds[kinds.index("TrialFinished") + 1 :])
            return found


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a job of two trials, run once."""
    folder = tmp_path_factory.mktemp("regrade-desk")
    found = Desk(write_desk(folder / "desk"), folder / "jobs")
    anyio.run(found.run)
    return found


@pytest.fixture
def desk(tmp_path: Path, template: Desk) -> Desk:
    """A desk with a job of two trials, for one test; the run's own folder is gone."""
    found = Desk(tmp_path / "desk", tmp_path / "jobs")
    shutil.copytree(template.root, found.root)
    shutil.copytree(template.jobs, found.jobs)
    found.job = template.job
    return found


async def test_a_mended_check_grades_the_recorded_episode(desk: Desk) -> None:
    """The agent does not act; one append a trial has what began and what came of it."""
    before = desk.originals()
    change(desk.root, "score=1.0", "score=0.25")
    summary = await desk.regrade(tasks_root=desk.root, reason="too lenient")
    assert [row["verdict"] for row in summary["trials"]] == ["pass->fail"] * 2
    assert summary["mean_reward"] == {"original": 1.0, "new": 0.25, "n": 2}
    assert desk.originals() == before
    assert await desk.kinds() == [["RegradeStarted", "RegradeScored"]] * 2
    (verifier,) = desk.regraded()[0]["new"]["verifiers"]
    assert (verifier["name"], verifier["score"], verifier["evidence"]) == (
        "exact", 0.25, ["it is 3"],
    )  # fmt: skip


async def test_a_plan_compares_the_verifiers_files(desk: Desk) -> None:
    """It says of each verifier its digest in the run and now: the same, until the code changes."""
    same = [one.verifiers["exact"] for one in await desk.plan(tasks_root=desk.root)]
    assert len(same) == 2
    assert all(one.run is not None and one.run == one.now for one in same)
    change(desk.root, "score=1.0", "score=0.25")
    mended = [one.verifiers["exact"] for one in await desk.plan(tasks_root=desk.root)]
    assert [one.run for one in mended] == [one.run for one in same]
    assert all(one.now != one.run for one in mended)
    summary = await desk.regrade(tasks_root=desk.root)
    assert {row["verifier_digest_after"] for row in summary["trials"]} == {mended[0].now}


async def test_unchanged_code_gives_what_the_run_gave(desk: Desk) -> None:
    """With the same files every verdict is unchanged, and with the job's own copy none is flaky."""
    summary = await desk.regrade(tasks_root=desk.root)
    assert [row["verdict"] for row in summary["trials"]] == ["unchanged"] * 2
    summary = await desk.regrade(as_of_run=True)
    assert [row["verdict"] for row in summary["trials"]] == ["unchanged"] * 2
    assert summary["flaky"] == []
    (row, _) = summary["trials"]
    assert row["verifier_digest_before"] == row["verifier_digest_after"]


async def test_total_reward_counts_the_rewards_of_today(desk: Desk) -> None:
    """A check by the sum of step rewards uses those that its code gives now."""
    manifest = desk.root / "verifiers/exact/verifier.yaml"
    text = manifest.read_text()
    assert "check: verify.py:check" in text
    manifest.write_text(text.replace("check: verify.py:check", "check: total_reward"))
    change(desk.root, "return -0.5", "return 0.0")
    summary = await desk.regrade(tasks_root=desk.root)
    assert {row["new"]["reward"] for row in summary["trials"]} == {3.0}


async def test_a_wrong_expected_answer_is_mended(desk: Desk) -> None:
    """What the task expects is that of today; the verifier's digest is the same."""
    change(desk.root, "score=1.0", "score=float(value == episode.expected)")
    summary = await desk.regrade(tasks_root=desk.root)
    assert [row["verdict"] for row in summary["trials"]] == ["unchanged"] * 2
    task = desk.root / "tasks/count/task.yaml"
    task.write_text(task.read_text().replace("expected: 3", "expected: 4"))
    after = await desk.regrade(tasks_root=desk.root)
    assert [row["verdict"] for row in after["trials"]] == ["pass->fail"] * 2
    digests = {row["verifier_digest_after"] for row in (*summary["trials"], *after["trials"])}
    assert len(digests) == 1


async def test_a_check_that_raises_fails_the_regrade(desk: Desk) -> None:
    """The error names the line, and the verdict that stands is the run's."""
    change(desk.root, "score=1.0", 'score={}["missing"]')
    summary = await desk.regrade(tasks_root=desk.root)
    assert [row["verdict"] for row in summary["trials"]] == ["failed"] * 2
    assert "KeyError" in summary["trials"][0]["error"]
    assert not summary["mixed_verifiers"]
    assert "verify.py:" in desk.regraded()[0]["new"]["verifiers"][0]["error"]


async def test_a_project_that_is_gone(desk: Desk, tmp_path: Path) -> None:
    """Without its project a trial is not regradable; with the job's own copy it is."""
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "trialog.yaml").write_text("name: empty\n")
    planned = await desk.plan(tasks_root=empty)
    assert [one.category for one in planned] == ["task_gone"] * 2
    summary = await desk.regrade(tasks_root=empty)
    assert summary["counts"]["not_regradable"] == 2
    assert "has no task count" in summary["trials"][0]["error"]
    assert (await desk.regrade(as_of_run=True))["counts"]["regraded"] == 2


async def test_an_unknown_verifier(desk: Desk) -> None:
    """--verifier-only names one that a task has."""
    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match="they have: exact")):
        await desk.regrade(tasks_root=desk.root, verifier_only="nobody")
    assert desk.regraded() == []
    assert await desk.kinds() == [[], []]


async def person_submits(services: Services, score: float) -> str:
    """A person reviews the only trial; its name."""
    log = services.log
    (stream,) = await log.streams("trial/")
    trial = stream.removeprefix("trial/")

    async def conclude(name: str) -> None:
        assert services.hooks is not None
        await conclude_reviewed(services, services.hooks, name)

    words = Submission(verifier="person", scores=parse_scores([f"{score}"]))
    await submit(log, trial, words, clock=services.clock, ids=services.ids, conclude=conclude)
    return trial


async def test_people_are_not_asked_again(tmp_path: Path) -> None:
    """A person's score stays, with the weight of today; nobody waits."""
    desk = Desk(write_desk(tmp_path / "desk", {"person": PERSON}), tmp_path / "jobs")
    await desk.run(1)
    (planned,) = await desk.plan()
    assert planned.category == "not_finished"
    async with desk.services() as services:
        await person_submits(services, 1.0)
    before = desk.originals()
    change(desk.root, "score=1.0", "score=0.5")
    (row,) = (await desk.regrade())["trials"]
    assert (row["original"]["reward"], row["new"]["reward"]) == (0.75, 0.5)
    verifiers = {v["name"]: v for v in desk.regraded()[0]["new"]["verifiers"]}
    assert verifiers["person"]["score"] == 0.5
    assert desk.originals() == before
    manifest = desk.root / "verifiers/person/verifier.yaml"
    manifest.write_text(PERSON + "weight: 3\n")
    change(desk.root, "score=0.5", "score=1.0")
    (row,) = (await desk.regrade(verifier_only="exact"))["trials"]
    assert row["new"]["reward"] == 0.625
    assert desk.regraded()[0]["warnings"] == []
    change(desk.root, "score=1.0", "score=1.8")
    await desk.regrade()
    assert [w["code"] for w in desk.regraded()[0]["warnings"]] == ["score_out_of_range"]


async def test_a_person_who_was_never_asked(desk: Desk) -> None:
    """A person among the verifiers of today can't be made up."""
    manifest = desk.root / "tasks/count/task.yaml"
    manifest.write_text(manifest.read_text().replace("  - exact\n", "  - exact\n  - person\n"))
    folder = desk.root / "verifiers/person"
    folder.mkdir()
    (folder / "verifier.yaml").write_text(PERSON)
    planned = await desk.plan(tasks_root=desk.root)
    assert {one.category for one in planned} == {"no_recorded_review"}


async def test_judges_replies_are_read_again(tmp_path: Path) -> None:
    """By the rubric of today, without a call; --call-models asks, and the log has the replies."""
    desk = Desk(write_desk(tmp_path / "desk", {"quality": JUDGE}), tmp_path / "jobs")
    ran = await run_desk(
        desk.root, desk.jobs, attempts=1, judge_client=FakeClient(said(policy=2, clarity=0))
    )
    desk.job = ran.job
    desk.client = FakeClient()  # has nothing to say, so a call would fail
    (row,) = (await desk.regrade())["trials"]
    assert row["verdict"] == "unchanged"
    manifest = desk.root / "verifiers/quality/verifier.yaml"
    manifest.write_text(JUDGE.replace("    max_score: 2\n", "    max_score: 4\n"))
    (row,) = (await desk.regrade())["trials"]
    assert (row["original"]["reward"], row["new"]["reward"]) == (0.75, 0.625)
    desk.client = FakeClient(said(policy=4, clarity=1))
    (row,) = (await desk.regrade(call_models=True))["trials"]
    assert row["new"] == {"reward": 1.0, "passed": True}
    assert len(desk.client.asked) == 1
    (kinds,) = await desk.kinds()
    assert kinds[-3:] == ["RegradeStarted", "JudgeSampled", "RegradeScored"]
    desk.client = FakeClient()  # the run's replies are read again, not those of a regrade
    (row,) = (await desk.regrade())["trials"]
    assert row["new"]["reward"] == 0.625


async def test_a_judge_without_replies(desk: Desk) -> None:
    """A judge of today that the run did not have can only be asked."""
    manifest = desk.root / "tasks/count/task.yaml"
    manifest.write_text(manifest.read_text().replace("  - exact\n", "  - exact\n  - quality\n"))
    folder = desk.root / "verifiers/quality"
    folder.mkdir()
    (folder / "verifier.yaml").write_text(JUDGE)
    planned = await desk.plan(tasks_root=desk.root)
    assert {one.category for one in planned} == {"no_recorded_replies"}
    planned = await desk.plan(tasks_root=desk.root, verifier_only="exact")
    assert {one.category for one in planned} == {"no_recorded_score"}
    desk.client = FakeClient(said(), said())
    summary = await desk.regrade(tasks_root=desk.root, call_models=True)
    assert [row["verdict"] for row in summary["trials"]] == ["unchanged"] * 2


def add_verifier(root: Path, code: str) -> None:
    """Give the task a second verifier, which the run did not know."""
    folder = root / "verifiers" / "second"
    folder.mkdir()
    (folder / "verifier.yaml").write_text("name: second\ncheck: verify.py:check\n")
    (folder / "verify.py").write_text(code)
    task = root / "tasks/count/task.yaml"
    task.write_text(task.read_text().replace("  - exact\n", "  - exact\n  - second\n"))


# Many trials at a time


async def regrade_until(desk: Desk, appends: int, *, resume: bool = False) -> bool:
    """Regrade in a process that dies after so many appends; whether it lived."""
    async with desk.services() as services:
        wish = Wish(tasks_root=desk.root)
        dying = msgspec.structs.replace(services, log=DyingLog(services.log, appends))
        try:
            if resume:
                await resume_regrade(dying, desk.job, lambda report: None)
            else:
                await regrade_job(dying, desk.job, wish, lambda report: None)
        except BaseException as error:
            if not died(error):
                raise
            return False
        return True


async def test_dead_at_every_append(desk: Desk) -> None:
    """Killed after any append, a regrade of a group goes on to the same, with nothing twice.

    Until it is finished, no file of it is there.
    """
    before = desk.originals()
    change(desk.root, "score=1.0", "score=0.5")
    for appends in range(1, 40):
        for file in desk.jobs.rglob("regrade*.json"):
            file.unlink()
        lived = await regrade_until(desk, appends)
        assert lived or not list(desk.jobs.rglob("regrade*.json"))
        if not lived:
            assert await regrade_until(desk, 1000, resume=True)
        assert [one["new"]["reward"] for one in desk.regraded()] == [0.5] * 2
        assert len(desk.regraded()[0]["history"]) == appends - 1
        assert desk.originals() == before
        async with desk.services() as services:
            assert await check(services.log, desk.job, desk.jobs) == []
        if lived:
            break
    else:
        pytest.fail("the regrade never lived to its end")
    assert appends > 3
    assert await desk.kinds() == [["RegradeStarted", "RegradeScored"] * appends] * 2


async def test_one_of_a_group_fails_alone(tmp_path: Path) -> None:
    """A check that ends its process for one trial leaves the others their scores, in order."""
    desk = Desk(write_desk(tmp_path / "desk"), tmp_path / "jobs")
    await desk.run(5)
    async with open_log(desk.jobs / "trialog.db", readonly=True) as log:
        streams = await log.streams("trial/")
        third = (await log.read(streams[2]))[4].id
    change(
        desk.root, "value = episode",
        f"""if any(step.event_id == {third!r} for step in episode.trajectory):
        __import__("os")._exit(3)
    value = episode""",
    )  # fmt: skip
    told: list[RegradeReport] = []
    async with desk.services() as services:
        await regrade_job(services, desk.job, Wish(), told.append)
        assert await check(services.log, desk.job, desk.jobs) == []
    trials = [one for one in told if isinstance(one, TrialRegraded)]
    assert [one.verdict for one in trials] == [
        "unchanged", "unchanged", "failed", "unchanged", "unchanged",
    ]  # fmt: skip
    assert "ended the process" in str(trials[2].reason)
    assert [f"trial/{one.trial}" for one in trials] == streams


class Hasty:
    """A log in which somebody appends to each trial right before its answer comes."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._seen = set[str]()

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def append(
        self, stream: str, expected_version: int, events: Sequence[NewEvent]
    ) -> Awaitable[Appended]:
        """Append, behind another's event where none came between yet."""
        if type(events[0].payload) is RegradeStarted and stream not in self._seen:
            self._seen.add(stream)
            label = VerifierApplied(
                verifier="v", verifier_kind="deterministic", version="1", digest="d"
            )
            new = new_event(label, SystemClock(), RandomIds())
            self._log.append(stream, expected_version, [new])
        return self._log.append(stream, expected_version, events)


async def test_others_append_meanwhile(desk: Desk) -> None:
    """An answer comes after whatever else was appended, and the files are as the log has it."""
    async with desk.services() as services:
        hasty = msgspec.structs.replace(services, log=Hasty(services.log))
        done = await regrade_job(hasty, desk.job, Wish(), lambda report: None)
        assert await check(services.log, desk.job, desk.jobs) == []
    assert msgspec.json.decode(done.summary)["counts"]["regraded"] == 2
    (kinds, _) = await desk.kinds()
    assert kinds[-2:] == ["RegradeStarted", "RegradeScored"]
    assert kinds[0] == "VerifierApplied"


def test_neighbours_are_taken_together() -> None:
    """In their order; what can't be taken together is alone."""
    trials = ["a1", "a2", "b1", "a3", "a4", "a5", "a6"]
    found = list(grouped(trials, lambda trial: trial[0] == "a", 3))
    assert found == [["a1", "a2"], ["b1"], ["a3", "a4", "a5"], ["a6"]]
    assert list(grouped([], lambda trial: True, 3)) == []


SECOND = """
from trialog import VerifierOutput


def check(episode):
    return VerifierOutput(score=0.5)
"""


async def test_a_verifier_that_is_new_today(desk: Desk) -> None:
    """It scores the recorded episode beside the others, and alone with their scores kept."""
    add_verifier(desk.root, SECOND)
    summary = await desk.regrade(tasks_root=desk.root, verifier_only="second")
    assert summary["mean_reward"] == {"original": 1.0, "new": 0.75, "n": 2}
    names = [one["name"] for one in desk.regraded()[0]["new"]["verifiers"]]
    assert names == ["exact", "second"]
    summary = await desk.regrade(tasks_root=desk.root)
    assert summary["mean_reward"]["new"] == 0.75


async def test_a_verifier_that_is_gone_today(desk: Desk) -> None:
    """The code of the run's verifier need not be there: the one of today grades alone."""
    add_verifier(desk.root, SECOND.replace("0.5", "1.0"))
    shutil.rmtree(desk.root / "verifiers" / "exact")
    task = desk.root / "tasks/count/task.yaml"
    task.write_text(task.read_text().replace("  - exact\n", ""))
    summary = await desk.regrade(tasks_root=desk.root)
    assert [row["verdict"] for row in summary["trials"]] == ["unchanged"] * 2
    (verifier,) = desk.regraded()[0]["new"]["verifiers"]
    assert verifier["name"] == "second"


@pytest.mark.parametrize(("kind", "assignment"), [
    ("VerifierScored", "data = replace(data, '1.0', '0.5')"),
    ("TrialScored", "data = replace(data, '1.0', '0.5')"),
    ("AgentFinished", "at = 'yesterday'"),
    ("AgentFinished", "data = '{bad'"),
    ("AgentFinished", None),
])  # fmt: skip
async def test_a_trial_whose_stream_was_altered(
    desk: Desk, kind: str, assignment: str | None
) -> None:
    """It is named as not regradable, in the plan too; the other of its group is regraded."""
    async with open_log(desk.jobs / "trialog.db", readonly=True) as log:
        first, _ = await log.streams("trial/")
        (event,) = [one for one in await log.read(first) if one.kind == kind]
    doing = "DELETE FROM events" if assignment is None else f"UPDATE events SET {assignment}"
    change_log(desk.jobs, f"{doing} WHERE position = ?", event.position)
    change(desk.root, "score=1.0", "score=0.25")

    wish = Wish(tasks_root=desk.root)
    planned = {f"trial/{one.trial}": one.category for one in await desk.plan(tasks_root=desk.root)}
    async with desk.services() as services:
        done = await regrade_job(services, desk.job, wish, [].append)

    assert planned.pop(first) == "trial_unreadable"
    assert [*planned.values()] == [None]
    summary = msgspec.json.decode(done.summary)
    found = {f"trial/{row['trial_name']}": row["verdict"] for row in summary["trials"]}
    assert found.pop(first) == "not_regradable"
    assert [*found.values()] == ["pass->fail"]
    assert (desk.jobs / desk.job / "regrade-summary.json").read_bytes() == done.summary


async def test_a_plan_looks_at_judges_replies(tmp_path: Path) -> None:
    """A long reply is a blob; one that is lost is told by the plan as by the regrade."""
    desk = Desk(write_desk(tmp_path / "desk", {"quality": JUDGE}), tmp_path / "jobs")
    long = " " * 200_000 + said(policy=2, clarity=0)
    ran = await run_desk(desk.root, desk.jobs, attempts=1, judge_client=FakeClient(long))
    desk.job, desk.client = ran.job, FakeClient()
    assert [one.category for one in await desk.plan()] == [None]
    lost = [
        f for f in (desk.jobs / "blobs").rglob("*") if f.is_file() and b"policy" in f.read_bytes()
    ]
    assert len(lost) == 1
    lost[0].unlink()

    assert [one.category for one in await desk.plan()] == ["blob_missing"]
