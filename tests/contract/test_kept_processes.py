"""Processes that stay for the next phase: they serve it, and can neither read nor write for it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from trialog.engine.errors import SandboxError
from trialog.engine.sandbox.protocol import Mount, SandboxBackend
from trialog.events.kinds.parts import Limits

if TYPE_CHECKING:
    from conftest import Box

MakeBox = Callable[..., Awaitable["Box"]]
Running = Callable[[str], list[int]]
Until = Callable[[Callable[[], object]], Awaitable[None]]

SERVE = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"at your service")
        print("x" * 10000)
http.server.HTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
"""
ASK = """
import time, urllib.request
for _ in range(40):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8123/", timeout=5).read().decode())
        break
    except OSError as error:
        last = error
        time.sleep(0.05)
else:
    print(last)
"""
STARTED = {
    "plain": "python3 /app/serve.py $MARK & echo started; sleep 0.7",
    "nohup": (
        "nohup setsid python3 /app/serve.py $MARK >/dev/null 2>&1 </dev/null & "
        "echo started; sleep 0.7"
    ),
    "double fork": "(python3 /app/serve.py $MARK & ) ; echo started; sleep 0.7",
}


class Kept:
    """A sandbox for a kept phase, with the folder that is closed to it."""

    def __init__(self, box: Box, closed: Path, user: str | None, mark: str) -> None:
        self.mark = mark
        self.box = box
        self.closed = closed
        self.user = user

    async def keep(self, script: str, **settings: Any) -> Any:
        """Run a phase that is kept; MARK is a word that no other process has in its line."""
        env = {"MARK": self.mark}
        return await self.box.sh(script, keep=True, user=self.user, env=env, **settings)


@pytest.fixture
async def make_kept(
    make_box: MakeBox, backend: SandboxBackend, tmp_path: Path, mark: str
) -> Callable[..., Awaitable[Kept]]:
    """Makes a sandbox whose phases may be kept; on Docker these are a plain user's."""

    async def make(**fields: Any) -> Kept:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        mounts = [
            Mount(source=closed, target="/logs/verifier", closed=True),
            Mount(source=tmp_path / "open", target="/logs/agent"),
        ]
        box = await make_box(
            mounts=mounts, keeps_processes=True,
            separate_users=backend.name == "docker", **fields,
        )  # fmt: skip
        kept = Kept(box, closed, "nobody" if backend.name == "docker" else None, mark)
        return kept

    return make


MakeKept = Callable[..., Awaitable[Kept]]


def write_server(script: str) -> str:
    """A script that first puts the service's program there."""
    return f"cat >/app/serve.py <<'END'\n{SERVE}\nEND\n{script}"


@pytest.mark.parametrize("kind", STARTED)
@pytest.mark.parametrize("network", [False, True])
async def test_a_service_answers_the_next_phase(
    make_kept: MakeKept, running: Running, mark: str, kind: str, network: bool
) -> None:
    """The call returns at once, the service is named and serves, and ends with the next phase."""
    kept = await make_kept(limits=Limits(network=network))
    begun = anyio.current_time()
    ended, output = await kept.keep(write_server(STARTED[kind]))
    assert (ended.ended_by, ended.code, output) == ("exit", 0, b"started\n")
    assert anyio.current_time() - begun < 10
    assert {process.name for process in ended.left} == {"python3"}
    assert len(running(mark)) == 1
    ended, output = await kept.box.run(["python3", "-I", "-c", ASK * 20], timeout=60)
    assert (ended.code, output) == (0, b"at your service\n" * 20)
    assert running(mark) == []


async def test_without_keep_nothing_stays(make_kept: MakeKept, running: Running, mark: str) -> None:
    """The control: the same service of a phase that is not kept is gone, and nobody answers."""
    kept = await make_kept()
    script = write_server(STARTED["nohup"])
    ended, _ = await kept.box.sh(script, user=kept.user, env={"MARK": mark})
    assert {process.name for process in ended.left} == {"python3"}
    assert running(mark) == []
    _, output = await kept.box.run(["python3", "-I", "-c", ASK], timeout=60)
    assert b"refused" in output


