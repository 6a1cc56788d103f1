"""Limits as control groups, else as limits of processes, else as warnings."""

from __future__ import annotations

import os
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import to_thread

from trialog.engine.errors import LimitsRefused
from trialog.engine.sandbox.bubblewrap import backend as backend_module
from trialog.engine.sandbox.bubblewrap.cgroups import Base, Group, find_bases
from trialog.engine.sandbox.bubblewrap.limits import DEFAULT_PROCESSES, MEBIBYTE, hold
from trialog.engine.sandbox.protocol import Exit
from trialog.events.kinds.parts import Limits

if TYPE_CHECKING:
    from conftest import MakeBox
    from trialog.engine.sandbox.bubblewrap.box import BubblewrapSandbox

Run = Callable[..., Awaitable[tuple[Exit, str]]]
HOG = "python3 -c 'x = bytearray(400 * 1024 * 1024); print(len(x))'"
BOMB = "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1; ls -d /proc/[0-9]* | wc -l"


def files(folder: Path, content: dict[str, str]) -> None:
    """Make files."""
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_version_2(tmp_path: Path) -> None:
    """Controllers are taken where a group above hands them down to its children."""
    files(
        tmp_path,
        {
            "cgroup.procs": "",
            "cgroup.subtree_control": "cpu memory pids io",
            "user/cgroup.procs": "",
            "user/cgroup.subtree_control": "memory pids",
            "user/session/cgroup.procs": "",
            "user/session/cgroup.subtree_control": "",
        },
    )
    assert find_bases("0::/user/session\n", tmp_path) == {
        "memory": Base(tmp_path / "user", 2),
        "pids": Base(tmp_path / "user", 2),
        "cpu": Base(tmp_path, 2),
    }
    group = Group("g", {"memory": 1024, "cpu": 0.5, "pids": 7}, find_bases("0::/user", tmp_path))
    assert (tmp_path / "user/g/memory.max").read_text() == "1024"
    assert (tmp_path / "user/g/memory.swap.max").read_text() == "0"
    assert (tmp_path / "user/g/pids.max").read_text() == "7"
    assert (tmp_path / "g/cpu.max").read_text() == "50000 100000"
    (tmp_path / "user/g/memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.killed_for_memory() == 2
    group.add(123)
    assert (tmp_path / "user/g/cgroup.procs").read_text() == "123"


def test_version_1(tmp_path: Path) -> None:
    """Each controller of version 1 has a tree of its own."""
    files(tmp_path, {"memory/a/cgroup.procs": "", "pids/cgroup.procs": ""})
    bases = find_bases("3:memory:/a\n2:pids:/gone\n4:cpu,cpuacct:/\n1:name=systemd:/\n", tmp_path)
    assert bases == {
        "memory": Base(tmp_path / "memory/a", 1),
        "pids": Base(tmp_path / "pids", 1),
    }
    Group("g", {"memory": 4096}, bases)
    assert (tmp_path / "memory/a/g/memory.limit_in_bytes").read_text() == "4096"
    assert (tmp_path / "memory/a/g/memory.memsw.limit_in_bytes").read_text() == "4096"


def test_none(tmp_path: Path) -> None:
    """Without control groups there are none."""
    assert find_bases("0::/x\n", tmp_path) == {}


def test_a_group_that_fails(tmp_path: Path) -> None:
    """A group that can't be set up leaves a warning, or refuses under strict limits."""
    bases = {"memory": Base(tmp_path / "missing", 2)}
    held = hold(Limits(memory_mb=10), bases, "g", strict=False)
    assert held.group is None
    assert held.warnings[0][0] == "limit_not_kept"
    with pytest.raises(LimitsRefused, match="--strict-limits: no control group"):
        hold(Limits(memory_mb=10), bases, "g", strict=True)


def test_without_groups() -> None:
    """Without control groups, memory, files and processes are limited one by one, with warnings."""
    held = hold(Limits(memory_mb=100, storage_mb=5, processes=9), {}, "g", strict=False)
    assert (resource.RLIMIT_DATA, 100 * MEBIBYTE) in held.rlimits
    assert (resource.RLIMIT_FSIZE, 5 * MEBIBYTE) in held.rlimits
    messages = [message.split(":")[0] for _, message in held.warnings]
    if os.geteuid() == 0:
        assert messages == ["memory_mb", "processes", "storage_mb"]
    else:
        assert messages == ["memory_mb", "storage_mb"]
        assert (resource.RLIMIT_NPROC, 9) in held.rlimits
    with pytest.raises(LimitsRefused, match=r"--strict-limits: memory_mb.*storage_mb"):
        hold(Limits(memory_mb=100, storage_mb=5), {}, "g", strict=True)


def test_cores() -> None:
    """CPUs are cores where no time can be shared out; more than there are is told."""
    there = len(os.sched_getaffinity(0))
    held = hold(Limits(cpus=0.5), {}, "g", strict=False)
    if there > 1:
        assert held.cores is not None
        assert len(held.cores) == 1
        assert held.warnings == [("limit_not_kept", "cpus: held to 1 whole core")]
    held = hold(Limits(cpus=there + 1), {}, "g", strict=True)
    assert held.cores is None
    assert held.warnings == [
        ("limit_lowered", f"cpus: {there + 1} asked, but there are {there} here")
    ]
    assert hold(Limits(cpus=there), {}, "g", strict=True).warnings == []


def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where nothing is delegated."""
    monkeypatch.setattr(backend_module, "find_bases", dict)


@pytest.mark.bubblewrap
@pytest.mark.parametrize("groups", [True, False])
async def test_memory_hog(
    make_box: MakeBox, run: Run, groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that takes more memory than allowed does not get it, by whichever means."""
    if not groups:
        no_groups(monkeypatch)
    free = await make_box()
    assert (await run(free, HOG))[1] == "419430400\n"
    box = await make_box(limits=Limits(memory_mb=64))
    ended, printed = await run(box, HOG)
    assert ended.code != 0
    assert "419430400" not in printed
    if groups and "memory" in await to_thread.run_sync(find_bases):
        assert ended.out_of_memory
    assert (await run(box, "echo fine"))[1] == "fine\n"


@pytest.mark.bubblewrap
@pytest.mark.parametrize("groups", [True, False])
async def test_fork_bomb(
    make_box: MakeBox, run: Run, groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork bomb is held within its limit of processes, and ends with its phase."""
    if not groups:
        if os.geteuid() == 0:  # root's processes are held by groups alone; it is warned of that
            pytest.skip("root's processes are not counted without control groups")
        no_groups(monkeypatch)
    box = await make_box(limits=Limits(processes=50))
    ended, printed = await run(box, BOMB)
    assert ended.ended_by in ("exit", "timeout")
    counts = [int(line) for line in printed.split() if line.isdigit()]
    assert all(count <= 50 for count in counts)
    assert (await run(box, "ls -d /proc/[0-9]* | wc -l"))[1].strip() in ("3", "4")


@pytest.mark.bubblewrap
async def test_large_files(make_box: MakeBox, run: Run) -> None:
    """With a limit on storage no single file grows over it."""
    box = await make_box(limits=Limits(storage_mb=1))
    ended, _ = await run(box, "head -c 1000000 /dev/zero >small; head -c 3000000 /dev/zero >large")
    assert ended.code != 0
    _, printed = await run(box, "wc -c <small; wc -c <large")
    assert printed.split() == ["1000000", "1048576"]


@pytest.mark.bubblewrap
async def test_cpu_time(make_box: MakeBox, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where control groups share out CPU time, a program gets its part; else it gets cores."""
    no_groups(monkeypatch)
    there = len(os.sched_getaffinity(0))
    box = await make_box(limits=Limits(cpus=1))
    _, printed = await run(box, "nproc")
    assert there == 1 or printed.strip() == "1"


@pytest.mark.bubblewrap
async def test_groups_are_removed(make_box: MakeBox, run: Run) -> None:
    """Nothing of a sandbox's control groups stays after it."""
    box = await make_box(limits=Limits(memory_mb=100, processes=100, cpus=0.5))
    await run(box, "sleep 100 & true")
    folders = [
        base.folder / f"trialog-{box.id}"
        for base in (await to_thread.run_sync(find_bases)).values()
    ]
    if folders:
        assert any(folder.exists() for folder in folders)
    await box.remove()
    assert not any(folder.exists() for folder in folders)


@pytest.mark.bubblewrap
async def test_processes_are_limited_unasked(box: BubblewrapSandbox, run: Run) -> None:
    """A task that says nothing of processes may have thousands, not all of the machine's."""
    assert DEFAULT_PROCESSES == 4096
    bases = await to_thread.run_sync(find_bases)
    if "pids" in bases:
        group = bases["pids"].folder / f"trialog-{box.id}" / "pids.max"
        assert (await anyio.Path(group).read_text()).strip() == "4096"
    elif os.geteuid() != 0:
        _, printed = await run(box, "grep '^Max processes' /proc/self/limits")
        assert printed.split()[2] == "4096"
