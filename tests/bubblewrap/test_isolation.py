"""What a sandbox sees, and what it does not."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import to_thread

from trialog.engine.sandbox.bubblewrap import layout
from trialog.engine.sandbox.protocol import Command, Exit, Mount
from trialog.events.kinds.parts import Limits

if TYPE_CHECKING:
    from conftest import MakeBox
    from trialog.engine.sandbox.bubblewrap.box import BubblewrapSandbox

pytestmark = pytest.mark.bubblewrap

Run = Callable[..., Awaitable[tuple[Exit, str]]]


async def test_environment_starts_clean(
    box: BubblewrapSandbox, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the engine's environment leaks in: keys above all."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-agents")
    assert os.environ["OPENAI_API_KEY"]
    _, printed = await run(box, "env; cat /proc/*/environ")
    assert "sk-not-for-agents" not in printed
    names = {line.split("=")[0] for line in printed.split("\0")[0].splitlines()}
    assert names <= {"PATH", "HOME", "PWD", "OLDPWD", "_", "SHLVL"} | {""}
    _, printed = await run(box, 'echo "$PATH"; echo "$HOME"; command -v python3')
    assert printed.splitlines()[0].startswith("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
    home = "/root" if os.geteuid() == 0 else "/home/"
    assert printed.splitlines()[1].startswith(home)


async def test_the_hosts_folders(box: BubblewrapSandbox, run: Run, tmp_path: Path) -> None:
    """The top of the tree holds system folders and fresh ones, and nothing of the host's people."""
    assert Path("/var/lib").is_dir()
    assert "lib" not in await folder(box, run, "/var")
    for name in ("work", "srv", "opt", "mnt", "media", "boot", "sys"):
        assert name not in await folder(box, run, "/")
    assert await folder(box, run, "/tmp") == set()
    assert await folder(box, run, "/logs") == set()
    assert await folder(box, run, "$HOME") == set()
    ended, _ = await run(box, f"test -e {tmp_path}")
    assert ended.code == 1


async def folder(box: BubblewrapSandbox, run: Run, path: str) -> set[str]:
    """Names in a folder inside."""
    _, printed = await run(box, f"ls -A {path}")
    return set(printed.split())


async def test_etc_holds_no_secrets(box: BubblewrapSandbox, run: Run) -> None:
    """Of /etc only what programs need is seen: no shadow, no keys, no people."""
    assert Path("/etc/shadow").exists()
    names = await folder(box, run, "/etc")
    assert {"passwd", "group", "ld.so.cache", "alternatives", "nsswitch.conf"} <= names
    assert not names & {"shadow", "gshadow", "sudoers", "ssh", "machine-id", "docker"}
    assert "private" not in await folder(box, run, "/etc/ssl")
    ended, printed = await run(box, "id -un; ls /etc/ssl/certs | head -1; getent hosts localhost")
    assert ended.code == 0
    assert len(printed.splitlines()) == 3


WRITABLE_IN_PROC = r"""
find /proc -maxdepth 3 -path '/proc/[0-9]*' -prune -o -type f -print 2>/dev/null |
grep -v -E '^/proc/(self|thread-self|net|tty|pressure)/' | while read -r file; do
  if (: >>"$file") 2>/dev/null; then echo "may write $file"; fi
done
"""


