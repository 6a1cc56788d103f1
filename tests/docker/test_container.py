"""What is Docker's alone: limits, networks, entrypoints, users, labels."""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import pytest

from trialog.engine.errors import LimitsRefused, SandboxError, SandboxGone
from trialog.engine.sandbox.docker import DockerBackend
from trialog.engine.sandbox.owner import this_process
from trialog.engine.sandbox.protocol import Image
from trialog.events.kinds.parts import Limits

if TYPE_CHECKING:
    from conftest import Ran

pytestmark = pytest.mark.docker

MakeBox = Callable[..., Awaitable["Ran"]]
Build = Callable[..., Awaitable[Image]]
Docker = Callable[..., Awaitable[str]]


async def test_labels(make_box: MakeBox, docker: Docker) -> None:
    """Containers carry job, trial, log and owner, and are named after their trial."""
    box = await make_box(job="a job", trial="a-trial__0123abcd", log_id="a log")
    found = json.loads(await docker("inspect", box.sandbox.id))[0]
    labels = found["Config"]["Labels"]
    assert {name.removeprefix("trialog."): value for name, value in labels.items()} == {
        "job": "a job",
        "trial": "a-trial__0123abcd",
        "log": "a log",
        "owner": str(this_process()),
        "way": "direct",
    }
    assert found["Name"] == "/trialog-a-trial__0123abcd"


async def test_limits_inside(make_box: MakeBox, docker: Docker) -> None:
    """CPU, memory and processes are limited as asked; without a word processes are at 4096."""
    box = await make_box(limits=Limits(cpus=0.5, memory_mb=256, processes=99))
    host = json.loads(await docker("inspect", box.sandbox.id))[0]["HostConfig"]
    assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, 99)
    assert host["Memory"] == 256 * 1024 * 1024
    assert host["MemorySwap"] in (host["Memory"], -1, 0)
    box = await make_box()
    host = json.loads(await docker("inspect", box.sandbox.id))[0]["HostConfig"]
    assert (host["PidsLimit"], host["Memory"], host["NanoCpus"]) == (4096, 0, 0)


async def test_out_of_memory(make_box: MakeBox) -> None:
    """A phase that the kernel ended for its memory says so, and so does one whose child it was."""
    box = await make_box(limits=Limits(memory_mb=64))
    ended, _ = await box.sh("exec python3 -c 'x = bytearray(512 * 1024 * 1024)'")
    assert (ended.code, ended.out_of_memory) == (137, True)
    ended, _ = await box.sh("python3 -c 'x = bytearray(512 * 1024 * 1024)'; exit 3")
    assert (ended.code, ended.out_of_memory) == (3, True)
    ended, _ = await box.sh("exit 3")
    assert (ended.code, ended.out_of_memory) == (3, False)
    ended, _ = await box.sh("kill -9 $$")
    assert (ended.code, ended.out_of_memory) == (137, False)


async def test_limits_that_cannot_be_had(make_box: MakeBox) -> None:
    """More CPUs than there are become all of them, and storage without a quota a warning."""
    box = await make_box(limits=Limits(cpus=4096, storage_mb=1024))
    codes = [code for code, _ in box.sandbox.warnings]
    messages = [message for _, message in box.sandbox.warnings]
    assert "limit_lowered" in codes
    assert any(message.startswith("cpus: 4096 asked") for message in messages)
    assert (await box.sh("exit 0"))[0].code == 0
    if "limit_not_kept" in codes:
        assert any(message.startswith("storage_mb: ") for message in messages)
    else:
        ended, _ = await box.sh("head -c 1200M /dev/zero >/tmp/big")
        assert ended.code != 0


async def test_strict_limits(make_box: MakeBox, backend: DockerBackend) -> None:
    """Under strict limits a sandbox whose limits can't be held is refused, and any other made."""
    strict = DockerBackend(backend._engine, strict_limits=True)
    strict._no_storage_limit = "no quotas here"
    with pytest.raises(LimitsRefused, match="--strict-limits: storage_mb: no quotas here; run on"):
        await make_box(by=strict, limits=Limits(storage_mb=1024))
    assert (await make_box(by=strict, limits=Limits(cpus=0.5))).sandbox.warnings == []


