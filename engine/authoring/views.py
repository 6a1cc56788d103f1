"""What checks, rewards and hindsight are given: read-only views of a recorded episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec

from ...events.errors import TrialogError
from ...projections.episode import EpisodeData, QueryData, RewardData, StepData, TaskData

Query: TypeAlias = Callable[[str, str, dict[str, Any]], Any]
"""App, action, arguments → the answer; raises QueryRefused."""


class QueryRefused(TrialogError):
    """A verifier asked an app for something that it may not ask, or not any more."""


class UnknownEvent(TrialogError):
    """A credit names an event that the trial does not have."""

    def __init__(self, event_id: str) -> None:
        self.event_id = event_id
        super().__init__(f"the trial has no event {event_id!r} to credit")


def gone(app: str, action: str, arguments: dict[str, Any]) -> Any:
    """The query of an app that is no more."""
    raise QueryRefused(
        f"app {app!r} can't be asked for {action!r} any more: the trial is over; read `final`"
    )


def _untold() -> None:
    """For states that nobody needs to know the readers of."""


class AppView:
    """An app at the start and the end of an episode. `read` is told when a state is looked at."""

    def __init__(
        self, name: str, data: Any, query: Query = gone, read: Callable[[], None] = _untold
    ) -> None:
        self.name = name
        self._initial: Any = data.initial
        self._final: Any = data.final
        self.control: str = data.control
        self._query = query
        self._read = read

    @property
    def initial(self) -> Any:
        """The state at the start."""
        self._read()
        return self._initial

    @property
    def final(self) -> Any:
        """The state at the end."""
        self._read()
        return self._final

    def query(self, action: str, **arguments: Any) -> Any:
        """The answer of one of the app's read-only actions, while the trial is running.

        Raises QueryRefused for an action that can change state, and once the trial is over.
        """
        return self._query(self.name, action, arguments)


class StepApp:
    """An app as a step's reward sees it: its state right after the step."""

    def __init__(self, name: str, state: Any, query: Query = gone) -> None:
        self.name = name
        self.state: Any = state
        self._query = query

    def snapshot(self) -> Any:
        """The app's state, as JSON data."""
        return self.state

    def query(self, action: str, **arguments: Any) -> Any:
        """The answer of one of the app's read-only actions; see AppView.query."""
        return self._query(self.name, action, arguments)


class Step(dict[str, Any]):
    """One action and what came of it: `step.error` and `step["error"]` are the same.

    A reward is given one right after it was taken; trajectories and `steps()` are lists of them.
    """

    event_id: str
    turn: int
    app: str
    action: str
    arguments: dict[str, Any]
    observation: Any
    error: str | None
    previous_state: Any
    """The acting app's state before the step."""
    current_state: Any
    """The acting app's state right after it."""
    observed_by: Literal["host", "agent"]

    def __init__(
        self,
        task: TaskData,
        step: StepData,
        previous: Mapping[str, Any],
        current: Mapping[str, Any],
        query: Query = gone,
    ) -> None:
        super().__init__(
            event_id=step.event_id,
            turn=step.turn,
            app=step.app,
            action=step.action,
            arguments=step.arguments,
            observation=step.observation,
            error=step.error,
            previous_state=previous.get(step.app),
            current_state=current.get(step.app),
            observed_by=step.observed_by,
        )
        self.task = task
        self._current = current
        self._query = query

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"a step has no {name!r}; it has {', '.join(self)}, task, apps"
            ) from None

    @property
    def apps(self) -> Mapping[str, StepApp]:
        """Every app as it was right after the step."""
        return MappingProxyType(
            {name: StepApp(name, state, self._query) for name, state in self._current.items()}
        )


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an episode ended."""

    terminated: bool
    truncated: bool
    reason: str | None


class Episode:
    """A finished episode, for a check. `earned` is told when the rewards are looked at."""

    def __init__(
        self, data: EpisodeData, query: Query = gone, earned: Callable[[], None] = _untold
    ) -> None:
        self.task = data.task
        self.expected: Any = data.task.expected
        self.apps: Mapping[str, AppView] = MappingProxyType(
            {
                name: AppView(name, app, query, self._look if app.control == "live" else _untold)
                for name, app in data.apps.items()
            }
        )
        self._live = any(app.control == "live" for app in data.apps.values())
        self._looked = False
        self._data = data
        self._trajectory: list[Step] | None = None
        self._earned = earned
        self.observation: Any = data.steps[-1].observation if data.steps else data.first_observation
        self.answer: Any = data.answer[0] if data.answer else None
        self.artifacts = data.artifacts
        self.usage = data.usage
        self.outcome = Outcome(
            terminated=data.terminated, truncated=data.truncated, reason=data.reason
        )

    @property
    def trajectory(self) -> list[Step]:
        """The steps in order, each with the acting app's state before and after it."""
        self._looked = self._looked or self._live
        if self._trajectory is None:  # most checks read no more than how it ended
            self._trajectory = list(replayed(self._data))
        return self._trajectory

    @property
    def rewards(self) -> list[RewardData]:
        """What the steps were rewarded with."""
        self._earned()
        return self._data.rewards

    def looked_at_live(self) -> bool:
        """Whether the state of an app that others share has been read."""
        return self._looked

    def _look(self) -> None:
        self._looked = True

    @property
    def state(self) -> Any:
        """With one app its final state; with several a mapping of each app's; with none null."""
        if len(self.apps) == 1:
            return next(iter(self.apps.values())).final
        return {name: app.final for name, app in self.apps.items()} or None


