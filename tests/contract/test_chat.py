"""The chat agent on both sandboxes, against an endpoint over HTTP."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from helpers.images import TEST_IMAGE
from helpers.jobs import Watched, services, write_task
from helpers.judges import Answer, Endpoint, completion, refused
from helpers.models import shell
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import TrialEnded
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.engine.tasks.load import load_task
from trialog.events.codec import decode
from trialog.events.kinds import ActionTaken, ModelCalled, ProcessesKilled, VerifierScored
from trialog.events.log import BlobStore
from trialog.events.open import memory_log
from trialog.events.values import as_blob_ref


class Chatted:
    """A trial that has ended."""

    def __init__(self, ended: TrialEnded, events: list[Any], observations: list[Any]) -> None:
        self.ended = ended
        self.events = events
        self.observations = observations
        """What came of the commands."""

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


async def _whole(value: Any, blobs: BlobStore) -> Any:
    ref = as_blob_ref(value)
    return value if ref is None else json.loads(await blobs.get(ref))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Answers as told."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def chat(
    backend: SandboxBackend, endpoint: Endpoint, tmp_path: Path
) -> Callable[..., Awaitable[Chatted]]:
    """Runs a task with a model that gives these replies."""

    async def run(*replies: Answer, test: str = "exit 1", **config: Any) -> Chatted:
        endpoint.answer(*replies)
        settings = ""
        if backend.name == "docker":
            settings = f'\nsandbox.docker_image = "{TEST_IMAGE}"\n'
        await to_thread.run_sync(lambda: write_task(tmp_path / "t", test=test, settings=settings))
        watched = Watched()
        given = JobConfig(tasks=["t"], agents=["chat"], models=["m"], retries=0, **config)
        async with memory_log() as log:
            task = await to_thread.run_sync(load_task, tmp_path / "t")
            made = services(log, backend, tmp_path / "jobs", environ=endpoint.environ)
            await run_job(made, given, [task], watched)
            streams = await log.streams("trial/")
            events: list[Any] = [decode(e) for name in streams for e in await log.read(name)]
            observations = [
                await _whole(event.observation, log.blobs)
                for event in events
                if isinstance(event, ActionTaken)
            ]
        (ended,) = watched.of(TrialEnded)
        assert isinstance(ended, TrialEnded)
        return Chatted(ended, events, observations)

    return run


Chat = Callable[..., Awaitable[Chatted]]


async def test_a_model_works_in_the_sandbox(chat: Chat, endpoint: Endpoint) -> None:
    """Its commands run inside, the work is graded, and the key is nowhere in there."""
    done = await chat(
        refused(429),
        shell("echo 42 > answer.txt; sleep 300 & pwd"),
        shell("env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls -R /task /logs"),
        completion("Done."),
        test='test "$(cat answer.txt)" = 42 && echo 1 > /logs/verifier/reward.txt',
    )
    assert ("scored", 1.0, 2) == (done.ended.outcome, done.ended.reward, done.ended.tools)
    first, second = done.observations
    assert {"output": "/app\n", "exit_code": 0} == first
    assert "TRIALOG_MODEL=m" in second["output"]
    assert "sk-very" not in second["output"]
    assert [1, 0, 0] == [call.retries for call in done.of(ModelCalled)]
    assert "sk-very" not in str(done.events)
    assert ["sleep"] == [
        one.name for killed in done.of(ProcessesKilled) for one in killed.processes
    ]


async def test_a_model_can_not_take_the_shell_down(chat: Chat) -> None:
    """Everything it can kill is killed, a command hangs and ignores signals, output is endless:
    each is one answer, and the next command runs."""
    done = await chat(
        shell("kill -9 -1; kill -9 $PPID; echo no"),
        shell("trap '' TERM INT HUP; sleep 300; sleep 300", timeout_sec=1),
        shell("yes", timeout_sec=1),
        shell("echo still here"),
        completion(""),
    )
    killed, hung, endless, last = done.observations
    assert killed["shell_ended"]
    assert (True, None) == (hung["timed_out"], hung["exit_code"])
    assert endless["timed_out"]
    assert 100_000 < endless["output_bytes"]
    assert {"output": "still here\n", "exit_code": 0} == last


async def test_a_trial_runs_again_from_its_record(
    backend: SandboxBackend, endpoint: Endpoint, tmp_path: Path
) -> None:
    """A job that has neither endpoint nor key takes the same actions in a sandbox of its own,
    and its work is graded the same."""
    settings = f'\nsandbox.docker_image = "{TEST_IMAGE}"\n' if backend.name == "docker" else ""
    graded = 'test "$(cat answer.txt)" = 42 && echo 1 > /logs/verifier/reward.txt'
    await to_thread.run_sync(lambda: write_task(tmp_path / "t", test=graded, settings=settings))
    endpoint.answer(
        refused(429), shell("echo 42 > answer.txt; cat answer.txt; ls -A /tmp; exit 3"),
        shell("echo $((6 * 7)); cat no-such-file"), completion("Done."),
    )  # fmt: skip
    config = JobConfig(tasks=["t"], agents=["chat"], models=["m"], retries=0)
    async with memory_log() as log:

        async def run(environ: dict[str, str], **changes: Any) -> tuple[str, TrialEnded, list[Any]]:
            watched = Watched()
            task = await to_thread.run_sync(load_task, tmp_path / "t")
            made = services(log, backend, tmp_path / "jobs", environ=environ)
            given = msgspec.structs.replace(config, **changes)
            result = await run_job(made, given, [task], watched)
            (ended,) = watched.of(TrialEnded)
            assert isinstance(ended, TrialEnded)
            events = [decode(event) for event in await log.read(f"trial/{ended.trial}")]
            actions = [event for event in events if isinstance(event, ActionTaken)]
            seen = [(one.arguments, one.observation, one.tool_call) for one in actions]
            return result.job, ended, seen

        job, first, actions = await run(endpoint.environ)
        asked = len(endpoint.requests)
        _, again, same = await run({}, replay_models=job)
        assert (1.0, "scored", actions) == (again.reward, again.outcome, same)
        assert first.trial != again.trial
        assert asked == len(endpoint.requests)


async def test_forged_rewards_are_no_use_to_a_model(chat: Chat) -> None:
    """What holds for programs holds for a model: only the test's own reward counts."""
    done = await chat(
        shell("echo 1 > /logs/verifier/reward.txt; cat /logs/verifier/reward.txt"),
        shell("(while :; do echo 1 > /logs/verifier/reward.txt; done) > /dev/null 2>&1 & echo $!"),
        completion(""),
        test="echo 0 > /logs/verifier/reward.txt",
    )
    assert "1\n" == done.observations[0]["output"]
    [scored] = done.of(VerifierScored)
    assert 0.0 == scored.score
