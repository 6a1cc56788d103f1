"""What is each place's own: processes, containers, and what they are made of."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from helpers.images import TEST_IMAGE
from trialog.engine.authoring.task import TaskView
from trialog.engine.errors import ConfigError, ImageError, SandboxError, SandboxUnavailable
from trialog.engine.projects.model import AppManifest
from trialog.engine.worlds import bubblewrap, process
from trialog.engine.worlds.inside import LEFT_OUT, seen_inside
from trialog.engine.worlds.process import BOOT, PACKAGE_ROOT
from trialog.engine.worlds.source import WorldSource

Source = Callable[..., WorldSource]
Make = Callable[..., Awaitable[Any]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
Running = Callable[[str], list[int]]

VIEW = TaskView(name="one")

in_all = pytest.mark.parametrize(
    "way",
    [
        "process",
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
        pytest.param("docker", marks=pytest.mark.docker),
    ],
)
in_docker = pytest.mark.parametrize("way", [pytest.param("docker", marks=pytest.mark.docker)])
in_bubblewrap = pytest.mark.parametrize(
    "way", [pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)]
)
in_process = pytest.mark.parametrize("way", ["process"])

ENGINE = """
import sys, anyio, json
from pathlib import Path
from trialog.engine.authoring.task import TaskView
from trialog.engine.projects.model import AppManifest
from trialog.engine.worlds.bubblewrap import BubblewrapWorlds
from trialog.engine.worlds.docker import DockerWorlds
from trialog.engine.worlds.process import ProcessWorlds
from trialog.engine.worlds.source import WorldSource

async def main(way, project, scratch, image, mark):
    source = WorldSource(name="desk", folder=Path(project, "environments/desk"),
                         root=Path(project), apps=[AppManifest(python="env.py:Wild")])
    if way == "docker":
        worlds = await DockerWorlds.connect(Path(scratch), default_image=image)
    else:
        worlds = ProcessWorlds() if way == "process" else BubblewrapWorlds(Path(scratch))
    world = await worlds.open(source, TaskView(name="one"), seed=1, trial="t")
    await world.reset()
    acted = await world.act("stay", {"mark": mark}, None)
    sys.stdout.write("up" if acted.error is None else acted.error)
    sys.stdout.flush()
    await world.act("wait", {"seconds": 300}, None)

anyio.run(main, *sys.argv[1:])
"""


@in_all
async def test_a_killed_engine(
    way: str, project: Path, tmp_path: Path, mark: str, running: Running, until: Until
) -> None:
    """When the engine is killed, its hosts end, with their apps and all that these left running."""
    folder = tmp_path / "killed"
    folder.mkdir()
    command = [sys.executable, "-c", ENGINE, way, str(project), str(folder), TEST_IMAGE, mark]
    async with await anyio.open_process(command, stderr=None) as engine:
        assert engine.stdout is not None
        with anyio.fail_after(60):
            assert await engine.stdout.receive() == b"up"
        assert await anyio.to_thread.run_sync(lambda: set(running(mark)) - {engine.pid})
        engine.send_signal(signal.SIGKILL)
        await engine.wait()

    await until(lambda: not running(mark))


@in_all
async def test_the_next_host_is_as_good(make_worlds: Make, source: Source, way: str) -> None:
    """Hosts that are free are found again by what is inside, and only so many are kept."""
    worlds = await make_worlds()
    opened = [await worlds.open(source("Counter"), VIEW, seed=1, trial="t") for _ in range(2)]
    worlds._pool._keep = 1

    for world in opened:
        await world.aclose()

    assert len(worlds._pool._free) == 1
    assert [world._host.usable for world in opened] == [False, True]


@in_all
async def test_a_host_that_does_not_come_up(
    make_worlds: Make, source: Source, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that says nothing, or nonsense, is an error with its last words."""
    worlds = await make_worlds()
    module = process
    programs = {
        "no app host came up: it gave up": "import sys; sys.exit('it gave up')",
        r"no app host came up: .*at most": "print('x' * 100)",
        "no app host came up within 2 s": "import time; time.sleep(60)",
        r"protocol 99, and this engine has protocol 1": (
            'import sys, json; body = json.dumps({"type": "Hello", "version": 99, '
            '"python": "3.11", "trialog": "9.0"}).encode(); '
            "sys.stdout.buffer.write(len(body).to_bytes(4, 'big') + body)"
        ),
        "no app host came up: it began with Done": (
            'import sys, json; body = json.dumps({"type": "Done", "id": 1, "value": 1}).encode(); '
            "sys.stdout.buffer.write(len(body).to_bytes(4, 'big') + body)"
        ),
    }
    for words, program in programs.items():
        for one in _modules(way, module):
            monkeypatch.setattr(one, "BOOT", program, raising=False)
            monkeypatch.setattr(one, "START_DEADLINE", 2.0, raising=False)
        with pytest.raises(SandboxError, match=words):
            await worlds.open(source("Counter"), VIEW, seed=1, trial="t")


def _modules(way: str, module: Any) -> list[Any]:
    if way == "docker":
        from trialog.engine.worlds import docker

        return [docker]
    return [module, bubblewrap]


