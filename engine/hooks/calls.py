"""One call of a hook: what it is given, made anew for it; and what it gave, checked.

Nothing here reads or writes anything but what the author's own function does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...projections.episode import EpisodeData, QueryData, RewardData, StepData, TaskData
from ..authoring.views import (
    Episode,
    HindsightTrial,
    Query,
    QueryRefused,
    RecordedQueries,
    Step,
)
from . import values
from .faults import Places, WrongValue, bounded, fault_of
from .protocol import CheckGiven, HookFault
from .wire import Outcome, Work

_json = msgspec.json.Decoder()
_task = msgspec.json.Decoder(TaskData)
_step = msgspec.json.Decoder(StepData)
_episode = msgspec.json.Decoder(EpisodeData)


class _Start(msgspec.Struct, gc=False):
    initial: msgspec.Raw


class _Changes(msgspec.Struct, gc=False):
    event_id: str
    states: dict[str, msgspec.Raw] = {}


class _Parts(msgspec.Struct, gc=False):
    """An episode whose values are still JSON, so that each hook is given data of its own."""

    task: msgspec.Raw
    apps: dict[str, _Start] = {}
    steps: list[msgspec.Raw] = []
    queries: list[QueryData] = []


_parts = msgspec.json.Decoder(_Parts)
_changes = msgspec.json.Decoder(_Changes)


class Material:
    """What hooks are given of a work's episode: fresh with each call, whatever a hook did to it."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._read: _Parts | None = None
        self._around: list[tuple[_Changes, dict[str, msgspec.Raw], dict[str, msgspec.Raw]]] = []

    def _parts(self) -> _Parts:
        if self._read is None:
            self._read = parts = _parts.decode(self._work.episode)
            states = {name: app.initial for name, app in parts.apps.items()}
            for raw in parts.steps:
                changes = _changes.decode(raw)
                previous, states = states, {**states, **changes.states}
                self._around.append((changes, previous, states))
        return self._read

    def step(self, number: int, query: Query) -> Step:
        """A step, for a reward."""
        parts = self._parts()
        _, previous, current = self._around[number]
        step = _step.decode(parts.steps[number])
        before = previous.get(step.app)
        return Step(
            _task.decode(parts.task),
            step,
            {} if before is None else {step.app: _json.decode(before)},
            {name: _json.decode(state) for name, state in current.items()},
            query,
        )

    def _given(self, done: Sequence[Outcome]) -> list[RewardData]:
        """The step rewards that this work gave, as the log will have them."""
        work, found = self._work, list[RewardData]()
        for call, outcome in zip(work.calls, done, strict=False):
            if call.hook == "reward" and outcome.value is not None:
                self._parts()
                source = work.sources[call.source]
                found.append(
                    RewardData(
                        verifier=source.name, version=source.version, value=outcome.value,
                        source="step", event_id=self._around[call.step][0].event_id,
                    )
                )  # fmt: skip
        return found

    def finished(self, done: Sequence[Outcome]) -> EpisodeData:
        """The episode for a check: of rewards, those of its steps."""
        data = _episode.decode(self._work.episode)
        rewards = [reward for reward in data.rewards if reward.source == "step"]
        return msgspec.structs.replace(data, rewards=rewards + self._given(done))

    def scored(self, done: Sequence[Outcome]) -> EpisodeData:
        """The episode for a hindsight: rewards and scores, but no hindsight's."""
        work = self._work
        data = _episode.decode(work.episode)
        rewards = [reward for reward in data.rewards if reward.source != "hindsight"]
        rewards += self._given(done)
        for call, outcome in zip(work.calls, done, strict=False):
            name = work.sources[call.source].name
            if call.hook == "check" and outcome.value is not None and name in work.verdicts:
                rewards.append(
                    RewardData(
                        verifier=name, version=work.sources[call.source].version,
                        value=outcome.value, source="verifier", event_id=work.verdicts[name],
                    )
                )  # fmt: skip
        return msgspec.structs.replace(data, rewards=rewards)

    def recorded(self, verifier: str, step: int | None) -> RecordedQueries:
        """Answers to what the verifier asked at a step, or in its check."""
        parts = self._parts()
        event_id = None if step is None else self._around[step][0].event_id
        return RecordedQueries(
            [q for q in parts.queries if q.verifier == verifier and q.step == event_id]
        )


