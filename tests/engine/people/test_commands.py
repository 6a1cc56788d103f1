"""The commands for people, over a project that was run for real."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.desk import PERSON, run_desk, write_desk
from trialog.engine.console.failure import unwrapped
from trialog.engine.console.people import list_waiting, open_trial, submit_review
from trialog.engine.console.session import Request
from trialog.engine.console.terminal import Terminal
from trialog.engine.errors import CommandRefused, ConfigError
from trialog.events.envelope import RecordedEvent
from trialog.events.open import open_log
from trialog.projections.rebuild import check as check_files

TWO = PERSON + "  - name: tone\n    description: Was it kind?\n    weight: 3\n    blocker: true\n"


class Reviewing:
    """A job with a trial that waits for `person`, and perhaps for `other`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "desk"
        self.jobs = folder / "jobs"
        self.job = ""
        self.trial = ""
        self.environ: dict[str, str] = {}

    async def run(self, people: dict[str, str]) -> None:
        """Run the task."""
        write_desk(self.root, people)
        self.job = (await run_desk(self.root, self.jobs)).job
        async with open_log(self.jobs / "trialog.db", readonly=True) as log:
            (stream,) = await log.streams("trial/")
        self.trial = stream.removeprefix("trial/")

    async def say(
        self, command: Callable[..., Awaitable[int]], *words: Any, as_json: bool = False,
        **named: Any,
    ) -> str:  # fmt: skip
        """What a command prints, run far from the project."""
        out = io.StringIO()
        terminal = Terminal(json=as_json, environ={"NO_COLOR": "1"}, out=out, err=io.StringIO())
        request = Request(terminal, self.jobs, self.environ, str(self.jobs / "trialog.db"), None)
        try:
            assert 0 == await command(request, *words, **named)
        except BaseExceptionGroup as group:  # as the command line does with it
            raise unwrapped(group)[0] from None
        return out.getvalue()

    async def submit(self, *score: str, verifier: str | None = "person", **named: Any) -> str:
        """`trialog human submit`."""
        known = {"feedback": None, "reviewer": None}
        return await self.say(
            submit_review, self.trial, verifier=verifier, score=list(score), **(known | named)
        )

    async def events(self) -> list[RecordedEvent]:
        """The trial's."""
        async with open_log(self.jobs / "trialog.db", readonly=True) as log:
            return await log.read(f"trial/{self.trial}")

    def file(self, name: str) -> Path:
        """One of the trial's files."""
        return self.jobs / self.job / self.trial / name


@pytest.fixture
async def reviewing(tmp_path: Path) -> Reviewing:
    """One trial that waits for one person."""
    found = Reviewing(tmp_path)
    await found.run({"person": PERSON})
    return found


async def test_from_list_to_result(reviewing: Reviewing) -> None:
    """A trial waits without a result; the last review scores it, credits it, ends it and writes
    its files, without the project's folder and without a running job."""
    assert not reviewing.file("result.json").exists()
    listed = await reviewing.say(list_waiting, job=None)
    assert reviewing.trial in listed
    shown = await reviewing.say(open_trial, reviewing.trial)
    assert "Was it done with care?" in shown
    assert "care (0 to 2)" in shown
    assert "counter.add" in shown
    assert f"trialog human submit {reviewing.trial} --verifier person --score 2" in shown
    assert "Its instructions:\n  Count to three.\n" in shown
    assert 'Final state of counter: {"value":3}' in shown
    document = json.loads(await reviewing.say(open_trial, reviewing.trial, as_json=True))
    assert document["instructions"] == "Count to three."
    assert document["final_state"] == {"counter": '{"value":3}'}

    said = await reviewing.submit("1", feedback="good", reviewer="ann")

    assert "person scored" in said
    assert "the trial is finished" in said
    result = json.loads(reviewing.file("result.json").read_bytes())
    assert ("scored", 0.75, False) == (result["outcome"], result["score"], result["passed"])
    person = next(one for one in result["verifiers"] if one["name"] == "person")
    assert ("human", 0.5, "good") == (person["kind"], person["score"], person["feedback"])
    assert {"exact.reached": 1.0, "person.care": 0.5} == result["scores"]
    kinds = [event.kind for event in await reviewing.events()]
    assert ["HumanReviewRequested", "HumanReviewSubmitted", "TrialScored", "HindsightCredited",
            "TrialFinished"] == kinds[-5:]  # fmt: skip
    rewards = reviewing.file("rewards.jsonl").read_text().splitlines()
    credit = next(json.loads(line) for line in rewards if '"hindsight"' in line)
    assert 0.75 / 4 == credit["value"]  # hindsight is given the reviewed score
    summary = json.loads((reviewing.jobs / reviewing.job / "summary.json").read_bytes())
    assert (1, 0) == (summary["counts"]["scored"], summary["counts"]["awaiting_review"])
    async with open_log(reviewing.jobs / "trialog.db") as log:
        assert [] == await check_files(log, reviewing.job, reviewing.jobs)
    assert "no trial waits" in await reviewing.say(list_waiting, job=reviewing.job)


