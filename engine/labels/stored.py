"""A stored trial as a verifier is given it again, and what the log has of that verifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.kinds import (
    AgentFinished,
    EnvironmentReset,
    Event,
    HindsightCredited,
    HindsightFailed,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JudgeSampled,
    StepRewarded,
    StepRewardFailed,
    TrialFinished,
    TrialScored,
    TrialStarted,
    VerifierApplied,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
)
from ...events.kinds.parts import Target
from ...events.log import BlobStore
from ...events.values import BlobRef, Text, unescape
from ...projections.episode import EpisodeData, EpisodeFold, RewardData, TaskData, episode_blobs
from ...projections.texts import full_text
from ..authoring.views import Credit
from ..hooks.protocol import CheckGiven, HindsightGiven, HookFault, RewardGiven
from .said import Said

Place: TypeAlias = tuple[
    str, str, str | None, int | None, int | None, int | None, int | None
]  # a target, as one can tell it from another


class Existing(msgspec.Struct, kw_only=True):
    """What one version of the verifier has said already, so that it is not added again."""

    check: bool = False
    rewards: set[str] = set()
    failed: set[str] = set()
    """Steps that its reward failed on."""
    credits: Counter[Place] = msgspec.field(default_factory=Counter[Place])
    """How many for each target."""
    credits_failed: bool = False


class StoredTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial, as far as one verifier has to do with it."""

    trial: str
    job: str
    task: str
    version: int
    """Of its stream."""
    state: Literal["finished", "waiting", "open"]
    problem: str | None
    """Why a verifier can't be given it again."""
    episode: EpisodeData | None
    at_check: list[RewardData]
    """What the trial had earned when this verifier checked it."""
    at_end: list[RewardData]
    """What it had earned when it was scored."""
    worked: bool
    """The agent left work to check."""
    score: float | None
    """The trial's own."""
    said: dict[str | None, Said]
    """What the log has of the verifier, by its version; the newest is last."""
    digests: dict[str | None, set[str]]
    """Of the verifier's files, by its version."""
    existing: dict[str | None, Existing]
    replies: list[JudgeSampled]
    """A judge's, of the run; of the last application where there are none."""
    review: HumanReviewSubmitted | None


async def stored_trial(
    trial: str,
    events: Sequence[RecordedEvent],
    verifier: str,
    task: TaskData | None,
    blobs: BlobStore,
) -> StoredTrial | None:
    """The trial of these events; None where there are none.

    Without `task` there is no episode: enough to see what the log has of the verifier. Raises
    the log's errors for an event or a blob that can't be read.
    """
    store = await _bytes(events, blobs) if task is not None else {}
    return read_stored(trial, events, verifier, task, store)


async def _bytes(events: Sequence[RecordedEvent], blobs: BlobStore) -> dict[str, bytes]:
    return {ref.blob: await blobs.get(ref) for ref in episode_blobs(events)}


def read_stored(
    trial: str,
    events: Iterable[RecordedEvent],
    verifier: str,
    task: TaskData | None,
    blobs: dict[str, bytes],
) -> StoredTrial | None:
    """The same with the bytes of the blobs that episode_blobs names."""
    reading = _Reading(trial, verifier, task, blobs)
    for event in events:
        payload = decode_or_none(event)
        reading.version = event.version
        if payload is not None:
            reading.take(event.id, payload)
    return reading.stored()


class _Reading:
    def __init__(
        self, trial: str, verifier: str, task: TaskData | None, blobs: dict[str, bytes]
    ) -> None:
        self.version = 0
        self._verifier = verifier
        self._blobs = blobs
        self._fold = None if task is None else EpisodeFold(trial, task)
        self._started: TrialStarted | None = None
        self._at_check: list[RewardData] | None = None
        self._at_end: list[RewardData] | None = None
        self._world = False
        self._worked = False
        self._score: float | None = None
        self._finished = False
        self._asked: dict[str, HumanReviewRequested] = {}
        self._reviews: dict[str, HumanReviewSubmitted] = {}
        self._said: dict[str | None, _Saying] = {}
        self._replies: dict[str | None, list[JudgeSampled]] = {}

    def take(self, event_id: str, payload: Event) -> None:
        """One more event, in order."""
        if self._fold is not None and not self._finished:
            self._notice(payload)
            self._fold.feed(event_id, payload, self._blobs)
        match payload:
            case TrialStarted():
                self._started = payload
                self._finished = False
            case EnvironmentReset():
                self._world = True
            case AgentFinished():
                self._worked = True
            case TrialScored():
                self._score = payload.score
            case TrialFinished():
                self._finished = True
            case HumanReviewRequested():
                self._asked[payload.verifier] = payload
                self._take_own(payload)
            case HumanReviewSubmitted():
                self._reviews[payload.verifier] = payload
                self._take_own(payload)
            case VerifierStarted(verifier=name) if name == self._verifier:
                self._replies.pop(None, None)  # it judges anew: replies that failed hold no more
                self._take_own(payload)
            case JudgeSampled(verifier=name) if name == self._verifier:
                self._replies.setdefault(payload.applied, []).append(payload)
            case (
                VerifierStarted() | VerifierScored() | VerifierFailed() | StepRewarded()
                | StepRewardFailed() | HindsightCredited() | HindsightFailed() | VerifierApplied()
            ):  # fmt: skip
                self._take_own(payload)
            case _:
                pass

    def _notice(self, payload: Event) -> None:
        """Remember what was earned at the moments when hooks looked at it."""
        assert self._fold is not None
        if isinstance(payload, VerifierStarted) and payload.verifier == self._verifier:
            self._at_check = self._fold.earned()
        elif isinstance(payload, TrialScored):
            self._at_end = self._fold.earned()

    def _take_own(self, payload: _Own) -> None:
        if payload.verifier != self._verifier:
            return
        if isinstance(payload, HumanReviewSubmitted):
            asked = self._asked.get(payload.verifier)
            version, digest = (asked.version, asked.digest) if asked else (None, "")
        else:
            version, digest = payload.version, payload.digest
        saying = self._said.pop(version, None) or _Saying(self._blobs)
        self._said[version] = saying  # the newest comes last
        saying.digests.add(digest)
        saying.take(payload)

    def stored(self) -> StoredTrial | None:
        """What was read."""
        if self._started is None:
            return None
        earned = [] if self._fold is None else self._fold.earned()
        at_end = earned if self._at_end is None else self._at_end
        waiting = bool(self._asked.keys() - self._reviews.keys())
        episode = None
        if self._fold is not None and self._world:
            episode = self._fold.data(self._blobs)
        return StoredTrial(
            trial=self._started.trial,
            job=self._started.job,
            task=self._started.slot.task,
            version=self.version,
            state="finished" if self._finished else "waiting" if waiting else "open",
            problem=None if self._world else "it has no recorded state, so nothing can be replayed",
            episode=episode,
            at_check=at_end if self._at_check is None else self._at_check,
            at_end=at_end,
            worked=self._worked,
            score=self._score,
            said={version: saying.said() for version, saying in self._said.items()},
            digests={version: saying.digests for version, saying in self._said.items()},
            existing={version: saying.existing for version, saying in self._said.items()},
            replies=self._newest_replies(),
            review=self._reviews.get(self._verifier),
        )

    def _newest_replies(self) -> list[JudgeSampled]:
        if None in self._replies or not self._replies:
            return self._replies.get(None, [])
        return next(reversed(self._replies.values()))


