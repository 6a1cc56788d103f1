"""Jobs whose models are answered by an earlier job's record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio import to_thread

from helpers.counters import Counter, TellsHooks, episode_task
from helpers.fakes import FakeBackend
from helpers.jobs import Watched, services
from helpers.judges import FakeClient, completion
from helpers.models import FakeModel, calling
from trialog.engine.authoring.environment import Environment
from trialog.engine.errors import ConfigError
from trialog.engine.job.api import resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.episode_loading import pack_episode_task
from trialog.engine.job.episode_task import EpisodeTask
from trialog.engine.job.report import JobOpened, Notice, TrialEnded
from trialog.engine.job.results import JobResult
from trialog.engine.models.client import CallFailed
from trialog.engine.models.prices import Price
from trialog.engine.projects.project import load_project
from trialog.engine.projects.template import init_project
from trialog.events.codec import decode
from trialog.events.kinds import (
    ActionTaken,
    AgentFinished,
    EnvironmentReset,
    JobStarted,
    JudgeSampled,
    ModelCalled,
    TrialStarted,
    VerifierFailed,
    VerifierScored,
    WarningRaised,
)
from trialog.events.log import EventLog
from trialog.events.open import memory_log
from trialog.events.values import as_blob_ref

PRICES = {"m": Price(input=1.0, output=2.0)}
SUM = [calling(("add", {"n": 1}), ("add", {"n": 2})), completion("three")]
CONFIG = JobConfig(tasks=["count"], agents=["chat"], models=["m"], retries=0, prices=PRICES)


class Ran:
    """A job that has ended."""

    def __init__(self, log: EventLog, result: JobResult, watched: Watched) -> None:
        self.log = log
        self.job = result.job
        self.folder = result.folder
        self.summary = result.summary
        self.watched = watched

    @property
    def trials(self) -> list[Path]:
        """The folders of its trials."""
        return sorted(path for path in self.folder.iterdir() if path.is_dir())

    def result(self) -> Any:
        """The only trial's result."""
        (trial,) = self.trials
        return json.loads((trial / "result.json").read_bytes())

    async def events(self, kind: type[Any]) -> list[Any]:
        """The events of one kind, of all its trials."""
        names = [f"trial/{trial.name}" for trial in self.trials]
        events = [decode(event) for name in names for event in await self.log.read(name)]
        return [event for event in events if isinstance(event, kind)]


async def run(
    log: EventLog, folder: Path, *, task: Any = None, model: Any = None, judge: Any = None,
    config: JobConfig = CONFIG, hooks: Any = None, **changes: Any,
) -> Ran:  # fmt: skip
    """Run a job. Without `model` there is none, and no key."""
    watched = Watched()
    made = msgspec.structs.replace(
        services(log, FakeBackend(), folder / "jobs", secrets=changes.pop("secrets", None)),
        hooks=hooks or TellsHooks(), model_client=model, judge_client=judge,
    )  # fmt: skip
    given = msgspec.structs.replace(config, **changes)
    result = await run_job(made, given, [task or episode_task()], watched)
    return Ran(log, result, watched)


async def test_a_trial_runs_again_from_its_record(tmp_path: Path) -> None:
    """With no model and no key: the same world, actions, answer and score; job, trial and each call
    say what answered, and nothing is counted as spent again."""
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(*SUM))
        again = await run(log, tmp_path, replay_models=first.job)
        one, two = first.result(), again.result()
        assert [
            (step.action, step.arguments, step.observation, step.tool_call)
            for step in await first.events(ActionTaken)
        ] == [
            (step.action, step.arguments, step.observation, step.tool_call)
            for step in await again.events(ActionTaken)
        ]
        [world], [same] = await first.events(EnvironmentReset), await again.events(EnvironmentReset)
        assert world.seed == same.seed  # though the job has none
        for field in ("outcome", "passed", "score", "answer", "n_steps", "n_tool_calls", "seed"):
            assert one[field] == two[field]
        assert {"job": first.job, "trial": one["trial_name"], "difference": None} == two["replay"]
        assert "replay" not in one
        assert (0.00036, 0.0) == (one["usage"]["cost_usd"], two["usage"]["cost_usd"])
        assert one["usage"]["input_tokens"] == two["usage"]["input_tokens"]
        assert (first.job, None) == (again.summary["replays"], first.summary.get("replays"))
        started: Any = decode((await log.read(f"job/{again.job}"))[0])
        assert isinstance(started, JobStarted)
        assert first.job == started.replays
        (opened,) = again.watched.of(JobOpened)
        assert isinstance(opened, JobOpened)
        assert first.job == opened.replays
        assert all(call.replayed for call in await again.events(ModelCalled))


