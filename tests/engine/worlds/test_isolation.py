"""An agent in its sandbox reaches neither the apps nor verifiers, and apps no verifier."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from helpers.images import TEST_IMAGE
from trialog.engine.hooks.pool import HookPool
from trialog.engine.hooks.protocol import CheckGiven, HookSource
from trialog.engine.sandbox.protocol import (
    Command,
    ImageRequest,
    SandboxBackend,
    SandboxSpec,
)
from trialog.engine.worlds.connection import HostedWorld
from trialog.events.kinds.parts import Limits
from trialog.projections.episode import EpisodeData, RewardData, TaskData

Open = Callable[..., Awaitable[HostedWorld]]
Probe = Callable[[], Awaitable[dict[str, Any]]]

MARKS = re.compile(r"(?:state|verifier|expected|reward)-mark-[0-9a-f]{4}")

PROBE = r"""
import json, os, re, sys
paths = json.loads(sys.argv[1])
# Spelled so that this program does not find itself.
marks = re.compile(rb"(?:state|verifier|expected|reward)-mar[k]-[0-9a-f]{4}|worlds.mai[n] import")
found = {"files": [], "proc": [], "imports": [], "sockets": [], "there": [], "read": 0, "pids": 0}

def look(where, path, size):
    try:
        with open(path, "rb") as file:
            found["read"] += 1
            return [where + ":" + path for _ in set(marks.findall(file.read(size)))]
    except OSError:
        return []

for path in paths:
    if os.path.lexists(path):
        found["there"].append(path)
for top, folders, files in os.walk("/"):
    if top == "/":
        folders[:] = [name for name in folders if name not in ("proc", "sys", "dev", "usr")]
    for name in files:
        path = os.path.join(top, name)
        if os.path.isfile(path) and not os.path.islink(path):
            found["files"] += look("file", path, 1 << 20)
own = str(os.getpid())
for pid in sys.argv[2:] or filter(str.isdigit, os.listdir("/proc")):
    found["pids"] += 1
    for name in ("cmdline", "environ"):
        found["proc"] += look("proc", f"/proc/{pid}/{name}", 1 << 20)
    if pid != own:
        try:
            with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
                for line in maps:
                    first, last = (int(n, 16) for n in line.split()[0].split("-"))
                    if "rw" in line and last - first < 1 << 28:
                        try:
                            memory.seek(first)
                            if marks.search(memory.read(last - first)):
                                found["proc"].append(f"memory of {pid}")
                        except OSError:
                            pass
        except OSError:
            pass
for name in ("trialog", "verify", "env", "helper", "shared"):
    try:
        __import__(name)
        found["imports"].append(name)
    except ImportError:
        pass
for table in ("unix", "tcp", "tcp6", "udp"):
    try:
        with open(f"/proc/net/{table}") as lines:
            found["sockets"] += [line.strip() for line in list(lines)[1:]]
    except OSError:
        pass
for name in ("/var/run/docker.sock", "/run/docker.sock"):
    if os.path.exists(name):
        found["sockets"].append(name)
print(json.dumps(found))
"""


@pytest.fixture(
    params=[
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
        pytest.param("docker", marks=pytest.mark.docker),
    ]
)
def way(request: pytest.FixtureRequest) -> str:
    """Each kind of sandbox, for apps and agent alike."""
    return str(request.param)


@pytest.fixture
def project(project: Path) -> Path:
    """The project, with a log that has a reward in it."""
    for name in ("jobs", "agents", ".hidden"):
        (project / name).mkdir()
        (project / name / "kept.txt").write_text("reward-mark-11aa", encoding="utf-8")
    (project / ".env").write_text("reward-mark-22bb", encoding="utf-8")
    (project / "elsewhere").mkdir()
    (project / "elsewhere/trialog.db").write_text("reward-mark-33cc", encoding="utf-8")
    (project / "link").symlink_to(project / "verifiers")
    return project


@pytest.fixture
def connect(way: str) -> Callable[[], Awaitable[SandboxBackend]]:
    """Makes the backend of the agent's sandbox."""
    if way == "docker":
        from trialog.engine.sandbox.docker import DockerBackend

        return DockerBackend.connect
    from trialog.engine.sandbox.bubblewrap import BubblewrapBackend

    async def make() -> SandboxBackend:
        return BubblewrapBackend()

    return make


