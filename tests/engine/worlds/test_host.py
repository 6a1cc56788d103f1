"""Apps in a process of their own: what they do to it costs only their own trial."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from trialog.engine.errors import SandboxError, SandboxGone
from trialog.engine.projects.model import AppManifest
from trialog.engine.worlds import connection, wire
from trialog.engine.worlds.connection import HostedWorld
from trialog.engine.worlds.faults import AppFailed, AppTimeout
from trialog.engine.worlds.world import AppFault

Open = Callable[..., Awaitable[HostedWorld]]
Make = Callable[..., Awaitable[Any]]
Running = Callable[[str], list[int]]
Until = Callable[[Callable[[], object]], Awaitable[None]]


@pytest.fixture(
    params=[
        "process",
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
        pytest.param("docker", marks=pytest.mark.docker),
    ]
)
def way(request: pytest.FixtureRequest) -> str:
    """Each way that has a process of the apps' own."""
    return str(request.param)


async def _wild(open_world: Open, **given: Any) -> HostedWorld:
    world = await open_world("Wild", **given)
    await world.reset()
    return world


@pytest.mark.parametrize("name", ["spin", "regex"])
async def test_an_endless_action(
    open_world: Open, make_worlds: Make, project: Path, name: str
) -> None:
    """An action that does not come back is ended at its deadline; the error names app and line."""
    worlds = await make_worlds(deadline=0.5)
    world = await _wild(open_world, using=worlds)
    lines = (project / "environments/desk/env.py").read_text("utf-8").splitlines()

    with pytest.raises(AppTimeout) as caught:
        await world.act(name, {}, None)

    begun, _, line = str(caught.value).partition(" (at env.py:")
    assert begun == f"app 'wild': {name} did not end within 0.5 s"
    assert lines[int(line.rstrip(")")) - 1].strip() in ("while True:", "pass") or name == "regex"
    assert (caught.value.app, caught.value.hook) == ("wild", name)
    assert caught.value.category == "app_timeout"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("leave", "app 'wild': leave ended the app's process with exit code 3"),
        ("quit", r"app 'wild': quit raised SystemExit: enough \(at env.py:\d+\)"),
        ("crash", r"app 'wild': crash ended .* with signal 11 \(SIGSEGV\) \(at env.py:\d+\)"),
    ],
)
async def test_an_app_that_ends_its_process(open_world: Open, name: str, words: str) -> None:
    """An app that exits or crashes fails its own trial, and the error names app, way and line."""
    world = await _wild(open_world)

    with pytest.raises(AppFailed, match=words) as caught:
        await world.act(name, {}, None)

    assert (caught.value.app, caught.value.hook) == ("wild", name)
    assert caught.value.category == "app_failed"
    await world.aclose()
    assert (await (await open_world("Counter")).reset()).observation["task"] == "one"


async def test_an_app_that_is_deaf(
    open_world: Open, make_worlds: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An action that gets around its deadline in its own process is ended from outside."""
    monkeypatch.setattr(connection, "GRACE", 1.0)
    world = await _wild(open_world, using=await make_worlds(deadline=0.5))

    with pytest.raises(AppTimeout, match=r"app 'env.py:Wild': deaf did not end within 0.5 s"):
        await world.act("deaf", {}, None)

    with pytest.raises(SandboxGone):
        await world.final()


async def test_an_app_that_closes_everything(open_world: Open) -> None:
    """An app that closes its way to the engine has ended its own trial."""
    world = await _wild(open_world)

    with pytest.raises(AppFailed, match=r"app 'wild': .* ended the app's process with exit code"):
        await world.act("shut", {}, None)


async def test_what_it_printed_last(open_world: Open) -> None:
    """The error of an app that ended its process has the end of what it printed."""
    world = await _wild(open_world)

    with pytest.raises(AppFailed, match="Its last output:\nabout to leave") as caught:
        await world.act("leave", {}, None)

    assert "Traceback" not in str(caught.value)


async def test_the_line_of_a_failing_hook(open_world: Open) -> None:
    """A hook that raises is told with its line in the app's own code."""
    world = await open_world("BadReset")

    with pytest.raises(AppFault, match=r"no world today \(at env.py:\d+\)$"):
        await world.reset()


async def test_others_go_on(open_world: Open, make_worlds: Make) -> None:
    """While an app of one trial hangs, the apps of others answer at once."""
    worlds = await make_worlds(deadline=5.0)
    stuck = await _wild(open_world, using=worlds)
    free = await open_world("Counter", using=worlds)
    await free.reset()
    timed_out = anyio.Event()

    async def hang() -> None:
        with pytest.raises(AppTimeout):
            await stuck.act("spin", {}, None)
        timed_out.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hang)
        for n in range(1, 21):
            assert (await free.act("echo", {"value": n}, None)).observation == n
        assert not timed_out.is_set()


