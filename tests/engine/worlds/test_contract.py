"""What every world does the same way, wherever its apps live."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trialog.engine.authoring.views import QueryRefused
from trialog.engine.projects.model import AppManifest
from trialog.engine.worlds.protocol import WorldClient
from trialog.engine.worlds.source import WorldSource
from trialog.engine.worlds.world import AppFault, Snapshot

Open = Callable[..., Awaitable[WorldClient]]


@pytest.fixture(
    params=[
        "in-process",
        "process",
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
        pytest.param("docker", marks=pytest.mark.docker),
    ]
)
def way(request: pytest.FixtureRequest) -> str:
    """Each way in turn."""
    return str(request.param)


async def test_reset(open_world: Open) -> None:
    """A world that was made tells the first observation, and each app's state and control."""
    world = await open_world("Counter")

    reset = await world.reset()

    assert reset.observation["task"] == "one"
    assert reset.observation["word"] == "from the project"
    assert reset.observation["step"] == 1
    state = {"value": 0, "items": [], "secret": "state-mark-77f3"}
    assert reset.apps == {"counter": Snapshot(state=state, control="owned")}


async def test_an_action(open_world: Open) -> None:
    """An action gives its observation and the states of the apps that it changed."""
    world = await open_world("Counter")
    await world.reset()

    acted = await world.act("add", {"n": 3}, None)

    assert (acted.app, acted.action, acted.arguments) == ("counter", "add", {"n": 3})
    assert (acted.observation, acted.error) == (3, None)
    assert acted.states["counter"]["value"] == 3
    assert not acted.terminated
    assert not acted.truncated


async def test_an_action_without_effect(open_world: Open) -> None:
    """An action that changes nothing tells no state, and one that gives nothing gives null."""
    world = await open_world("Counter")
    await world.reset()

    acted = await world.act("nothing", {}, None)

    assert (acted.observation, acted.error, acted.states) == (None, None, {})


@pytest.mark.parametrize(
    ("name", "arguments", "app", "words"),
    [
        ("add", {"n": "three"}, None, "add: argument 'n': Expected `int`, got `str`"),
        ("add", {"n": 1.5}, None, "add: argument 'n'"),
        ("add", {}, None, "add: argument 'n' is missing"),
        ("add", {"n": 1, "m": 2}, None, "add takes no argument 'm'; it takes n"),
        ("get", {"m": 2}, None, "it takes no arguments"),
        ("put", {"item": {"name": 5}}, None, "put: argument 'item'"),
        ("fly", {}, None, "there is no action 'fly'; there are: add, echo"),
        ("add", {"n": 1}, "till", "there is no app 'till'; there are: counter"),
        ("reset", {}, None, "there is no action 'reset'"),
        ("fail", {}, None, "KeyError: 'no such thing'"),
        ("odd", {}, None, "TypeError"),
    ],
)
async def test_a_refused_action(
    open_world: Open, name: str, arguments: dict[str, Any], app: str | None, words: str
) -> None:
    """A wrong action, a wrong argument and an action that raises are errors for the agent."""
    world = await open_world("Counter")
    await world.reset()

    acted = await world.act(name, arguments, app)

    assert acted.observation is None
    assert acted.error is not None
    assert words in acted.error
    assert acted.arguments == arguments
    assert (await world.act("nothing", {}, None)).error is None


async def test_what_a_failing_action_changed(open_world: Open) -> None:
    """What an action changed before it raised is told as its state."""
    world = await open_world("Counter")
    await world.reset()

    acted = await world.act("fail", {}, None)

    assert acted.states["counter"]["value"] == 99


async def test_text_that_is_no_unicode(open_world: Open) -> None:
    """A lone surrogate is told as U+FFFD, in a state and an observation; the world goes on."""
    world = await open_world("Counter")
    await world.reset()

    put = await world.act("put", {"item": {"name": "tea\ud800"}}, None)
    echo = await world.act("echo", {"value": {"k\udcff": ["tea\ud800"]}}, None)

    assert (put.error, put.states["counter"]["items"][0]["name"]) == (None, "tea\ufffd")
    assert (echo.error, echo.observation) == (None, {"k\ufffd": ["tea\ufffd"]})