async def test_kernel_parameters_are_read_only(
    box: BubblewrapSandbox, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of /proc can be written to but a process's own and those of its own namespaces."""
    _, printed = await run(box, WRITABLE_IN_PROC)
    own = re.compile(
        "may write /proc/sys/(fs/mqueue/|net/|user/|"
        "kernel/(shm|msg|sem|auto_msgmni|pid_max|ns_last_pid))"
    )
    assert [line for line in printed.splitlines() if not own.match(line)] == []
    if os.geteuid() == 0:  # a plain user never may; root could, and is kept from it
        monkeypatch.setattr(layout, "_writable_in_proc", lambda: ())
        _, printed = await run(box, WRITABLE_IN_PROC)
        assert "may write /proc/sys/kernel/core_pattern" in printed


def test_what_is_not_shielded_is_never_writable() -> None:
    """Folders of /proc that stay as they are inside have no file that anybody may write to."""
    assert [name for name in layout._NEVER_WRITABLE if Path("/proc", name).is_dir()]
    found = [
        path
        for name in layout._NEVER_WRITABLE
        for path in Path("/proc", name).rglob("*")
        if path.is_file() and path.stat().st_mode & 0o222
    ]
    assert [] == found


async def test_system_is_read_only(box: BubblewrapSandbox, run: Run) -> None:
    """Nothing of the host's can be written to, not by remounting and not as root."""
    script = """
    for place in /usr /usr/bin /etc / /proc/sys/kernel/hostname /lib; do
      if touch $place/planted 2>/dev/null; then echo "wrote $place"; fi
    done
    mount -o remount,rw /usr 2>/dev/null && echo remounted
    mount --bind /app /usr 2>/dev/null && echo mounted
    unshare -Urm mount -o remount,bind,rw /usr 2>/dev/null && echo nested
    unshare -Urmpf sh -c 'mount -t proc proc /proc; echo x >/proc/sys/kernel/core_pattern' \
      2>/dev/null && echo proc
    grep ^Cap /proc/self/status
    echo done
    """
    _, printed = await run(box, script)
    lines = printed.split("\n")
    assert [line for line in lines if line and not line.startswith("Cap")] == ["done"], printed
    caps = {line.split(":\t")[0]: int(line.split(":\t")[1], 16) for line in lines if "Cap" in line}
    assert (caps["CapPrm"], caps["CapEff"], caps["CapInh"], caps["CapAmb"]) == (0, 0, 0, 0)
    assert not Path("/usr/planted").exists()


async def test_namespaces_are_its_own(make_box: MakeBox, run: Run) -> None:
    """User, process, IPC, host name, network, control group and mounts are all a phase's own."""
    kinds = ("user", "pid", "ipc", "uts", "net", "cgroup", "mnt")
    script = "; ".join(f"readlink /proc/self/ns/{kind}" for kind in kinds)
    printed = bytearray()
    shown = anyio.Event()

    def take(data: bytes) -> None:
        printed.extend(data)
        if printed.count(b"\n") == len(kinds):
            shown.set()

    async with anyio.create_task_group() as tasks:
        # Both at once: the kernel gives the number of one that is gone to the next.
        stays = Command(argv=["sh", "-c", f"{script}; sleep 60"], timeout=60.0)
        tasks.start_soon((await make_box()).run, stays, take)
        with anyio.fail_after(30):
            await shown.wait()
        _, second = await run(await make_box(), script)
        tasks.cancel_scope.cancel()
    first = printed.decode().split()
    for kind, one, two in zip(kinds, first, second.split(), strict=True):
        host = await to_thread.run_sync(os.readlink, f"/proc/self/ns/{kind}")
        assert len({one, two, host}) == 3, kind


async def test_no_descriptors_leak(box: BubblewrapSandbox, run: Run) -> None:
    """A program gets its three streams and no descriptor of the engine's."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        _, printed = await run(box, "ls /proc/self/fd")
    finally:
        os.close(reading)
        os.close(writing)
    assert set(printed.split()) <= {"0", "1", "2", "3"}  # 3 is ls's own


async def test_variables_are_not_in_the_list_of_processes(make_box: MakeBox, run: Run) -> None:
    """A task's variables are not on any command line, where other users of the host could read."""
    box = await make_box(env={"TASK_KEY": "visible-to-the-task"})

    def command_lines() -> bytes:
        found = b""
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += entry.read_bytes() + b"\n"
            except OSError:
                continue
        return found

    async with anyio.create_task_group() as tasks:
        seen: list[bytes] = []

        def take(data: bytes) -> None:
            seen.append(data)

        command = Command(argv=["sh", "-c", "echo $TASK_KEY; sleep 30"], timeout=30)
        tasks.start_soon(box.run, command, take)
        with anyio.fail_after(20):
            while not seen:
                await anyio.sleep(0.01)
        lines = await to_thread.run_sync(command_lines)
        tasks.cancel_scope.cancel()
    assert seen == [b"visible-to-the-task\n"]
    assert b"trialog-bwrap:" in lines
    assert b"visible-to-the-task" not in lines


async def test_the_terminal_is_out_of_reach(box: BubblewrapSandbox, run: Run) -> None:
    """The phase is in sessions of its own, so that Ctrl-C at the engine's terminal stops there."""
    script = "cut -d' ' -f5,6 /proc/self/stat; cut -d' ' -f5,6 /proc/1/stat"
    _, printed = await run(box, script)
    own, first = printed.splitlines()
    assert first == "1 1"
    assert own.split()[1] == "1"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(box.run, Command(argv=["sleep", "30"]), lambda _: None)
        with anyio.fail_after(20):
            while (phase := box.phase_id) is None:
                await anyio.sleep(0.01)
        assert os.getsid(phase) != os.getsid(0)
        assert os.getpgid(phase) != os.getpgid(0)
        tasks.cancel_scope.cancel()


async def test_network_is_the_hosts_when_allowed(make_box: MakeBox, run: Run) -> None:
    """A task with a network gets the host's, with a warning; its resolver file is there then."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    script = (
        f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' "
        "2>/dev/null && echo reached; cat /etc/resolv.conf"
    )
    closed = await make_box()
    assert (await run(closed, script))[1] == ""
    opened = await make_box(limits=Limits(network=True))
    _, printed = await run(opened, script)
    server.close()
    assert printed.splitlines()[0] == "reached"
    assert [code for code, _ in opened.warnings] == ["network_shared"]
    assert closed.warnings == []


async def test_what_changed_outside(make_box: MakeBox, run: Run, tmp_path: Path) -> None:
    """Files in /tmp, /logs and HOME are named as changed; the workspace's and mounts' are not."""
    await anyio.Path(tmp_path / "mounted").mkdir()
    box = await make_box(mounts=[Mount(source=tmp_path / "mounted", target="/logs/verifier")])
    await run(
        box, "echo x | tee a /tmp/b $HOME/.c /logs/d /logs/verifier/e; mkdir /tmp/f; ln -s / /tmp/g"
    )
    changed = await box.changed_outside()
    home = "/root" if os.geteuid() == 0 else "/home/nobody"
    assert changed is not None
    assert set(changed) == {"/tmp/b", f"{home}/.c", "/logs/d", "/tmp/f", "/tmp/g"}


async def test_files_stay_between_phases(box: BubblewrapSandbox, run: Run) -> None:
    """Workspace, /tmp, /var/tmp, /logs and HOME stay; /run, /dev/shm and processes do not."""
    places = "/app /tmp /var/tmp /logs $HOME"
    await run(box, f"for p in {places} /run /dev/shm; do echo x >$p/kept; done")
    _, printed = await run(box, f"cd /; for p in {places}; do cat $p/kept; done; ls /run /dev/shm")
    assert printed.split() == ["x"] * 5 + ["/dev/shm:", "/run:"]


async def test_saved_workspace(make_box: MakeBox, run: Run, tmp_path: Path) -> None:
    """A sandbox may start from a saved workspace, exactly."""
    first = await make_box()
    await run(first, "mkdir -p a/b; echo deep >a/b/c; ln -s c a/b/d; chmod 750 a; chmod 444 a/b/c")
    saved = await first.save_tree("/app", tmp_path / "saved", cap=10**6)
    assert saved.files == 1
    second = await make_box(workspace=tmp_path / "saved")
    again = await second.save_tree("/app", tmp_path / "again", cap=10**6)
    assert again == saved
    one = await anyio.Path(tmp_path / "saved").read_bytes()
    assert await anyio.Path(tmp_path / "again").read_bytes() == one
    assert (await run(second, "cat a/b/d"))[1] == "deep\n"