class Unrewarded(BaseException):
    """A check reads rewards that have not been given. It is no Exception, which authors catch."""


class WhileCalled:
    """A way to ask apps that ends with the call it was made for."""

    def __init__(self, ask: Query) -> None:
        self._ask: Query | None = ask

    def __call__(self, app: str, action: str, arguments: dict[str, Any]) -> Any:
        """Ask. Raises QueryRefused."""
        if self._ask is None:
            raise QueryRefused(
                f"app {app!r} can't be asked for {action!r}: the hook that could ask is over"
            )
        return self._ask(app, action, arguments)

    def end(self) -> None:
        """Answer nothing more."""
        self._ask = None


def reward(function: Callable[[Step], Any], step: Step, places: Places) -> Outcome:
    """Call a reward."""
    try:
        return Outcome(value=values.reward(function(step)))
    except BaseException as error:
        return failed(error, function, places)


def check(function: Callable[[Episode], Any], episode: Episode, places: Places) -> Outcome:
    """Call a check."""
    try:
        given = values.output(function(episode))
        if episode.looked_at_live():
            given = msgspec.structs.replace(given, live=True)
        return Outcome(value=given.score, body=values.fitting(given, "check"))
    except BaseException as error:
        return failed(error, function, places)


def unrewarded(
    function: Callable[[Episode], Any], data: EpisodeData, query: Query, places: Places
) -> Outcome:
    """Call a check whose rewards nobody has given; as soon as it reads them, it is over."""
    read = False

    def earned() -> None:
        nonlocal read
        read = True
        raise Unrewarded

    outcome = check(function, Episode(data, query, earned), places)
    return Outcome(unrewarded=True) if read else outcome


def hindsight(
    function: Callable[[HindsightTrial], Any],
    data: EpisodeData,
    score: float | None,
    places: Places,
) -> Outcome:
    """Call a hindsight, and take all that it yields, or nothing."""
    known = {step.event_id for step in data.steps}
    known |= {str(call.get("event_id")) for call in data.model_calls}
    try:
        return Outcome(body=values.credited(function(HindsightTrial(data, score)), known))
    except BaseException as error:
        return failed(error, function, places)


def total(verifier: str, version: str, rewards: Sequence[RewardData]) -> float:
    """The sum of a verifier's own step rewards: what `total_reward` scores."""
    return math.fsum(
        reward.value
        for reward in rewards
        if (reward.verifier, reward.version, reward.source) == (verifier, version, "step")
    )


def scored(value: float) -> bytes:
    """What a check that gave nothing but a score gave."""
    return values.fitting(CheckGiven(score=value), "check")


def combined(work: Work, done: Sequence[Outcome]) -> float | None:
    """The score that a work's checks come to; null where one has failed, or there are none.

    One check's score is the trial's as it is; several are weighted.
    """
    scores: list[tuple[float, float]] = []
    for call, outcome in zip(work.calls, done, strict=False):
        if call.hook == "check":
            if outcome.value is None:
                return None
            scores.append((work.sources[call.source].weight, outcome.value))
    if len(scores) <= 1:
        return scores[0][1] if scores else None
    return math.fsum(weight * score for weight, score in scores) / math.fsum(
        weight for weight, _ in scores
    )


def failed(error: BaseException, function: Any, places: Places) -> Outcome:
    """The outcome of a call that raised, or gave what it must not."""
    if not isinstance(error, WrongValue):
        return Outcome(fault=fault_of(error, places))
    code = getattr(function, "__code__", None)
    line: str | None = None
    if code is not None:
        line = places.shown(code.co_filename, error.line or code.co_firstlineno)
    return Outcome(fault=HookFault(error=bounded(str(error)), line=line))
