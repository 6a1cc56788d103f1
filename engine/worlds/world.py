"""A world in this process: apps of one trial, acted on one action at a time."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from ...events.errors import TrialogError
from ...events.values import json_bytes, without_surrogates
from ..authoring.app import ActionSpec, App
from ..authoring.environment import Environment
from ..authoring.states import known_fields, state_faults, unknown_apps
from ..authoring.task import TaskView
from ..authoring.views import QueryRefused
from ..errors import ConfigError


class AppFault(TrialogError):
    """An app's own hook (reset, snapshot, terminated …) failed; its world is of no more use."""

    category = "app_failed"

    def __init__(self, app: str, hook: str, error: BaseException) -> None:
        self.app = app
        self.hook = hook
        super().__init__(f"app {app!r}: {hook} raised {type(error).__name__}: {error}")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An app's state at one moment."""

    state: Any
    control: str


class WorldReset(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A world that has just been made."""

    observation: Any
    apps: dict[str, Snapshot]


class Acted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came of an action. Exactly one of `observation` and `error` says it, unless both are
    null: an action may give nothing."""

    app: str
    action: str
    arguments: dict[str, Any]
    observation: Any = None
    error: str | None = None
    states: dict[str, Any] = {}
    """Of the apps that changed by it."""
    terminated: bool = False
    truncated: bool = False


def as_recorded(value: Any) -> Any:
    """A value as the log will have it. Raises TypeError, ValueError for what is no JSON data."""
    return msgspec.json.decode(json_bytes(value))


def _untold(app: str, hook: str) -> None:
    """For worlds of which nobody needs to know what they are at."""


class World:
    """The apps of one trial. Its methods block for as long as the apps' own code does.

    `entering` is told an app and its hook or action before that code is run.
    """

    def __init__(
        self,
        environment: Environment,
        task: TaskView,
        *,
        seed: int,
        entering: Callable[[str, str], None] = _untold,
    ) -> None:
        self.environment = environment
        self.task = task
        self.seed = seed
        self._entering = entering
        self._apps: dict[str, App[Any]] = {}
        self._states: dict[str, bytes] = {}

    def reset(self) -> WorldReset:
        """Make the apps. Raises AppFault."""
        observations: dict[str, Any] = {}
        for name, kind in self.environment.apps.items():
            self._entering(name, "reset")
            try:
                app = kind()
                app.settings = self.environment.settings.get(name, {})
                app.rng = random.Random(f"{self.seed}\n{name}")  # noqa: S311 - worlds, not secrets
                app.state = self._first_state(name, kind)
                observations[name] = as_recorded(app.reset(self.task))
            except Exception as error:
                raise AppFault(name, "reset", error) from error
            self._apps[name] = app
        self._states = {name: self._encoded(name) for name in self._apps}
        observation: Any = observations
        if len(observations) <= 1:
            observation = next(iter(observations.values()), None)
        return WorldReset(
            observation=observation,
            apps={
                name: Snapshot(state=msgspec.json.decode(raw), control=self._apps[name].control)
                for name, raw in self._states.items()
            },
        )

    def _first_state(self, name: str, kind: type[App[Any]]) -> msgspec.Struct:
        given: Any = self.task.initial_state or {}
        if len(self.environment.apps) > 1:
            if faults := unknown_apps(given, self.environment.apps):
                raise ConfigError("; ".join(faults), key="initial_state")
            given = given.get(name) or {}
        state = kind.state_type()
        try:
            if not isinstance(given, dict) or known_fields(state).issuperset(cast("Any", given)):
                return msgspec.convert(given, state)
        except msgspec.ValidationError:
            pass
        raise ConfigError("; ".join(state_faults(given, state)), key="initial_state")

    def actions(self) -> list[ActionSpec]:
        """What an agent may do."""
        return [spec for kind in self.environment.apps.values() for spec in kind.actions().values()]

    def act(self, name: str, arguments: Mapping[str, Any], app: str | None = None) -> Acted:
        """Take an action; what is wrong with it is an error for the agent. Raises AppFault."""
        given: dict[str, Any] = dict(arguments)
        spec = self._find(name, app)
        if isinstance(spec, str):
            return Acted(app=app or "", action=name, arguments=given, error=spec)
        observation, error = self._call(spec, given)
        changed: dict[str, Any] = {}
        for other in self._apps:
            raw = self._encoded(other)
            if raw != self._states[other]:
                self._states[other] = raw
                changed[other] = msgspec.json.decode(raw)
        return Acted(
            app=spec.app,
            action=name,
            arguments=given,
            observation=observation,
            error=error,
            states=changed,
            terminated=self._any("terminated"),
            truncated=self._any("truncated"),
        )

    def query(self, app: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """The answer of a read-only action. Raises QueryRefused."""
        spec = self._find(name, app)
        if isinstance(spec, str):
            raise QueryRefused(spec)
        if not spec.readonly:
            raise QueryRefused(f"{app}.{name} can change state, so verifiers may not use it")
        observation, error = self._call(spec, dict(arguments))
        if error is not None:
            raise QueryRefused(error)
        if self._encoded(app) != self._states[app]:
            raise QueryRefused(f"{app}.{name} says it is read-only, but it changed the state")
        return observation

    def final(self) -> dict[str, Any]:
        """Each app's state now."""
        return {name: msgspec.json.decode(raw) for name, raw in self._states.items()}

    def _find(self, name: str, app: str | None) -> ActionSpec | str:
        """The action, or why there is none."""
        kinds = self.environment.apps
        if app is not None and app not in kinds:
            return f"there is no app {app!r}; there are: {', '.join(kinds) or 'none'}"
        found = [
            kind.actions()[name]
            for called, kind in kinds.items()
            if app in (None, called) and name in kind.actions()
        ]
        if len(found) == 1:
            return found[0]
        if found:
            owners = ", ".join(spec.app for spec in found)
            return f"several apps have an action {name!r} ({owners}); say which"
        known = [spec.name for kind in kinds.values() for spec in kind.actions().values()]
        return f"there is no action {name!r}; there are: {', '.join(known) or 'none'}"

    def _call(self, spec: ActionSpec, given: dict[str, Any]) -> tuple[Any, str | None]:
        known = {parameter.name: parameter for parameter in spec.parameters}
        for name in given:
            if name not in known:
                takes = ", ".join(known) or "no arguments"
                return None, f"{spec.name} takes no argument {name!r}; it takes {takes}"
        converted: dict[str, Any] = {}
        for name, parameter in known.items():
            if name in given:
                try:
                    converted[name] = msgspec.convert(given[name], parameter.type)
                except msgspec.ValidationError as error:
                    return None, f"{spec.name}: argument {name!r}: {error}"
            elif parameter.required:
                return None, f"{spec.name}: argument {name!r} is missing"
        self._entering(spec.app, spec.name)
        try:
            result = getattr(self._apps[spec.app], spec.name)(**converted)
            if inspect.isawaitable(result):
                return None, f"{spec.name} is asynchronous; an action is a plain method"
            return as_recorded(result), None
        except Exception as error:  # whatever the app's author raises is for the agent to read
            return None, without_surrogates(f"{type(error).__name__}: {error}")[0]

    def _encoded(self, name: str) -> bytes:
        self._entering(name, "snapshot")
        try:
            return json_bytes(self._apps[name].snapshot())
        except Exception as error:
            raise AppFault(name, "snapshot", error) from error

    def _any(self, hook: str) -> bool:
        for name, app in self._apps.items():
            self._entering(name, hook)
            try:
                if getattr(app, hook)():
                    return True
            except Exception as error:
                raise AppFault(name, hook, error) from error
        return False
