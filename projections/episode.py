"""A trial's episode as its events tell it: what checks, rewards and hindsight are given.

The same data is made while the trial runs and when it is replayed, so a hook sees the same either
way: values as they were recorded, redacted ones included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from ..events.codec import decode_or_none
from ..events.envelope import RecordedEvent
from ..events.kinds import (
    ActionTaken,
    AgentFinished,
    AppQueried,
    ArtifactsSaved,
    EnvironmentReset,
    EpisodeEnded,
    Event,
    HindsightCredited,
    HumanReviewSubmitted,
    ModelCalled,
    StepRewarded,
    VerifierScored,
)
from ..events.kinds.parts import AppState, StateChange
from ..events.values import BlobRef, Json
from .patch import patched
from .texts import full_text, full_value, reference


class TaskData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The task, with what its agent never sees."""

    name: str
    instructions: str = ""
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    expected: Any = None
    initial_state: dict[str, Any] | None = None


class AppData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An app at the episode's start and end."""

    initial: Any
    final: Any = None
    control: Literal["owned", "sandboxed", "live", "replayed"] = "owned"


class StepData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One action."""

    event_id: str
    turn: int
    app: str
    action: str
    arguments: dict[str, Any]
    observation: Any = None
    error: str | None = None
    states: dict[str, Any] = {}
    """Every app's state after the step, of those that changed by it."""
    observed_by: Literal["host", "agent"] = "host"
    model_call: str | None = None
    tool_call: str | None = None


class QueryData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A verifier's question to an app, and the answer that it got."""

    verifier: str
    app: str
    action: str
    arguments: dict[str, Any]
    answer: Any = None
    error: str | None = None
    step: str | None = None
    """The step's event id, for a question of a reward; null for one of a check."""


class RewardData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A reward in the ledger."""

    verifier: str
    version: str | None
    value: float
    source: Literal["step", "hindsight", "verifier", "judge", "human"]
    event_id: str


class EpisodeData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole episode."""

    trial: str
    task: TaskData
    seed: int | None = None
    apps: dict[str, AppData] = {}
    first_observation: Any = None
    steps: list[StepData] = []
    answer: list[Any] | None = None
    """A list of one; null when the agent gave none."""
    terminated: bool = False
    truncated: bool = False
    reason: str | None = None
    usage: dict[str, Any] = {}
    artifacts: list[dict[str, Any]] = []
    model_calls: list[dict[str, Any]] = []
    queries: list[QueryData] = []
    rewards: list[RewardData] = []