def _marks_below(folder: Path) -> set[str]:
    found: set[str] = set()
    for file in folder.rglob("*"):
        if file.is_file():
            found |= set(MARKS.findall(file.read_text("utf-8", "replace")))
    return found


@pytest.fixture
async def probe(
    way: str, connect: Callable[[], Awaitable[SandboxBackend]], tmp_path: Path, project: Path
) -> AsyncIterator[Probe]:
    """Runs a program that looks everywhere, as an agent in its own sandbox."""
    backend = await connect()
    try:
        image = await backend.prepare(
            ImageRequest(
                task="t", name=TEST_IMAGE if way == "docker" else None, build_timeout_sec=60
            )
        )
        scratch = tmp_path / "agent"
        await anyio.Path(scratch).mkdir()
        box = await backend.create(
            SandboxSpec(
                job="job",
                trial=tmp_path.name,
                log_id=tmp_path.name,
                image=image,
                workdir="/app",
                limits=Limits(),
                scratch=scratch,
            )
        )
        try:

            async def run() -> dict[str, Any]:
                chunks: list[bytes] = []
                paths = [str(project), str(tmp_path), "/trialog"]
                argv = ["python3", "-c", PROBE, json.dumps(paths)]
                ended = await box.run(Command(argv=argv, timeout=60), chunks.append)
                assert ended.code == 0, b"".join(chunks)
                return dict(json.loads(b"".join(chunks)))

            yield run
        finally:
            await box.remove()
    finally:
        await backend.aclose()


CHECKS = """\
from pathlib import Path

MARK = "verifier-mark-52c1"


def check(episode):
    Path(__file__).with_name("checking").touch()
    while not Path(__file__).with_name("enough").exists():
        pass
    return {"score": 0.5 if MARK and episode.expected.startswith("expected-mark") else 0.0}
"""


