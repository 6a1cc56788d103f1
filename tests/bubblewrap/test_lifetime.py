"""How phases begin and end, and what is left."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
import pytest
from anyio import to_thread

from helpers.terminal import running as marked
from trialog.engine.errors import SandboxError, SandboxGone, SandboxStartTimeout
from trialog.engine.sandbox.bubblewrap import BubblewrapBackend, exec_in, records
from trialog.engine.sandbox.bubblewrap.leftovers import parse_left
from trialog.engine.sandbox.bubblewrap.records import (
    Record,
    find_phases,
    reap_dead,
    write_record,
)
from trialog.engine.sandbox.left import LONGEST, MOST
from trialog.engine.sandbox.owner import this_process
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.events.kinds.parts import Limits, Process

if TYPE_CHECKING:
    from conftest import MakeBox
    from trialog.engine.sandbox.bubblewrap.box import BubblewrapSandbox

pytestmark = pytest.mark.bubblewrap

Run = Callable[..., Awaitable[tuple[Exit, str]]]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something, for not too long."""
    with anyio.fail_after(20):
        while not await to_thread.run_sync(condition):
            await anyio.sleep(0.01)


async def test_left_is_named_on_a_timeout(box: BubblewrapSandbox, run: Run) -> None:
    """Processes that a timeout kills are named, the command's own among them."""
    script = "setsid sleep 54321 & echo begun; sleep 54322"
    ended, printed = await run(box, script, timeout=1)
    assert (ended.ended_by, ended.code, printed) == ("timeout", None, "begun\n")
    assert sorted(process.name for process in ended.left).count("sleep") == 2
    assert marked("54321") == marked("54322") == []


async def test_a_phase_that_kills_all_it_can(box: BubblewrapSandbox, run: Run) -> None:
    """A program that signals everything it sees ends no more than itself and its like."""
    ended, _ = await run(box, "(sleep 100 &) ; kill -TERM -1; kill -KILL 1; exit 3")
    assert ended.code in (3, 143)
    assert (await run(box, "echo next"))[1] == "next\n"