class EpisodeFold:
    """Folds a trial's events into its episode; the trial's own order may go on at any time.

    Rewards are those that the trial earned, up to its end: labels applied later are left out.
    `plain` says that no event has a key that begins with ``$``, see `is_plain`: then values are
    given as they were stored, which the reader must not change.
    """

    def __init__(self, trial: str, task: TaskData, *, plain: bool = False) -> None:
        self._trial = trial
        self._task = task
        self._full: _Full = _as_stored if plain else full_value
        self._seed: int | None = None
        self._initial: dict[str, AppState] = {}
        self._states: dict[str, Json] = {}
        """Each app's state now, as stored; a list of one."""
        self._first: Json | None = None
        self._steps: list[tuple[str, ActionTaken, dict[str, Json]]] = []
        self._ended: EpisodeEnded | None = None
        self._answer: Json | None = None
        self._artifacts: list[dict[str, Any]] = []
        self._calls: list[tuple[str, ModelCalled]] = []
        self._queries: list[AppQueried] = []
        self._rewards: list[RewardData] = []

    def feed(self, event_id: str, payload: Event, blobs: Mapping[str, bytes]) -> None:
        """Take one more event; `blobs` has those that `episode_blobs` names in it."""
        if type(payload) not in TOLD:
            return
        match payload:
            case ActionTaken():
                changed = {
                    name: self._change(name, change, blobs)
                    for name, change in payload.states.items()
                }
                self._states.update(changed)
                self._steps.append((event_id, payload, changed))
            case EnvironmentReset():
                self._seed = payload.seed
                self._initial = payload.apps
                self._first = payload.observation
                for name, app in payload.apps.items():
                    self._states[name] = _stored(app.state, blobs)
            case ModelCalled():
                self._calls.append((event_id, payload))
            case EpisodeEnded():
                self._ended = payload
                self._answer = payload.answer
            case AgentFinished():
                self._answer = payload.answer if self._answer is None else self._answer
            case AppQueried():
                self._queries.append(payload)
            case ArtifactsSaved():
                self._artifacts = [
                    {"path": a.path, "size": a.size, "sha256": a.sha256} for a in payload.artifacts
                ]
            case StepRewarded(applied=None):
                self._earn(payload, "step")
            case HindsightCredited(applied=None):
                self._earn(payload, "hindsight")
            case VerifierScored(source="verifier", verifier_kind="agent"):
                self._score(event_id, payload.verifier, payload.version, payload.score, "judge")
            case VerifierScored(source="verifier"):
                self._score(event_id, payload.verifier, payload.version, payload.score, "verifier")
            case HumanReviewSubmitted():
                self._score(event_id, payload.verifier, None, payload.score, "human")
            case _:
                pass

    def _change(self, name: str, change: StateChange, blobs: Mapping[str, bytes]) -> Json:
        if change.patch is None:
            return _stored(_full(change), blobs)
        return patched(self._states[name], change.patch)  # the steps before keep theirs

    def _earn(
        self, given: StepRewarded | HindsightCredited, source: Literal["step", "hindsight"]
    ) -> None:
        self._rewards.append(
            RewardData(
                verifier=given.verifier,
                version=given.version,
                value=given.value,
                source=source,
                event_id=given.target.event_id,
            )
        )

    def _score(
        self, event_id: str, verifier: str, version: str | None, value: float,
        source: Literal["verifier", "judge", "human"],
    ) -> None:  # fmt: skip
        self._rewards.append(
            RewardData(
                verifier=verifier, version=version, value=value, source=source, event_id=event_id
            )
        )

    def earned(self) -> list[RewardData]:
        """What the trial has earned until now."""
        return list(self._rewards)

    def data(self, blobs: Mapping[str, bytes]) -> EpisodeData:
        """The episode as it stands."""
        ended, full = self._ended, self._full
        states = ended.apps if ended else self._states
        final = {name: full(state, blobs) for name, state in states.items()}
        return EpisodeData(
            trial=self._trial,
            task=self._task,
            seed=self._seed,
            apps={
                name: AppData(
                    initial=full(app.state, blobs), final=final.get(name), control=app.control
                )
                for name, app in self._initial.items()
            },
            first_observation=full(self._first, blobs),
            steps=[self.step(number, blobs) for number in range(len(self._steps))],
            answer=_answer(self._answer, blobs, full),
            terminated=ended.terminated if ended else False,
            truncated=ended.truncated if ended else False,
            reason=ended.reason if ended else None,
            usage=self._usage(),
            artifacts=self._artifacts,
            model_calls=[_call(event_id, call, blobs, full) for event_id, call in self._calls],
            queries=[_query(query, blobs, full) for query in self._queries],
            rewards=list(self._rewards),
        )

    def step(self, number: int, blobs: Mapping[str, bytes]) -> StepData:
        """One step of it."""
        event_id, taken, states = self._steps[number]
        full = self._full
        return StepData(
            event_id=event_id,
            turn=taken.turn,
            app=taken.app,
            action=taken.action,
            arguments=_arguments(taken.arguments, blobs, full),
            observation=full(taken.observation, blobs),
            error=None if taken.error is None else full_text(taken.error, blobs),
            states={name: full(state, blobs) for name, state in states.items()},
            observed_by=taken.observed_by,
            model_call=taken.model_call,
            tool_call=taken.tool_call,
        )

    def _usage(self) -> dict[str, Any]:
        """What the seen model calls used together; nothing where none was seen."""
        usage: dict[str, Any] = {}
        for _, call in self._calls:
            seen = {**msgspec.structs.asdict(call.usage), "model_calls": 1}
            for name, value in seen.items():
                if value is not None:
                    usage[name] = usage.get(name, 0) + value
        return usage