class Credit(msgspec.Struct, frozen=True, kw_only=True):
    """Credit given in hindsight."""

    event_id: str
    value: float
    target: Literal["step", "event"] = "step"
    field: str | None = None
    start: int | None = None
    end: int | None = None
    token_start: int | None = None
    token_end: int | None = None
    metadata: dict[str, Any] = {}

    @property
    def space(self) -> Literal["action", "output", "reasoning"]:
        """What of the agent's it is about: a step, what a model said, or what it thought."""
        if self.target == "step":
            return "action"
        return "reasoning" if self.field == "reasoning" else "output"


class HindsightTrial:
    """A scored trial, for crediting what deserved it."""

    def __init__(self, data: EpisodeData, score: float | None) -> None:
        self.task = data.task
        self.score = score
        self.answer: Any = data.answer[0] if data.answer else None
        self.apps: Mapping[str, AppView] = MappingProxyType(
            {name: AppView(name, app) for name, app in data.apps.items()}
        )
        self.rewards: list[RewardData] = data.rewards
        self._steps = list(replayed(data))
        self._calls = data.model_calls
        self._known = {step["event_id"]: "step" for step in self._steps}
        self._known |= {call["event_id"]: "event" for call in self._calls}

    def steps(self, action: str | None = None) -> list[Step]:
        """The steps, or those of one action; refused ones included."""
        return [step for step in self._steps if action is None or step["action"] == action]

    def model_calls(self) -> list[dict[str, Any]]:
        """The model calls. Each has its `event_id`."""
        return self._calls

    def credit(
        self,
        target: str | Mapping[str, Any],
        value: float,
        *,
        field: str | None = None,
        start: int | None = None,
        end: int | None = None,
        token_start: int | None = None,
        token_end: int | None = None,
        **metadata: Any,
    ) -> Credit:
        """Credit for a step or model call, by its event id or by what `steps()` gave; yield it.

        `field` with `start` and `end` (characters), or `token_start` and `token_end`, credits a
        span in one of the event's texts. Raises UnknownEvent.
        """
        event_id = target if isinstance(target, str) else str(target.get("event_id"))
        kind = self._known.get(event_id)
        if kind is None:
            raise UnknownEvent(event_id)
        return Credit(
            event_id=event_id, value=value, target="step" if kind == "step" else "event",
            field=field, start=start, end=end, token_start=token_start, token_end=token_end,
            metadata=metadata,
        )  # fmt: skip


def replayed(data: EpisodeData) -> Iterator[Step]:
    """The steps in order, with every app's state around each."""
    states = {name: app.initial for name, app in data.apps.items()}
    for step in data.steps:
        previous = states
        states = {**states, **step.states}
        yield Step(data.task, step, previous, states)


class NotRecorded(QueryRefused):
    """A question that has no recorded answer."""


class RecordedQueries:
    """Answers queries from the record, in the order in which they were asked."""

    def __init__(self, queries: list[QueryData]) -> None:
        self._left = list(queries)

    def __call__(self, app: str, action: str, arguments: dict[str, Any]) -> Any:
        """The recorded answer to the same question. Raises QueryRefused where it was refused, and
        NotRecorded where there is none."""
        for number, query in enumerate(self._left):
            if (query.app, query.action, query.arguments) == (app, action, arguments):
                del self._left[number]
                if query.error is not None:
                    raise QueryRefused(query.error)
                return query.answer
        raise NotRecorded(
            f"app {app!r} was not asked for {action!r} with these arguments while the trial ran, "
            "so a replay can't answer; read `final`"
        )