async def test_a_fork(open_world: Open) -> None:
    """An app's process that forks is one world all the same, and each request has one answer."""
    world = await _wild(open_world)

    for n in range(1, 4):
        acted = await world.act("fork", {}, None)
        assert (acted.observation, acted.error) == (n, None)

    assert (await world.final())["wild"]["value"] == 3


async def test_noise(open_world: Open) -> None:
    """Whatever an app prints, by whatever way, nothing of it gets between the messages."""
    world = await _wild(open_world)

    for _ in range(3):
        acted = await world.act("noise", {}, None)
        assert (acted.observation, acted.error) == ("", None)


async def test_what_an_app_leaves_running(
    open_world: Open, mark: str, running: Running, until: Until
) -> None:
    """A process that an app leaves running, detached, ends with its world."""
    world = await _wild(open_world)

    assert (await world.act("stay", {"mark": mark}, None)).error is None
    await until(lambda: running(mark))
    await world.aclose()

    await until(lambda: not running(mark))


async def test_ending_a_host_ends_all(
    open_world: Open, make_worlds: Make, mark: str, running: Running, until: Until
) -> None:
    """A world that is ended by force takes along what its app left running."""
    worlds = await make_worlds(deadline=1.0)
    world = await _wild(open_world, using=worlds)
    await world.act("stay", {"mark": mark}, None)
    await until(lambda: running(mark))

    with pytest.raises(AppTimeout):
        await world.act("spin", {}, None)

    await until(lambda: not running(mark))


async def test_worlds_in_turn(open_world: Open, make_worlds: Make) -> None:
    """A host serves worlds in turn, each in a new process with modules and a folder of its own."""
    worlds = await make_worlds()
    seen: list[dict[str, Any]] = []
    for _ in range(2):
        world = await _wild(open_world, using=worlds)
        assert (await world.act("remember", {"n": 1}, None)).observation == [1]
        seen.append((await world.act("process", {}, None)).observation)
        await world.aclose()

    assert seen[0]["parent"] == seen[1]["parent"]
    assert seen[0]["pid"] != seen[1]["pid"]
    assert seen[0]["cwd"] != seen[1]["cwd"]
    assert seen[0]["hash"] == seen[1]["hash"]


async def test_worlds_at_the_same_time(open_world: Open, make_worlds: Make) -> None:
    """Worlds that live at the same time are in hosts of their own."""
    worlds = await make_worlds()
    first = await _wild(open_world, using=worlds)
    second = await _wild(open_world, using=worlds)

    assert (await first.act("remember", {"n": 1}, None)).observation == [1]
    assert (await second.act("remember", {"n": 2}, None)).observation == [2]