@in_process
async def test_no_such_program(
    make_worlds: Make, source: Source, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host's program that is not there is an error that names it."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(SandboxUnavailable, match="/no/such/python can't be started"):
        await (await make_worlds()).open(source("Counter"), VIEW, seed=1, trial="t")


@in_bubblewrap
async def test_an_image_for_bubblewrap(make_worlds: Make, source: Source, way: str) -> None:
    """An environment that needs an image is refused by bubblewrap, with what to do."""
    with pytest.raises(SandboxError, match=r"needs the image x:1, .* use --sandbox docker"):
        await (await make_worlds()).open(source("Counter", image="x:1"), VIEW, seed=1, trial="t")


@in_docker
async def test_the_environments_image(make_worlds: Make, source: Source, way: str) -> None:
    """In containers apps run in the image that the environment names; none such is an error."""
    worlds = await make_worlds(image="trialog/no-default:1")
    world = await worlds.open(source("Wild", image=TEST_IMAGE), VIEW, seed=1, trial="t")
    await world.reset()
    system = (await world.act("see", {"path": "/etc/debian_version"}, None)).observation
    await world.aclose()

    assert system.startswith("12")
    with pytest.raises(ImageError, match="trialog/no-such-image"):
        await worlds.open(
            source("Wild", image="localhost:1/trialog/no-such-image:1"), VIEW, seed=1, trial="t"
        )


@pytest.fixture
def build(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Builds images from a few lines, which are removed after the test."""
    tags: list[str] = []

    def make(lines: str) -> str:
        tag = f"trialog-test/{secrets.token_hex(6)}:1"
        subprocess.run(
            ["docker", "build", "-q", "-t", tag, "-"],
            input=f"FROM {TEST_IMAGE}\n{lines}\n".encode(),
            check=True,
            capture_output=True,
        )
        tags.append(tag)
        return tag

    yield make
    for tag in tags:
        subprocess.run(["docker", "rmi", "-f", tag], check=True, capture_output=True)


@in_docker
@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("RUN rm /usr/bin/python3*", "needs Python 3.11 or later, as python3; found: none"),
        (
            "RUN rm /usr/bin/python3* && printf '#!/bin/sh\\ntest $1 = -V && echo Python 3.9.2' "
            "> /usr/bin/python3 && chmod 755 /usr/bin/python3",
            "needs Python 3.11 or later, as python3; found: Python 3.9.2",
        ),
        ("RUN rm /bin/sh", "needs a shell at /bin/sh and Python 3.11"),
    ],
)
async def test_an_unfit_image(
    make_worlds: Make,
    source: Source,
    way: str,
    build: Callable[[str], str],
    lines: str,
    words: str,
) -> None:
    """An image without what the host needs is an error that says what is missing."""
    image = await anyio.to_thread.run_sync(build, lines)

    with pytest.raises(SandboxError, match=words):
        await (await make_worlds(image=image)).open(source("Wild"), VIEW, seed=1, trial="t")


@in_docker
async def test_the_images_own_python(
    make_worlds: Make, source: Source, way: str, build: Callable[[str], str]
) -> None:
    """An image's ENTRYPOINT, user and variables do not stand in the host's way."""
    image = await anyio.to_thread.run_sync(
        build, 'ENTRYPOINT ["/bin/false"]\nUSER 1234\nENV PYTHONPATH=/nowhere PYTHONHASHSEED=5'
    )
    world = await (await make_worlds(image=image)).open(source("Wild"), VIEW, seed=1, trial="t")
    await world.reset()

    found = (await world.act("process", {}, None)).observation
    await world.aclose()

    assert found["user"] == 65532
    assert found["environ"]["PYTHONHASHSEED"] == "0"


@in_docker
async def test_files_that_only_their_owner_may_read(
    make_worlds: Make, source: Source, way: str, project: Path
) -> None:
    """Files of a project that are for their owner alone can be read by the apps' own user."""
    for path in [project, *project.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    world = await (await make_worlds()).open(source("Counter"), VIEW, seed=1, trial="t")

    assert (await world.reset()).observation["word"] == "from the project"
    await world.aclose()


@in_docker
async def test_labels(make_worlds: Make, source: Source, way: str) -> None:
    """A container of apps tells whose it is, so that a dead engine's can be removed."""
    world = await (await make_worlds()).open(source("Counter"), VIEW, seed=1, trial="t")
    container = world._host._channel._container
    listed = await anyio.run_process(["docker", "inspect", container])
    labels = json.loads(listed.stdout)[0]["Config"]["Labels"]
    await world._host.kill()
    gone = await anyio.run_process(["docker", "inspect", container], check=False)

    assert f":{os.getpid()}:" in labels["trialog.owner"]
    assert gone.returncode != 0


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ((3, 10, 2), "the app host needs Python 3.11 or later, found 3.10.2"),
        ((3, 11, 2), "the app host needs the package msgspec: install it, or use Python 9.9"),
    ],
)
def test_what_the_boot_needs(tmp_path: Path, version: tuple[int, ...], words: str) -> None:
    """A Python that is too old, or has no msgspec, ends with what it needs."""
    text = ".".join(map(str, version))
    faked = f"import sys; sys.version_info = {version}; sys.version = {text!r}\n"
    ran = subprocess.run(
        [sys.executable, "-S", "-s", "-P", "-c", faked + BOOT, str(PACKAGE_ROOT), "", "9.9"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={},
    )

    assert ran.returncode == 1
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_folder_outside_of_the_project(source: Source, tmp_path: Path) -> None:
    """An environment in a sandbox must lie in its project, and else is refused with both."""
    outside = source("Counter", root=tmp_path / "elsewhere")

    with pytest.raises(
        ConfigError, match=r"the environment's folder must be in the project .*else"
    ):
        seen_inside(outside)


def test_the_folders_inside(source: Source, project: Path) -> None:
    """The host knows the folders by their names inside, and what is left out has none."""
    inside = seen_inside(source("Counter"))

    assert inside.root == Path("/trialog/project")
    assert inside.folder == Path("/trialog/project/environments/desk")
    assert {"verifiers", "tasks", "agents", "jobs"} <= LEFT_OUT
    assert inside.apps == [AppManifest(python="env.py:Counter")]