async def test_a_replay_can_be_replayed(tmp_path: Path) -> None:
    """Its calls were seen, so they answer as well."""
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(*SUM))
        second = await run(log, tmp_path, replay_models=first.job)
        third = await run(log, tmp_path, replay_models=second.job)
        assert ("three", second.job) == (third.result()["answer"], third.summary["replays"])


async def test_the_first_difference_is_told(tmp_path: Path) -> None:
    """The trial is errored; which trial, which call and what differs is in its result, on the
    console and in the log, and both requests are files."""
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(*SUM))
        task = episode_task()
        changed = msgspec.structs.replace(
            task, view=msgspec.structs.replace(task.view, instructions="Count to six.")
        )
        again = await run(log, tmp_path, replay_models=first.job, task=changed)
        result = again.result()
        assert ("errored", "replay_differs") == (result["outcome"], result["error_category"])
        (recorded,) = first.trials
        difference = result["replay"]["difference"]
        assert (1, "messages[1].content") == (difference["call"], difference["path"])
        assert difference["recorded"].startswith("Count to five.")
        assert difference["now"].startswith("Count to six.")
        assert f"model call 1 is not the recorded one of trial {recorded.name}" in result["error"]
        notices = [note.message for note in again.watched.of(Notice) if isinstance(note, Notice)]
        (trial,) = again.trials
        assert any(
            trial.name in said and "messages[1].content" in said and str(trial / "replay") in said
            for said in notices
        )
        before, now = [
            json.loads((trial / "replay" / name).read_bytes())
            for name in ("recorded.json", "request.json")
        ]
        assert before["messages"][0] == now["messages"][0]
        assert "five" in before["messages"][1]["content"]
        assert "six" in now["messages"][1]["content"]
        [call] = await again.events(ModelCalled)
        assert call.difference is not None


async def test_calls_that_were_not_made_are_told(tmp_path: Path) -> None:
    """A replay that ends earlier is graded, with a warning."""
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(*SUM))
        again = await run(log, tmp_path, replay_models=first.job, max_turns=1)
        assert "scored" == again.result()["outcome"]
        [warning] = await again.events(WarningRaised)
        assert "replay_shorter" == warning.code
        assert "1 of the recorded trial's model calls" in str(warning.message)


async def test_an_agent_that_was_cut_off_by_a_limit(tmp_path: Path) -> None:
    """A call that never came back ends the replay as it ended the agent, without the wait."""
    task = episode_task(environment=Environment([Counter], max_seconds=0.5))

    class Stalls(FakeModel):
        async def complete(self, request: Any, watch: Any = None) -> Any:
            return await (super().complete(request) if not self.requests else anyio.sleep_forever())

    async with memory_log() as log:
        first = await run(log, tmp_path, model=Stalls(SUM[0]), task=task)
        [end] = await first.events(AgentFinished)
        assert "max_seconds" == end.ended_by
        patient = episode_task(environment=Environment([Counter], max_seconds=600))
        again = await run(log, tmp_path, replay_models=first.job, task=patient)
        assert [2, 2] == [one.result()["n_steps"] for one in (first, again)]
        [call] = [c for c in await again.events(ModelCalled) if c.error]
        assert ("cut_off", True) == (call.failure, call.replayed is not None)
        [end] = await again.events(AgentFinished)
        assert "max_seconds" == end.ended_by