async def test_network_when_allowed(make_box: MakeBox, backend: DockerBackend) -> None:
    """With leave a sandbox reaches its gateway; two such sandboxes do not reach each other."""
    one = await make_box(limits=Limits(network=True))
    two = await make_box(limits=Limits(network=True))
    _, output = await one.sh("ls /sys/class/net; cat /proc/net/route")
    assert b"eth0" in output
    rows = [line.split() for line in output.decode().splitlines() if line.startswith("eth0\t")]
    gateway = socket.inet_ntoa(
        bytes.fromhex(next(row[2] for row in rows if row[1] == "00000000"))[::-1]
    )
    # The engine may live in a network name space of its own, so nobody of ours listens there: that
    # the gateway itself refuses the connection shows that it was reached.
    ended, output = await one.sh(_REACH.format(host=gateway))
    assert (ended.code, output) == (0, b"reached")
    ended, output = await (await make_box()).sh(_REACH.format(host=gateway))
    assert ended.code != 0, output

    async with anyio.create_task_group() as tasks:
        address: list[str] = []

        async def serve() -> None:
            script = (
                "hostname -i 2>/dev/null || awk '/32 host/ {print f} {f=$2}' /proc/net/fib_trie "
                "| grep -v 127.0.0.1 | head -1; exec python3 -m http.server 8123"
            )
            from trialog.engine.sandbox.protocol import Command

            await two.sandbox.run(
                Command(argv=["sh", "-c", script], timeout=60),
                lambda data: address.append(data.decode().split()[0]),
            )

        tasks.start_soon(serve)
        with anyio.fail_after(30):
            while True:
                if address:
                    break
                await anyio.sleep(0.05)
        ended, output = await one.sh(_CONNECT.format(host=address[0], port=8123), timeout=30)
        assert ended.code != 0, output
        tasks.cancel_scope.cancel()


_CONNECT = (
    "python3 -c \"import socket; s = socket.create_connection(('{host}', {port}), 5); "
    "print(s.recv(5).decode(), end='')\""
)


_REACH = """python3 -c "
import socket
try:
    socket.create_connection(('{host}', 9), 5)
except ConnectionRefusedError:
    pass
print('reached', end='')
" """


async def test_network_goes_with_the_engine(make_box: MakeBox, docker: Docker) -> None:
    """The network carries the owner's label, and is removed when the backend is closed."""
    backend = await DockerBackend.connect()
    box = await make_box(backend, limits=Limits(network=True))
    await box.sh("true")
    names = await docker("network", "ls", "-q", "--filter", f"label=trialog.owner={this_process()}")
    assert names
    await box.sandbox.remove()
    await backend.aclose()
    listed = await docker(
        "network", "ls", "-q", "--filter", f"label=trialog.owner={this_process()}"
    )
    assert not set(names.split()) & set(listed.split())


async def test_hosts(make_box: MakeBox) -> None:
    """Without a network the sandbox's own names resolve, and /etc/hosts can be written to."""
    box = await make_box()
    ended, output = await box.sh(
        "echo 127.0.0.9 other >>/etc/hosts; getent hosts localhost; getent hosts $(hostname); "
        "getent hosts other"
    )
    assert ended.code == 0, output
    assert b"127.0.0.9" in output


async def test_entrypoint_runs(make_box: MakeBox, build: Build) -> None:
    """An image's ENTRYPOINT runs with the task's variables, anew in each phase, beside it."""
    image = await build(
        'ENTRYPOINT ["/bin/sh", "-c", "echo $TASKS_OWN >>/tmp/began; exec \\"$@\\"", "entry"]'
    )
    assert image.entrypoint
    box = await make_box(image=image, env={"TASKS_OWN": 'it\'s "$here"'})
    script = "while [ ! -s /tmp/began ]; do sleep 0.05; done; cat /tmp/began; echo $TASKS_OWN"
    ended, output = await box.sh(script)
    assert (ended.code, output, ended.left) == (0, b'it\'s "$here"\n' * 2, [])
    _, output = await box.sh("while [ $(wc -l </tmp/began) != 2 ]; do sleep 0.05; done; echo two")
    assert output == b"two\n"


