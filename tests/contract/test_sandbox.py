"""What every sandbox does the same way. Both backends run every test here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from trialog.engine.errors import SandboxError
from trialog.engine.sandbox.protocol import Command, SandboxBackend
from trialog.events.kinds.parts import Limits

if TYPE_CHECKING:
    from conftest import Box

MakeBox = Callable[..., Awaitable["Box"]]
Running = Callable[[str], list[int]]
Until = Callable[[Callable[[], object]], Awaitable[None]]

MIB = 1024 * 1024


# How a phase ends


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_exit_code(box: Box, code: int) -> None:
    """A phase's exit code is the command's own."""
    ended, _ = await box.sh(f"exit {code}")
    assert (ended.ended_by, ended.code) == ("exit", code)


@pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
async def test_exit_by_signal(box: Box, signal: str, code: int) -> None:
    """A command that a signal ended has exit code 128 + n, and the shell's comment is no output."""
    ended, output = await box.sh(f"printf before; kill -{signal} $$")
    assert (ended.ended_by, ended.code, output) == ("exit", code, b"before")


async def test_no_such_command(box: Box) -> None:
    """A command that is not there ends with 127, or 126, and says so."""
    ended, output = await box.run(["/no/such/program"])
    assert ended.code in (126, 127)
    assert b"/no/such/program" in output


async def test_duration(box: Box) -> None:
    """The duration is the command's."""
    ended, _ = await box.sh("sleep 0.5")
    assert 0.4 < ended.duration < 5


# What goes in and out


async def test_output_bytes(box: Box) -> None:
    """Both streams come as one, in the order they were written, whatever the bytes."""
    ended, output = await box.sh(
        r"printf 'one\n'; printf '\377\000two\036' >&2; printf 'three\036'"
    )
    assert (ended.code, output) == (0, b"one\n\xff\x00two\x1ethree\x1e")


async def test_output_comes_at_once(box: Box) -> None:
    """Output is handed on while the command runs."""
    times: list[float] = []
    await box.sandbox.run(
        Command(argv=["sh", "-c", "echo one; sleep 1; echo two"]),
        lambda _: times.append(anyio.current_time()),
    )
    assert times[-1] - times[0] > 0.7


async def test_much_output(box: Box) -> None:
    """100 MiB of output does not block the command, and memory stays flat."""
    total = most = 0
    before = await anyio.to_thread.run_sync(_resident)

    def take(data: bytes) -> None:
        nonlocal total
        total += len(data)

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, await anyio.to_thread.run_sync(_resident))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        ended = await box.sandbox.run(
            Command(argv=["sh", "-c", f"head -c {100 * MIB} /dev/zero"], timeout=60), take
        )
        tasks.cancel_scope.cancel()
    assert (ended.code, total) == (0, 100 * MIB)
    assert before < most < before + 32 * MIB


async def test_stdin(box: Box) -> None:
    """The command's standard input is what it is given, and then ends."""
    data = bytes(range(256)) * 1000
    ended, output = await box.run(["cat"], stdin=data)
    assert (ended.code, output) == (0, data)
    _, output = await box.run(["cat"])
    assert output == b""


async def test_environment(make_box: MakeBox) -> None:
    """Every variable arrives as it was given, and the phase's own come before the sandbox's."""
    given = {
        "QUOTES": 'it\'s "quoted" `not run` $(nor this) $HOME \\n \\',
        "LINES": "one\ntwo\n",
        "EMPTY": "",
        "UNICODE": "žluťoučký 🐎",
        "with.dots-and-dashes": "kept",
        "UID": "kept too",
        "IFS": "a",
        "PS4": "$(echo no)",
        "OVER": "sandbox",
    }
    box = await make_box(env=given)
    ended, output = await box.run(
        ["python3", "-c", "import json, os; print(json.dumps(dict(os.environ)))"],
        env={"OVER": "phase", "OWN": "x"},
    )
    assert ended.code == 0, output
    found = json.loads(output)
    assert {name: found.get(name) for name in given} == {**given, "OVER": "phase"}
    assert found["OWN"] == "x"
    assert found["PWD"] == "/app"
    assert "OLDPWD" not in found