async def test_each_slot_is_answered_by_its_own_trial(tmp_path: Path) -> None:
    """By task, model, parameters and attempt, whatever the order in which they run."""
    config = msgspec.structs.replace(
        CONFIG, models=["m", "n"], parameters=[{"top_p": 1}, {"top_p": 2}], attempts=2,
        concurrency=3,
    )  # fmt: skip
    counted: dict[tuple[Any, Any], int] = {}

    class Counts(FakeModel):
        async def complete(self, request: Any, watch: Any = None) -> Any:
            key = (request["model"], request["top_p"])
            counted[key] = counted.get(key, 0) + 1
            self.replies = [completion(f"{key} {counted[key]}")]
            return await super().complete(request, watch)

    async with memory_log() as log:
        first = await run(log, tmp_path, model=Counts(completion("")), config=config)
        again = await run(log, tmp_path, replay_models=first.job, config=config)

        def answers(ran: Ran) -> dict[str, Any]:
            results = [json.loads((trial / "result.json").read_bytes()) for trial in ran.trials]
            keys = ("model", "parameters", "attempt")
            return {json.dumps([one[key] for key in keys]): one["answer"] for one in results}

        assert 8 == len(set(answers(first).values()))
        assert answers(first) == answers(again)
        part = await run(log, tmp_path, replay_models=first.job, models=["n"],
                         parameters=[{"top_p": 2}])  # fmt: skip
        assert "('n', 2) 1" == part.result()["answer"]


async def test_the_last_execution_with_an_end_answers(tmp_path: Path) -> None:
    """A model that was down is not replayed once the trial has run; one that stayed down is, as
    what it was."""
    failed = CallFailed("the endpoint can't be reached: no", "unreachable", retries=5)
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(failed))
        down = await run(log, tmp_path, replay_models=first.job)
        assert ("errored", "model_failed") == (
            down.result()["outcome"], down.result()["error_category"],
        )  # fmt: skip
        [call] = await down.events(ModelCalled)
        assert ("unreachable", 5, 0.0) == (call.failure, call.retries, call.usage.cost_usd)
        up = msgspec.structs.replace(
            services(log, FakeBackend(), tmp_path / "jobs"), hooks=TellsHooks(),
            model_client=FakeModel(*SUM),
        )  # fmt: skip
        await _resume(up, first.job)
        again = await run(log, tmp_path, replay_models=first.job)
        assert "three" == again.result()["answer"]


async def _resume(made: Any, job: str) -> JobResult:
    """Go on with a job whose task is an object of this test's."""
    from trialog.engine.job import session

    async def opened(*_: Any, **__: Any) -> Any:
        return {"count": episode_task()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_tasks", opened)
        return await resume_job(made, job, Watched())


async def test_a_resume_replays_on(tmp_path: Path) -> None:
    """Without a model, too; what the first run of the replay had finished stays."""
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(*SUM), attempts=2)
        made = msgspec.structs.replace(
            services(log, FakeBackend(), tmp_path / "jobs"), hooks=TellsHooks()
        )
        config = msgspec.structs.replace(CONFIG, attempts=2, concurrency=1, replay_models=first.job)
        watched = Watched()

        def stop(report: Any) -> None:
            watched(report)
            if isinstance(report, TrialEnded):
                scope.cancel()

        with anyio.CancelScope() as scope:
            await run_job(made, config, [episode_task()], stop)
        assert scope.cancelled_caught
        [_, job] = [name.removeprefix("job/") for name in await log.streams("job/")]
        result = await _resume(made, job)
        counts = result.summary["counts"]
        assert (2, 2, first.job) == (
            counts["slots"], counts["scored"], result.summary["replays"],
        )  # fmt: skip