async def test_start_timeout(
    box: BubblewrapSandbox, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A phase that does not start in time is an error by that name, and nothing of it stays."""
    fake = anyio.Path(tmp_path / "bwrap")
    await fake.write_text("#!/bin/sh\nexec sleep 65432\n")
    await fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxStartTimeout, match=r"within 0\.5 s"):
        await run(box, "true", start_timeout=0.5)
    assert marked("65432") == []


async def test_killed_from_outside(box: BubblewrapSandbox, run: Run) -> None:
    """When someone kills the sandbox's process, the sandbox was lost; it is no program's exit."""

    async def kill() -> None:
        await until(lambda: len(marked("76543")) > 2 and box.phase_id is not None)
        for pid in await to_thread.run_sync(find_phases, box.id):
            if pid != box.phase_id:
                os.kill(pid, signal.SIGKILL)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill)
        with pytest.raises(SandboxGone, match="killed from outside by signal 9"):
            await run(box, "echo begun; sleep 76543")
    await until(lambda: marked("76543") == [])
    assert (await run(box, "echo next"))[1] == "next\n"


async def test_one_phase_at_a_time(box: BubblewrapSandbox, run: Run) -> None:
    """A sandbox runs one phase at a time."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, box, "sleep 87654")
        await until(lambda: marked("87654") != [])
        with pytest.raises(SandboxError, match="a phase is running"):
            await run(box, "true")
        tasks.cancel_scope.cancel()
    assert marked("87654") == []


async def test_removed_meanwhile(box: BubblewrapSandbox, run: Run) -> None:
    """Removing a sandbox ends the phase that runs in it, and the phase's caller is told."""
    async with anyio.create_task_group() as tasks:

        async def phase() -> None:
            with pytest.raises(SandboxGone, match="removed while a phase ran"):
                await run(box, "setsid sleep 32109 & sleep 32109")

        tasks.start_soon(phase)
        await until(lambda: len(marked("32109")) > 2)
        await box.remove()
        assert marked("32109") == []
    await box.remove()


async def test_output_that_nobody_takes(box: BubblewrapSandbox) -> None:
    """When the taker of the output fails, its error comes out, and the phase is dead by then."""

    def take(data: bytes) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await box.run(Command(argv=["sh", "-c", "echo x; sleep 98765"]), take)
    assert marked("98765") == []


async def test_outlives_threads(box: BubblewrapSandbox, run: Run) -> None:
    """A phase does not end with some worker thread of the engine's."""
    names = {thread.name for thread in threading.enumerate()}
    ended, printed = await run(box, "sleep 1; echo done")
    assert (ended.code, printed) == (0, "done\n"), names


async def test_given_descriptors_come_back(box: BubblewrapSandbox, run: Run) -> None:
    """Phases, however they end, leave no descriptor and no zombie behind in the engine."""
    await run(box, "true")
    before = await to_thread.run_sync(os.listdir, "/proc/self/fd")
    for number in range(5):
        await run(box, f"exit {number}", stdin=b"x" * 200_000)
        await run(box, "sleep 5", timeout=0.05)
        with anyio.move_on_after(0.03):
            await run(box, "sleep 5")
    after = await to_thread.run_sync(os.listdir, "/proc/self/fd")
    assert len(after) <= len(before)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


@pytest.mark.parametrize("limits", [Limits(), Limits(processes=100)])
async def test_cancelled_at_any_moment(make_box: MakeBox, run: Run, limits: Limits) -> None:
    """Wherever a cancellation hits a phase, nothing of it runs afterwards."""
    box = await make_box(limits=limits)
    own = str(432_100_000 + os.getpid())  # other tests of this machine sleep as long as they like
    for number in range(40):
        with anyio.move_on_after(number / 1000):
            await run(box, f"setsid sleep {own} & sleep {own}")
        assert await to_thread.run_sync(find_phases, box.id) == []
        assert marked(own) == []


async def test_duration_and_reuse(box: BubblewrapSandbox, run: Run) -> None:
    """A phase starts in milliseconds, again and again in one sandbox."""
    begun = time.monotonic()
    durations = [(await run(box, "true"))[0].duration for _ in range(10)]
    assert min(durations) < 0.5
    assert time.monotonic() - begun < 20


def test_reports_of_leftovers() -> None:
    """Reports are read whatever processes call themselves; ended ones are left out."""
    report = (
        b'{ "child-pid": 77 }\nstarted\n'
        b"left 1 (sh) S 0 1 1\n"
        b"left 12 (a) b) c) S 1 12 1\n"
        b"left 13 (gone) Z 1 13 1\n"
        b"left 14 (cut\n"
        b"left x (y) S 1\nnoise\n"
    )
    assert parse_left(report) == [Process(pid=12, name="a) b) c"), Process(pid=14, name="cut")]


def test_forged_reports_of_leftovers() -> None:
    """Whoever writes into the reports' pipe names some processes at most, with short names."""
    lines = "".join(f"left {pid} ({'x' * 900}) S 1\n" for pid in range(2, 1200))
    report = f"started\nleft ² (a) S\nleft {'9' * 5000} (b) S\n{lines}".encode()
    left = parse_left(report)
    assert len(left) == MOST
    assert {process.name for process in left} == {"x" * LONGEST}


async def test_an_agent_that_forges_reports(make_box: MakeBox, run: Run) -> None:
    """A megabyte of invented processes in the first process's pipe becomes a bounded list."""
    forge = (
        "import os\n"
        "with open('/proc/1/fd/9', 'wb', 0) as pipe:\n"
        "    for pid in range(100_000, 140_000):\n"
        "        pipe.write(b'left %d (%s) S 1\\n' % (pid, b'y' * 60))\n"
        "print('forged')\n"
    )
    ended, output = await run(await make_box(), f'python3 -c "{forge}"')
    assert output == "forged\n"
    assert [process.name for process in ended.left] == ["y" * 60] * MOST


async def test_exec_in_a_kept_sandbox(
    make_box: MakeBox, run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A command can be run later in a sandbox that was kept: same folders, same isolation."""
    box = await make_box(env={"TASK": "set"}, kept=True)
    await run(box, "echo kept >file")
    script = "cat file; echo $TASK; test -e /work && echo host; id -u; exit 5"
    code = await exec_in(tmp_path / "scratch0", ["sh", "-c", script], env={"ODD.NAME": "x"})
    assert code == 5
    assert capfd.readouterr().out.split() == ["kept", "set", str(os.geteuid())]
    assert await exec_in(tmp_path / "scratch0", ["sh", "-c", "kill -9 $$"]) == 137
    with pytest.raises(SandboxGone, match=r"no bubblewrap sandbox in .* any more"):
        await exec_in(tmp_path, ["true"])
    assert await exec_in(tmp_path / "scratch0", ["no-such-program"]) == 127
    assert await exec_in(tmp_path / "scratch0", ["/etc/passwd"]) == 126
    assert await exec_in(tmp_path / "scratch0", ["env", "test", "1", "=", "1"]) == 0


async def test_the_copy_of_etc_is_private_and_goes(
    backend: BubblewrapBackend, make_box: MakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in memory, in a folder that no other user can look into, and ends with the engine."""
    memory, state = tmp_path / "memory", tmp_path / "state"
    await to_thread.run_sync(memory.mkdir)
    monkeypatch.setattr(records, "_MEMORY", memory)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == memory)
    await make_box()
    folder = memory / f"trialog-bubblewrap-{os.geteuid()}"

    def look() -> None:
        [etc] = folder.iterdir()
        assert (etc / "passwd").is_file()
        assert 0o700 == stat.S_IMODE(folder.stat().st_mode)
        [file] = state.glob("etc*.json")
        assert str(etc) == msgspec.json.decode(file.read_bytes(), type=Record).folder

    await to_thread.run_sync(look)
    await backend.aclose()
    assert [] == await to_thread.run_sync(os.listdir, folder)


def test_a_disk_where_there_is_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state's own folder it is where nothing is in memory, or another user was there first."""
    state = tmp_path / "state"
    monkeypatch.setattr(records, "_MEMORY", tmp_path / "none")
    assert state == records.memory_folder(state)
    taken = tmp_path / f"trialog-bubblewrap-{os.geteuid()}"
    taken.write_text("no folder")
    monkeypatch.setattr(records, "_MEMORY", tmp_path)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    assert Path("/elsewhere") == records.memory_folder(Path("/elsewhere"))
    taken.unlink()
    assert taken == records.memory_folder(Path("/elsewhere"))


async def test_reap(backend: BubblewrapBackend, make_box: MakeBox, tmp_path: Path) -> None:
    """What a dead engine left is removed, of one log or of any; what lives stays."""
    box = await make_box()
    state = tmp_path / "state"
    dead = str(this_process()._replace(start="long-ago"))

    def leave(record_id: str, log_id: str | None, trial: str | None) -> Path:
        folder = tmp_path / f"left-{record_id}"
        folder.mkdir()
        (folder / "file").write_text("x")
        write_record(
            state,
            Record(id=record_id, owner=dead, folder=str(folder), log_id=log_id, trial=trial),
        )
        return folder

    one = await to_thread.run_sync(leave, "one", "log-a", "trial-a")
    two = await to_thread.run_sync(leave, "two", "log-b", "trial-b")
    etc = await to_thread.run_sync(leave, "three", None, None)
    await anyio.Path(state / "broken.json").write_text("{")
    assert await backend.reap(log_id="log-a") == ["trial-a"]
    assert [one.exists(), two.exists(), etc.exists()] == [False, True, False]
    assert await backend.reap() == ["trial-b"]
    assert await backend.reap() == []
    assert not two.exists()
    await box.run(Command(argv=["true"]), lambda _: None)


def test_a_record_on_a_full_disk(tmp_path: Path) -> None:
    """A record that could not be written whole is not there at all, and an old half one goes."""
    record = Record(id="one", owner="nobody", folder=str(tmp_path))
    program = (
        "import resource, sys, signal; from pathlib import Path\n"
        "from trialog.engine.sandbox.bubblewrap.records import Record, write_record\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))\n"
        "write_record(Path(sys.argv[1]), Record(id='one', owner='nobody', folder='/x'))\n"
    )
    command = [sys.executable, "-B", "-c", program, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "OSError" in ended.stderr
    assert list(tmp_path.iterdir()) == []

    write_record(tmp_path, record)
    assert [file.name for file in tmp_path.iterdir()] == ["one.json"]
    old, new = tmp_path / "old.part", tmp_path / "new.part"
    for file in (old, new):
        file.write_bytes(b"{")
    os.utime(old, (0, 0))
    assert reap_dead(tmp_path, None) == []
    assert [old.exists(), new.exists()] == [False, True]


async def test_records_are_private(
    backend: BubblewrapBackend, box: BubblewrapSandbox, tmp_path: Path
) -> None:
    """Records and the sandbox's own folder are for this user alone."""
    for folder in (tmp_path / "state", tmp_path / "scratch0" / "bubblewrap"):
        assert (await anyio.Path(folder).stat()).st_mode & 0o077 == 0
    await box.remove()
    await backend.aclose()
    assert [path async for path in anyio.Path(tmp_path / "state").iterdir()] == []


@pytest.mark.parametrize("path", ["/app", "/logs", "/tmp", "~"])
async def test_folders_that_a_phase_locked(
    box: BubblewrapSandbox, run: Run, tmp_path: Path, path: str
) -> None:
    """A phase that takes all rights from a folder keeps neither saving nor the next phase off."""
    script = f"echo kept >kept; chmod 0 {path}; ls -ld {path}; ls {path} || echo locked"
    _, printed = await run(box, script)
    assert printed.startswith("d---------")
    assert printed.endswith("locked\n")
    assert await box.changed_outside() == []
    tree = await box.save_tree("/app", tmp_path / "tree", cap=1024)
    assert (tree.files, tree.skipped) == (1, [])
    ended, printed = await run(box, f"echo x >{path}/new && cat {path}/new")
    assert (ended.code, printed) == (0, "x\n")
