"""What every sandbox does the same way. Both backends run every test here."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from trialog.engine.archive import members
from trialog.engine.archive.headers import Entry
from trialog.engine.errors import SandboxError
from trialog.engine.sandbox.protocol import (
    Command,
    GivenFile,
    SandboxBackend,
    TreeTooLarge,
)
from trialog.events.kinds.parts import Limits, SkippedPath

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


# Files out and in


async def test_save_tree(make_box: MakeBox, tmp_path: Path) -> None:
    """The same tree packs to the same bytes, in whatever order it was made."""
    made: list[bytes] = []
    for order in ("a b c", "c a b"):
        box = await make_box()
        await box.sh(
            f"for i in {order}; do mkdir $i; echo $i >$i/file; ln -s ../b $i/link; done; "
            "chmod 750 b; chmod +x c/file; find . -exec touch -h -d @1000000000 {} +"
        )
        place = tmp_path / f"{order[0]}.tar.zst"
        tree = await box.sandbox.save_tree("/app", place, cap=MIB)
        assert (tree.files, tree.size, tree.skipped) == (3, 6, [])
        made.append(place.read_bytes())
    assert made[0] == made[1]


async def test_save_hostile_tree(box: Box, tmp_path: Path) -> None:
    """What is no file, folder or link is noted; odd names and links are kept as they are."""
    ended, output = await box.run(
        [
            "python3",
            "-c",
            "import os, socket\n"
            "os.mkfifo('pipe')\n"
            "socket.socket(socket.AF_UNIX).bind('socket')\n"
            "open(b'\\xff\\n name', 'w').write('odd')\n"
            "os.symlink('/etc/passwd', 'absolute')\n"
            "os.symlink('../../..', 'up')\n"
            "open('one', 'w').write('same')\n"
            "os.link('one', 'two')\n"
            "os.chmod('one', 0)\n"
            "os.mkdir('closed'); open('closed/in', 'w').write('in'); os.chmod('closed', 0)\n"
            "os.chmod('.', 0o700)\n",
        ]
    )
    assert ended.code == 0, output
    place = tmp_path / "tree"
    tree = await box.sandbox.save_tree("/app", place, cap=MIB)
    skipped = {one.path for one in tree.skipped}
    closed = {"one", "two", "closed"}
    found = {entry.path: entry for entry in await _entries(place)}
    if os.geteuid() != 0 and closed <= skipped:  # without an engine a plain user can't read them
        skipped -= closed
    else:
        assert {b"one", b"two", b"closed/in"} <= set(found)
    assert {"pipe"} <= skipped <= {"pipe", "socket"}  # Docker itself leaves sockets out
    assert not {b"pipe", b"socket"} & set(found)
    assert {b"\xff\n name", b"absolute", b"up"} <= set(found)
    assert (found[b"absolute"].link, found[b"up"].link) == (b"/etc/passwd", b"../../..")


async def test_nothing_deep_is_lost_silently(box: Box, tmp_path: Path) -> None:
    """Folders deeper than any path may be long: each file is kept, or it is said where one is not.

    At 20 bytes a folder the chain is past 4,095 bytes, a system's longest path, after 195 folders.
    """
    ended, output = await box.run(
        [
            "python3",
            "-c",
            "import os\n"
            "os.mkdir('deep'); os.chdir('deep')\n"
            "for i in range(300):\n"
            "    os.mkdir('d' * 20); os.chdir('d' * 20); open('file', 'w').write('x')\n"
            "print(len(os.getcwd()))\n",
        ]
    )
    assert (ended.code, int(output)) == (0, len("/app/deep") + 300 * 21), output
    tree = await box.sandbox.save_tree("/app", tmp_path / "tree", cap=MIB)
    assert tree.files == 300 or tree.skipped
    kept = {entry.path for entry in await _entries(tmp_path / "tree")}
    assert b"deep/" + b"/".join([b"d" * 20] * 150) + b"/file" in kept
    assert all(len(one.path) == 1024 for one in tree.skipped)
    skipped = await box.sandbox.copy_file("/app/deep", tmp_path / "copied", cap=MIB)
    assert len(list((tmp_path / "copied").rglob("file"))) < 300
    assert skipped


async def test_save_too_large(box: Box, tmp_path: Path) -> None:
    """A tree over the cap is not kept, a sparse file counting whole; under it, it is."""
    await box.sh("head -c 3000 /dev/zero >file")
    with pytest.raises(TreeTooLarge):
        await box.sandbox.save_tree("/app", tmp_path / "tree", cap=2999)
    assert not (tmp_path / "tree").exists()
    assert (await box.sandbox.save_tree("/app", tmp_path / "tree", cap=3000)).size == 3000
    await box.sh("truncate -s 8G sparse")
    with anyio.fail_after(60), pytest.raises(TreeTooLarge):
        await box.sandbox.save_tree("/app", tmp_path / "other", cap=3000)


async def test_start_from_saved(make_box: MakeBox, tmp_path: Path) -> None:
    """A sandbox that starts from a saved workspace holds exactly that, and saves to the same."""
    first = await make_box()
    await first.sh("mkdir -p a/b; echo x >a/b/file; ln -s a link; chmod 711 a; chmod 500 a/b/file")
    saved = tmp_path / "saved"
    await first.sandbox.save_tree("/app", saved, cap=MIB)
    second = await make_box(workspace=saved)
    ended, output = await second.sh("find . | LC_ALL=C sort; cat a/b/file; readlink link")
    assert (ended.code, output.split()) == (
        0,
        [b".", b"./a", b"./a/b", b"./a/b/file", b"./link", b"x", b"a"],
    )
    again = tmp_path / "again"
    await second.sandbox.save_tree("/app", again, cap=MIB)
    assert await _entries(again) == await _entries(saved)


async def test_copy_file(box: Box, tmp_path: Path) -> None:
    """A regular file is copied out, with its bytes."""
    await box.sh(r"mkdir -p out; printf '\000\377' >out/file; chmod 400 out/file")
    assert await box.sandbox.copy_file("/app/out/file", tmp_path / "file", cap=100) == []
    assert (tmp_path / "file").read_bytes() == b"\x00\xff"
    with pytest.raises(TreeTooLarge):
        await box.sandbox.copy_file("/app/out/file", tmp_path / "other", cap=1)


async def test_copy_folder(box: Box, tmp_path: Path) -> None:
    """Of a folder every regular file is copied; links and what else is there are given back."""
    await box.sh(
        "mkdir -p out/deep/er; echo 1 >out/one; echo 2 >out/deep/er/two; "
        "ln -s /etc/passwd out/link; mkfifo out/pipe; ln out/one out/same"
    )
    skipped = await box.sandbox.copy_file("/app/out", tmp_path / "out", cap=MIB)
    copied = {
        str(path.relative_to(tmp_path / "out")): path.read_text()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert copied == {"one": "1\n", "same": "1\n", "deep/er/two": "2\n"}
    assert {(one.path, one.target) for one in skipped} == {
        ("app/out/link", "/etc/passwd"),
        ("app/out/pipe", None),
    }


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/app/link", "/etc/passwd"),
        ("/app/way/passwd", "/etc"),
        ("/app/up/etc/passwd", "../.."),
        ("/app/hop/environ", "/proc/self"),
        ("/app/below/hop/environ", "/proc/self"),
    ],
)
async def test_links_are_not_followed(box: Box, tmp_path: Path, path: str, target: str) -> None:
    """A path that is a link, or leads through one, is not copied; it and its target are named."""
    ended, _ = await box.sh(
        "ln -s /etc/passwd link; ln -s /etc way; ln -s ../.. up; ln -s /proc/self hop; "
        "mkdir below; ln -s /proc/self below/hop; "
        "cat way/passwd up/etc/passwd hop/environ below/hop/environ"
    )
    assert ended.code == 0
    skipped = await box.sandbox.copy_file(path, tmp_path / "copy", cap=MIB)
    assert [(one.path, one.target) for one in skipped] == [(path.lstrip("/"), target)]
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("path", ["/app/nothing", "/app/file/below", "/none/of/it"])
async def test_copy_missing(box: Box, tmp_path: Path, path: str) -> None:
    """A path where nothing is, is given back."""
    await box.sh("echo x >file")
    skipped = await box.sandbox.copy_file(path, tmp_path / "copy", cap=MIB)
    assert skipped == [SkippedPath(path=path.lstrip("/"), reason="there is no such file")]


@pytest.mark.parametrize("path", ["/app/a", "/app/self", "/app/a/below"])
async def test_links_in_a_circle(box: Box, tmp_path: Path, path: str) -> None:
    """A link that leads back to itself is given back as a link, and ends no trial."""
    ended, _ = await box.sh("ln -s a b; ln -s b a; ln -s self self; cat a 2>/dev/null || exit 40")
    assert ended.code == 40
    (skipped,) = await box.sandbox.copy_file(path, tmp_path / "copy", cap=MIB)
    assert skipped.path == path.lstrip("/")
    assert "is not followed" in skipped.reason
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("target", ["/etc", "/app"])
async def test_workspace_that_is_gone(box: Box, tmp_path: Path, target: str) -> None:
    """A workspace that the agent removed or replaced by a link is saved as empty, and it is said.

    Nothing of what the link leads to is read.
    """
    ended, _ = await box.sh(f"cd /; rm -rf /app 2>/dev/null && ln -s {target} /app")
    tree = await box.sandbox.save_tree("/app", tmp_path / "tree", cap=512 * MIB)
    assert (tree.files, tree.size) == (0, 0)
    assert bool(tree.skipped) is (ended.code == 0)
    assert [entry.path for entry in await _entries(tmp_path / "tree")] == [b""]


async def test_changed_outside(box: Box) -> None:
    """Paths that were changed outside the workspace and the mounts are named, and no others."""
    await box.sh("echo x >file; echo x >/logs/file")
    before = await box.sandbox.changed_outside()
    if before is None:
        pytest.fail("this backend can tell what was changed")
    assert before == []
    ended, _ = await box.sh(
        "mkdir -p /tmp/new; echo x >/tmp/new/file; touch /tmp/gone; rm /tmp/gone"
    )
    assert ended.code == 0
    assert await box.sandbox.changed_outside() == ["/tmp/new", "/tmp/new/file"]


async def test_put_files(make_box: MakeBox, tmp_path: Path) -> None:
    """Files that are given before the first phase lie where they should, mounts included."""
    (tmp_path / "one").write_bytes(b"\x00\xff" * 300_000)
    (tmp_path / "two").write_text("in a mount")
    (tmp_path / "three").write_text("run me")
    box = await make_box()
    await box.sandbox.put_files(
        [
            GivenFile(source=tmp_path / "one", path="/tmp/made/for it/one"),
            GivenFile(source=tmp_path / "two", path="/logs/deep/two", mode=0o400),
            GivenFile(source=tmp_path / "three", path="/tmp/three", mode=0o755),
        ]
    )
    ended, output = await box.sh(
        "stat -c '%s %a' '/tmp/made/for it/one' /logs/deep/two /tmp/three; cat /logs/deep/two; "
        "stat -c %a /tmp"
    )
    assert ended.code == 0, output
    assert output == b"600000 644\n10 400\n6 755\nin a mount1777\n"


@pytest.mark.parametrize("path", ["/tmp/file/below", "/tmp/../x/..", "/logs"])
async def test_put_where_no_file_can_be(make_box: MakeBox, tmp_path: Path, path: str) -> None:
    """A place that can't be had is an error that names it, not a file somewhere else."""
    (tmp_path / "one").write_text("1")
    box = await make_box()
    await box.sandbox.put_files([GivenFile(source=tmp_path / "one", path="/tmp/file")])
    with pytest.raises(SandboxError, match=re.escape(path)):
        await box.sandbox.put_files([GivenFile(source=tmp_path / "one", path=path)])


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