async def test_entrypoint_of_services(make_box: MakeBox, build: Build) -> None:
    """What an entrypoint started itself is not told as left; what a phase left is, and goes."""
    image = await build('ENTRYPOINT ["/bin/sh", "-c", "sleep 1000 & exec \\"$@\\"", "entry"]')
    box = await make_box(image=image)
    ended, _ = await box.sh("while ! grep -q 1000 /proc/*/cmdline; do sleep 0.05; done; true")
    ended, output = await box.sh(
        "cp /bin/sleep /tmp/mine; sleep 0.5; /tmp/mine 1000 & sleep 0.2; echo out"
    )
    assert (ended.code, output) == (0, b"out\n")
    assert "mine" in [process.name for process in ended.left]
    _, output = await box.sh("cat /proc/[0-9]*/comm")
    assert b"mine" not in output


async def test_entrypoint_that_ends(make_box: MakeBox, build: Build) -> None:
    """An entrypoint that ends by itself is named as the fault, with what it said."""
    image = await build('ENTRYPOINT ["/bin/sh", "-c", "echo sorry, no; exit 9"]')
    box = await make_box(image=image)
    with pytest.raises(SandboxError, match=r"(?s)ENTRYPOINT.*exit code 9.*sorry, no"):
        await box.sh("sleep 5")


@pytest.mark.parametrize("entry", [True, False])
async def test_by_exec_as_in_the_contract(
    make_box: MakeBox, build: Build, image: Image, entry: bool
) -> None:
    """Beside an entrypoint, or as other users, phases end as they do without."""
    if entry:
        image = await build('ENTRYPOINT ["/bin/sh", "-c", "exec \\"$@\\"", "entry"]')
    box = await make_box(image=image, separate_users=not entry)
    ended, output = await box.sh("printf out; cat; exit 4", stdin=b"in")
    assert (ended.ended_by, ended.code, output) == ("exit", 4, b"outin")
    ended, output = await box.sh("printf out; kill -9 $$")
    assert (ended.code, output) == (137, b"out")
    ended, output = await box.sh("kill -9 $PPID; sleep 1")
    assert ended.code == 137

    ended, output = await box.sh("echo on; trap '' TERM; sleep 300 & sleep 300", timeout=1.5)
    assert (ended.ended_by, ended.code, output) == ("timeout", None, b"on\n")
    assert [process.name for process in ended.left].count("sleep") == 2
    ended, _ = await box.sh("echo on; sleep 300", idle_timeout=1)
    assert ended.ended_by == "idle"

    begun = anyio.current_time()
    ended, output = await box.sh("sleep 300 & (setsid sleep 300 &); echo started")
    assert (ended.code, output) == (0, b"started\n")
    assert ended.duration < 1
    assert anyio.current_time() - begun < 10
    assert len(ended.left) == 2

    with anyio.move_on_after(1.5):
        await box.sh("touch /tmp/begun; sleep 2; touch /tmp/late; sleep 300")
    _, output = await box.sh("ls /tmp; cat /proc/[0-9]*/comm")
    assert b"late" not in output
    assert b"begun" in output


async def test_users(make_box: MakeBox) -> None:
    """Phases run as the users they name, in a workspace that they can write to."""
    box = await make_box(separate_users=True)
    ended, output = await box.sh("id -un; touch made; pwd", user="nobody")
    assert (ended.code, output) == (0, b"nobody\n/app\n")
    ended, output = await box.sh("id -un; stat -c %U made")
    assert (ended.code, output) == (0, b"root\nnobody\n")
    ended, output = await box.sh("sleep 300 & echo $(id -u)", user="65534:65534")
    assert output == b"65534\n"
    assert [process.name for process in ended.left] == ["sleep"]


async def test_user_that_is_not_there(make_box: MakeBox) -> None:
    """A user that the image does not have is named in the error."""
    box = await make_box(separate_users=True)
    with pytest.raises(SandboxError, match="nobody-of-that-name"):
        await box.sh("true", user="nobody-of-that-name")


