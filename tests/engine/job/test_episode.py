"""Environment trials: episode, rewards, verdicts and credit, in the log and in the files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from helpers.counters import Counter, Script, TellsHooks, adds, episode_task, source
from helpers.fakes import FakeBackend
from helpers.jobs import Watched, services
from helpers.judges import FakeClient, said, verifier
from trialog.engine.authoring.app import App, action
from trialog.engine.authoring.environment import Environment
from trialog.engine.authoring.policy import Action, Answer
from trialog.engine.authoring.task import TaskView
from trialog.engine.authoring.verifiers import HumanVerifier, RubricCriterion
from trialog.engine.authoring.views import QueryRefused
from trialog.engine.console.rows import read_job
from trialog.engine.hooks.protocol import AskApp, HookFault, RewardGiven
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.episode_task import EpisodeTask
from trialog.engine.job.policies import PolicyAgent
from trialog.engine.job.report import Notice, TrialEnded
from trialog.engine.worlds.protocol import InProcessWorld
from trialog.events.checking import named_blobs
from trialog.events.codec import decode
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AppQueried,
    EpisodeEnded,
    Event,
    SandboxFailed,
)
from trialog.events.log import EventLog
from trialog.events.open import memory_log
from trialog.events.values import BlobRef
from trialog.projections.episode import (
    EpisodeData,
    StepData,
    TaskData,
    episode_blobs,
    episode_data,
)


async def play(
    log: EventLog,
    folder: Path,
    policy: Any,
    *,
    task: EpisodeTask | None = None,
    hooks: TellsHooks | None = None,
    config: JobConfig | None = None,
    secrets: dict[str, str] | None = None,
    judge: FakeClient | None = None,
) -> tuple[list[Event], dict[str, Any] | None, Watched]:
    """Run one trial: its events, its result.json, and what was reported."""
    made = msgspec.structs.replace(
        services(log, FakeBackend(), folder, secrets=secrets),
        hooks=hooks or TellsHooks(),
        judge_client=judge,
        policies={
            "policy": PolicyAgent("policy", policy if isinstance(policy, type) else policy.act)
        },
    )
    watched = Watched()
    config = config or JobConfig(tasks=["count"], agents=["policy"], seed=3)
    result = await run_job(made, config, [task or episode_task()], watched)
    (stream,) = await log.streams("trial/")
    events = [decode(event) for event in await log.read(stream)]
    written = result.folder / stream.removeprefix("trial/") / "result.json"
    content = json.loads(written.read_bytes()) if written.exists() else None
    return events, content, watched


def kinds(events: list[Event]) -> list[str]:
    """Their kinds."""
    return [type(event).__name__ for event in events]


async def test_order_of_an_episode(tmp_path: Path) -> None:
    """Events come in the format's order: steps, rewards, end, verdict, score, credit."""
    hooks = TellsHooks(hindsight=lambda trial: [trial.credit(trial.steps("add")[-1], 0.5)])
    async with memory_log() as log:
        events, result, _ = await play(log, tmp_path, Script(*adds(2), *adds(1, 3)), hooks=hooks)
    assert kinds(events) == [
        "TrialStarted", "SandboxStarted", "AgentStarted", "EnvironmentReset",
        "ActionTaken", "ActionTaken", "ActionTaken", "StepRewarded", "StepRewarded", "StepRewarded",
        "EpisodeEnded", "AgentFinished", "ProcessesKilled", "VerifierStarted", "VerifierScored",
        "TrialScored", "HindsightCredited", "TrialFinished",
    ]  # fmt: skip
    assert result is not None
    assert (result["passed"], result["rewards"], result["n_steps"]) == (True, {"reward": 1.0}, 3)
    assert result["reward_totals"] == {"v": {"step": 0.75, "hindsight": 0.5}}


