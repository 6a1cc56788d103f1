"""Apps as their authors write them: names, states, actions and the types of arguments."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from trialog import App, action
from trialog.engine.errors import ConfigError


class Count(msgspec.Struct):
    """A state."""

    value: int = 0


class Item(msgspec.Struct):
    """An argument."""

    name: str
    price: float = 1.0


class Shop(App[Count]):
    """An app."""

    @action
    def buy(self, item: Item, times: int = 1, *, how: Literal["cash", "card"] = "cash") -> int:
        """Buy something.

        As often as asked.
        """
        return times

    @action(readonly=True)
    def look(self) -> int:  # noqa: D102 - it has no description
        return self.state.value

    def not_an_action(self) -> None:
        """Agents don't see it."""


class Named(Shop):
    """An app with a name of its own."""

    name = "till"

    @action
    def shut(self) -> None:
        """Shut."""


def test_names() -> None:
    """An app is called by its class's name in lower case, or as it says itself."""
    assert (Shop.app_name(), Named.app_name()) == ("shop", "till")


def test_the_state_type() -> None:
    """The state's type is the one in brackets, of a base class, too."""
    assert Shop.state_type() is Count
    assert Named.state_type() is Count


def test_no_state_type() -> None:
    """An app that names no state type is refused with the line to write."""

    class Bare(App):  # type: ignore[type-arg]
        """Names none."""

    class Wrong(App[dict]):  # type: ignore[type-arg,type-var]
        """Names one that is no struct."""

    with pytest.raises(ConfigError, match=r"write `class Bare\(App\[State\]\)` with a msgspec"):
        Bare.state_type()
    with pytest.raises(ConfigError, match=r"write `class Wrong\(App\[State\]\)`"):
        Wrong.state_type()


def test_actions() -> None:
    """The actions are the marked methods, inherited ones included, and no other."""
    assert set(Shop.actions()) == {"buy", "look"}
    assert set(Named.actions()) == {"buy", "look", "shut"}
    buy, look = Shop.actions()["buy"], Shop.actions()["look"]
    assert (buy.app, buy.readonly, look.readonly) == ("shop", False, True)
    assert buy.description == "Buy something.\n\nAs often as asked."
    assert look.description == ""
    assert Named.actions()["buy"].app == "till"
    assert [(p.name, p.type, p.required) for p in buy.parameters] == [
        ("item", Item, True),
        ("times", int, False),
        ("how", Literal["cash", "card"], False),
    ]


def test_schemas() -> None:
    """The JSON schema of an action has its arguments' types, and refuses any other argument."""
    schema = Shop.actions()["buy"].schema()

    assert schema["type"] == "object"
    assert schema["required"] == ["item"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"item", "times", "how"}
    assert schema["properties"]["item"] == {"$ref": "#/$defs/Item"}
    assert schema["$defs"]["Item"]["required"] == ["name"]
    assert Shop.actions()["look"].schema()["properties"] == {}


def test_a_type_of_the_schemas_own_name() -> None:
    """An argument's type may have the very name that the schema gives to all arguments."""
    arguments = msgspec.defstruct("Arguments", [("x", int)])

    class Odd(App[Count]):
        """Takes it."""

        @action
        def take(self, it: arguments) -> None:  # type: ignore[valid-type]
            """Take it."""

    Odd.take.__annotations__["it"] = arguments
    schema = Odd.actions()["take"].schema()

    assert "#/$defs/" in str(schema)
    for name in [part.split("'")[0] for part in str(schema).split("#/$defs/")[1:]]:
        assert name in schema["$defs"]


def test_arguments_without_annotations() -> None:
    """An action whose argument has no annotation is refused, with class, action and argument."""

    class Loose(App[Count]):
        """Has one."""

        @action
        def do(self, what) -> None:  # type: ignore[no-untyped-def]
            """Do it."""

    with pytest.raises(ConfigError, match=r"Loose.do: argument 'what' needs a type annotation"):
        Loose.actions()


@pytest.mark.parametrize("kind", ["args", "kwargs", "positional"])
def test_arguments_without_names(kind: str) -> None:
    """An action takes named arguments only."""

    class Many(App[Count]):
        """Has others."""

        @action
        def args(self, *what: int) -> None:
            """Any number."""

        @action
        def kwargs(self, **what: int) -> None:
            """Any name."""

        @action
        def positional(self, what: int, /) -> None:
            """No name."""

    for name in {"args", "kwargs", "positional"} - {kind}:
        setattr(Many, name, None)

    with pytest.raises(ConfigError, match=f"Many.{kind}: an action takes named arguments only"):
        Many.actions()


def test_what_an_app_need_not_write() -> None:
    """Hooks have defaults: no observation, the state as JSON data, and no end."""
    app = Shop()
    app.state = Count(value=3)
    nothing: Any = None

    assert app.reset(nothing) is None
    assert app.snapshot() == {"value": 3}
    assert not app.terminated()
    assert not app.truncated()
    assert app.control == "owned"
