"""A stored trial as a regrade needs it. A fold over its events: no clock, no log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.kinds import (
    AgentFinished,
    ArtifactsSaved,
    EnvironmentReset,
    Event,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JudgeSampled,
    RegradeFailed,
    RegradeScored,
    SandboxStarted,
    TrialErrored,
    TrialFinished,
    TrialScored,
    TrialStarted,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
    WorkspaceSaved,
)
from ...projections.episode import TOLD, EpisodeData, EpisodeFold, TaskData
from ...projections.regrades import Graded


class StoredTrial(msgspec.Struct, kw_only=True):
    """What the log has of a trial. Private to one fold, which changes it in place."""

    trial: str
    job: str = ""
    task: str = ""
    version: int = 0
    """Of its stream."""
    begun: bool = False
    outcome: str | None = None
    """Null while it has not finished."""
    category: str | None = None
    """Why it is errored or unscored."""
    scored: TrialScored | None = None
    standing: str | None = None
    """The id of the event with the verdict that stands."""
    answered: dict[str, RegradeScored | RegradeFailed] = {}
    """What each regrade that reached it gave, by the regrade's id."""
    sandbox: SandboxStarted | None = None
    """The agent's; where there was none for an agent, the newest."""
    workspace: WorkspaceSaved | None = None
    artifacts: ArtifactsSaved | None = None
    world: bool = False
    """It has an environment, whose states are recorded."""
    worked: bool = False
    """The agent left work to check."""
    episode: EpisodeData | None = None
    verdicts: dict[str, VerifierScored | VerifierFailed] = {}
    """The run's, by verifier."""
    requests: dict[str, HumanReviewRequested] = {}
    reviews: dict[str, HumanReviewSubmitted] = {}
    replies: dict[str, list[JudgeSampled]] = {}
    """Of the run's judges."""

    @property
    def original(self) -> Graded:
        """What the run came to, as result.json has it."""
        if self.scored is not None and self.outcome == "scored":
            return Graded((self.scored.rewards or {}).get("reward"), self.scored.passed)
        return Graded(None, False if self.outcome == "errored" else None)

    @property
    def waiting(self) -> bool:
        """People still owe it a review."""
        return self.outcome is None and bool(self.requests.keys() - self.reviews.keys())


def read_stored(
    trial: str,
    events: Sequence[RecordedEvent],
    task: TaskData | None = None,
    blobs: Mapping[str, bytes] | None = None,
    *,
    finished: Collection[str] = (),
) -> StoredTrial:
    """The trial of these events, after those of the execution that it goes on from.

    With `task` its episode is made, from `blobs` that `episode_blobs` names. `finished` are the
    regrades whose verdicts stand. Raises UnknownEvent and LogCorrupt for what can't be read.
    """
    fold = StoredFold(trial, task, blobs, finished=finished)
    for event in events:
        fold.take(event, decode_or_none(event))
    return fold.stored()


class StoredFold:
    """The same, event by event."""

    def __init__(
        self,
        trial: str,
        task: TaskData | None,
        blobs: Mapping[str, bytes] | None = None,
        *,
        finished: Collection[str] = (),
        plain: bool = False,
    ) -> None:
        self._found = StoredTrial(trial=trial)
        self._episode = None if task is None else EpisodeFold(trial, task, plain=plain)
        self._blobs = blobs or {}
        self._finished = finished

    def take(self, event: RecordedEvent, payload: Event | None) -> None:
        """One more event; without a payload, one that may be passed over."""
        found = self._found
        found.version = event.version
        if payload is None:
            return
        kind = type(payload)
        if kind in TOLD and self._episode is not None and found.outcome is None:
            self._episode.feed(event.id, payload, self._blobs)
        if kind in _TAKEN:
            _take(found, event.id, payload, self._finished)

    def stored(self) -> StoredTrial:
        """What was read."""
        if self._episode is not None and self._found.world:
            self._found.episode = self._episode.data(self._blobs)
        return self._found


_TAKEN = frozenset({
    AgentFinished, ArtifactsSaved, EnvironmentReset, HumanReviewRequested, HumanReviewSubmitted,
    JudgeSampled, RegradeFailed, RegradeScored, SandboxStarted, TrialErrored, TrialFinished,
    TrialScored, TrialStarted, TrialUnscored, VerifierFailed, VerifierScored, WorkspaceSaved,
})  # fmt: skip
"""The kinds that `_take` knows; of most trials' events there are more of others."""


def _take(found: StoredTrial, id: str, payload: Event, finished: Collection[str]) -> None:
    match payload:
        case TrialStarted():
            found.begun, found.job, found.task = True, payload.job, payload.slot.task
            found.outcome = found.category = found.scored = found.standing = None
        case RegradeScored() | RegradeFailed():
            found.answered.setdefault(payload.regrade_id, payload)
            if isinstance(payload, RegradeScored) and payload.regrade_id in finished:
                found.standing = id
        case _ if found.outcome is not None:
            return  # what comes after the end is no part of the run
        case SandboxStarted():
            if payload.purpose == "agent" or found.sandbox is None:
                found.sandbox = payload
        case WorkspaceSaved():
            found.workspace = payload
        case ArtifactsSaved():
            found.artifacts = payload
        case EnvironmentReset():
            found.world = True
        case AgentFinished():
            found.worked = True
        case VerifierScored() | VerifierFailed():
            found.verdicts[payload.verifier] = payload
        case JudgeSampled():
            found.replies.setdefault(payload.verifier, []).append(payload)
        case HumanReviewRequested():
            found.requests[payload.verifier] = payload
        case HumanReviewSubmitted():
            found.reviews[payload.verifier] = payload
        case TrialScored():
            found.scored, found.standing = payload, id
        case TrialUnscored() | TrialErrored():
            found.category, found.standing = payload.category, id
        case TrialFinished():
            found.outcome = payload.outcome
        case _:
            pass