async def test_refused_actions_are_observations(tmp_path: Path) -> None:
    """What is wrong with an action is told to the agent, recorded, and rewarded like any step."""
    script = Script(
        Action("add", {"n": "x"}), Action("fly"), Action("fail"), Action("add", {"n": 5})
    )
    async with memory_log() as log:
        events, result, _ = await play(log, tmp_path, script)
    errors = [e.error for e in events if type(e).__name__ == "ActionTaken"]  # type: ignore[union-attr]
    assert "argument 'n'" in errors[0]
    assert "no action 'fly'" in errors[1]
    assert errors[2] == "KeyError: 'nothing there'"
    assert script.seen[3] == {"error": "KeyError: 'nothing there'"}
    assert kinds(events).count("StepRewarded") == 4
    assert result is not None
    assert result["passed"]


@pytest.mark.parametrize(
    ("script", "ended_by", "terminated", "truncated", "answer"),
    [
        (Script(*adds(1), answer="five"), "answer", False, False, "five"),
        (Script(), "answer", False, False, None),
        (Script(*adds(5)), "terminated", True, False, None),
        (Script(*adds(30, 0)), "max_turns", False, True, None),
        (Script("not an action"), "agent_exit", False, False, None),
    ],
)
async def test_how_episodes_end(
    tmp_path: Path, script: Script, ended_by: str, terminated: bool, truncated: bool, answer: Any
) -> None:
    """An episode's end says who ended it, and truncation is told apart from termination."""
    async with memory_log() as log:
        events, result, _ = await play(log, tmp_path, script)
    (end,) = [e for e in events if type(e).__name__ == "EpisodeEnded"]
    (finished,) = [e for e in events if type(e).__name__ == "AgentFinished"]
    assert finished.ended_by == ended_by  # type: ignore[union-attr]
    assert (end.terminated, end.truncated) == (terminated, truncated)  # type: ignore[union-attr]
    assert result is not None
    assert result["answer"] == answer
    assert result["outcome"] == "scored"


def limited(seconds: float) -> EpisodeTask:
    """The task with a limit of time for its agent."""
    return episode_task(environment=Environment([Counter], max_seconds=seconds))


async def test_time_ends_a_policy_that_waits(tmp_path: Path) -> None:
    """An agent that thinks for too long is cut off; what it did until then is judged."""

    class Waits:
        acted = False

        async def act(self, observation: Any, actions: Any) -> Any:
            if self.acted:
                await anyio.sleep_forever()
            self.acted = True
            return Action("add", {"n": 1})

    async with memory_log() as log:
        events, result, _ = await play(log, tmp_path, Waits, task=limited(0.1))
    (finished,) = [e for e in events if isinstance(e, AgentFinished)]
    assert (finished.ended_by, kinds(events).count("ActionTaken")) == ("max_seconds", 1)
    assert result is not None
    assert result["outcome"] == "scored"