async def _entries(archive: Path) -> list[Entry]:
    """What an archive holds."""
    return await anyio.to_thread.run_sync(lambda: [member.entry for member in members(archive)])


def _resident() -> int:
    """Bytes of memory that this process has."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


# Between phases, from outside


async def test_changed(box: Box) -> None:
    """Wanted paths that a phase made are listed, wherever it may write, but not in mounts."""
    assert await box.sandbox.changed(lambda _: True) == []
    await box.sh(
        "mkdir -p a/b; echo 1 > a/b/x; ln -s / a/x; echo 1 > /tmp/x; echo 1 > /logs/x; echo 1 > y; "
        "mkdir locked; echo 1 > locked/x; chmod 0 locked"
    )
    found = await box.sandbox.changed(lambda path: path.endswith("/x"))
    assert found == ["/app/a/b/x", "/app/a/x", "/app/locked/x", "/tmp/x"]
    assert await box.sandbox.changed(lambda _: False, links=lambda t: t == b"/") == ["/app/a/x"]
    assert await box.sandbox.changed(lambda _: False, links=lambda t: t == b"x") == []
    _, output = await box.sh("stat -c %a locked")
    assert output == b"0\n"


async def test_changed_in_a_deep_tree(box: Box) -> None:
    """Depth hides nothing but what is deeper than any path may be, and ends in no error."""
    await box.sh(
        'echo 1 > x; i=0; while [ $i -lt 40 ]; do d=$(printf "%0200d" 0); '
        "mkdir $d && cd $d || break; i=$((i + 1)); done; echo 1 > x; echo $i > /tmp/depth"
    )
    found = await box.sandbox.changed(lambda path: path.endswith("/x"))
    assert found == ["/app/x"]


async def test_look(box: Box) -> None:
    """What is there is told by its kind, with bytes and hash of files, and no link is followed."""
    await box.sh("printf abc > file; ln -s file link; mkdir folder; mkfifo pipe; ln -s /tmp out")
    await box.sh("printf abc > /tmp/file")
    seen = {
        name: await box.sandbox.look(f"/app/{name}", cap=3)
        for name in ("file", "link", "folder", "pipe", "none", "out/file", "file/below")
    }
    kinds = {name: one.kind for name, one in seen.items() if name != "out/file"}
    assert kinds == {
        "file": "file", "link": "link", "folder": "folder", "pipe": "other", "none": "missing",
        "file/below": "missing",
    }  # fmt: skip
    assert seen["out/file"].data is None
    assert seen["file"].data == b"abc"
    assert seen["file"].sha256 == hashlib.sha256(b"abc").hexdigest()
    assert seen["link"].data == b"file"
    large = await box.sandbox.look("/app/file", cap=2)
    assert (large.kind, large.data, large.sha256) == ("file", None, None)
    assert (await box.sandbox.look("/app/file", cap=9, in_image=True)).kind == "missing"
    shell = await box.sandbox.look("/usr/bin/env", cap=10_000_000, in_image=True)
    assert shell.kind == "file"


async def test_put_back_and_replace(box: Box) -> None:
    """What the image has not is gone again; a file with other bytes keeps its mode."""
    await box.sh(
        "mkdir -p a/b; echo 1 > a/b/x; chmod 555 a a/b; echo 1 > y; chmod 751 y; ln -s y z"
    )
    for path in ("/app/a", "/app/z", "/app/none"):
        await box.sandbox.put_back(path)
    await box.sandbox.replace("/app/y", b"two\n")
    _, output = await box.sh("ls; cat y; stat -c %a y")
    assert output == b"y\ntwo\n751\n"


async def test_python(box: Box) -> None:
    """The image's python3 is found, and runs."""
    found = await box.sandbox.find_python()
    assert found is not None
    assert found.version >= (3, 8)
    ended, output = await box.run([found.path, "-ISc", "import sys; print(*sys.version_info[:2])"])
    assert (ended.code, output.decode().split()) == (0, [str(n) for n in found.version])