async def test_other_user_needs_to_be_asked_for(make_box: MakeBox) -> None:
    """A sandbox that was not made for several users refuses another one than the image's."""
    box = await make_box()
    assert (await box.sh("id -u", user="root"))[1] == b"0\n"
    with pytest.raises(SandboxError, match="'nobody' needs a sandbox made for separate users"):
        await box.sh("true", user="nobody")


async def test_image_of_a_plain_user(make_box: MakeBox, build: Build) -> None:
    """An image whose USER is a plain one runs directly, with a workspace that it can write to."""
    box = await make_box(image=await build("USER nobody"))
    ended, output = await box.sh("id -un; pwd; echo x >file && cat file; echo y >/logs/file")
    assert output == b"nobody\n/app\nx\nsh: 1: cannot create /logs/file: Permission denied\n"
    assert ended.left == []


async def test_no_shell(make_box: MakeBox, build: Build) -> None:
    """An image without /bin/sh can't run phases, and the error says what it lacks."""
    box = await make_box(image=await build("RUN mv /usr/bin/sh /usr/bin/not-sh"))
    with pytest.raises(SandboxError, match="/bin/sh"):
        await box.sh("true")


async def test_forged_end(make_box: MakeBox) -> None:
    """A phase that says it has ended, and goes on, is held to its deadline all the same."""
    box = await make_box()
    script = (
        "mark=$(sed -n 's/.*036\\([0-9a-f]*\\) .*/\\1/p' /.trialog-phase/phase | head -1); "
        '[ -n "$mark" ] || exit 9; '
        "printf '\\036%s end 0\\n' \"$mark\"; echo unheard; sleep 300"
    )
    begun = anyio.current_time()
    ended, output = await box.sh(script, timeout=1)
    assert (ended.ended_by, output) == ("timeout", b"")
    assert anyio.current_time() - begun < 12


async def test_kept_goes_on_with_a_network(make_box: MakeBox, docker: Docker) -> None:
    """A sandbox that is kept has a network that outlives the engine's process."""
    box = await make_box(kept=True, limits=Limits(network=True))
    found = json.loads(await docker("inspect", box.sandbox.id))[0]
    assert found["HostConfig"]["NetworkMode"] == "bridge"
    assert found["Config"]["Labels"]["trialog.kept"] == "yes"


async def test_removed_from_outside(make_box: MakeBox, docker: Docker) -> None:
    """A container that somebody removed is told as gone, by every call, and removing it is fine."""
    box = await make_box()
    await box.sh("true")
    await docker("rm", "-f", box.sandbox.id)
    with pytest.raises(SandboxGone):
        await box.sh("true")
    with pytest.raises(SandboxGone):
        await box.sandbox.save_tree("/app", box.spec.scratch / "tree", cap=1)
    with pytest.raises(SandboxGone):
        await box.sandbox.copy_file("/app/x", box.spec.scratch / "copy", cap=1)
    with pytest.raises(SandboxGone):
        await box.sandbox.changed_outside()
    await box.sandbox.remove()


@pytest.mark.parametrize("how", [("rm", "-f"), ("kill",)])
async def test_killed_from_outside(make_box: MakeBox, docker: Docker, how: tuple[str, ...]) -> None:
    """A container that somebody kills or removes while it runs is told as gone, not as an exit."""
    box = await make_box()
    async with anyio.create_task_group() as tasks:
        up = anyio.Event()

        async def run() -> None:
            from trialog.engine.sandbox.protocol import Command

            with pytest.raises(SandboxGone):
                await box.sandbox.run(
                    Command(argv=["sh", "-c", "echo up; sleep 300"]), lambda _: up.set()
                )

        tasks.start_soon(run)
        await up.wait()
        await docker(*how, box.sandbox.id)


async def test_a_shell_that_was_taken_away(make_box: MakeBox) -> None:
    """A phase whose shell an earlier one removed ends as where a program is missing, with 127."""
    box = await make_box()
    ended, _ = await box.sh("rm -f /bin/sh /bin/dash")
    assert ended.code == 0
    ended, output = await box.sh("true")
    assert (ended.ended_by, ended.code) == ("exit", 127)
    assert b"/bin/sh" in output