async def test_an_action_that_has_begun_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time that runs out in an action ends the episode right behind it, not within it."""
    over = anyio.Event()

    class Acts:
        async def act(self, observation: Any, actions: Any) -> Any:
            if over.is_set():
                await anyio.sleep_forever()
            return Action("add", {"n": 1})

    original = InProcessWorld.act

    async def slow(self: InProcessWorld, *given: Any) -> Any:
        await anyio.sleep(0.2)  # beyond the episode's end
        over.set()
        return await original(self, *given)

    monkeypatch.setattr(InProcessWorld, "act", slow)
    async with memory_log() as log:
        events, _, _ = await play(log, tmp_path, Acts, task=limited(0.1))
    (finished,) = [e for e in events if isinstance(e, AgentFinished)]
    assert (finished.ended_by, kinds(events).count("ActionTaken")) == ("max_seconds", 1)


async def test_a_failing_policy_is_graded(tmp_path: Path) -> None:
    """A policy that raises ends its episode, and what it did until then is judged."""

    class Broken:
        async def act(self, observation: Any, actions: Any) -> Any:
            raise RuntimeError("no idea")

    async with memory_log() as log:
        _, result, _ = await play(log, tmp_path, Broken)
    assert result is not None
    assert (result["error"], result["error_category"]) == ("RuntimeError: no idea", "agent_exit")
    assert result["outcome"] == "scored"


async def test_text_that_is_no_unicode_ends_no_trial(tmp_path: Path) -> None:
    """Lone surrogates in an action, its arguments, a state and an answer are stored as U+FFFD."""
    script = Script(
        Action("write", {"text": "a\ud800"}), Action("fl\udcffy"), *adds(1), answer="b\ud800"
    )
    async with memory_log() as log:
        events, result, _ = await play(log, tmp_path, script)
    first, second, _ = (event for event in events if isinstance(event, ActionTaken))
    assert first.arguments == {"text": "a\ufffd"}
    assert first.states["counter"].full == [{"value": 0, "note": "a\ufffd"}]
    assert "no action 'fl\ufffdy'" in str(second.error)
    assert result is not None
    assert (result["answer"], result["n_steps"], result["outcome"]) == ("b\ufffd", 3, "scored")


@pytest.mark.parametrize("choice", [Action("add", {"n": object()}), Answer(object()), Action(5)])  # type: ignore[arg-type]
async def test_a_choice_that_is_no_data(tmp_path: Path, choice: Any) -> None:
    """It ends the episode as a policy that raises does, and the trial is graded."""
    async with memory_log() as log:
        _, result, _ = await play(log, tmp_path, Script(*adds(1), choice))
    assert result is not None
    assert f"the policy's {type(choice).__name__} is no JSON data" in result["error"]
    assert (result["error_category"], result["outcome"]) == ("agent_exit", "scored")


@pytest.mark.parametrize("more", [0, 20_000], ids=["small", "large"])
async def test_secrets_reach_neither_the_log_nor_hooks(tmp_path: Path, more: int) -> None:
    """They are taken out of arguments, states, errors and answers; a replay sees what hooks saw."""
    secret = 'key-0123"456'
    text = f"my {secret}" + "x" * more
    seen: list[StepData] = []

    def reward(episode: EpisodeData, step: int) -> None:
        seen.append(episode.steps[step])

    async with memory_log() as log:
        _, result, _ = await play(
            log, tmp_path, Script(Action("write", {"text": text}), Action(text), answer=text),
            hooks=TellsHooks(reward=reward), secrets={"A_KEY": secret},
        )  # fmt: skip
        (stream,) = await log.streams("trial/")
        stored = await log.read(stream)
        refs = [ref for event in stored for ref in named_blobs(event.data)]
        blobs = {ref.blob: await log.blobs.get(ref) for ref in refs}
    assert bool(blobs) == bool(more)
    for data in (*blobs.values(), *(event.data.encode() for event in stored)):
        assert b"key-0123" not in data
    told = text.replace(secret, "[redacted:A_KEY]")
    assert (seen[0].arguments, seen[0].states["counter"]["note"]) == ({"text": told}, told)
    assert told in str(seen[1].error)
    replayed = episode_data("t", TaskData(name="count"), stored, blobs)
    assert seen == replayed.steps
    assert replayed.answer == [told]
    assert result is not None


async def test_a_long_error_is_a_blob(tmp_path: Path) -> None:
    """An error over 16 KiB, of an action or of a verifier's question, is one; rewards see it."""
    long = "x" * 20_000
    seen: list[Any] = []

    def reward(episode: EpisodeData, step: int) -> None:
        seen.append(episode.steps[step].error)

    class Asks(TellsHooks):
        async def rewards(
            self, source: Any, episode: EpisodeData, steps: Any, ask: AskApp | None
        ) -> list[RewardGiven]:
            assert ask is not None
            with pytest.raises(QueryRefused):
                await ask("counter", "get", {long: 1})
            return await super().rewards(source, episode, steps, None)

    async with memory_log() as log:
        events, result, _ = await play(
            log, tmp_path, Script(Action(long), *adds(1)), hooks=Asks(reward=reward),
            task=episode_task(sources=[source(queries=True)]),
        )  # fmt: skip
    taken = next(event for event in events if isinstance(event, ActionTaken))
    asked = next(event for event in events if isinstance(event, AppQueried))
    assert isinstance(taken.error, BlobRef)
    assert isinstance(asked.error, BlobRef)
    assert long in seen[0]
    assert result is not None
    assert result["outcome"] == "scored"