async def test_the_only_review_that_is_owed(tmp_path: Path) -> None:
    """Without a verifier's name the one that is owed is taken; of several the names are told, and
    where none is owed, that is said."""
    one = Reviewing(tmp_path)
    await one.run({"person": PERSON, "other": PERSON.replace("person", "other")})
    with pytest.raises(ConfigError, match=r"2 reviews are owed: name one of person, other"):
        await one.submit("2", verifier=None)
    await one.submit("2", verifier="other")
    assert "person scored" in await one.submit("1", verifier=None)
    with pytest.raises(CommandRefused, match="waits for no review"):
        await one.submit("1", verifier=None)


async def test_a_review_is_sent_once(reviewing: Reviewing) -> None:
    """A second review of the same person is refused, before and after the trial's end."""
    await reviewing.submit("2")
    before = await reviewing.events()

    with pytest.raises(CommandRefused, match="sent twice"):
        await reviewing.submit("0")

    assert before == await reviewing.events()
    assert 1 == sum(event.kind == "HumanReviewSubmitted" for event in before)


async def test_what_does_not_fit_is_refused(reviewing: Reviewing) -> None:
    """A score out of range, an unknown criterion and an unknown verifier append nothing."""
    before = await reviewing.events()

    for score, verifier in (("3", "person"), ("tone=1", "person"), ("1", "exact")):
        with pytest.raises(CommandRefused):
            await reviewing.submit(score, verifier=verifier)

    assert before == await reviewing.events()


async def test_two_people(tmp_path: Path) -> None:
    """With two people the trial waits until both are in; blockers decide whether it passes."""
    reviewing = Reviewing(tmp_path)
    await reviewing.run({"person": PERSON, "other": TWO.replace("person", "other", 1)})
    assert 2 == len(
        (await reviewing.say(list_waiting, job=reviewing.job, as_json=True)).splitlines()
    )

    said = await reviewing.submit("2")
    assert "still waits for other" in said
    assert not reviewing.file("result.json").exists()
    shown = await reviewing.say(open_trial, reviewing.trial)
    assert "The review of person is in" in shown
    assert '--score "care=2" --score "tone=1"' in shown
    assert "passes only with full marks" in shown
    await reviewing.submit("care=0", "tone=1", verifier="other")

    result = json.loads(reviewing.file("result.json").read_bytes())
    assert (True, 1.0 > result["score"]) == (result["passed"], True)


async def test_secrets_in_feedback(reviewing: Reviewing) -> None:
    """A secret's value in a review's words is replaced before it reaches the log."""
    reviewing.environ = {"MAIL_TOKEN": "very-secret-token"}

    await reviewing.submit("1", feedback="it printed very-secret-token")

    found = [event.data for event in await reviewing.events()]
    assert any("[redacted:MAIL_TOKEN]" in data for data in found)
    assert not any("very-secret-token" in data for data in found)


async def test_nothing_to_review(reviewing: Reviewing) -> None:
    """A trial that asks nobody can't be opened; JSON has the whole of one that does."""
    document = json.loads(await reviewing.say(open_trial, reviewing.trial, as_json=True))
    assert ("Look at the counter.", reviewing.trial) == (
        document["requests"][0]["instructions"], document["trial"],
    )  # fmt: skip
    assert document["folder"].endswith(reviewing.trial)
    other = Reviewing(reviewing.root.parent / "other")
    await other.run({})

    with pytest.raises(CommandRefused, match="asks no person"):
        await other.say(open_trial, other.trial)
    with pytest.raises(CommandRefused, match="waits for no person"):
        await other.submit("1")


async def test_a_kill_after_the_review(
    reviewing: Reviewing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the process dies between the review and the end, a resume of the job finishes it."""
    from helpers.jobs import Watched
    from trialog.engine.console import people
    from trialog.engine.hooks.pool import HookPool
    from trialog.engine.job.api import resume_job
    from trialog.engine.job.services import Services
    from trialog.engine.sandbox.none import NoSandboxes
    from trialog.events.clock import RandomIds, SystemClock

    async def dies(*words: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(people, "conclude_reviewed", dies)
    with pytest.raises(RuntimeError, match="killed"):
        await reviewing.submit("2")
    assert "HumanReviewSubmitted" == (await reviewing.events())[-1].kind

    async with open_log(reviewing.jobs / "trialog.db") as log, HookPool(size=1) as hooks:
        services = Services(
            log=log, log_id=log.log_id, backend=NoSandboxes(), clock=SystemClock(),
            ids=RandomIds(), jobs_folder=reviewing.jobs, environ={}, hooks=hooks,
        )  # fmt: skip
        await resume_job(services, reviewing.job, Watched())

    kinds = [event.kind for event in await reviewing.events()]
    assert "TrialFinished" == kinds[-1]
    assert (1, 1) == (kinds.count("HumanReviewSubmitted"), kinds.count("TrialScored"))
    assert json.loads(reviewing.file("result.json").read_bytes())["passed"]