@pytest.mark.parametrize("deadline", [{"timeout": 2.0}, {"idle_timeout": 2.0}])
async def test_a_deadline_ends_the_command_alone(
    make_kept: MakeKept, running: Running, mark: str, deadline: dict[str, float]
) -> None:
    """A command past its deadline is killed; what it had started goes on."""
    kept = await make_kept()
    ended, output = await kept.keep(
        write_server(
            f"{STARTED['plain']}\ncp /bin/sleep /tmp/deaf$MARK; trap '' TERM; /tmp/deaf$MARK 300"
        ),
        **deadline,
    )
    assert ended.ended_by == ("timeout" if "timeout" in deadline else "idle")
    assert (ended.code, output) == (None, b"started\n")
    assert "python3" in {process.name for process in ended.left}
    assert len(running(f"deaf{mark}")) == 1  # the command's own child is kept as well
    await anyio.sleep(3)  # an engine may close what it takes for ended only a while later
    _, output = await kept.box.run(["python3", "-I", "-c", ASK], timeout=60)
    assert output == b"at your service\n"
    assert running(mark) == []


ATTACK = """
import glob, os, signal, sys, time
found = set()
word = "SEC" + "RET"
def note(what):
    if what not in found:
        found.add(what)
        with open("/logs/agent/found", "a") as file:
            file.write(what + "\\n")
def walk(place):
    for path in (place + "/logs/verifier", place + "/verifier", place + "/tests"):
        try:
            for name in os.listdir(path):
                if place:
                    note("listed " + path + ": " + name)
                try:
                    note("read " + open(path + "/" + name).read())
                except OSError:
                    pass
            if not place:
                note("entered" if os.listdir(path) else "empty")
        except OSError:
            pass
        try:
            with open(path + "/reward.txt", "w") as file:
                file.write("1")
            note("wrote " + path)
        except OSError:
            pass
note("up")
os.nice(5)
while True:
    walk("")
    for entry in glob.glob("/proc/[0-9]*"):
        walk(entry + "/root")
        for name in ("environ", "mem", "maps"):
            try:
                data = open(entry + "/" + name, "rb").read(100000)
            except OSError:
                continue
            if word.encode() in data:
                note("saw " + name)
        for link in glob.glob(entry + "/fd/*"):
            try:
                target = os.readlink(link)
                if "verifier" in target or "reward" in target:
                    note("descriptor " + target)
            except OSError:
                pass
        try:
            if b"gra" + b"ded" in open(entry + "/cmdline", "rb").read():
                os.kill(int(entry[6:]), signal.SIGKILL)
                note("killed")
        except OSError:
            pass
    for path in ("/.trialog-phase/phase", "/.trialog-phase/stdin"):
        try:
            if word in open(path).read():
                note("read " + path)
        except OSError:
            pass
    for path in ["/logs/verifier"]:
        try:
            os.rename(path, path + "-moved")
            note("moved " + path)
        except OSError:
            pass
        try:
            os.chmod(path, 0o777)
            note("opened " + path)
        except OSError:
            pass
    if os.path.exists("/app/stop"):
        note("done")
        break
"""


async def test_kept_processes_can_not_reach_the_verifier(
    make_kept: MakeKept, running: Running, tmp_path: Path, mark: str
) -> None:
    """One that tries everything while the next phase works reads nothing, writes nothing.

    Neither the closed folder nor the phase's variables, input, memory and descriptors.
    """
    kept = await make_kept()
    attack = f"cat >/app/attack.py <<'END'\n{ATTACK}\nEND\npython3 /app/attack.py $MARK & sleep 1"
    ended, output = await kept.keep(attack)
    assert (ended.code, output) == (0, b"")
    assert len(running(mark)) == 1
    (kept.closed / "test.sh").write_text("echo SECRET")
    ended, output = await kept.box.sh(
        "set -e; : graded; exec 5>/logs/verifier/held; cat /logs/verifier/test.sh; echo; cat;"
        "echo 0 >/logs/verifier/reward.txt; sleep 3; cat /logs/verifier/reward.txt",
        env={"TOKEN": "SECRET"},
        stdin=b"SECRET\n",
    )
    assert (ended.code, output) == (0, b"echo SECRET\nSECRET\n0\n")
    found = (tmp_path / "open" / "found").read_text().split("\n")
    assert set(found) - {"up", "empty", "", "killed"} == set()
    assert "up" in found
    assert sorted(path.name for path in kept.closed.iterdir()) == ["held", "reward.txt", "test.sh"]
    assert (kept.closed / "reward.txt").read_text() == "0\n"
    assert running(mark) == []