@pytest.mark.parametrize("hook", ["reset", "terminated", "policy"])
async def test_a_long_fault_is_a_blob(tmp_path: Path, hook: str) -> None:
    """What an app's hook or the policy raised, over 16 KiB, is one, in the log and in the files."""
    long = "x" * 20_000

    def fail(*_: Any) -> Any:
        raise RuntimeError(long)

    class Policy:
        act = fail if hook == "policy" else Script(*adds(1)).act

    apps = [type("Breaks", (Counter,), {} if hook == "policy" else {hook: fail})]
    task = episode_task(environment=Environment(apps), sources=[source(reward=None)])
    async with memory_log() as log:
        events, result, _ = await play(log, tmp_path, Policy, task=task)
        told = [
            e.error for e in events if isinstance(e, SandboxFailed | AgentFailed | AgentFinished)
        ]
        (ref,) = told
        assert isinstance(ref, BlobRef)
        assert long.encode() in await log.blobs.get(ref)
    assert result is not None
    assert {"$blob": ref.blob, "size": ref.size} == result["error"]


async def test_faults_of_rewards_fail_no_action(tmp_path: Path) -> None:
    """A reward that raises gives nothing on that step, and the error is recorded with its line."""
    fault = HookFault(error="KeyError: 'done'", line="verify.py:14")

    def reward(episode: Any, step: int) -> float | HookFault | None:
        return [0.5, fault, None, 0.25][step]

    async with memory_log() as log:
        events, result, _ = await play(
            log, tmp_path, Script(*adds(3), *adds(1, 2)), hooks=TellsHooks(reward=reward)
        )
    assert kinds(events).count("StepRewarded") == 2
    assert kinds(events).count("StepRewardFailed") == 1
    assert result is not None
    (error,) = result["reward_errors"]
    assert error["steps"] == 1
    assert "KeyError: 'done' (at verify.py:14)" in error["error"]
    assert result["passed"]


@pytest.mark.parametrize(
    ("fault", "category"),
    [
        (HookFault(error="ZeroDivisionError: x", line="verify.py:3"), "verifier_failed"),
        (HookFault(error="ran past 60 s", timed_out=True), "verifier_timeout"),
    ],
)
async def test_a_check_that_fails_leaves_the_trial_unscored(
    tmp_path: Path, fault: HookFault, category: str
) -> None:
    """A check that raises or never ends is the verifier's fault: unscored, and not run again."""
    async with memory_log() as log:
        events, result, _ = await play(
            log, tmp_path, Script(*adds(5)), hooks=TellsHooks(check=lambda episode: fault)
        )
    assert result is not None
    assert (result["outcome"], result["verifier_error_category"]) == ("unscored", category)
    shown = f"{fault.error} (at {fault.line})" if fault.line else fault.error
    assert result["verifier_error"] == shown
    assert result["rewards"] is None
    assert "HindsightCredited" not in kinds(events)


async def test_several_verifiers_are_weighted(tmp_path: Path) -> None:
    """The score is the weighted mean of those that score; one without a check only rewards."""
    sources = [
        source("a", weight=3.0), source("b", weight=1.0), source("only-rewards", check=None),
    ]  # fmt: skip
    answers = iter([1.0, 0.0])
    async with memory_log() as log:
        _, result, _ = await play(
            log, tmp_path, Script(*adds(5)), task=episode_task(sources=sources),
            hooks=TellsHooks(check=lambda episode: next(answers)),
        )  # fmt: skip
    assert result is not None
    assert (result["score"], result["passed"]) == (0.75, False)
    assert [v["name"] for v in result["verifiers"]] == ["a", "b"]
    assert set(result["reward_totals"]) == {"a", "b", "only-rewards"}


