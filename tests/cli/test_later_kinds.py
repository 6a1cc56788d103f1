"""A log that a later release has written to is still shown, as far as this release knows it."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from anyio import to_thread

from helpers.given import agent_finished, fill, job_started, output, scheduled, started
from helpers.logs import append_future
from trialog.engine.console.outputs import show_output
from trialog.engine.console.replaying import replay_trial
from trialog.engine.console.session import Request
from trialog.engine.console.showing import list_jobs
from trialog.engine.console.terminal import Terminal
from trialog.engine.job.interruption import Interruption
from trialog.engine.job.record import JobRecord
from trialog.events.clock import RandomIds, SystemClock
from trialog.events.envelope import new_event
from trialog.events.kinds import JobCancelled, JobFinished, TrialFinished
from trialog.events.open import open_log

TRIAL = "t__00000001"


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: list[str]
    err: str


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A log with two jobs; in one of them a trial has printed something and goes on."""
    path = tmp_path / "trialog.db"
    going_on = [started(), agent_finished(output=output(b"hello\n"))]
    other = [job_started(job="k", folder="k"), JobFinished(root="", heads=[], trials=0)]
    async with open_log(path) as log:
        await log.blobs.put(b"hello\n")
        await fill(
            log,
            {f"trial/{TRIAL}": going_on, "job/j": [job_started(), scheduled()], "job/k": other},
        )
    return path


async def say(
    path: Path, command: Callable[..., Awaitable[int]], *words: Any, **named: Any
) -> Said:
    """Run a command on the log."""
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(environ={"NO_COLOR": "1"}, out=out, err=err)
    code = await command(Request(terminal, path.parent, {}, str(path), None), *words, **named)
    return Said(code, out.getvalue().splitlines(), err.getvalue())


async def later(path: Path, stream: str) -> None:
    """A later release appends an event that may not be passed over."""
    await to_thread.run_sync(append_future, path, stream)


async def finish(path: Path, version: int) -> None:
    """The trial's end comes."""
    async with open_log(path) as log:
        end = new_event(TrialFinished(outcome="cancelled"), SystemClock(), RandomIds())
        await log.append(f"trial/{TRIAL}", version, [end])


async def test_a_replay_shows_them(path: Path) -> None:
    """Each as unknown, and all that come after it."""
    await later(path, f"trial/{TRIAL}")
    await finish(path, 3)

    said = await say(path, replay_trial, TRIAL, at=None, follow=False)

    assert 0 == said.code
    assert ["TrialStarted", "AgentFinished", "FutureThing", "TrialFinished"] == [
        line.split()[2] for line in said.out
    ]
    assert "unknown to this release" in said.out[2]


async def test_a_follower_goes_on(path: Path) -> None:
    """Past those of the trial and of its job, to the trial's end."""
    await later(path, f"trial/{TRIAL}")
    await later(path, "job/j")
    await finish(path, 3)

    with anyio.fail_after(20):
        said = await say(path, replay_trial, TRIAL, at=None, follow=True)

    assert "TrialFinished" in said.out[-1]
    assert "FutureThing" in said.out[-2]


@pytest.mark.parametrize("follow", [False, True])
async def test_what_was_printed_is_shown(path: Path, follow: bool) -> None:
    """An agent's output does not hang on events that are not known."""
    await later(path, f"trial/{TRIAL}")
    await later(path, "job/j")

    with anyio.fail_after(20):
        said = await say(path, show_output, TRIAL, verifier=False, follow=follow)

    assert ["hello"] == said.out


async def test_the_other_jobs_are_listed(path: Path) -> None:
    """A job that can't be read is named with the reason, and hides no other."""
    assert 0 == (await say(path, list_jobs)).code
    await later(path, "job/j")

    said = await say(path, list_jobs)

    assert 1 == said.code
    assert ["JOB", "k"] == [line.split()[0] for line in said.out]
    assert "error: job j: " in said.err
    assert "kind 'FutureThing'" in said.err


async def test_a_running_job_hears_of_its_cancellation(path: Path) -> None:
    """It does not end because a later release told its stream something else before."""
    told: list[Any] = []
    async with open_log(path) as log:
        record = JobRecord(log, "j", clock=SystemClock(), ids=RandomIds(), version=2)
        interruption = Interruption(record, told.append)
        await later(path, "job/j")
        async with interruption.listening(log, 2):
            with interruption.scope:
                cancel = new_event(JobCancelled(), SystemClock(), RandomIds())
                await log.append("job/j", 3, [cancel])
                with anyio.fail_after(20):
                    await anyio.sleep_forever()

    assert interruption.cancelled
    assert interruption.scope.cancelled_caught
