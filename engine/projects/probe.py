"""A process that imports what a project's manifests name, and says what is wrong with it.

Started by `validate`, which can end it when a file runs for ever. Requests come on standard input
and answers go to standard output, one JSON object a line each; what the files themselves print goes
to standard error.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..authoring.app import App
from ..authoring.environment import Environment
from ..authoring.states import state_faults, unknown_apps
from ..errors import ConfigError
from .apps import authored_app, is_app
from .faults import raised
from .importing import Space
from .model import AppManifest

Role = Literal["app", "environment", "check", "reward", "hindsight", "policy"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be looked at."""

    role: Role
    folder: str
    root: str
    reference: str = ""
    """Of a hook or policy: ``file.py:name``."""
    apps: list[AppManifest] = []
    """Of an environment."""
    states: dict[str, dict[str, Any] | None] = {}
    """Initial states that apps are asked to take, by the task's name."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    message: str
    file: str | None = None
    """Null: at the reference in the manifest."""
    line: int = 1
    app: int | None = None
    task: str | None = None
    ended: bool = False
    """The process that imported it is no more."""


def main() -> None:
    """Answer until there are no more questions."""
    # The authors' files get streams of their own, so that they can't mix with these.
    with os.fdopen(os.dup(0), "rb") as questions, os.fdopen(os.dup(1), "wb") as answers:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        for line in questions:
            question = msgspec.json.decode(line, type=Question)
            answers.write(msgspec.json.encode(look(question)) + b"\n")
            answers.flush()


def look(question: Question) -> list[Found]:
    """What is wrong with what a question names."""
    space = Space(Path(question.folder), Path(question.root))
    if question.role == "environment":
        return _environment(space, question)
    found, value = _loaded(space, partial(space.load, question.reference))
    if found:
        return found
    if question.role == "policy":
        return _policy(question.reference, value)
    return _hook(question, value)


def _loaded(space: Space, load: Callable[[], Any]) -> tuple[list[Found], Any]:
    try:
        return [], load()
    except ConfigError as error:
        return [Found(message=str(error).removeprefix(f"{error.file}: "))], None
    except BaseException as error:
        return [_raised(space, error)], None


def _raised(space: Space, error: BaseException) -> Found:
    """Where in the author's own files it was raised."""
    place, message = raised(error, space.root)
    if place is None:
        return Found(message=message)
    return Found(message=message, file=place[0], line=place[1])


def _environment(space: Space, question: Question) -> list[Found]:
    faults: list[Found] = []
    kinds: list[type[App[Any]]] = []
    for index, app in enumerate(question.apps):
        found, value = _loaded(space, partial(_app, app, space))
        faults += [msgspec.structs.replace(each, app=index) for each in found]
        if is_app(value):
            kinds.append(value)
    if len(kinds) < len(question.apps):
        return faults
    try:
        environment = Environment(kinds)
    except ConfigError as error:
        return [*faults, Found(message=str(error))]
    return faults + [
        found
        for task, state in question.states.items()
        for found in _state(environment, task, state)
    ]


def _app(manifest: AppManifest, space: Space) -> type[App[Any]]:
    kind = authored_app(manifest, space, space.folder)
    kind.state_type()
    for action in kind.actions().values():
        action.schema()
        if inspect.iscoroutinefunction(getattr(kind, action.name)):
            raise ConfigError(f"{kind.__name__}.{action.name} is asynchronous; use a plain method")
    return kind


def _state(environment: Environment, task: str, state: dict[str, Any] | None) -> list[Found]:
    """Whether the apps can begin with a task's `initial_state`."""
    several = len(environment.apps) > 1
    found: list[Found] = []
    if several and state is not None:
        found += [
            Found(task=task, message=f"initial_state: {fault}")
            for fault in unknown_apps(state, environment.apps)
        ]
    for name, kind in environment.apps.items():
        given = (state or {}).get(name) if several else state
        what = "initial_state" if given else "the first state"
        found += [
            Found(task=task, message=f"{what}: app {name!r} can't begin: {fault}")
            for fault in state_faults(given or {}, kind.state_type())
        ]
    return found


def _hook(question: Question, value: Any) -> list[Found]:
    what = question.reference
    if not callable(value):
        return [Found(message=f"{what} is no function")]
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
        return [Found(message=f"{what} is asynchronous; a {question.role} is a plain function")]
    takes = {"check": "episode", "reward": "step", "hindsight": "trial"}[question.role]
    return _takes(value, 1, f"{what} must take one argument, the {takes}")


def _policy(what: str, value: Any) -> list[Found]:
    if not isinstance(value, type):
        if not inspect.iscoroutinefunction(value):
            return [Found(message=f"{what} is neither a class nor an async function")]
        return _takes(value, 2, f"{what} must take observation and actions")
    act = getattr(value, "act", None)
    if not inspect.iscoroutinefunction(act):
        return [Found(message=f"{what} has no `async def act(self, observation, actions)`")]
    return _takes(value, 0, f"{what} must be made without arguments") or _takes(
        act, 3, f"{what}.act must take observation and actions"
    )


def _takes(function: Callable[..., Any], count: int, message: str) -> list[Found]:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError as error:
        return [Found(message=f"{message} ({error})")]
    except ValueError:
        return []  # written in C, and says nothing of its arguments
    return []


if __name__ == "__main__":
    main()