def _memory_has(pid: int, mark: bytes) -> bool:
    """Whether a process holds these bytes where it may write."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            first, last = (int(number, 16) for number in line.split()[0].split("-"))
            if "rw" in line:
                memory.seek(first)
                try:
                    if mark in memory.read(last - first):
                        return True
                except OSError:
                    continue
    return False


def _children() -> list[int]:
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has ended meanwhile
            continue
        if parent == str(os.getpid()):
            found.append(int(stat.parent.name))
    return found


async def test_an_agent_finds_no_hook(probe: Probe, project: Path) -> None:
    """While a check runs, its code, the answer key and the rewards so far are in the memory of a
    hook process, and an agent at work meanwhile finds none of it, nor that process."""
    folder = project / "verifiers" / "exact"
    await anyio.Path(folder / "verify.py").write_text(CHECKS)
    source = HookSource(
        name="exact", version="0.1.0", digest="sha256:1", weight=1.0, timeout_sec=60.0,
        folder=folder, root=project, check="verify.py:check",
    )  # fmt: skip
    earned = RewardData(
        verifier="reward-mark-44dd", version="1", value=0.5, source="step", event_id="e"
    )
    episode = EpisodeData(
        trial="t", task=TaskData(name="t", expected="expected-mark-66aa"), rewards=[earned]
    )
    async with HookPool(size=1) as pool, anyio.create_task_group() as group:
        given: list[CheckGiven] = []

        async def check() -> None:
            given.append(await pool.check(source, episode, None))

        group.start_soon(check)
        with anyio.fail_after(30):
            while not await anyio.Path(folder / "checking").exists():
                await anyio.sleep(0.02)
        children = await to_thread.run_sync(_children)
        for mark in (b"verifier-mark-52c1", b"expected-mark-66aa"):
            holders = [await to_thread.run_sync(_memory_has, child, mark) for child in children]
            assert any(holders), mark

        found = await probe()

        await anyio.Path(folder / "enough").touch()
    assert given[0].score == 0.5
    assert found["read"] > 5
    assert {key: found[key] for key in ("files", "proc", "imports", "sockets", "there")} == {
        "files": [], "proc": [], "imports": [], "sockets": [], "there": [],
    }  # fmt: skip


async def test_an_agent_finds_nothing(
    open_world: Open, probe: Probe, project: Path, tmp_path: Path
) -> None:
    """An agent finds no app state, verifier, answer or reward: by file, /proc, import or socket."""
    world = await open_world("Wild")
    await world.reset()
    assert (await world.final())["wild"]["secret"] == "state-mark-77f3"
    assert (await world.act("see", {"path": "/trialog/project"}, None)).observation
    command = (await world.act("see", {"path": "/proc/self/cmdline"}, None)).observation
    assert "from trialog.engine.worlds.main import" in command
    assert len(await to_thread.run_sync(_marks_below, project)) == 6
    assert await anyio.Path(tmp_path).exists()

    found = await probe()

    assert found["read"] > 5
    assert found["pids"] >= 1
    read, pids = found.pop("read"), found.pop("pids")
    assert found == {"files": [], "proc": [], "imports": [], "sockets": [], "there": []}, (
        read,
        pids,
    )
    assert (await world.final())["wild"]["secret"] == "state-mark-77f3"


async def test_the_probe_finds_what_is_there(project: Path) -> None:
    """The program that looks everywhere can find a mark, a path, a process and a socket."""
    here = PROBE.replace('os.walk("/")', f"os.walk({str(project)!r})")
    marked = {"MARK": "state-mark-0000", "PATH": os.environ["PATH"]}
    async with await anyio.open_process(["sleep", "60"], env=marked) as sleeping:
        command = ["python3", "-c", here, json.dumps([str(project)]), str(sleeping.pid)]
        ran = await anyio.run_process(
            command, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(project)}
        )
        sleeping.kill()
    found = json.loads(ran.stdout)

    assert any("verifiers/exact/verify.py" in place for place in found["files"])
    assert any("environ" in place for place in found["proc"])
    assert found["there"] == [str(project)]
    assert "shared" in found["imports"]


async def test_what_apps_see(open_world: Open, project: Path, tmp_path: Path) -> None:
    """Apps see their own code, read-only, and nothing of verifiers, tasks, agents or logs."""
    assert {"verifiers", "tasks", "agents", "jobs", ".hidden", ".env", "link", "elsewhere"} < set(
        os.listdir(project)
    )
    world = await open_world("Wild")
    await world.reset()

    async def see(path: str) -> Any:
        return (await world.act("see", {"path": path}, None)).observation

    assert await see("/trialog/project") == ["environments", "shared.py", "trialog.yaml"]
    assert "env.py" in await see("/trialog/project/environments/desk")
    assert await see(str(project)) is None
    assert await see(str(tmp_path)) is None
    numbers = [name for name in await see("/proc") if name.isdigit()]
    process = (await world.act("process", {}, None)).observation
    assert set(map(int, numbers)) == {1, process["pid"]}
    assert [
        line.split(":")[0].strip() for line in (await see("/proc/net/dev")).splitlines()[2:]
    ] == ["lo"]
    assert "state-mark" in await see("/trialog/project/environments/desk/env.py")


async def test_apps_can_not_write_to_their_code(open_world: Open, project: Path) -> None:
    """What apps have been given is read-only."""
    world = await open_world("Wild")
    await world.reset()
    file = project / "environments/desk/env.py"
    before = await anyio.Path(file).read_bytes()

    for path in ("/trialog/project/environments/desk/env.py", "/trialog/lib/trialog/__init__.py"):
        acted = await world.act("overwrite", {"path": path}, None)
        assert acted.error is not None
        assert re.match("(OSError|PermissionError): ", acted.error)

    assert await anyio.Path(file).read_bytes() == before


async def test_the_apps_user(open_world: Open, way: str) -> None:
    """In a container apps run as a user of their own; by bubblewrap in a namespace of theirs."""
    world = await open_world("Wild")
    await world.reset()

    process = (await world.act("process", {}, None)).observation

    if way == "docker":
        assert process["user"] == 65532
    else:
        space = (await world.act("link", {"path": "/proc/self/ns/user"}, None)).observation
        assert space != os.readlink("/proc/self/ns/user")
    status = (await world.act("see", {"path": "/proc/self/status"}, None)).observation
    assert "CapEff:\t0000000000000000" in status