TOLD = frozenset({
    ActionTaken, AgentFinished, AppQueried, ArtifactsSaved, EnvironmentReset, EpisodeEnded,
    HindsightCredited, HumanReviewSubmitted, ModelCalled, StepRewarded, VerifierScored,
})  # fmt: skip
"""The kinds that an episode is told by; the fold passes over all others."""


def episode_data(
    trial: str, task: TaskData, events: Iterable[RecordedEvent], blobs: Mapping[str, bytes]
) -> EpisodeData:
    """A stored trial's episode. `blobs` has those that `episode_blobs` names."""
    fold = EpisodeFold(trial, task)
    for event in events:
        payload = decode_or_none(event)
        if payload is not None:
            fold.feed(event.id, payload, blobs)
    return fold.data(blobs)


def episode_blobs(events: Iterable[RecordedEvent]) -> list[BlobRef]:
    """The blobs whose bytes an episode needs, each once."""
    found: dict[str, BlobRef] = {}
    for event in events:
        if '"$blob"' not in event.data:  # most name none, and need no decoding
            continue
        payload = decode_or_none(event)
        for value in () if payload is None else _values(payload):
            ref = reference(value)
            if ref is not None:
                found[ref.blob] = ref
    return list(found.values())


def _values(payload: Event) -> list[Json]:
    """The values of an event that may be in a blob and that an episode shows."""
    match payload:
        case EnvironmentReset():
            return [payload.observation, *(app.state for app in payload.apps.values())]
        case ActionTaken():
            states = [_full(change) for change in payload.states.values()]
            return [payload.arguments, payload.observation, payload.error, *states]
        case EpisodeEnded():
            return [*_unwrapped(payload.answer), *payload.apps.values()]
        case AgentFinished():
            return _unwrapped(payload.answer)
        case AppQueried():
            return [payload.arguments, payload.answer, payload.error]
        case ModelCalled():
            return [payload.request, payload.response, payload.error]
        case _:
            return []


def _unwrapped(answer: Json | None) -> list[Json]:
    return [answer, *cast("Sequence[Json]", answer)] if isinstance(answer, list) else [answer]


def is_plain(events: Iterable[RecordedEvent]) -> bool:
    """Whether no text in them begins with ``$``, and so no key: nothing is a blob or escaped."""
    for event in events:  # a generator would take as long as the search
        if '"$' in event.data:
            return False
    return True


_Full: TypeAlias = Callable[[Json, Mapping[str, bytes]], Json]


def _as_stored(value: Json, blobs: Mapping[str, bytes]) -> Json:
    return value


def _answer(answer: Json | None, blobs: Mapping[str, bytes], full: _Full) -> list[Any] | None:
    if answer is None:
        return None
    if isinstance(answer, list):
        return [full(item, blobs) for item in cast("Sequence[Json]", answer)]
    value = full(answer, blobs)  # the list of one is in the blob, or was left out
    return list(cast("Sequence[Any]", value)) if isinstance(value, list) else [value]


def _full(change: StateChange) -> Json:
    """The state in a change: a list of one, or the blob that holds it."""
    full = change.full
    return cast("Sequence[Json]", full)[0] if isinstance(full, list) else full


def _arguments(value: Json | None, blobs: Mapping[str, bytes], full: _Full) -> dict[str, Any]:
    given = full(value, blobs)
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def _stored(value: Json, blobs: Mapping[str, bytes]) -> Json:
    """A stored state out of its blob, still escaped, so that patches fit it."""
    ref = reference(value)
    return value if ref is None else msgspec.json.decode(blobs[ref.blob])


def _call(
    event_id: str, call: ModelCalled, blobs: Mapping[str, bytes], full: _Full
) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "model": call.model,
        "turn": call.turn,
        "request": full(call.request, blobs),
        "response": full(call.response, blobs),
        "error": None if call.error is None else full_text(call.error, blobs),
        "usage": msgspec.structs.asdict(call.usage),
    }


def _query(query: AppQueried, blobs: Mapping[str, bytes], full: _Full) -> QueryData:
    return QueryData(
        verifier=query.verifier,
        app=query.app,
        action=query.action,
        arguments=_arguments(query.arguments, blobs, full),
        answer=full(query.answer, blobs),
        error=None if query.error is None else full_text(query.error, blobs),
        step=query.step,
    )