@pytest.mark.parametrize(
    ("scores", "told"),
    [((1.8, 0.2), ["a"]), ((-0.5, 1.0), ["a"]), ((1.0, 0.0), []), ((1.8, None), [])],
)
@pytest.mark.parametrize("queries", [False, True])
async def test_a_score_that_can_outvote_is_told(
    tmp_path: Path, scores: tuple[float, float | None], told: list[str], queries: bool
) -> None:
    """Beside another verifier a check's score outside 0 to 1 counts, and is a warning; alone it
    is none."""
    names = ["a", "b"] if scores[1] is not None else ["a"]
    task = episode_task(sources=[source(name, queries=queries) for name in names])
    answers = iter(score for score in scores if score is not None)
    async with memory_log() as log:
        _, result, _ = await play(
            log, tmp_path, Script(*adds(5)), task=task,
            hooks=TellsHooks(check=lambda episode: next(answers)),
        )  # fmt: skip
    assert result is not None
    found = [w for w in result["warnings"] if w["code"] == "score_out_of_range"]
    assert [w["message"].split()[1] for w in found] == told
    assert result["score"] == pytest.approx(sum(s or 0.0 for s in scores) / len(names))


async def test_whose_error_it_is(tmp_path: Path) -> None:
    """Of several verifiers the one that failed is named, as it runs and as it is shown later; one
    that is alone is not."""
    fault = HookFault(error="KeyError: 'nope'", line="verify.py:2")
    for names in (["a", "b"], ["b"]):
        answers: dict[str, Any] = {"a": 1.0, "b": fault}
        left = iter(names)
        folder = tmp_path / "".join(names)
        async with memory_log() as log:
            _, _, watched = await play(
                log, folder, Script(*adds(5)),
                task=episode_task(sources=[source(name) for name in names]),
                hooks=TellsHooks(check=lambda episode, a=answers, n=left: a[next(n)]),  # type: ignore[misc]
            )  # fmt: skip
            (job,) = await log.streams("job/")
            (row,) = (await read_job(log, job.removeprefix("job/"))).ended
        (ended,) = [report for report in watched.reports if isinstance(report, TrialEnded)]
        assert ended.verifier == row.verifier == ("b" if len(names) > 1 else None)


async def test_queries_are_answered_while_the_world_lives(tmp_path: Path) -> None:
    """A hook's question is answered by the app and recorded; one that changes state is refused."""
    hooks = TellsHooks(question=("counter", "get", {}))
    task = episode_task(sources=[source(queries=True)])
    async with memory_log() as log:
        events, _, _ = await play(
            log, tmp_path, Script(*adds(2), *adds(1, 3)), task=task, hooks=hooks
        )
    assert hooks.answers == [1, 2, 5, 5]
    asked = [e for e in events if type(e).__name__ == "AppQueried"]
    assert [q.answer for q in asked] == [1, 2, 5, 5]  # type: ignore[union-attr]
    assert {q.digest for q in asked} == {"sha256:1"}  # type: ignore[union-attr]
    assert [q.step is not None for q in asked] == [True, True, True, False]  # type: ignore[union-attr]


async def test_a_person_keeps_the_trial_waiting(tmp_path: Path) -> None:
    """With a human verifier the trial waits: no result yet, and the job ends all the same."""
    person = HumanVerifier(
        "customer", instructions="Read it.",
        criteria=[RubricCriterion(name="helpful", description="Is it?", max_score=2.0)],
    )  # fmt: skip
    task = episode_task(people=[person], digests={"customer": "sha256:2"})
    async with memory_log() as log:
        events, result, _ = await play(log, tmp_path, Script(*adds(5)), task=task)
        (job,) = await log.streams("job/")
        assert (await log.read(job))[-1].kind == "JobFinished"
        summary = json.loads((tmp_path / job.removeprefix("job/") / "summary.json").read_bytes())
    assert kinds(events)[-1] == "HumanReviewRequested"
    assert result is None
    assert summary["counts"]["awaiting_review"] == 1


