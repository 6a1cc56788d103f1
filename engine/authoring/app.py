"""Apps: the parts of a world that an agent acts on."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin, overload

import msgspec

from ..errors import ConfigError
from .task import TaskView

StateT = TypeVar("StateT", bound=msgspec.Struct)
MethodT = TypeVar("MethodT", bound=Callable[..., Any])

Control = Literal["owned", "sandboxed", "live", "replayed"]
"""How far an app's state can be trusted: made fresh for the trial, made in a sandbox, shared with
others who may change it, or played back from a record."""

_MARK = "__trialog_action__"


@overload
def action(method: MethodT, /) -> MethodT: ...
@overload
def action(*, readonly: bool = False) -> Callable[[MethodT], MethodT]: ...
def action(method: Any = None, /, *, readonly: bool = False) -> Any:
    """Mark a method of an app as an action that an agent may take.

    `readonly` says that it changes no state, so that verifiers may use it too. Arguments are
    checked against their annotations before the method is called.
    """

    def mark(function: MethodT) -> MethodT:
        setattr(function, _MARK, readonly)
        return function

    return mark if method is None else mark(method)


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of an action."""

    name: str
    type: Any
    required: bool


class ActionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An action as agents are told of it."""

    app: str
    name: str
    description: str
    readonly: bool
    parameters: list[Parameter]

    def schema(self) -> dict[str, Any]:
        """The arguments as a JSON schema, for models that call tools."""
        names = [
            (p.name, p.type) if p.required else (p.name, p.type, None) for p in self.parameters
        ]
        shape = msgspec.defstruct("Arguments", names, forbid_unknown_fields=True)
        schemas, components = msgspec.json.schema_components([shape])
        schema = dict(components.get("Arguments", schemas[0]))
        if len(components) > 1:
            schema["$defs"] = {k: v for k, v in components.items() if k != "Arguments"}
        return schema


class App(Generic[StateT]):
    """A part of a world: typed state, and actions on it.

    ```python
    class Counter(App[Count]):
        @action
        def add(self, n: int) -> int:
            self.state.value += n
            return self.state.value
    ```

    One object serves one trial. `state` starts as the state type's own defaults, or as the task's
    `initial_state`; `rng` is seeded by the trial.
    """

    name: ClassVar[str | None] = None
    """What tasks and rewards call it; the class's name in lower case when not set."""
    control: ClassVar[Control] = "owned"

    state: StateT
    rng: random.Random
    settings: Mapping[str, Any]

    def reset(self, task: TaskView) -> Any:
        """Make the world ready for a task; what it gives is the first observation, or a part."""

    def snapshot(self) -> Any:
        """The state as JSON data: what verifiers see and the log keeps."""
        return msgspec.to_builtins(self.state)

    def terminated(self) -> bool:
        """Whether the episode has come to its natural end."""
        return False

    def truncated(self) -> bool:
        """Whether the episode is cut off here."""
        return False

    # For the engine

    @classmethod
    def app_name(cls) -> str:
        """What it is called."""
        return cls.name or cls.__name__.lower()

    @classmethod
    @functools.cache
    def state_type(cls) -> type[msgspec.Struct]:
        """The `State` of ``App[State]``. Raises ConfigError where none is given."""
        for base in cls.__mro__:
            for original in getattr(base, "__orig_bases__", ()):
                if get_origin(original) is App:
                    (state,) = get_args(original)
                    if isinstance(state, type) and issubclass(state, msgspec.Struct):
                        return state
        raise ConfigError(
            f"{cls.__qualname__} names no state type; write `class {cls.__name__}(App[State])` "
            "with a msgspec.Struct as State"
        )

    @classmethod
    @functools.cache
    def actions(cls) -> dict[str, ActionSpec]:
        """Its actions by name. Raises ConfigError for one without annotations."""
        found: dict[str, ActionSpec] = {}
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            readonly = getattr(method, _MARK, None)
            if readonly is not None:
                found[name] = _describe(cls, name, method, readonly)
        return found


def _describe(
    app: type[App[Any]], name: str, method: Callable[..., Any], readonly: bool
) -> ActionSpec:
    hints = inspect.get_annotations(method, eval_str=True)
    parameters: list[Parameter] = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        place = f"{app.__qualname__}.{name}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"{place}: an action takes named arguments only, not {parameter}")
        if parameter.name not in hints:
            raise ConfigError(f"{place}: argument {parameter.name!r} needs a type annotation")
        parameters.append(
            Parameter(
                name=parameter.name,
                type=hints[parameter.name],
                required=parameter.default is parameter.empty,
            )
        )
    return ActionSpec(
        app=app.app_name(),
        name=name,
        description=inspect.getdoc(method) or "",
        readonly=readonly,
        parameters=parameters,
    )