async def test_the_attack_is_one(make_kept: MakeKept, tmp_path: Path) -> None:
    """The control: where the folder is in reach, the same program reads and writes there."""
    kept = await make_kept()
    kept.closed.chmod(0o777)
    (kept.closed / "test.sh").write_text("echo SECRET")
    script = f"cat >/app/attack.py <<'END'\n{ATTACK}\nEND\ntouch /app/stop; python3 /app/attack.py"
    ended, output = await kept.box.sh(script, env={"TOKEN": "SECRET"})
    assert ended.code == 0, output
    found = set((tmp_path / "open" / "found").read_text().split("\n"))
    assert {"read echo SECRET", "wrote /logs/verifier", "saw environ", "done"} <= found
    assert (kept.closed / "reward.txt").read_text() == "1"


async def test_the_work_is_saved_while_a_service_writes(
    make_kept: MakeKept, tmp_path: Path
) -> None:
    """A workspace that a kept process writes to all the time can be saved, and files copied out."""
    kept = await make_kept()
    await kept.keep(
        "while :; do echo more >>log; head -c 100000 log >>grown; rm -f gone; touch gone; done & "
        "sleep 1; echo kept >answer"
    )
    async with anyio.create_task_group() as group:
        group.start_soon(kept.box.sandbox.changed_outside)
        tree = await kept.box.sandbox.save_tree("/app", tmp_path / "tree", cap=1 << 30)
    assert tree.files >= 3
    assert await kept.box.sandbox.copy_file("/app/answer", tmp_path / "answer", cap=100) == []
    ended, output = await kept.box.sh(
        "a=$(wc -c <log); sleep 1; test $(wc -c <log) -gt $a; echo $?"
    )
    assert (ended.code, output) == (0, b"0\n")


async def test_removed_with_what_is_kept(
    make_kept: MakeKept, running: Running, mark: str,
    leftovers: Callable[[str], Awaitable[list[str]]],
) -> None:  # fmt: skip
    """Removing the sandbox ends what was kept, and leaves nothing."""
    kept = await make_kept()
    await kept.keep(write_server(STARTED["nohup"]))
    assert len(running(mark)) == 1
    await kept.box.sandbox.remove()
    assert running(mark) == []
    assert await leftovers(kept.box.spec.log_id) == []


async def test_cancelled_beside_what_is_kept(
    make_kept: MakeKept, running: Running, until: Until, mark: str
) -> None:
    """A phase that is cancelled takes what was kept with it."""
    kept = await make_kept()
    await kept.keep(write_server(STARTED["nohup"]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.box.sh, f": next{mark}; sleep 300; :")
        await until(lambda: running(f"next{mark}"))
        tasks.cancel_scope.cancel()
    assert running(mark) == []


async def test_root_can_not_be_kept(
    make_kept: MakeKept, backend: SandboxBackend, running: Running, mark: str
) -> None:
    """A phase of root's is refused where users are what keeps it off; nothing of it has run."""
    kept = await make_kept()
    if backend.name == "bubblewrap":  # name spaces keep it off, whoever it is
        assert (await kept.keep("true"))[0].code == 0
        return
    for user in (None, "root", "0", "0:65534"):
        with pytest.raises(SandboxError, match=r"agent\.user"):
            await kept.box.sh(f"touch /logs/agent/{mark}", keep=True, user=user)
    assert not os.listdir(kept.box.spec.mounts[1].source)


async def test_set_id_programs_make_nobody_root(
    make_kept: MakeKept, backend: SandboxBackend
) -> None:
    """A program of root's with a set-id bit runs as who started it: nobody becomes root again."""
    kept = await make_kept()
    ended, output = await kept.keep(
        "find / -xdev -perm -4000 -user root -type f 2>/dev/null | head -1; "
        "grep NoNewPrivs /proc/self/status"
    )
    assert ended.code == 0
    assert output.split()[-1] == b"1"


async def test_what_was_kept_stands_still(
    make_kept: Callable[..., Awaitable[Kept]], backend: SandboxBackend, until: Until
) -> None:
    """Where the sandbox can freeze what was kept, it does nothing meanwhile, and goes on after."""
    kept = await make_kept()
    await kept.keep("(while :; do date +%N >>/logs/agent/beats; done) & sleep 0.3")
    beats = kept.closed.parent / "open" / "beats"
    for _ in range(2):
        async with kept.box.sandbox.still():
            before = beats.stat().st_size
            await anyio.sleep(0.3)
            assert beats.stat().st_size == before or backend.name == "bubblewrap"
        before = beats.stat().st_size
        await until(lambda before=before: beats.stat().st_size > before)