async def test_path_stays(make_box: MakeBox) -> None:
    """PATH is the image's, unless it is given."""
    box = await make_box()
    _, output = await box.sh('printf %s "$PATH"')
    assert "/usr/bin" in output.decode().split(":")
    _, output = await box.sh('printf %s "$PATH"', env={"PATH": "/usr/bin:/mine"})
    assert output == b"/usr/bin:/mine"


async def test_arguments(box: Box) -> None:
    """Arguments arrive as they were given."""
    words = ["", "a b", "it's", '"', "$HOME", "`x`", "*", "\n", "-n", "\\"]
    _, output = await box.run(
        ["python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words]
    )
    assert json.loads(output) == words


# The file system


@pytest.mark.parametrize("path", ["/app", "/made/for it/deep"])
async def test_workspace_is_made(make_box: MakeBox, path: str) -> None:
    """A workspace that does not exist is made, and phases run in it."""
    box = await make_box(workdir=path)
    ended, output = await box.sh("pwd; touch file")
    assert (ended.code, output) == (0, path.encode() + b"\n")


async def test_files_stay(box: Box) -> None:
    """What a phase wrote, in the workspace and elsewhere, the next one finds."""
    await box.sh("echo kept >file; mkdir -p /tmp/below; echo too >/tmp/below/file")
    ended, output = await box.sh("cat file /tmp/below/file")
    assert (ended.code, output) == (0, b"kept\ntoo\n")


async def test_mounts(box: Box) -> None:
    """A folder of the host is seen inside, and what is written to it is seen on the host."""
    (box.logs / "given").write_text("from outside")
    ended, output = await box.sh("cat /logs/given; echo inside >/logs/made")
    assert (ended.code, output) == (0, b"from outside")
    assert (box.logs / "made").read_text() == "inside\n"


async def test_mounts_are_looked_up_anew(box: Box) -> None:
    """A folder that was swapped between phases is the new one in the next phase."""
    _, output = await box.sh("echo old >/logs/place; ls /given")
    assert output == b""
    box.logs.rename(box.logs.with_name("old"))
    box.logs.mkdir()
    (box.read_only / "verifier").write_text("now there")
    ended, output = await box.sh("ls /logs; cat /given/verifier; echo new >/logs/place")
    assert (ended.code, output) == (0, b"now there")
    assert (box.logs / "place").read_text() == "new\n"
    assert (box.logs.with_name("old") / "place").read_text() == "old\n"


async def test_pipes_in_a_read_only_mount(box: Box) -> None:
    """A named pipe there is read and written by a phase, as it runs: agents are spoken to so."""
    fds: list[int] = []
    for name, mode in (("to", 0o644), ("from", 0o666)):
        os.mkfifo(box.read_only / name)
        (box.read_only / name).chmod(mode)
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        fds.append(os.open(box.read_only / name, flags))
    into, out = fds
    heard: list[bytes] = []

    async def speak() -> None:
        for word in (b"one", b"two"):
            os.write(into, word + b"\n")
            await anyio.wait_readable(out)
            heard.append(os.read(out, 100))
        os.close(into)

    async with anyio.create_task_group() as group:
        group.start_soon(speak)
        ended, printed = await box.sh(
            'while read -r line; do echo "heard $line" >/given/from; done </given/to; echo over;'
            " ! mkfifo /given/other 2>/dev/null"
        )
    os.close(out)
    assert (ended.code, printed) == (0, b"over\n")
    assert heard == [b"heard one\n", b"heard two\n"]


async def test_read_only_mount(box: Box) -> None:
    """A read-only folder can be read, and nothing in it can be changed, removed or remounted."""
    (box.read_only / "file").write_text("as it was")
    ended, output = await box.sh(
        "cat /given/file; echo x >/given/file; rm -f /given/file; touch /given/new; "
        "mount -o remount,rw /given; mount -o remount,bind,rw /given; echo x >/given/file; true"
    )
    assert output.startswith(b"as it was")
    assert ended.code == 0
    assert (box.read_only / "file").read_text() == "as it was"
    assert [path.name for path in box.read_only.iterdir()] == ["file"]


# Deadlines


CANARIES = {
    "child": "sh -c 'echo {mark} >/dev/null; sleep 300; :' & echo {mark} >/dev/null; sleep 300; :",
    "setsid, deaf": (
        "setsid sh -c 'trap \"\" TERM HUP INT; echo {mark} >/dev/null; sleep 300; :' & "
        'trap "" TERM HUP INT; echo {mark} >/dev/null; sleep 300; :'
    ),
    "double fork": (
        "(setsid sh -c 'echo {mark} >/dev/null; sleep 300; :' >/dev/null 2>&1 </dev/null &); "
        "echo {mark} >/dev/null; sleep 300; :"
    ),
}


@pytest.mark.parametrize("kind", CANARIES)
async def test_timeout_kills_all(box: Box, running: Running, kind: str, mark: str) -> None:
    """A command past its deadline is killed with every child, and the next phase runs."""
    seen: list[int] = []

    async def watch() -> None:
        while len(seen) < 2:
            await anyio.sleep(0.05)
            seen[:] = await anyio.to_thread.run_sync(running, mark)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        begun = anyio.current_time()
        ended, output = await box.sh("echo so far; " + CANARIES[kind].format(mark=mark), timeout=3)
        took = anyio.current_time() - begun
        tasks.cancel_scope.cancel()
    assert len(seen) >= 2, "parent and child were not both seen before the deadline"
    assert (ended.ended_by, ended.code, output) == ("timeout", None, b"so far\n")
    assert 2.9 < took < 10
    assert running(mark) == []
    assert "sleep" in [process.name for process in ended.left]
    assert (await box.sh("echo again"))[1] == b"again\n"


async def test_timeout_needs_nothing_of_the_image(box: Box, running: Running, mark: str) -> None:
    """The deadline is the engine's: a busy loop that touches nothing is stopped too."""
    ended, _ = await box.sh(f": {mark}; while :; do :; done", timeout=1)
    assert ended.ended_by == "timeout"
    assert running(mark) == []


async def test_idle_timeout(box: Box, running: Running, mark: str) -> None:
    """A phase that prints nothing for too long is killed; printing keeps it alive."""
    ended, output = await box.sh(
        f": {mark}; for i in 1 2 3 4; do echo $i; sleep 0.5; done; sleep 300; :", idle_timeout=1.5
    )
    assert (ended.ended_by, ended.code) == ("idle", None)
    assert output == b"1\n2\n3\n4\n"
    assert running(mark) == []


async def test_in_time(box: Box) -> None:
    """A command that ends before its deadlines is not touched by them."""
    ended, output = await box.sh("echo a; sleep 0.2; exit 4", timeout=30, idle_timeout=30)
    assert (ended.ended_by, ended.code, output) == ("exit", 4, b"a\n")


async def test_cancellation_kills(box: Box, running: Running, until: Until, mark: str) -> None:
    """When the caller is cancelled, all in the sandbox is killed before it goes on."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(box.sh, CANARIES["setsid, deaf"].format(mark=mark))
        await until(lambda: len(running(mark)) >= 2)
        tasks.cancel_scope.cancel()
    assert running(mark) == []
    assert (await box.sh("echo again"))[1] == b"again\n"


async def test_cancellation_while_starting(box: Box, running: Running, mark: str) -> None:
    """A phase that is cancelled while it starts does not run afterwards."""
    for wait in (0.0, 0.02, 0.05, 0.1, 0.2):
        with anyio.move_on_after(wait):
            await box.sh(f": {mark}; sleep 300; :")
        assert running(mark) == []
    assert (await box.sh("echo again"))[1] == b"again\n"


# What a phase leaves running


DAEMONS = {
    "plain": "sleep 301 & echo started",
    "nohup": "nohup setsid sleep 301 >/dev/null 2>&1 </dev/null & echo started",
    "double fork": "(sleep 301 & sleep 301 &) ; echo started",
}


@pytest.mark.parametrize("kind", DAEMONS)
async def test_daemons_hold_nobody(box: Box, running: Running, mark: str, kind: str) -> None:
    """What a command left running does not hold the call, is named, and is gone afterwards."""
    begun = anyio.current_time()
    ended, output = await box.sh(
        f"cp $(command -v sleep) /tmp/{mark[:12]}; {DAEMONS[kind]}; sleep 0.5".replace(
            "sleep 301", f"/tmp/{mark[:12]} 301"
        )
    )
    took = anyio.current_time() - begun
    assert (ended.ended_by, ended.code, output) == ("exit", 0, b"started\n")
    assert took - ended.duration < 3
    assert ended.duration < 1.5
    assert {process.name for process in ended.left} == {mark[:12]}
    assert all(process.pid > 1 for process in ended.left)
    assert running(mark[:12]) == []
    _, output = await box.sh("cat /proc/[0-9]*/comm")
    assert mark[:12] not in output.decode()


async def test_nothing_left(box: Box) -> None:
    """A phase that left nothing says so."""
    ended, _ = await box.sh("sleep 0.1 & wait; (exit 0)")
    assert ended.left == []


async def test_left_names_are_data(box: Box) -> None:
    """A process may call itself anything; it is named all the same."""
    program = (
        "import ctypes, os, time\n"
        "if os.fork() == 0:\n"
        "    ctypes.CDLL(None).prctl(15, b') Z 1 (\\x1b[2J', 0, 0, 0)\n"
        "    time.sleep(300)\n"
        "time.sleep(0.5)\n"
    )
    ended, _ = await box.run(["python3", "-c", program])
    assert [process.name for process in ended.left] == [") Z 1 (\x1b[2J"]


async def test_leftovers_print_nothing_more(box: Box) -> None:
    """What a background process goes on printing neither holds the call nor grows for ever."""
    with anyio.fail_after(20):
        ended, output = await box.sh("(while :; do echo noise; done) & sleep 0.3; exit 5")
    assert ended.code == 5
    assert set(output.split()) == {b"noise"}


# Isolation


async def test_no_network(box: Box) -> None:
    """Without leave there is no network but the loopback, which works."""
    ended, output = await box.run(["python3", "-c", _NETWORK])
    assert ended.code == 0, output
    assert json.loads(output) == {"interfaces": ["lo"], "localhost": True, "outside": False}


async def test_a_network_that_is_lent(make_box: MakeBox) -> None:
    """One phase has a network, and none before or after it; a sandbox not made so lends none."""
    box = await make_box(lends_network=True)
    for lent in (False, True, False, True, False):
        ended, output = await box.run(["python3", "-c", _NETWORK], network=lent)
        assert ended.code == 0, output
        assert json.loads(output)["localhost"]
        assert (json.loads(output)["interfaces"] != ["lo"]) == lent
    with pytest.raises(SandboxError, match="was not made to have a network"):
        await (await make_box()).sh("true", network=True)


_NETWORK = """
import fcntl, json, socket, struct
def is_up(name):
    asked = struct.pack("16sh14x", name.encode(), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return struct.unpack("16sh14x", fcntl.ioctl(any_socket, 0x8913, asked))[1] & 1
def reach(address, timeout=2):
    try:
        socket.create_connection(address, timeout).close()
    except OSError:
        return False
    return True
server = socket.create_server(("127.0.0.1", 0))
print(json.dumps({
    "interfaces": sorted(name for _, name in socket.if_nameindex() if is_up(name)),
    "localhost": reach(("localhost", server.getsockname()[1])),
    "outside": reach(("192.0.2.1", 80)) or reach(("1.1.1.1", 53)),
}))
"""


async def test_host_is_not_seen(box: Box, tmp_path: Path) -> None:
    """Neither the host's processes nor its folders are seen inside."""
    (tmp_path / "secret").write_text("x")
    ended, output = await box.sh(f"cat {tmp_path}/secret; kill -0 {os.getpid()}; echo $?")
    assert ended.code == 0
    assert output.splitlines()[-1] != b"0"
    assert b"No such file" in output


async def test_memory_limit(make_box: MakeBox) -> None:
    """A program that wants more memory than its limit does not get it."""
    box = await make_box(limits=Limits(memory_mb=128))
    ended, output = await box.run(
        ["python3", "-c", "x = bytearray(512 * 1024 * 1024); print(len(x))"], timeout=60
    )
    warned = any("memory" in text for _, text in box.sandbox.warnings)
    assert warned or not (ended.code == 0 and output)
    ended, _ = await box.run(["python3", "-c", "x = bytearray(16 * 1024 * 1024)"])
    assert ended.code == 0


async def test_process_limit(make_box: MakeBox) -> None:
    """Processes over the limit can't be started, and a flood of them is cleared away."""
    box = await make_box(limits=Limits(processes=40))
    program = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 100:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(300)\n"
        "        made += 1\n"
        "except OSError:\n"
        "    pass\n"
        "print(made)\n"
    )
    ended, output = await box.run(["python3", "-c", program], timeout=60)
    held = not any("processes" in text for _, text in box.sandbox.warnings)
    assert ended.code == 0, output
    assert (int(output) < 40) is held
    assert len(ended.left) == int(output)
    assert (await box.sh("echo again"))[1] == b"again\n"


async def test_fork_bomb(make_box: MakeBox) -> None:
    """A fork bomb is contained and its end does not take long."""
    box = await make_box(limits=Limits(processes=200))
    with anyio.fail_after(60):
        ended, _ = await box.sh("f() { f | f & }; f; sleep 300", timeout=2)
    assert ended.ended_by in ("timeout", "exit")
    assert (await box.sh("echo again"))[1] == b"again\n"


# Coming and going


async def test_remove_twice(box: Box, leftovers: Callable[[str], Awaitable[list[str]]]) -> None:
    """Removing again what is gone already is no fault."""
    await box.sh("true")
    assert await leftovers(box.spec.log_id) != []
    for _ in range(2):
        await box.sandbox.remove()
        assert await leftovers(box.spec.log_id) == []


async def test_remove_kills(box: Box, running: Running, until: Until, mark: str) -> None:
    """Removing a sandbox kills what runs in it."""
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            with pytest.raises(Exception, match=r".+"):
                await box.sh(f": {mark}; trap '' TERM; sleep 300; :")

        tasks.start_soon(run)
        await until(lambda: running(mark))
        await box.sandbox.remove()
        assert running(mark) == []


async def test_many_at_once(make_box: MakeBox) -> None:
    """Sandboxes that run at the same time do not see each other's files."""
    boxes = [await make_box() for _ in range(8)]
    found: dict[int, bytes] = {}

    async def one(number: int) -> None:
        await boxes[number].sh(f"echo {number} >>file; echo {number} >>/tmp/file")
        found[number] = (await boxes[number].sh("cat file /tmp/file"))[1]

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(one, number)
    assert found == {number: f"{number}\n{number}\n".encode() for number in range(8)}


@pytest.mark.parametrize("name", ["../../etc", "a b;c$(d)", "ž" * 200, "-rf", "x" * 300, "A/b\nc"])
async def test_hostile_names(make_box: MakeBox, name: str) -> None:
    """Job, trial and log may be called anything."""
    box = await make_box(trial=name, job=name, log_id=name)
    assert (await box.sh("echo fine"))[1] == b"fine\n"


async def test_same_trial_twice(make_box: MakeBox) -> None:
    """A trial may have two sandboxes at the same time: the verifier's own beside the agent's."""
    boxes = [await make_box(trial="same"), await make_box(trial="same")]
    assert boxes[0].sandbox.id != boxes[1].sandbox.id
    await boxes[0].sh("touch mine")
    assert (await boxes[1].sh("ls"))[1] == b""


async def test_nothing_stays(
    make_box: MakeBox, leftovers: Callable[[str], Awaitable[list[str]]]
) -> None:
    """After the removal nothing of a sandbox is left on the machine."""
    box = await make_box()
    await box.sh("sleep 300 & true")
    assert await leftovers(box.spec.log_id) != []
    await box.sandbox.remove()
    assert await leftovers(box.spec.log_id) == []


async def test_reap(
    make_box: MakeBox,
    killed_engine: Callable[[str], Awaitable[str]],
    backend: SandboxBackend,
    leftovers: Callable[[str], Awaitable[list[str]]],
    running: Running,
) -> None:
    """What a killed engine left is removed, for its own log or for any; a living one's stays."""
    mine = await make_box(log_id="reap-living")
    await mine.sh("echo kept >file")
    mark = await killed_engine("reap-dead")
    assert await leftovers("reap-dead") != []
    assert await backend.reap(log_id="reap-other") == []
    assert await leftovers("reap-dead") != []
    gone = await backend.reap(log_id="reap-dead")
    assert gone != []
    assert await leftovers("reap-dead") == []
    assert running(mark) == []
    assert (await mine.sh("cat file"))[1] == b"kept\n"

    mark = await killed_engine("reap-dead-too")
    assert await backend.reap() != []
    assert await leftovers("reap-dead-too") == []
    assert running(mark) == []
    assert (await mine.sh("cat file"))[1] == b"kept\n"


def _resident() -> int:
    """Bytes of memory that this process has."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
