"""Jobs of the chat agent: what is refused, environments, failures, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.counters import Counter, Script, TellsHooks, episode_task
from helpers.fakes import FakeBackend
from helpers.jobs import Watched, services, tasks
from helpers.judges import Answer, completion
from helpers.models import FakeModel, calling
from trialog.engine.authoring.environment import Environment
from trialog.engine.errors import ConfigError
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.policies import PolicyAgent
from trialog.engine.job.report import Notice
from trialog.engine.models.client import CallFailed
from trialog.engine.models.prices import Price
from trialog.events.codec import decode
from trialog.events.kinds import ActionTaken, AgentFinished, AgentMessage, ModelCalled
from trialog.events.log import EventLog
from trialog.events.open import memory_log

PRICES = {"m": Price(input=1.0, output=2.0)}


class Played:
    """An environment trial of a model's."""

    def __init__(self, events: list[Any], folder: Path, model: FakeModel) -> None:
        self.events = events
        self.model = model
        self.result: Any = json.loads((folder / "result.json").read_bytes())
        self.trajectory: Any = json.loads((folder / "trajectory.json").read_bytes())

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


async def play(
    log: EventLog, folder: Path, *replies: Answer | CallFailed, task: Any = None, **config: Any
) -> Played:
    """Let a model act in an environment."""
    model = FakeModel(*replies)
    made = msgspec.structs.replace(
        services(log, FakeBackend(), folder), hooks=TellsHooks(), model_client=model
    )
    given = JobConfig(tasks=["count"], agents=["chat"], models=["m"], seed=3, retries=0, **config)
    result = await run_job(made, given, [task or episode_task()], Watched())
    (stream,) = await log.streams("trial/")
    events = [decode(event) for event in await log.read(stream)]
    return Played(events, result.folder / stream.removeprefix("trial/"), model)


async def test_a_model_acts_by_an_environments_actions(tmp_path: Path) -> None:
    """Actions are its tools; each step names its calls, and the last word is the answer."""
    async with memory_log() as log:
        done = await play(
            log, tmp_path, calling(("add", {"n": 1}), ("add", {"n": 2})), completion("three"),
            prices=PRICES,
        )  # fmt: skip
    first, second = done.of(ActionTaken)
    assert (("counter", "add", "c1"), "c2") == (
        (first.app, first.action, first.tool_call), second.tool_call,
    )  # fmt: skip
    assert first.model_call == second.model_call is not None
    [finished] = done.of(AgentFinished)
    assert "answer" == finished.ended_by
    assert ("three", 2, 2) == (
        done.result["answer"], done.result["n_steps"], done.result["n_tool_calls"],
    )  # fmt: skip
    assert {
        "model_calls": 2, "input_tokens": 240, "output_tokens": 60, "cached_tokens": None,
        "cost_usd": 0.00036,
    } == done.result["usage"]  # fmt: skip
    tool = next(t for t in done.model.requests[0]["tools"] if t["function"]["name"] == "add")
    assert {"n"} == set(tool["function"]["parameters"]["properties"])
    acted = next(step for step in done.trajectory["steps"] if step.get("tool_calls"))
    assert ["c1", "c2"] == [call["tool_call_id"] for call in acted["tool_calls"]]
    assert 120 == acted["metrics"]["prompt_tokens"]


async def test_wrong_calls_in_an_environment(tmp_path: Path) -> None:
    """An unknown tool and broken JSON are answered and no step; wrong arguments are the app's."""
    async with memory_log() as log:
        done = await play(
            log, tmp_path, calling(("fly", {})), calling(("add", "{")),
            calling(("add", {"n": "x"})), completion(""),
        )  # fmt: skip
    told = [message.text for message in done.of(AgentMessage) if message.role == "tool"]
    assert ["there is no tool 'fly'" in told[0], "no JSON object" in told[1]] == [True, True]
    [step] = done.of(ActionTaken)
    assert "argument 'n'" in step.error
    assert "argument 'n'" in done.model.heard("c1")
    assert None is done.result["answer"]


