"""Recording a review, and going on when the last one is in."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from helpers.fakes import CountingIds, TickingClock
from helpers.given import Item, fill, scored, started, verifier_started
from helpers.logs import STORES, Opener, check_chain, everything
from trialog.engine.errors import CommandRefused
from trialog.engine.people.decide import Scores, Submission
from trialog.engine.people.submit import Reviewed, submit
from trialog.engine.trial.load import load_trial
from trialog.events.codec import decode
from trialog.events.envelope import RecordedEvent, new_event
from trialog.events.errors import VersionConflict
from trialog.events.kinds import HumanReviewRequested, HumanReviewSubmitted, WarningRaised
from trialog.events.kinds.parts import CriterionAsked
from trialog.events.log import EventLog
from trialog.events.values import BlobRef

TRIAL = "t__00000001"
IDS = CountingIds()


def asked(name: str) -> HumanReviewRequested:
    """A person is asked for help, 0 to 2."""
    help = CriterionAsked(name="help", description="", weight=1.0, min_score=0.0, max_score=2.0)
    return HumanReviewRequested(
        verifier=name, digest="d", weight=1.0, instructions="", criteria=[help]
    )


def waiting(*people: str) -> dict[str, list[Item]]:
    """A trial that waits for these people."""
    return {
        f"trial/{TRIAL}": [
            started(), verifier_started(), scored(1.0), *((f"ask-{p}", asked(p)) for p in people),
        ]
    }  # fmt: skip


class Conclusions:
    """Remembers which trials were concluded, and what of them was durable by then."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.seen: list[tuple[str, int]] = []

    async def __call__(self, trial: str) -> None:
        """Note it."""
        self.seen.append((trial, (await load_trial(self.log, trial)).version))


async def review(
    log: EventLog, verifier: str, conclude: Conclusions, *, score: float = 2.0,
    feedback: str | None = None,
) -> Reviewed:  # fmt: skip
    """Submit a review."""
    words = Submission(verifier=verifier, scores=Scores(score), feedback=feedback, reviewer="ann")
    return await submit(log, TRIAL, words, clock=TickingClock(), ids=IDS, conclude=conclude)


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest) -> Opener:
    """Each store."""
    return request.param  # type: ignore[no-any-return]


async def test_a_review_is_recorded(store: Opener, tmp_path: Path) -> None:
    """A review is one event, caused by the request for it."""
    async with store(tmp_path) as log:
        await fill(log, waiting("ann", "bob"))
        conclude = Conclusions(log)

        reviewed = await review(log, "ann", conclude, score=1.0, feedback="fine")

        last = (await log.read(f"trial/{TRIAL}"))[-1]
        assert ("HumanReviewSubmitted", "ask-ann") == (last.kind, last.causation)
        assert decode(last) == reviewed.review
        assert (0.5, "fine", ["bob"]) == (
            reviewed.review.score, reviewed.review.feedback, reviewed.waits_for,
        )  # fmt: skip
        assert [] == conclude.seen
        check_chain(await everything(log))


async def test_the_last_review_concludes(store: Opener, tmp_path: Path) -> None:
    """When nobody is waited for any more the trial is concluded, once, after the append."""
    async with store(tmp_path) as log:
        await fill(log, waiting("ann", "bob"))
        conclude = Conclusions(log)

        await review(log, "bob", conclude)
        reviewed = await review(log, "ann", conclude)

        assert [] == reviewed.waits_for
        assert [(TRIAL, 7)] == conclude.seen


async def test_a_second_review_is_refused(store: Opener, tmp_path: Path) -> None:
    """The same person's second review is refused, and the log shows one."""
    async with store(tmp_path) as log:
        await fill(log, waiting("ann", "bob"))
        conclude = Conclusions(log)
        await review(log, "ann", conclude)
        before = await everything(log)

        with pytest.raises(CommandRefused, match="sent twice"):
            await review(log, "ann", conclude, score=0.0)

        assert before == await everything(log)


async def test_two_reviews_at_once(store: Opener, tmp_path: Path) -> None:
    """Of two submissions at the same time for one person, one counts and the other is refused."""
    async with store(tmp_path) as log:
        await fill(log, waiting("ann"))
        conclude = Conclusions(log)
        refused: list[CommandRefused] = []

        async def one(score: float) -> None:
            try:
                await review_with(log, conclude, score)
            except CommandRefused as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(one, 1.0)
            group.start_soon(one, 2.0)

        reviews = [e for e in await everything(log) if e.kind == "HumanReviewSubmitted"]
        assert (1, 1) == (len(reviews), len(refused))
        assert 1 == len(conclude.seen)


async def review_with(log: EventLog, conclude: Conclusions, score: float) -> Reviewed:
    """Submit as ann, with ids that other submissions share."""
    words = Submission(verifier="ann", scores=Scores(score))
    return await submit(log, TRIAL, words, clock=TickingClock(), ids=IDS, conclude=conclude)


class Interfering:
    """A log into which somebody else writes after each of the next reads."""

    def __init__(self, log: EventLog, times: int) -> None:
        self._log = log
        self._left = times

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def read(self, stream: str) -> list[RecordedEvent]:
        """Read, and then write."""
        found = await self._log.read(stream)
        if self._left:
            self._left -= 1
            other = WarningRaised(code="c", message=f"{self._left}")
            await self._log.append(stream, len(found), [new_event(other, TickingClock(), IDS)])
        return found


async def test_somebody_else_wrote_meanwhile(store: Opener, tmp_path: Path) -> None:
    """A conflict is decided again on what is there now; after too many it is told."""
    async with store(tmp_path) as log:
        await fill(log, waiting("ann"))
        conclude = Conclusions(log)

        await review_with(Interfering(log, 3), conclude, 1.0)  # type: ignore[arg-type]

        assert "HumanReviewSubmitted" == (await everything(log))[-1].kind
    async with store(tmp_path / "again") as log:
        await fill(log, waiting("ann"))
        with pytest.raises(VersionConflict):
            await review_with(Interfering(log, 99), Conclusions(log), 1.0)  # type: ignore[arg-type]


async def test_a_failed_conclusion_keeps_the_review(store: Opener, tmp_path: Path) -> None:
    """When the process dies before the trial is concluded, the review is in the log."""
    async with store(tmp_path) as log:
        await fill(log, waiting("ann"))

        async def dies(trial: str) -> None:
            raise RuntimeError("killed")

        words = Submission(verifier="ann", scores=Scores(1.0))
        with pytest.raises(RuntimeError, match="killed"):
            await submit(log, TRIAL, words, clock=TickingClock(), ids=IDS, conclude=dies)

        state = await load_trial(log, TRIAL)
        assert ["ann"] == [given.verifier for given in state.submitted]
        assert () == state.awaiting


async def test_long_feedback_is_a_blob(store: Opener, tmp_path: Path) -> None:
    """A text over 16 KiB goes to the blob store."""
    async with store(tmp_path) as log:
        await fill(log, waiting("ann"))

        reviewed = await review(log, "ann", Conclusions(log), feedback="x" * 20_000)

        assert isinstance(reviewed.review, HumanReviewSubmitted)
        assert isinstance(reviewed.review.feedback, BlobRef)
        assert b"x" * 20_000 == await log.blobs.get(reviewed.review.feedback)