async def refused(log: EventLog, folder: Path, **changes: Any) -> str:
    """Why a job can't be replayed; nothing of it is written."""
    before = await log.last_position()
    with pytest.raises(ConfigError) as error:
        await run(log, folder, **changes)
    assert before == await log.last_position()
    return str(error.value)


async def test_what_can_not_be_replayed(tmp_path: Path) -> None:
    """Trials that the record does not have are named, each with what is missing."""
    async with memory_log() as log:
        job = (await run(log, tmp_path, model=FakeModel(*SUM))).job

        async def why(**changes: Any) -> str:
            return await refused(log, tmp_path, replay_models=job, **changes)

        assert (
            f"--replay-models: job {job} can't answer 1 of 1 trials: other by chat with m, "
            "attempt 1: its tasks that were run are count; only what it recorded can be replayed"
        ) == await why(task=episode_task("other"))
        assert "with n, attempt 1: its models that were run are m" in await why(models=["n"])
        assert "its parameters that were run are {}" in await why(parameters=[{"a": 1}])
        assert "can't answer 2 of 3 trials" in await why(attempts=3)
        assert "attempt 2: its attempts that were run are 1" in await why(attempts=3)
        assert "by nop with m, attempt 1: its agents that were run are chat" in await why(
            agents=["nop"]
        )


async def test_an_agent_whose_calls_are_not_seen(tmp_path: Path) -> None:
    """A trial without a recorded call is refused: what its agent did can't be answered again."""
    async with memory_log() as log:
        nop = await run(log, tmp_path, agents=["nop"], models=[])
        [trial] = nop.trials
        said = await refused(log, tmp_path, agents=["nop"], models=[], replay_models=nop.job)
        assert f"no model call of trial {trial.name} was seen" in said


async def test_a_record_with_a_part_missing(tmp_path: Path) -> None:
    """A blob that is gone refuses the trial, and names the call."""
    long = calling(("write", {"text": "x" * 40_000}))
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(long, completion("done")))
        calls = await first.events(ModelCalled)
        ref = as_blob_ref(calls[0].response)
        assert ref is not None

        async def has(asked: Any) -> bool:
            return asked != ref

        log.blobs.has = has  # type: ignore[method-assign]
        said = await refused(log, tmp_path, replay_models=first.job)
        assert "a part of model call 1 of trial" in said
        assert ref.blob in said


async def test_an_agent_that_never_ended(tmp_path: Path) -> None:
    """What came after a cut is not known."""

    class Stops(FakeModel):
        async def complete(self, request: Any, watch: Any = None) -> Any:
            scope.cancel()
            await anyio.sleep_forever()

    async with memory_log() as log:
        with anyio.CancelScope() as scope:
            await run(log, tmp_path, model=Stops())
        [job] = [name.removeprefix("job/") for name in await log.streams("job/")]
        assert "never came to an end" in await refused(log, tmp_path, replay_models=job)


@pytest.mark.parametrize("length", [1, 30_000], ids=["inline", "blobs"])
async def test_a_secret_in_a_request(tmp_path: Path, length: int) -> None:
    """It is redacted in the record, and so it is before requests are compared, wherever it stands:
    in what the task says, and in what the model calls a tool with."""
    secrets = {"TOKEN": 'very-"secret'}
    write = calling(("write", {"text": f'{"x" * length} very-"secret'}))
    task = episode_task()
    told = f'{"x" * length} Use very-"secret.'
    task = msgspec.structs.replace(task, view=msgspec.structs.replace(task.view, instructions=told))
    async with memory_log() as log:
        first = await run(
            log, tmp_path, model=FakeModel(write, completion("done")), task=task, secrets=secrets
        )
        [call, _] = await first.events(ModelCalled)
        ref = as_blob_ref(call.request)
        assert (ref is None) == (length == 1)
        request = str(call.request) if ref is None else (await log.blobs.get(ref)).decode()
        assert "[redacted:TOKEN]" in request
        again = await run(log, tmp_path, replay_models=first.job, task=task, secrets=secrets)
        assert "done" == again.result()["answer"]