async def test_structs_as_arguments(open_world: Open) -> None:
    """Arguments are converted to the types of their annotations."""
    world = await open_world("Counter")
    await world.reset()

    acted = await world.act("put", {"item": {"name": "tea"}, "times": 2}, None)

    assert acted.observation == 2
    assert acted.states["counter"]["items"] == [{"name": "tea", "price": 1.0}] * 2


async def test_the_end(open_world: Open) -> None:
    """An app says when the episode has come to its end, or is cut off."""
    world = await open_world("Counter")
    await world.reset()

    assert (await world.act("add", {"n": -1}, None)).truncated
    acted = await world.act("add", {"n": 11}, None)
    assert acted.terminated
    assert not acted.truncated


async def test_queries(open_world: Open) -> None:
    """A read-only action can be asked."""
    world = await open_world("Counter")
    await world.reset()
    await world.act("add", {"n": 3}, None)

    assert await world.query("counter", "get", {}) == 3


@pytest.mark.parametrize(
    ("app", "name", "arguments", "words"),
    [
        ("counter", "add", {"n": 1}, "counter.add can change state"),
        ("counter", "sly", {}, "counter.sly says it is read-only, but it changed the state"),
        ("counter", "fly", {}, "there is no action 'fly'"),
        ("till", "get", {}, "there is no app 'till'"),
        ("counter", "get", {"x": 1}, "get takes no argument 'x'"),
    ],
)
async def test_refused_queries(
    open_world: Open, app: str, name: str, arguments: dict[str, Any], words: str
) -> None:
    """Nothing but a read-only action can be asked, and one that is not is found out."""
    world = await open_world("Counter")
    await world.reset()

    with pytest.raises(QueryRefused, match=words):
        await world.query(app, name, arguments)


async def test_final(open_world: Open) -> None:
    """The states at the end are those after the last action."""
    world = await open_world("Counter", "Second")
    await world.reset()
    await world.act("add", {"n": 3}, "second")

    final = await world.final()

    assert (final["counter"]["value"], final["second"]["value"]) == (0, -3)


async def test_several_apps(open_world: Open) -> None:
    """With several apps the observation is by app, and an action of two apps needs a name."""
    world = await open_world("Counter", "Second")

    reset = await world.reset()
    both = await world.act("add", {"n": 1}, None)
    one = await world.act("add", {"n": 1}, "second")

    assert list(reset.observation) == ["counter", "second"]
    assert both.error == "several apps have an action 'add' (counter, second); say which"
    assert one.app == "second"
    assert list(one.states) == ["second"]


async def test_no_app(open_world: Open) -> None:
    """An environment without an app has no state and no action."""
    world = await open_world()

    reset = await world.reset()

    assert (reset.observation, reset.apps) == (None, {})
    assert await world.actions() == []
    assert await world.final() == {}
    acted = await world.act("add", {"n": 1}, None)
    assert acted.error == "there is no action 'add'; there are: none"


async def test_names_settings_and_control(open_world: Open) -> None:
    """The manifest's entry of an app gives it another name, settings, and a control level."""
    entry = AppManifest(python="env.py:Counter", name="till", settings={"step": 5}, control="live")
    world = await open_world(entry, "Counter")

    reset = await world.reset()

    assert list(reset.apps) == ["till", "counter"]
    assert [app.control for app in reset.apps.values()] == ["live", "owned"]
    assert [each["step"] for each in reset.observation.values()] == [5, 1]
    assert {spec.app for spec in await world.actions()} == {"till", "counter"}


async def test_initial_state(open_world: Open) -> None:
    """A task's initial state is the app's, and with several apps each one's."""
    one = await open_world("Counter", initial_state={"value": 4})
    two = await open_world("Counter", "Second", initial_state={"second": {"value": 6}})

    assert (await one.reset()).apps["counter"].state["value"] == 4
    apps = (await two.reset()).apps
    assert (apps["counter"].state["value"], apps["second"].state["value"]) == (0, 6)