async def test_the_same_seed_plays_the_same_world(tmp_path: Path) -> None:
    """A seeded world is replayed exactly by the same seed, which the log has."""

    class Dice(App[msgspec.defstruct("Nothing", [("rolled", int, 0)])]):  # type: ignore[misc]
        """Rolls."""

        roll = Counter.write

        def reset(self, task: TaskView) -> int:
            """The first roll."""
            return self.rng.randint(1, 10**9)

    observed: list[Any] = []
    for number in range(2):
        async with memory_log() as log:
            task = episode_task(environment=Environment([Dice]), sources=[source(reward=None)])
            events, result, _ = await play(log, tmp_path / str(number), Script(), task=task)
            (reset,) = [e for e in events if type(e).__name__ == "EnvironmentReset"]
            assert result is not None
            assert result["seed"] == reset.seed  # type: ignore[union-attr]
            observed.append(reset.observation)  # type: ignore[union-attr]
    assert observed[0] == observed[1]


async def test_a_replay_gives_what_the_hooks_were_given(tmp_path: Path) -> None:
    """The episode folded from the log is the one that the check saw, large states included."""
    seen: list[Any] = []

    def check(episode: Any) -> float:
        seen.append((episode.trajectory, episode.state, episode.answer))
        return 1.0

    script = Script(
        Action("write", {"text": "x" * 40_000}), *adds(60, 0), Action("write", {"text": "$é"}),
        answer={"$k": 1},
    )  # fmt: skip
    task = episode_task(environment=Environment([Counter], max_turns=100))
    from trialog.engine.authoring.views import Episode

    async with memory_log() as log:
        await play(log, tmp_path, script, task=task, hooks=TellsHooks(check=check))
        (stream,) = await log.streams("trial/")
        events = await log.read(stream)
        blobs = {ref.blob: await log.blobs.get(ref) for ref in episode_blobs(events)}
        assert blobs
        data = msgspec.convert(msgspec.structs.asdict(task.view), TaskData)
        replayed = Episode(episode_data(stream.removeprefix("trial/"), data, events, blobs))
    assert seen == [(replayed.trajectory, replayed.state, replayed.answer)]
    assert replayed.state == {"value": 0, "note": "$é"}


async def test_an_app_that_breaks_is_the_trials_error(tmp_path: Path) -> None:
    """An app whose own hook raises ends its trial as errored, with the app named."""

    class Broken(Counter):
        """Breaks when looked at."""

        name = "broken"

        def snapshot(self) -> Any:
            """Works once."""
            if self.state.value:
                raise RuntimeError("torn")
            return super().snapshot()

    task = episode_task(environment=Environment([Broken]))
    async with memory_log() as log:
        _, result, watched = await play(log, tmp_path, Script(*adds(1)), task=task)
    assert result is not None
    assert (result["outcome"], result["error_category"]) == ("errored", "app_failed")
    assert "app 'broken': snapshot raised RuntimeError: torn" in result["error"]
    assert watched.of(TrialEnded)


@pytest.mark.parametrize("control", ["live", "owned"])
async def test_verdicts_that_rest_on_a_shared_state_are_marked(
    tmp_path: Path, control: Any
) -> None:
    """A check that looks at a shared app's state is marked, and so is a judge, who is shown it; a
    check of the answer is not."""
    shared = type("Shared", (Counter,), {"name": "counter", "control": control})
    task = episode_task(
        environment=Environment([shared]), sources=[source("looks"), source("answers")],
        judges=[verifier(samples=1)], digests={"quality": "sha256:3"},
    )  # fmt: skip
    looks = iter([True, False])

    def check(episode: Any) -> float:
        return float((episode.state if next(looks) else episode.answer) is not None)

    async with memory_log() as log:
        _, result, _ = await play(
            log, tmp_path, Script(*adds(5)), task=task, hooks=TellsHooks(check=check),
            judge=FakeClient(said()),
        )  # fmt: skip
    assert result is not None
    assert {v["name"]: v["live_state"] for v in result["verifiers"]} == {
        "looks": control == "live", "answers": False, "quality": control == "live",
    }  # fmt: skip