async def test_the_environment_starts_clean(
    open_world: Open, make_worlds: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the engine's environment reaches an app: keys above all."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-apps")
    monkeypatch.setenv("PYTHONPATH", "/not/for/apps")
    world = await _wild(open_world, using=await make_worlds())

    process = (await world.act("process", {}, None)).observation

    assert "sk-not-for-apps" not in str(process)
    assert "/not/for/apps" not in str(process)
    assert process["environ"]["PYTHONHASHSEED"] == "0"


async def test_an_answer_over_the_limit(open_world: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is too large fails its trial with both sizes, and not the host."""
    world = await _wild(open_world)
    assert wire.LIMIT == 32 * 1024 * 1024

    assert len((await world.act("large", {"size": 20_000_000}, None)).observation) == 20_000_000
    with pytest.raises(AppFailed, match=r"a message of \d{8} bytes; at most 33554432 are allowed"):
        await world.act("large", {"size": 40_000_000}, None)

    await world.aclose()
    assert (await (await open_world("Counter")).reset()).apps


async def test_a_request_over_the_limit(open_world: Open) -> None:
    """Arguments that are too large, or no JSON data, are refused as a wrong argument is."""
    world = await open_world("Counter")
    await world.reset()

    large = await world.act("echo", {"value": "x" * 40_000_000}, None)
    odd = await world.act("echo", {"value": object()}, None)

    assert large.error is not None
    assert "at most 33554432 are allowed" in large.error
    assert odd.error is not None
    assert "echo: " in odd.error
    assert (await world.act("echo", {"value": 1}, None)).observation == 1


async def test_a_request_that_was_given_up(open_world: Open) -> None:
    """A request that is cancelled is carried out all the same, and its answer is passed over."""
    world = await open_world("Wild", "Counter")
    await world.reset()

    with anyio.move_on_after(0.1) as waiting:
        await world.act("wait", {"seconds": 1.0}, None)
    begun = time.monotonic()
    acted = await world.act("echo", {"value": "next"}, None)

    assert waiting.cancelled_caught
    assert acted.observation == "next"
    assert time.monotonic() - begun > 0.5


@pytest.mark.parametrize(
    ("app", "error", "words"),
    [
        ("broken.py:Any", AppFailed, r"ModuleNotFoundError: .*no_such_module.* \(at broken.py:3\)"),
        ("slow.py:Any", AppTimeout, r"import did not end within 2 s \(at slow.py:\d\)"),
        ("env.py:Missing", AppFailed, "there is no 'Missing' in env.py"),
        ("none.py:Any", AppFailed, "there is no such file"),
    ],
)
async def test_code_that_can_not_be_imported(
    open_world: Open, make_worlds: Make, app: str, error: type[AppFault], words: str
) -> None:
    """Code that can't be imported, or not in time, fails the trial with file and line."""
    worlds = await make_worlds(deadline=2.0)

    with pytest.raises(error, match=words):
        await open_world(app, using=worlds)

    assert (await (await open_world("Counter", using=worlds)).reset()).apps


async def test_a_host_that_went_away(
    open_world: Open, make_worlds: Make, running: Running, mark: str, until: Until
) -> None:
    """When the host itself is gone, which is no app's doing, the sandbox is lost."""
    world = await _wild(open_world, using=await make_worlds())
    await world._host._channel.kill()

    with pytest.raises(SandboxGone, match="the app host went away") as caught:
        await world.act("process", {}, None)

    assert caught.value.category == "sandbox_lost"
    with pytest.raises(SandboxGone):
        await world.final()
    await world.aclose()


async def test_nothing_is_left(
    open_world: Open, make_worlds: Make, tmp_path: Path, mark: str, running: Running, until: Until
) -> None:
    """When worlds are closed, no process and no folder of theirs is left."""
    worlds = await make_worlds()
    world = await _wild(open_world, using=worlds)
    await world.act("stay", {"mark": mark}, None)
    await until(lambda: running(mark))
    await world.aclose()
    free = [host for _, host in worlds._pool._free]
    assert len(free) == 1

    await worlds.aclose()

    assert not worlds._pool._free
    assert not free[0].usable
    await until(lambda: not running(mark))
    assert not list(tmp_path.glob("worlds*/*"))


async def test_a_name_for_an_app(open_world: Open, make_worlds: Make) -> None:
    """The error of an app with a name of its own has that name."""
    worlds = await make_worlds(deadline=0.5)
    entry = AppManifest(python="env.py:Wild", name="zoo")
    world = await open_world("Counter", entry, using=worlds)
    await world.reset()

    with pytest.raises(AppTimeout, match="app 'zoo': spin did not end"):
        await world.act("spin", {}, None)


def test_sandbox_errors_are_the_engines() -> None:
    """What is no app's fault is an error of the sandbox."""
    assert issubclass(SandboxGone, SandboxError)
    assert not issubclass(AppFailed, SandboxError)