@pytest.mark.parametrize(
    ("apps", "state", "words"),
    [
        (["Counter"], {"vale": 4}, "there is no field 'vale'; there are: value, items, secret"),
        (
            ["Counter", "Second"],
            {"value": 4},
            "there is no app 'value'; there are: counter, second",
        ),
        (["Counter", "Second"], {"second": {"vale": 4}}, "there is no field 'vale'"),
        (["Counter"], {"value": "four"}, "Expected `int`, got `str`"),
        (
            ["Counter"],
            {"value": "four", "vale": 4, "items": {"a": "b"}},
            r"no field 'vale'; .*; Expected `int`, got `str` - at `\$\.value`; .*`\$\.items",
        ),
        (["Counter", "Second"], {"second": 4}, "Expected `object`, got `int`"),
    ],
)
async def test_a_wrong_initial_state(
    open_world: Open, apps: list[str], state: dict[str, Any], words: str
) -> None:
    """An initial state that no app has is an error that names what there is."""
    world = await open_world(*apps, initial_state=state)

    with pytest.raises(AppFault, match=words) as caught:
        await world.reset()

    assert caught.value.hook == "reset"


async def test_seeds(open_world: Open) -> None:
    """The same seed gives the same world, another one another; apps share no chance."""
    rolled: list[Any] = []
    for seed in (1, 1, 2):
        world = await open_world("Counter", AppManifest(python="env.py:Counter", name="b"),
                                 seed=seed)  # fmt: skip
        await world.reset()
        rolled.append([(await world.act("roll", {}, app)).observation for app in ("counter", "b")])

    assert rolled[0] == rolled[1]
    assert rolled[0] != rolled[2]
    assert rolled[0][0] != rolled[0][1]


async def test_a_world_is_new_each_time(open_world: Open) -> None:
    """What happened in one trial's world is not in the next one's."""
    first = await open_world("Counter")
    await first.reset()
    await first.act("add", {"n": 3}, None)
    second = await open_world("Counter")

    assert (await second.reset()).apps["counter"].state["value"] == 0
    assert (await first.final())["counter"]["value"] == 3


async def test_values_arrive_as_they_are(open_world: Open) -> None:
    """JSON data goes there and back unchanged: large numbers, floats, text, the order of keys."""
    world = await open_world("Counter")
    await world.reset()
    value = {
        "z": [1, 1.0, -0.0, 1e-7, 1e22, 2**200, -(2**64), True, None],
        "a": {"": "", "é\u0000\u2028": "\U0001f600", "$blob": "x"},
        "deep": [[[[[[]]]]]],
    }

    acted = await world.act("echo", {"value": value}, None)

    assert acted.error is None
    assert json.dumps(acted.observation) == json.dumps(value)


async def test_actions(open_world: Open) -> None:
    """Agents are told each action's app, name, description and schema."""
    world = await open_world("Counter")
    specs = {spec.name: spec for spec in await world.actions()}

    put = specs["put"]
    assert (put.app, put.description, put.readonly) == ("counter", "Put items in.", False)
    assert specs["get"].readonly
    assert [(p.name, p.required) for p in put.parameters] == [("item", True), ("times", False)]
    schema = put.schema()
    assert schema["required"] == ["item"]
    assert schema["properties"]["times"]["type"] == "integer"
    assert schema["$defs"]["Item"]["properties"]["price"]["type"] == "number"


@pytest.mark.parametrize(
    ("app", "name", "hook", "words"),
    [
        ("BadReset", None, "reset", "app 'badreset': reset raised ValueError: no world today"),
        ("BadSnapshot", "touch", "snapshot", "app 'badsnapshot': snapshot raised RuntimeError"),
        ("BadEnd", "touch", "terminated", "app 'badend': terminated raised ZeroDivisionError"),
    ],
)
async def test_an_app_that_fails(
    open_world: Open, app: str, name: str | None, hook: str, words: str
) -> None:
    """A hook of an app's own that raises ends its world, and the error names app and hook."""
    world = await open_world(app)

    with pytest.raises(AppFault, match=words) as caught:
        await _reset_and_act(world, name)

    assert (caught.value.app, caught.value.hook) == (app.lower(), hook)
    assert caught.value.category == "app_failed"


async def _reset_and_act(world: WorldClient, name: str | None) -> None:
    await world.reset()
    if name is not None:
        await world.act(name, {}, None)


async def test_closing_twice(open_world: Open) -> None:
    """A world may be closed more than once, and the next one is not harmed."""
    world = await open_world("Counter")
    await world.reset()

    await world.aclose()
    await world.aclose()

    other = await open_world("Counter")
    assert await other.reset() is not None


async def test_a_source_without_an_app(
    open_world: Open, source: Callable[..., WorldSource]
) -> None:
    """A reference to something that is no app is refused, with its name."""
    with pytest.raises(Exception, match="NotAnApp is no App; write"):
        await open_world("NotAnApp")