# Judges

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


def project(root: Path, judge: str = JUDGE) -> EpisodeTask:
    """A new project's task, with a judge beside its check."""
    init_project(root)
    (root / "verifiers" / "quality").mkdir()
    (root / "verifiers" / "quality" / "verifier.yaml").write_text(judge)
    file = root / "tasks" / "count-to-ten" / "task.yaml"
    file.write_text(file.read_text().replace("[reached", "[reached, quality"))
    return pack_episode_task(load_project(root).task("count-to-ten"))


async def judged(
    log: EventLog, folder: Path, name: str, manifest: str = JUDGE, **changes: Any
) -> Ran:
    """A trial of that project's."""
    task = await to_thread.run_sync(lambda: project(folder / name, manifest))
    return await run(log, folder, task=task, tasks=["count-to-ten"], **changes)


async def test_a_judge_is_answered_by_its_recorded_replies(tmp_path: Path) -> None:
    """No judge's model is called, none that was malformed either; the verdict is the same, and
    nothing is spent again."""
    client = FakeClient("nonsense", GOOD)
    async with memory_log() as log:
        first = await judged(log, tmp_path, "a", model=FakeModel(completion("x")), judge=client)
        again = await judged(log, tmp_path, "b", replay_models=first.job)
        [one], [two] = [
            [v for v in await ran.events(VerifierScored) if v.verifier == "quality"]
            for ran in (first, again)
        ]
        assert (one.score, one.scores, one.criteria, one.samples) == (
            two.score, two.scores, two.criteria, two.samples,
        )  # fmt: skip
        before, after = await first.events(JudgeSampled), await again.events(JudgeSampled)
        assert [(s.reply, s.valid) for s in before] == [(s.reply, s.valid) for s in after]
        assert [False, True] == [sample.valid for sample in after]
        assert all(sample.replayed and sample.usage.cost_usd == 0.0 for sample in after)


async def test_a_judge_that_is_asked_something_else(tmp_path: Path) -> None:
    """It gives no verdict: what differs is told, and both requests are files."""
    async with memory_log() as log:
        first = await judged(
            log, tmp_path, "a", model=FakeModel(completion("x")), judge=FakeClient(GOOD)
        )
        changed = JUDGE.replace("Judge the counting.", "Judge it harshly.")
        again = await judged(log, tmp_path, "b", changed, replay_models=first.job)
        result = again.result()
        assert ("unscored", "replay_differs") == (
            result["outcome"], result["verifier_error_category"],
        )  # fmt: skip
        assert "messages[0].content" == result["replay"]["difference"]["path"]
        assert "Judge it harshly." in result["replay"]["difference"]["now"]
        (trial,) = again.trials
        before, now = [
            (trial / "replay" / name).read_text() for name in ("recorded.json", "request.json")
        ]
        assert "Judge the counting." in before
        assert "Judge it harshly." in now
        [failed] = await again.events(VerifierFailed)
        assert failed.difference is not None


async def test_a_judge_that_wants_more_samples_than_were_recorded(tmp_path: Path) -> None:
    """The record can't give them."""
    async with memory_log() as log:
        first = await judged(
            log, tmp_path, "a", model=FakeModel(completion("x")), judge=FakeClient(GOOD)
        )
        more = await judged(log, tmp_path, "b", f"{JUDGE}samples: 2\n", replay_models=first.job)
        assert "is asked for 2 samples, and trial" in more.result()["verifier_error"]


async def test_the_log_says_what_is_replayed(tmp_path: Path) -> None:
    """Every execution names the trial that answers it."""
    async with memory_log() as log:
        first = await run(log, tmp_path, model=FakeModel(*SUM))
        again = await run(log, tmp_path, replay_models=first.job)
        [started] = await again.events(TrialStarted)
        assert started.replays is not None
        assert (first.job, first.trials[0].name) == (started.replays.job, started.replays.trial)