async def test_an_episode_that_runs_out_of_time(tmp_path: Path) -> None:
    """After max_seconds the episode is cut off, truncated, and what was done is judged; an action
    that has begun by then is recorded with what came of it."""

    class Slow:
        def __init__(self) -> None:
            self.acted = 0

        async def act(self, observation: Any, actions: Any) -> Any:
            if self.acted == 2:
                await anyio.sleep_forever()
            self.acted += 1
            return Action("nap" if self.acted == 2 else "add", {"n": 1})

    class Napping(Counter):
        """One action takes longer than the episode may."""

        name = "counter"

        @action
        def nap(self, n: int) -> str:
            """Take longer than that."""
            until = time.monotonic() + 0.3
            while time.monotonic() < until:
                pass
            return "slept"

    policy = Slow()
    task = episode_task(environment=Environment([Napping], max_seconds=0.2))
    async with memory_log() as log:
        with anyio.fail_after(30):
            events, result, _ = await play(log, tmp_path, policy, task=task)
    assert [e.observation for e in events if isinstance(e, ActionTaken)] == [1, "slept"]
    (end,) = [e for e in events if isinstance(e, EpisodeEnded)]
    (finished,) = [e for e in events if isinstance(e, AgentFinished)]
    assert (end.terminated, end.truncated, end.reason) == (False, True, "max_seconds")
    assert finished.ended_by == "max_seconds"
    assert result is not None
    assert (result["outcome"], result["n_steps"]) == ("scored", 2)


class Tuned(Script):
    """Adds as its settings say."""

    def __init__(self, parameters: dict[str, Any], model: str = "none") -> None:
        self.told = (model, parameters)
        super().__init__(Action("add", {"n": parameters.get("by", 1)}))


@pytest.mark.parametrize(
    ("models", "rows", "found"),
    [([], [], 1), ([], [{"by": 4}], 4), (["m"], [{"by": 2, "t": 0.5}], 2)],
)
async def test_a_policy_is_given_the_settings_that_it_names(
    tmp_path: Path, models: list[str], rows: list[dict[str, Any]], found: int
) -> None:
    """Model and parameters of the trial's slot; nobody is told that they make no difference."""
    made: list[Tuned] = []

    class Policy(Tuned):
        def __init__(self, parameters: dict[str, Any], model: str = "none") -> None:
            super().__init__(parameters, model)
            made.append(self)

    config = JobConfig(tasks=["count"], agents=["policy"], seed=3, models=models, parameters=rows)
    async with memory_log() as log:
        events, _, watched = await play(log, tmp_path, Policy, config=config)
    (acted,) = [event for event in events if isinstance(event, ActionTaken)]
    assert acted.arguments == {"n": found}
    assert [one.told for one in made] == [("".join(models) or "none", (rows or [{}])[0])]
    assert watched.of(Notice) == []


async def test_a_policy_that_names_no_settings(tmp_path: Path) -> None:
    """It plays without them, and whoever gave them is told that they make no difference."""
    config = JobConfig(
        tasks=["count"], agents=["policy"], seed=3, parameters=[{"by": 1}, {"by": 4}], attempts=1
    )
    async with memory_log() as log:
        made = msgspec.structs.replace(
            services(log, FakeBackend(), tmp_path),
            hooks=TellsHooks(),
            policies={"policy": PolicyAgent("policy", Once)},
        )
        watched = Watched()
        await run_job(made, config, [episode_task()], watched)
        trials = await log.streams("trial/")
    assert len(trials) == 2
    said = "policy uses no parameters: its trials with by=1 and by=4 are alike"
    assert [notice.message for notice in watched.of(Notice)] == [said]


class Once:
    """Adds 1, whatever it is to do."""

    async def act(self, observation: Any, actions: Any) -> Action | Answer:
        """One step and the answer."""
        return Answer(1)