async def test_limits_in_an_environment(tmp_path: Path) -> None:
    """A limit of the model's truncates the episode, and it is graded."""
    async with memory_log() as log:
        done = await play(log, tmp_path, calling(("add", {"n": 0})), max_turns=2)
    [finished] = done.of(AgentFinished)
    assert ("max_turns", "max_turns") == (finished.ended_by, finished.error_category)
    assert "scored" == done.result["outcome"]
    assert 2 == len(done.of(ModelCalled))


async def test_the_environments_own_limits(tmp_path: Path) -> None:
    """Its max_cost and its max_seconds hold as the job's do, whichever is less."""
    for number, (limits, config, ended_by) in enumerate([
        (Environment([Counter], name="e", max_cost=0.0003), {}, "max_cost"),
        (Environment([Counter], name="e", max_cost=0.0003), {"max_cost": 5.0}, "max_cost"),
        (Environment([Counter], name="e", max_cost=5.0), {"max_cost": 0.0003}, "max_cost"),
        (Environment([Counter], name="e", max_turns=2), {}, "max_turns"),
    ]):  # fmt: skip
        task = episode_task(environment=limits)
        async with memory_log() as log:
            done = await play(
                log, tmp_path / str(number), calling(("add", {"n": 0})), task=task, prices=PRICES,
                **config,
            )  # fmt: skip
        [finished] = done.of(AgentFinished)
        assert (ended_by, 2) == (finished.ended_by, len(done.of(ModelCalled)))


async def test_a_cost_limit_that_can_not_be_held(tmp_path: Path) -> None:
    """Nobody sees what a policy's own calls cost, so a job says that the limit does not hold."""
    capped = episode_task(environment=Environment([Counter], name="e", max_cost=1.0))
    policies = {"mine": PolicyAgent("mine", Script)}
    watched = Watched()
    async with memory_log() as log:
        made = msgspec.structs.replace(
            services(log, FakeBackend(), tmp_path), hooks=TellsHooks(), policies=policies
        )
        await run_job(made, JobConfig(tasks=["count"], agents=["mine", "nop"]), [capped], watched)
    told = [note.message for note in watched.of(Notice) if isinstance(note, Notice)]
    assert [
        "mine: nobody sees what its model calls cost, so the max_cost of task count's environment "
        "does not hold for it"
    ] == told


async def test_a_model_that_fails_in_an_environment(tmp_path: Path) -> None:
    """The trial is errored, and `trialog explain` knows the category."""
    failed = CallFailed("the endpoint can't be reached: no", "unreachable")
    async with memory_log() as log:
        done = await play(log, tmp_path, calling(("add", {"n": 1})), failed)
    assert ("errored", "model_failed") == (done.result["outcome"], done.result["error_category"])
    assert 1 == len(done.of(ActionTaken))


async def refused(folder: Path, **config: Any) -> str:
    """Why a job can't start; nothing of it is in the log."""
    environ = config.pop("environ", {"OPENAI_API_KEY": "k"})
    given: dict[str, Any] = {"tasks": ["t"], "agents": ["chat"], "models": ["m"]}
    chosen = config.pop("chosen", None) or await tasks(folder, 1)
    async with memory_log() as log:
        made = services(log, FakeBackend(), folder / "jobs", environ=environ)
        with pytest.raises(ConfigError) as error:
            await run_job(made, JobConfig(**given | config), chosen, Watched())
        assert [] == await log.streams("")
    return str(error.value)


async def test_what_a_job_of_chat_can_not_do_without(tmp_path: Path) -> None:
    """A model, a key, a price for a cost limit: each is asked for before anything starts."""
    assert "--agent chat: chat needs a model; name it with --model" == await refused(
        tmp_path / "a", models=[]
    )
    assert "OPENAI_API_KEY is not set" in await refused(tmp_path / "b", environ={})
    assert "there is none for m; give --prices FILE" in await refused(tmp_path / "c", max_cost=1.0)
    assert "--param: chat sends messages itself" in await refused(
        tmp_path / "d", parameters=[{"messages": []}]
    )
    assert "--param: stream says whether replies are streamed" in await refused(
        tmp_path / "s", parameters=[{"stream": "yes"}]
    )
    capped = episode_task(environment=Environment(name="e", max_cost=1.0))
    assert "the cost limit of task count's environment" in await refused(
        tmp_path / "e", chosen=[capped]
    )