_Own: TypeAlias = (
    VerifierStarted
    | VerifierScored
    | VerifierFailed
    | StepRewarded
    | StepRewardFailed
    | HindsightCredited
    | HindsightFailed
    | VerifierApplied
    | HumanReviewRequested
    | HumanReviewSubmitted
)


class _Saying:
    """What one version of the verifier said, while it is read."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs
        self._check: CheckGiven | None = None
        self._rewards: dict[str, RewardGiven] = {}
        self._credits: dict[str | None, list[Credit]] = {}
        self._fault: HookFault | None = None
        self.digests: set[str] = set()
        self.existing = Existing()

    def take(self, payload: _Own) -> None:
        """One more event of this version's."""
        existing = self.existing
        match payload:
            case VerifierScored():
                existing.check = True
                self._check = CheckGiven(
                    score=payload.score, scores=unescape(payload.scores),
                    evidence=[self._text(text) for text in payload.evidence],
                    feedback=None if payload.feedback is None else self._text(payload.feedback),
                )  # fmt: skip
            case VerifierFailed():
                existing.check = True
                timed_out = payload.category == "verifier_timeout"
                self._check = CheckGiven(
                    fault=HookFault(
                        error=self._text(payload.error), line=payload.line, timed_out=timed_out
                    )
                )
            case VerifierApplied():
                existing.check = True
                if payload.error is not None:
                    self._check = CheckGiven(fault=HookFault(error=self._text(payload.error)))
                elif payload.score is not None:
                    self._check = CheckGiven(
                        score=payload.score, scores=unescape(payload.scores),
                        evidence=[self._text(text) for text in payload.evidence],
                        feedback=None if payload.feedback is None else self._text(payload.feedback),
                    )  # fmt: skip
            case HumanReviewSubmitted():
                existing.check = True
                self._check = CheckGiven(
                    score=payload.score,
                    feedback=None if payload.feedback is None else self._text(payload.feedback),
                )
            case StepRewarded():
                step = payload.target.event_id
                existing.rewards.add(step)
                self._rewards[step] = RewardGiven(value=payload.value)
            case StepRewardFailed():
                existing.failed.add(payload.step)
                fault = HookFault(error=self._text(payload.error), line=payload.line)
                if payload.step not in existing.rewards:
                    self._rewards[payload.step] = RewardGiven(fault=fault)
            case HindsightCredited():
                given = self._credits.setdefault(payload.applied, [])
                given.append(credit_of(payload))
                counted = Counter(place_of(one) for one in given)
                existing.credits |= counted
            case HindsightFailed():
                existing.credits_failed = True
                self._fault = HookFault(error=self._text(payload.error), line=payload.line)
            case VerifierStarted() | HumanReviewRequested():
                pass

    def _text(self, text: Text) -> str:
        if isinstance(text, BlobRef) and text.blob not in self._blobs:
            return f"({text.size} bytes of text)"
        return full_text(text, self._blobs)

    def said(self) -> Said:
        """All of it."""
        hindsight = None
        if self._credits:
            hindsight = HindsightGiven(credits=next(reversed(self._credits.values())))
        elif self._fault is not None:
            hindsight = HindsightGiven(fault=self._fault)
        return Said(check=self._check, rewards=self._rewards, hindsight=hindsight)


def credit_of(given: HindsightCredited) -> Credit:
    """A recorded credit as the hook gave it."""
    target = given.target
    return Credit(
        event_id=target.event_id, value=given.value,
        target="step" if target.target == "step" else "event", field=target.field,
        start=target.start, end=target.end, token_start=target.token_start,
        token_end=target.token_end, metadata=unescape(given.metadata),
    )  # fmt: skip


def place_of(credit: Credit | Target) -> Place:
    """A target as one can tell it from another."""
    return (
        credit.target, credit.event_id, credit.field, credit.start, credit.end,
        credit.token_start, credit.token_end,
    )  # fmt: skip
